"""Digests that show whether a resumed sweep would still be the same sweep."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from dpcore.checks import InvalidValue
from sweeps.process.suggestions import closest
from sweeps.provenance.user_code import files_of, packages


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
             user's that these import (`sweeps.provenance.user_code`), with whatever lies in them (weights of a base
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
    """Names whose fingerprint differs, in order."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
