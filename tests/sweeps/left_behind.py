"""What a run leaves where others may find it: listening sockets, command lines, and every byte of its files."""

from __future__ import annotations

import base64
import ipaddress
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus

import psutil


def tree(pid: int) -> list[psutil.Process]:
    """The process and all that descend from it, as far as they are still there."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def open_doors(processes: Iterable[psutil.Process]) -> set[str]:
    """ "name address:port" of every socket of these processes that another machine could reach."""
    found = set()
    for process in processes:
        try:
            for one in process.net_connections(kind="inet"):
                waits = one.status in (psutil.CONN_LISTEN, psutil.CONN_NONE) and one.laddr and not one.raddr
                if waits and not _is_loopback(one.laddr.ip):
                    found.add(f"{process.name()} {one.laddr.ip}:{one.laddr.port}")
        except psutil.NoSuchProcess:
            continue
    return found


def _is_loopback(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_loopback


def command_lines(processes: Iterable[psutil.Process]) -> set[str]:
    """The arguments of each, as everybody on the machine may list them."""
    found = set()
    for process in processes:
        try:
            found.add("\0".join(process.cmdline()))
        except psutil.NoSuchProcess:
            continue
    return found


def spellings(secret: str) -> set[bytes]:
    """The secret as it may stand in a file: plain, in a URL, in JSON, in a Python text, in base64."""
    plain = {secret, quote(secret, safe=""), quote(secret), quote_plus(secret), json.dumps(secret)[1:-1]}
    plain |= {repr(secret)[1:-1], base64.b64encode(secret.encode()).decode().rstrip("=")}
    return {text.encode() for text in plain} | {secret.encode("utf-16-le")}


def found_in(content: bytes, secrets: Mapping[str, str]) -> set[str]:
    """Names of the secrets that stand in these bytes."""
    return {name for name, secret in secrets.items() if any(one in content for one in spellings(secret))}


def findings(folder: Path, secrets: Mapping[str, str]) -> list[str]:
    """ "secret in file" for every file below `folder`, its name included; packed files are looked into."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        for where, content in _contents(path):
            found += [f"{name} in {where}" for name in sorted(found_in(content + str(where).encode(), secrets))]
    return found


def _contents(path: Path) -> Iterator[tuple[str, bytes]]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    yield str(path), content
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            for name in packed.namelist():
                yield f"{path}!{name}", packed.read(name)
