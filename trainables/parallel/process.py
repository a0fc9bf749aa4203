"""What a process may use of its machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def device_named(name: str) -> torch.device:
    """The torch device of that name; "auto" is a GPU where torch sees one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(name)


@contextmanager
def limited_threads(threads: int) -> Iterator[None]:
    """At most so many torch threads inside; 0 changes nothing."""
    before = torch.get_num_threads()
    if threads:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
