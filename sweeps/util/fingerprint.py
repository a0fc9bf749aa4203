"""Digests that show whether a resumed sweep would still be the same sweep."""

from __future__ import annotations

import ast
import hashlib
import hmac
import importlib.util
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dpcore.checks import InvalidValue
from sweeps.util.text import closest

# The user's own packages: those that a spec names as `package.module:function`, and those that these import.
#
# A package counts as the user's when the spec names it, or when it lies outside Python's library and its installed
# packages. It is taken whole, since any of its files may decide what a model is.

OURS = frozenset({"dpcore", "trainables", "sweeps", "infra"})
_PYTHON = tuple(Path(sysconfig.get_paths()[kind]).resolve() for kind in ("stdlib", "platstdlib"))
_INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders that packages are installed to, wherever they lie: an environment may look into another one's."""
_LEFT_OUT = frozenset({"__pycache__"})


def working_folder_is_importable() -> None:
    """Put the current folder last on the path, as pytest and `python -m` put it first: `mymod:build` is found there.

    Last, so that no file there stands before an installed package. Workers look there too: Ray hands the driver's
    folder on. Does nothing where PYTHONSAFEPATH asks for that.
    """
    folder = str(Path.cwd())
    if not sys.flags.safe_path and folder not in sys.path:
        sys.path.append(folder)


def packages(modules: Iterable[str], *, follow: bool = False) -> Mapping[str, Path]:
    """{top-level name: folder of the package, or file of a single module} of `modules`, which may be dotted.

    follow  also the user's packages that are imported somewhere in these, and so on

    Imports nothing. Raises InvalidValue for a module that does not exist.
    """
    found: dict[str, Path] = {}
    for module in sorted(set(modules)):
        name = module.split(".")[0]
        place = _place(name)
        if place is None:
            raise InvalidValue("module", module, "a module that can be imported", "Install it or set PYTHONPATH.")
        found[name] = place
    waiting = list(found.values()) if follow else []
    while waiting:
        for name in sorted(_imported(waiting.pop()) - OURS - found.keys()):
            place = _place(name)
            if place is not None and not _installed(place.resolve()):
                found[name] = place
                waiting.append(place)
    return found


def files_of(package: Path, pattern: str = "*") -> Iterator[tuple[Path, Path]]:
    """(path inside, path) of the files of a package, in order; a single module is its own file. Hidden ones and
    compiled ones are left out."""
    if not package.is_dir():
        yield Path(package.name), package
        return
    for path in sorted(package.rglob(pattern)):
        inside = path.relative_to(package)
        if path.is_file() and not any(part in _LEFT_OUT or part.startswith(".") for part in inside.parts):
            yield inside, path


def _installed(place: Path) -> bool:
    return bool(_INSTALLED & set(place.parts)) or any(place.is_relative_to(one) for one in _PYTHON)


def _place(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations)))
    return Path(spec.origin) if spec.has_location and spec.origin else None


def _imported(package: Path) -> set[str]:
    """Top-level names that its sources import."""
    names: set[str] = set()
    for _, path in files_of(package, "*.py"):
        try:
            tree = ast.parse(path.read_bytes())
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.split(".")[0])
    return names


class Changed(ValueError):
    """Spec, code or data differ from what the sweep was started with; the message says how, and what to do."""


PRODUCT = ("dpcore", "trainables")
ACCEPTED = ("spec", "code", "data")
"""What may differ from the start of a sweep when it is resumed, if it is accepted by name."""


def check_accepted(names: Iterable[str], known: Sequence[str] = ACCEPTED) -> None:
    """A word that accepts nothing is a slip of the pen, and would be found when it is too late. Raises InvalidValue."""
    for name in names:
        if name not in known:
            expected = f"one of {', '.join(known)}: what may have changed since the sweep was started"
            raise InvalidValue("--accept", name, expected, closest(name, known))


def code_digest(modules: Iterable[str] = (), named: Iterable[str] = ()) -> str:
    """SHA-256 over the files that decide what a trial computes.

    modules  the user's own, as `SweepSpec.user_modules` names them: all of their packages, and all packages of the
             user's that these import (`sweeps.util.fingerprint`), with whatever lies in them (weights of a base
             model)
    named    texts in knobs: those that are files on this machine count by their content

    Files are found without importing anything. Raises InvalidValue for a module that does not exist.
    """
    digest = hashlib.sha256()
    for name in PRODUCT:
        for label, path in files_of(packages((name,))[name], "*.py"):
            _take(digest, f"{name}:{label}", path)
    for name, package in sorted(packages(modules, follow=True).items()):
        for label, path in files_of(package):
            _take(digest, f"{name}:{label}", path)
    for text, path in _files(named):
        _take(digest, f"file:{text}", path)
    return digest.hexdigest()


def _take(digest: hashlib._Hash, name: str, path: Path) -> None:
    digest.update(f"{name}\0".encode())
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)


def _files(named: Iterable[str]) -> Iterator[tuple[str, Path]]:
    for text in sorted(set(named)):
        path = Path(text).expanduser()
        try:
            # A word like "linear" may be a folder by accident; with a separator it is a path.
            if "/" in text and path.is_dir():
                yield from ((f"{text}/{label}", one) for label, one in files_of(path))
            elif path.is_file():
                yield text, path
        except OSError:
            # No name that a file could have.
            continue


def keyed(digest: str, key: bytes) -> str:
    """HMAC-SHA256 of a digest, in hex: what may be recorded and shown of private records.

    A plain digest confirms a guess of the records to whoever reads it. A keyed one confirms nothing without the key,
    but that two sweeps of one store have equal records, which is an un-noised fact about them and said as such.
    """
    return hmac.new(key, digest.encode(), hashlib.sha256).hexdigest()


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names of those of `now` that were known and differ, in order."""
    return sorted(name for name, digest in now.items() if before.get(name, digest) != digest)
