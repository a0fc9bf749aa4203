"""Durable files of a trial, on any path that all nodes see.

A folder is a local path or a URL that pyarrow understands (s3://, gs://, abfs://, hdfs://). A write is atomic: a reader
sees the old content or the new one, never a part. On a local path it is also durable against power loss: file
and folder are synced before `write` returns. On an object store one PUT gives the same (in parts, above 5 MiB, and
nothing of them is visible before the last one).

Credentials never stand in a URL: they come from the environment of every node (AWS_ACCESS_KEY_ID and its companions,
a role, a mounted file), as does the address of a store of one's own (AWS_ENDPOINT_URL).
"""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from dpcore import checks


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder by path or URL. Names are single path components: no separators, no "..", no links followed.

    Every method raises OSError as the file system says it; on a URL, with the URL in front.
    """

    url: str

    def __post_init__(self) -> None:
        if self.is_local:
            return
        parts = urlsplit(self.url)
        if parts.password or (parts.scheme in ("s3", "gs") and parts.username):
            shown = f"{parts.scheme}://...@{parts.netloc.rpartition('@')[2]}{parts.path}"
            remedy = "Put them into the environment of every node."
            raise checks.InvalidValue("folder", shown, "a URL without credentials", remedy)

    @property
    def is_local(self) -> bool:
        return "://" not in self.url

    def child(self, name: str) -> Folder:
        """The folder `name` inside this one; nothing is created."""
        _single_component(name)
        # A URL may end in options of its own (?region=...&endpoint_override=...).
        path, mark, options = (self.url, "", "") if self.is_local else self.url.partition("?")
        return Folder(f"{path.rstrip('/')}/{name}{mark}{options}")

    def write(self, name: str, content: bytes) -> None:
        """Replace file `name` atomically; durable when this returns."""
        _single_component(name)
        if not self.is_local:
            with self._remote() as (filesystem, path), filesystem.open_output_stream(f"{path}/{name}") as stream:
                stream.write(content)
            return
        folder = Path(self.url)
        folder.mkdir(parents=True, exist_ok=True)
        temporary = folder / f".{name}.{os.getpid()}.tmp"
        try:
            with open(temporary, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, folder / name)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(folder)

    def claim(self, name: str) -> bool:
        """Take `name` in this folder for this caller alone: of any number of callers at most one ever hears True.

        Locally the file system decides (O_EXCL). An object store is asked for nothing but that a finished PUT is seen
        by every later LIST (S3 since December 2020, Google Cloud Storage, Azure, MinIO): each caller raises a flag
        of its own, then looks; who sees another's flag gives way (the flag principle: Herlihy and Shavit 2008,
        section 1.2). Two at the very same time may both give way, which is safe, and both say so. Flags stay up for
        ever, so a repeated PUT of one's own, or one that arrives late, changes nothing.
        """
        _single_component(name)
        if not self.is_local:
            flag = f"{name}.{secrets.token_hex(16)}"
            self.write(flag, b"")
            return [other for other in self.names() if other.startswith(f"{name}.")] == [flag]
        folder = Path(self.url)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            os.close(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
        except FileExistsError:
            return False
        _sync_folder(folder)
        return True

    def read(self, name: str) -> bytes | None:
        """Content of file `name`, None if there is no such file."""
        _single_component(name)
        try:
            if self.is_local:
                return (Path(self.url) / name).read_bytes()
            with self._remote() as (filesystem, path), filesystem.open_input_stream(f"{path}/{name}") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

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
        if self.is_local:
            folder = Path(self.url)
            return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        from pyarrow import fs

        with self._remote() as (filesystem, path):
            found = filesystem.get_file_info(fs.FileSelector(path, allow_not_found=True))
            return sorted(entry.base_name for entry in found)

    def delete(self, name: str) -> None:
        """Remove file `name`; nothing happens if it is not there."""
        _single_component(name)
        try:
            if self.is_local:
                (Path(self.url) / name).unlink()
            else:
                with self._remote() as (filesystem, path):
                    filesystem.delete_file(f"{path}/{name}")
        except FileNotFoundError:
            pass

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
            raise OSError(f"{self.url}: {error}") from error


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
        raise checks.InvalidValue("folder", url, "a path, or a URL that pyarrow opens", str(error)) from error
    return filesystem, path.rstrip("/")


def _single_component(name: str) -> None:
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise checks.InvalidValue("name", name, "one file or folder name without separators")


def _sync_folder(folder: Path) -> None:
    # The rename itself must survive a power loss, not only the file's content.
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
