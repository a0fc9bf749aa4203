"""Who sits the exam of stores, and what happens in processes of their own."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from sweeps.store.store import Store, open_store

Opens = Callable[..., Store]


@contextmanager
def folders(form: str = "sqlite:///{folder}/sweeps.db") -> Iterator[Callable[[], str]]:
    """New URLs, each in an empty folder of its own."""
    with tempfile.TemporaryDirectory() as top:
        yield lambda: form.format(folder=tempfile.mkdtemp(dir=top))


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A kind of store.

    open    as `sweeps.store.store.open_store`
    places  while the block lasts, each call of what it gives is the URL of a place where no store is yet
    """

    name: str
    places: Callable[[], AbstractContextManager[Callable[[], str]]] = folders
    open: Opens = open_store


def killed_after(work: Callable[[], None]) -> list[str]:
    """Do `work` in a process that is killed at its last word, and say what went wrong in it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os.kill(os.getpid(), signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return [] if os.WIFSIGNALED(status) else ["a process that wrote ended with an error: see its words on stderr"]


def at_once(work: Callable[[], bool], processes: int) -> int:
    """How many of several processes that do `work` at the same moment, and live on until all have, do not say no."""
    (wait, go), (answers, answer) = os.pipe(), os.pipe()
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            os.close(go)
            os.read(wait, 1)
            os.write(answer, _said(work))
            # As a living holder of whatever it got, until all have said what they got.
            time.sleep(60)
            os._exit(0)
        children.append(child)
    for end in (wait, go, answer):
        os.close(end)
    said = b""
    while len(said) < processes and (more := os.read(answers, processes)):
        said += more
    os.close(answers)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return len(said) - said.count(b"n")


def _said(work: Callable[[], bool]) -> bytes:
    try:
        return b"y" if work() else b"n"
    except BaseException:
        traceback.print_exc()
        return b"!"
