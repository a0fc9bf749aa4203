"""The user's own packages: those that a spec names as `package.module:function`, and those that these import.

A package counts as the user's when the spec names it, or when it lies outside Python's library and its installed
packages. It is taken whole, since any of its files may decide what a model is.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from dpcore.checks import InvalidValue

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
