"""How a session ended, and what its command exits with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sweeps.control.failures import Failure
from sweeps.process.exits import ExitCode
from sweeps.records import SweepState

if TYPE_CHECKING:
    from sweeps.export.at_the_end import ModelsShown


@dataclass(frozen=True, slots=True)
class SweepEnd:
    """How a session ended: "finished", "exhausted", "out of hours", "out of budget" or "stopped" (by Ctrl-C).

    ranked    complete trials that have a value in every objective
    failure   of the trial that failed first, of all sessions; None when none did
    tracking  MLflow's URI, if it has everything; None when something could not be delivered
    reasons   why it is no full success, one sentence each
    models    what MLflow shows of its models; None where nobody looked
    """

    sweep: str
    state: str
    counts: dict[str, int]
    seconds: float
    ranked: int
    failure: Failure | None = None
    tracking: str | None = None
    reasons: tuple[str, ...] = ()
    models: ModelsShown | None = None

    @property
    def code(self) -> ExitCode:
        """What the command that ran it exits with."""
        if self.state == "stopped":
            return ExitCode.INTERRUPTED
        return ExitCode.of_sweep(ranked=self.ranked, complete=self.counts["complete"], failed=self.counts["failed"])

    @property
    def meaning(self) -> str:
        """That of `code`, in words."""
        over = {
            SweepState.OUT_OF_HOURS: "the hours of the sweep are over",
            SweepState.OUT_OF_BUDGET: "the budget of its population holds no further trial",
        }
        return self.code.meaning.replace(
            "the sweep is finished", over.get(SweepState(self.state), "the sweep is finished")
        )
