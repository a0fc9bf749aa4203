"""Durable files of a trial, on any path that all nodes see.

A folder is a local path or a URL that pyarrow understands (s3://, gs://, abfs://, hdfs://). A write is atomic: a reader
sees the old content or the new one, never a part. On a local path it is also durable against power loss: file
and folder are synced before `write` returns. On an object store one PUT gives the same (in parts, above 5 MiB, and
nothing of them is visible before the last one).

Credentials never stand in a URL: they come from the environment of every node (AWS_ACCESS_KEY_ID and its companions,
a role, a mounted file), as does the address of a store of one's own (AWS_ENDPOINT_URL).
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dpcore import checks
from trainables.kept import to_disk
from trainables.worker.redaction import holds_secret, redacted, shown_url

_UNREADABLE = (errno.EIO, errno.EACCES, errno.EPERM, errno.EBADMSG, errno.EUCLEAN, errno.EISDIR)
"""What a file system says of one damaged or closed file: it says nothing of the others."""


class Damaged(ValueError):
    """A record is not what its worker wrote, or says what no worker can have meant. The text names no value of data."""


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder by path or URL. Names are single path components: no separators, no "..".

    Every method raises OSError as the file system says it; on a URL, with the URL in front.
    """

    url: str

    def __post_init__(self) -> None:
        if self.is_local:
            return
        if holds_secret(self.url):
            remedy = "Put them into the environment of every node."
            raise checks.InvalidValue("folder", shown_url(self.url), "a URL without credentials", remedy)

    @property
    def is_local(self) -> bool:
        return "://" not in self.url

    def child(self, name: str) -> Folder:
        """The folder `name` inside this one; nothing is created."""
        _single_component(name)
        # A URL may end in options of its own (?region=...&endpoint_override=...).
        path, mark, options = (self.url, "", "") if self.is_local else self.url.partition("?")
        return Folder(f"{path.rstrip('/')}/{name}{mark}{options}")

    def write(self, name: str, content: bytes, *, durable: bool = True) -> None:
        """Replace file `name` atomically; durable when this returns, unless that is not asked for."""
        _single_component(name)
        if not self.is_local:
            with self._remote() as (filesystem, path), filesystem.open_output_stream(f"{path}/{name}") as stream:
                stream.write(content)
            return
        folder = self._made()
        temporary = folder / f".{name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
        try:
            with temporary.open("xb") as stream:
                stream.write(content)
                stream.flush()
                if durable:
                    os.fsync(stream.fileno())
            temporary.replace(folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if durable:
            # The rename itself must survive a power loss, not only the file's content.
            to_disk(folder)

    def claim(self, name: str, holder: str) -> bool:
        """Take `name` in this folder for this caller alone: of any number of callers at most one ever hears True.

        holder  by which it later knows its own claim again (`holds`)

        Locally the file system decides (O_EXCL). An object store is asked for nothing but that a finished PUT is seen
        by every later LIST (S3 since December 2020, Google Cloud Storage, Azure, MinIO): each caller raises a flag
        of its own, then looks; who sees another's flag gives way (the flag principle: Herlihy and Shavit 2008,
        section 1.2). Two at the very same time may both give way, which is safe, and both say so. Flags stay up for
        ever, so a repeated PUT of one's own, or one that arrives late, changes nothing.
        """
        _single_component(name)
        if not self.is_local:
            flag = f"{name}.{holder}.{secrets.token_hex(8)}"
            self.write(flag, b"")
            return [other for other in self.names() if other.startswith(f"{name}.")] == [flag]
        folder = self._made()
        try:
            with (folder / name).open("x", encoding="ascii") as stream:
                stream.write(holder)
        except FileExistsError:
            return False
        to_disk(folder)
        return True

    def holds(self, name: str, holder: str, names: Collection[str] | None = None) -> bool:
        """Whether the claim to `name` that stands here is `holder`'s.

        names  what this folder holds, where that was just listed
        """
        if self.is_local:
            return self.read(name) == holder.encode("ascii")
        return any(other.startswith(f"{name}.{holder}.") for other in (self.names() if names is None else names))

    def read(self, name: str) -> bytes | None:
        """Content of file `name`, None if there is no such file. Raises Damaged for one that the disk refuses."""
        _single_component(name)
        try:
            if self.is_local:
                return (Path(self.url) / name).read_bytes()
            with self._remote() as (filesystem, path), filesystem.open_input_stream(f"{path}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None
        except OSError as error:
            if not self.is_local or error.errno not in _UNREADABLE:
                raise
            raise Damaged(f"{self.url}/{name}: {error.strerror}") from None

    def exists(self, name: str) -> bool:
        """Whether file `name` is there."""
        _single_component(name)
        if self.is_local:
            return (Path(self.url) / name).is_file()
        from pyarrow import fs

        with self._remote() as (filesystem, path):
            return bool(filesystem.get_file_info(f"{path}/{name}").type == fs.FileType.File)

    def names(self) -> list[str]:
        """Names of the files and folders in here, sorted; empty when the folder is not there."""
        return [name for name, _, _ in self._entries()]

    def times(self) -> dict[str, int]:
        """{name: when it was written, in nanoseconds by the file system's clock} of the files in here, by name."""
        return {name: written for name, written, _ in self._entries()}

    def sizes(self) -> dict[str, int]:
        """{name: bytes} of the files in here; empty when the folder is not there."""
        return {name: size for name, _, size in self._entries()}

    def _entries(self) -> list[tuple[str, int, int]]:
        """(name, time, size) of all in here, by name."""
        if self.is_local:
            found = []
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.url) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        about = entry.stat(follow_symlinks=False)
                        found.append((entry.name, about.st_mtime_ns, about.st_size))
            return sorted(found)
        from pyarrow import fs

        with self._remote() as (filesystem, path):
            there = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
            return sorted((one.base_name, one.mtime_ns or 0, one.size or 0) for one in there)

    def delete(self, name: str) -> None:
        """Remove file `name`; nothing happens if it is not there."""
        _single_component(name)
        with suppress(FileNotFoundError):
            if self.is_local:
                return (Path(self.url) / name).unlink()
            with self._remote() as (filesystem, path):
                filesystem.delete_file(f"{path}/{name}")

    def clear(self) -> None:
        """Remove the folder and all that is in it; nothing happens if it is not there. Raises OSError."""
        with suppress(FileNotFoundError):
            if self.is_local:
                return shutil.rmtree(self.url)
            with self._remote() as (filesystem, path):
                filesystem.delete_dir(path)

    def _made(self) -> Path:
        """The local folder, made where it is not there."""
        folder = Path(self.url)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def _remote(self) -> Iterator[tuple[Any, str]]:
        parts = urlsplit(self.url)
        try:
            filesystem, top = _opened(parts.scheme, parts.netloc, parts.query)
            yield filesystem, f"{top}{unquote(parts.path)}".rstrip("/")
        except FileNotFoundError:
            raise
        except OSError as error:
            # pyarrow's own text names the operation and the store's answer, but not always the place.
            raise OSError(f"{self.url}: {redacted(str(error))}") from error


@functools.lru_cache(maxsize=32)
def _opened(scheme: str, place: str, options: str) -> tuple[Any, str]:
    """The file system and its own name of the topmost folder. Opening one costs more than most requests."""
    from pyarrow import ArrowInvalid, fs

    if scheme == "s3":
        # A small object then costs one PUT instead of three requests, and a refused one leaves no upload open.
        options = "&".join([*filter(None, [options]), "allow_delayed_open=true"])
    url = f"{scheme}://{place}{'?' if options else ''}{options}"
    try:
        filesystem, path = fs.FileSystem.from_uri(url)
    except (ArrowInvalid, NotImplementedError) as error:
        raise checks.InvalidValue("folder", url, "a path, or a URL that pyarrow opens", redacted(str(error))) from error
    return filesystem, path.rstrip("/")


def _single_component(name: str) -> None:
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise checks.InvalidValue("name", name, "one file or folder name without separators")


# Records that show when they are not what was written: a checksum over a record's content and its own place.
#
# A file that was cut short, overwritten, or copied from another trial, attempt or step does not fit its checksum. An
# older copy of the same file does, and so does a forgery: the checksum is no signature, since whoever may write the
# records also runs the workers. What a record says is therefore checked again by those who read it.

_DIGEST = 64


def with_checksum(place: str, body: bytes) -> bytes:
    """`body` as it is kept at `place`."""
    return _digest(place, body) + b"\n" + body


def verify(place: str, content: bytes) -> bytes:
    """The body of what was kept at `place`. Raises Damaged."""
    digest, mark, body = content[:_DIGEST], content[_DIGEST : _DIGEST + 1], content[_DIGEST + 1 :]
    if mark != b"\n" or digest != _digest(place, body):
        raise Damaged(f"{place}: {len(content)} bytes that do not fit their checksum")
    return body


def parsed(place: str, text: bytes) -> dict[str, Any]:
    """The JSON object in `text`. Raises Damaged."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{place}: no JSON document ({type(error).__name__})") from None
    if not isinstance(value, dict):
        raise Damaged(f"{place}: {type(value).__name__}, expected an object")
    return value


def whole_number(place: str, name: str, value: object, low: int, high: int) -> int:
    """`value` as an integer in [low, high]. Raises Damaged."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Damaged(f"{place}: {name} is no whole number from {low} to {high}")
    return value


def _digest(place: str, body: bytes) -> bytes:
    # The length of the place keeps (place, body) apart from any other pair that concatenates to the same bytes.
    named = place.encode()
    return hashlib.sha256(len(named).to_bytes(8, "big") + named + body).hexdigest().encode()
