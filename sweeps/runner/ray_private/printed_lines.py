"""Ray prints what its cluster tells a driver to stdout, which belongs to the answer of a command.

There is no public way to redirect it (Ray 2.60): the function that prints is replaced while the block here runs. The
thread that listens for errors looks it up for each message, handlers of workers' output once, when a driver connects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ray._private import worker


@contextmanager
def lines_handed_to(taker: Callable[..., None]) -> Iterator[None]:
    """For as long as the block runs, a cluster's lines go to `taker`.

    taker  called with {"lines": [text], "pid": number or name, ...} and `ignore_prefix`
    """
    plain: Any = worker.print_to_stdstream
    worker.print_to_stdstream = taker
    try:
        yield
    finally:
        worker.print_to_stdstream = plain
