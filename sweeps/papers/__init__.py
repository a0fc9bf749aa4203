"""Published results beside ours: of each paper a file of what it printed, and a module that measures it.

The file `<paper>.yaml` is a `Paper`: printed numbers, statements, sweeps, sizes. The module `<paper>.py` has one
function `reproduce(run: Reproduction) -> None`, which runs ordinary sweeps `<paper>-<part>`, holds what was printed
against their results, and adds tables and pictures. Killed sweeps resume, finished ones are not run again.
"""

from __future__ import annotations

import importlib
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from sweeps.papers.run import Claim, Effort, Paper, Reproduction, Result, ResultTable, Say

if TYPE_CHECKING:
    from sweeps.store.workspace import Workspace
__all__ = ["PAPERS", "Claim", "Effort", "Reproduction", "Result", "ResultTable", "Say", "reproduce"]


PAPERS = ("bu2020", "lu2021", "triastcyn2020", "vandermaaten2020", "wu2020")
"""One module and one file of this folder for each."""


def reproduce(paper: str, data: Path | None, workspace: Workspace, effort: Effort, say: Say) -> Result:
    """Run what is missing of `paper`, and hold every claim against the results.

    Without `data`, the folder with the data sets, what needs none is computed and the rest stands in `Result.cut`, as
    do the parts whose set is not there. Raises InvalidValue (paper, data), SpecErrors, StoreError, LeaseHeld,
    ClusterUnreachable.
    """
    if paper not in PAPERS:
        raise InvalidValue("paper", paper, "one of " + ", ".join(PAPERS))
    if data is not None and not data.is_dir():
        remedy = "Pass the folder that holds the data sets with --data DIR; without it, what needs no data is computed."
        raise InvalidValue("data", str(data), "a folder that exists", remedy)
    # Papers bring plotting and data libraries that the others do without.
    module = importlib.import_module(f"{__name__}.{paper}")
    file = Paper.load(paper)
    result = Result(paper=paper, title=file.title)
    with ExitStack() as running:
        module.reproduce(Reproduction(file, data, workspace, effort, say, result, running))
    return result
