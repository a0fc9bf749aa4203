"""How a session ended, and what its command exits with."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.privacy.release import Published
from sweeps.store.records import SweepState, TrialState
from sweeps.util.exits import ExitCode
from sweeps.util.text import QUOTES, shortened
from trainables.metrics import Metric
from trainables.worker.attempt import ERROR, Attempt
from trainables.worker.files import Folder
from trainables.worker.redaction import redacted

if TYPE_CHECKING:
    from sweeps.export import ModelsShown


# Why a trial failed, in words for the person at the terminal, who holds the records.
#
# An exception's message may quote a record. It is in no store, view or report: only in the attempt's folder and, for
# the first failure, on the terminal of the one who runs the sweep.


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One trial that failed.

    what    kind and message of its exception, or what else happened
    place   the file with the whole text; None where `what` is all there is
    quotes  whether `what` may quote a record
    """

    trial: int
    key: str
    what: str
    place: str | None = None
    quotes: bool = False

    @classmethod
    def of(cls, record: Published, trials: Folder, log: Path) -> Failure:
        """The failure of `record`, with the words that its worker left in `trials`, or Ray in `log`."""
        attempt = Attempt.of(trials, record.key, record.attempts)
        try:
            text = attempt.explained()
        except OSError:
            # What the store says is enough to go on with.
            text = None
        if text is not None:
            place = f"{attempt.folder.url}/{ERROR}"
            return cls(
                trial=record.number, key=record.key, what=redacted(last_exception(text)), place=place, quotes=True
            )
        lost = "worker was lost" in record.reason
        return cls(
            trial=record.number,
            key=record.key,
            what=record.reason,
            place=str(log) if lost and log.exists() else None,
        )

    def unquoted(self) -> str:
        """For a log: nothing that might quote a record."""
        what = f"its error is in {self.place}" if self.quotes else self.what
        return f"Trial {self.trial} ({self.key}) failed: {what}"

    def lines(self) -> list[str]:
        """For people."""
        told = [f"Trial {self.trial} ({self.key}) failed: {self.what}"]
        if self.place is not None:
            told.append(f"  The whole text is in {self.place}" + (f". {QUOTES}" if self.quotes else ""))
        return told


def last_exception(traceback: str) -> str:
    """Kind and message of the exception that a traceback in Python's own layout ends with, at most LONGEST characters.

    The message may have lines of its own; it begins at the first line behind the last frame that is not indented.
    """
    lines = traceback.rstrip().splitlines()
    frames = [number for number, line in enumerate(lines) if re.match(r'\s+File ".*", line \d+', line)]
    behind = lines[frames[-1] + 1 :] if frames else lines
    begins = next((number for number, line in enumerate(behind) if line and not line[0].isspace()), 0)
    return shortened(" ".join(" ".join(behind[begins:]).split()))


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


# Metrics that a spec asks for and that finished trials do not have, in words for the end of a sweep.


def missing_metrics(records: Iterable[Published], asked: Sequence[str], declared: dict[str, Metric]) -> tuple[str, ...]:
    """One sentence for each of `asked` that is missing or no number in a finished trial, with what the metric is."""
    finished = [record for record in records if record.state is TrialState.COMPLETE]
    lines = []
    for name in asked:
        without = [record for record in finished if _is_unmeasured(record.metric(name))]
        if without and name in declared:
            lines.append(
                f"{name} is no number in {len(without)} of {len(finished)} finished trials, the first of them "
                f"{without[0].key}: {declared[name].doc}."
            )
    return tuple(lines)


def _is_unmeasured(value: float | None) -> bool:
    return value is None or math.isnan(value)
