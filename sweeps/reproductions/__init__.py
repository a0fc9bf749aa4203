"""Published results beside ours: one module per paper, each a set of ordinary sweeps and the claims held against them.

A paper's module has `TITLE` and `reproduce(data, workspace, effort, say) -> Result`:

    data       folder with the data sets; None computes what needs none, and the rest stands in `Result.cut`, as do the
               parts whose set is not in the folder
    workspace  where its sweeps `<paper>-<part>` live: killed ones resume, finished ones are not run again
    effort     how much of the paper is run
    say        told one line of progress
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from dpcore.checks import InvalidValue
from sweeps.reproductions.claims import Claim, Result, Say, Table
from sweeps.reproductions.effort import Effort
from sweeps.reproductions.sweeping import one_cluster

if TYPE_CHECKING:
    from sweeps.process.workspace import Workspace

__all__ = ["PAPERS", "Claim", "Effort", "Result", "Say", "Table", "reproduce"]

PAPERS = ("bu2020", "lu2021", "triastcyn2020", "vandermaaten2020", "wu2020")
"""Modules of this package, one per paper."""


class Paper(Protocol):
    """What a paper's module offers."""

    TITLE: str

    def reproduce(self, data: Path | None, workspace: Workspace, effort: Effort, say: Say) -> Result:
        """Run what is missing, and hold every claim against the results."""
        ...


def reproduce(paper: str, data: Path | None, workspace: Workspace, effort: Effort, say: Say) -> Result:
    """Run what is missing of `paper`, and hold every claim against the results.

    Raises InvalidValue (paper, data), SpecErrors, StoreError, LeaseHeld, ClusterUnreachable.
    """
    if paper not in PAPERS:
        raise InvalidValue("paper", paper, "one of " + ", ".join(PAPERS))
    if data is not None and not data.is_dir():
        remedy = "Pass the folder that holds the data sets with --data DIR; without it, what needs no data is computed."
        raise InvalidValue("data", str(data), "a folder that exists", remedy)
    # Papers bring plotting and data libraries that the others do without.
    module = cast(Paper, importlib.import_module(f"{__name__}.{paper}"))
    with one_cluster():
        return module.reproduce(data, workspace, effort, say)
