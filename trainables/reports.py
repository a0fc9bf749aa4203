"""What a spec declares about private validation records: how they are parted from the others, and what they may spend.

data:
  validation:
    records: private       # or public: metrics leave as they are, and no claim covers these records
    share: 0.2             # with `id`: a hash of each record's own id decides, so that both parts compose in parallel
    id: person_id
    budget_share: 0.1      # of the squared mu of the budget; 1 in parallel and 0.1 where the parts add, unless given
    bins: loss             # more than two classes: bins of the loss (accuracy, loss) or of the score (accuracy, auc)

With a file of its own (`path`, `n`), `disjoint: true` declares that no unit has records in both files. Without that
declaration the parts add.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import ConfigDict, TypeAdapter

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed, Event
from dpcore.mechanisms.noisy_histogram import NoisyHistogram, several

PUBLIC_VALIDATION = "The validation records are public."
"""What a claim rests on where nothing noises what is told of them."""
Bins = Literal["loss", "score"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateValidation:
    """Private validation records.

    parts         what decides on which side of the split a unit is, in words; it depends on the unit alone, or was
                  declared. "" where nothing says that no unit has records on both sides
    assumption    the sentence that a claim by parallel composition rests on; "" with `parts`
    budget_share  in (0, 1], of the squared mu of the trial's budget; None for the default
    bins          what is binned where there are more than two classes
    """

    parts: str = ""
    assumption: str = ""
    budget_share: float | None = None
    bins: Bins = "loss"


def check_public(found: PrivateValidation | None, source: str, why: str) -> None:
    """Raises InvalidValue for private validation records in a source that cannot keep them so, and says why."""
    if found is not None:
        expected = f"public with data.source: {source}, since {why}"
        remedy = "Use the source alone."
        raise InvalidValue("data.validation.records", "private", expected, remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateReports:
    """What a trial releases of the validation records, fixed before its first step.

    histogram  the mechanism of every report
    at         numbers of steps after which there is a report, increasing: its end, the rungs of early stopping, and the
               points of its curve
    bins, parts  see `trainables.reports`

    Raises InvalidValue.
    """

    histogram: NoisyHistogram
    at: tuple[int, ...]
    bins: Bins = "loss"
    parts: str = ""

    def __post_init__(self) -> None:
        if not self.at or list(self.at) != sorted(set(self.at)) or self.at[0] < 1:
            raise InvalidValue("at", self.at, "increasing numbers of steps, each above 0")

    @property
    def parallel(self) -> bool:
        """Whether these releases and those of the training records compose in parallel."""
        return bool(self.parts) and self.histogram.adjacency is Adjacency.ADD_REMOVE

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """What the reports after more than `from_step` and at most `to_step` steps release (all by default).

        A launch that may have executed its last step may have drawn the report that follows it.
        """
        stop = self.at[-1] if to_step is None else to_step
        count = sum(from_step < step <= stop for step in self.at)
        return several(self.histogram, count) if count else Composed()


WRITTEN: TypeAdapter[PrivateReports | None] = TypeAdapter(PrivateReports | None, config=ConfigDict(extra="forbid"))
"""What a plan records of its reports, as plain JSON values and back."""
