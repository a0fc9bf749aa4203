"""Claims of a paper without a run: what holds its statements is called on made-up results."""

from __future__ import annotations

from collections.abc import Callable

from sweeps.process.workspace import Workspace
from sweeps.reproductions import Claim, Effort, Result, Run
from sweeps.reproductions.paper import Paper


def claims_of(paper: Paper, held: Callable[[Run], None]) -> list[Claim]:
    """What `held` claims."""
    result = Result(paper="paper", title=paper.title)
    held(Run(paper, None, Workspace.at("unused"), Effort(quick=True), lambda line: None, result))
    return result.claims
