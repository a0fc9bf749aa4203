"""Claims of a paper without a run: what holds its statements is called on made-up results."""

from __future__ import annotations

from collections.abc import Callable

from sweeps.papers import Claim, Effort, Reproduction, Result
from sweeps.papers.run import Paper
from sweeps.store.workspace import Workspace


def claims_of(paper: Paper, held: Callable[[Reproduction], None]) -> list[Claim]:
    """What `held` claims."""
    result = Result(paper="paper", title=paper.title)
    held(Reproduction(paper, None, Workspace.at("unused"), Effort(quick=True), lambda line: None, result))
    return result.claims
