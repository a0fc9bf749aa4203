"""What a Pareto front is made of: its objectives, and one panel of points for each kind of claim."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee, Status
from dpcore.rounding import delta_text
from sweeps.ledger.assumptions import Assumptions
from sweeps.ledger.summary import Procedure
from sweeps.ledger.totals import Total, lines, sentences
from sweeps.release.published import Published
from sweeps.release.quoting import Quote, legend, metric_quotes, quote_of_claim
from sweeps.store.records import TrialState, sweep_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FrontAxis:
    """One axis and its direction: a reported metric, or a number of `sweeps.store.records.DECIDED`."""

    metric: str
    goal: Literal["maximize", "minimize"]

    def __post_init__(self) -> None:
        if self.goal not in ("maximize", "minimize"):
            raise InvalidValue(f"goal of {self.metric}", self.goal, "'maximize' or 'minimize'")

    @classmethod
    def parse(cls, text: str) -> FrontAxis:
        """Read "METRIC:maximize" or "METRIC:minimize". Raises InvalidValue."""
        metric, separator, goal = text.rpartition(":")
        if not separator or goal not in ("maximize", "minimize"):
            raise InvalidValue(
                "objective", text, "METRIC:maximize or METRIC:minimize", "For example accuracy:maximize."
            )
        return cls(metric, goal)  # type: ignore[arg-type]

    @property
    def too_good(self) -> float:
        """What no measurement yields."""
        return math.inf if self.goal == "maximize" else -math.inf

    @property
    def axis(self) -> str:
        """What stands at the axis."""
        return f"{self.metric} ({'higher' if self.goal == 'maximize' else 'lower'} is better)"


@dataclass(frozen=True, slots=True)
class AxisEnd:
    """Where an axis of the hypervolume ends, and where that comes from: a public value, never an observed one."""

    value: float
    source: str = "given"

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise InvalidValue("reference", self.value, "a finite value")

    @classmethod
    def parse(cls, text: str) -> tuple[str, AxisEnd]:
        """Read "METRIC=VALUE". Raises InvalidValue."""
        metric, separator, value = text.rpartition("=")
        try:
            return metric, cls(float(value if separator and metric else "nan"))
        except ValueError as error:
            raise InvalidValue("reference", text, "METRIC=VALUE", "For example loss=2.3.") from error


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """The points that share one label, and which of them no other dominates.

    label        what all guarantees here have in common: notion, adjacency, delta, unit, and the accountants and
                 statuses that occur
    records      one trial per point
    values       (points, objectives), in the objectives' own units, as they are printed
    compared     the same as dominance and hypervolume take them: epsilon by `sweeps.release.comparing`
    on_front     (points,), True when no point of the panel dominates it
    hypervolume  volume that the front dominates up to the front's references (log10 units on log axes); None without
                 a reference for each objective, or when it would take too long (more than three objectives, many
                 points)
    """

    label: Mapping[str, Any]
    records: Sequence[Published]
    values: Floats
    compared: Floats
    on_front: NDArray[np.bool_]
    hypervolume: float | None

    @property
    def kind(self) -> str:
        """The label in words, without the status."""
        label = self.label
        kind = f"{label['notion']}, {label['adjacency']}, per {label['unit']}, delta {delta_text(label['delta'])}"
        return f"{kind}, by {label['accountant']}"

    @property
    def title(self) -> str:
        """The label in words."""
        return f"{self.kind}, status: {self.label['status']}"

    def status(self, index: int) -> Status:
        """What is known of the claim of one point."""
        return self._claim(index).status

    def standing(self, index: int) -> str:
        """The same in words: with who asserts the claim, where it is no more than that."""
        return self._claim(index).standing

    def _claim(self, index: int) -> Guarantee:
        guarantee = self.records[index].guarantee
        assert guarantee is not None
        return guarantee

    def order(self) -> NDArray[np.intp]:
        """Front points first, then the others, each sorted by the first objective, then by trial number."""
        numbers = np.array([record.number for record in self.records])
        return np.lexsort((numbers, self.values[:, 0], ~self.on_front))

    def order_of_front(self) -> list[int]:
        """Its front points alone, in that order."""
        return [int(i) for i in self.order()[: int(self.on_front.sum())]]


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """The front of a sweep, one panel per label.

    excluded     {reason: trials left out}
    reference    {metric: where its axis ends for the hypervolume}, for the objectives that have one
    log10        objectives whose hypervolume is measured in log10
    heading      what stands above every claim of the sweep (`sweeps.release.policy`); mostly empty
    totals       of all trials together, and of the sweeps that the search started from; empty when not asked for
    assumptions  what the statuses rest on: those of the points and of the totals, numbered for the whole view
    is_joint     whether the points are of several sweeps
    """

    objectives: tuple[FrontAxis, ...]
    panels: tuple[Panel, ...]
    excluded: Mapping[str, int]
    reference: Mapping[str, AxisEnd]
    log10: tuple[str, ...] = ()
    sweep: str = ""
    heading: str = ""
    totals: tuple[Total, ...] = ()
    assumptions: Assumptions = field(default_factory=Assumptions)
    is_joint: bool = False

    @property
    def note(self) -> str:
        """The totals in words, for below the panels."""
        return sentences(lines(self.totals, self.assumptions))

    @property
    def procedure(self) -> Procedure | None:
        """All trials together; None when it was not asked for, or not counted."""
        return self.totals[0].procedure if self.totals else None

    def statuses(self, panel: Panel) -> list[str]:
        """The status of each point, with the assumptions that it rests on."""
        known: dict[tuple[str, tuple[str, ...]], str] = {}
        found = []
        for record in panel.records:
            claim = record.guarantee
            assert claim is not None
            key = claim.standing, claim.assumptions
            if key not in known:
                known[key] = self.assumptions.status(claim)
            found.append(known[key])
        return found

    def quotes(self, panel: Panel) -> list[Quote]:
        """How the epsilon of each point may be quoted."""
        return [quote_of_claim(record.guarantee) for record in panel.records if record.guarantee is not None]

    def legend(self) -> list[str]:
        """How the numbers on the front may be quoted, in lines for below the panels."""
        shown = [(panel, int(i)) for panel in self.panels for i in np.flatnonzero(panel.on_front)]
        records = [panel.records[i] for panel, i in shown]
        claims = [record.guarantee for record in records if record.guarantee is not None]
        return legend(map(quote_of_claim, claims), metric_quotes(records, [one.metric for one in self.objectives]))

    @property
    def left_out(self) -> str:
        """Which trials are in no panel, in words; empty where all are."""
        if not self.excluded:
            return ""
        left = ", ".join(f"{count} {reason}" for reason, count in self.excluded.items())
        asked = "; --as-refuted draws refuted ones too" if str(Status.REFUTED) in self.excluded else ""
        return f"{left}{asked}"

    @property
    def empty(self) -> str:
        """What stands where there is no panel."""
        finished = self.excluded.keys() - {str(one) for one in TrialState if one is not TrialState.COMPLETE}
        return "No finished trial that is drawn." if finished else "No finished trial yet."

    def title(self, panel: Panel) -> str:
        """The panel's label in words; with what its one status rests on, where it has one."""
        found = set(self.statuses(panel))
        return f"{panel.kind}, status: {found.pop()}" if len(found) == 1 else panel.title

    def keys(self) -> list[str]:
        """Keys of all front points, in the order of `Panel.order`."""
        return [panel.records[i].key for panel in self.panels for i in panel.order() if panel.on_front[i]]

    def footer(self, panel: Panel) -> str:
        """What stands under a panel in every form: how many points, the hypervolume and its corner."""
        volume = "not computed (too many points for so many objectives)"
        if bare := [one.metric for one in self.objectives if one.metric not in self.reference]:
            volume = (
                f"needs a reference for {', '.join(bare)}: --reference {bare[0]}=VALUE, or a spec's front.reference"
            )
        elif panel.hypervolume is not None:
            ends = [(one.metric, self.reference[one.metric]) for one in self.objectives]
            corner = "; ".join(f"{metric} {end.value:.4g}, {end.source}" for metric, end in ends)
            logs = f"; log10 {', '.join(self.log10)}" if self.log10 else ""
            volume = f"{panel.hypervolume:.4g} (up to {corner}{logs})"
        average = [one.metric for one in self.objectives if one.metric.startswith("bayesian_epsilon")]
        apart = f". {', '.join(average)}: average-case, no part of the claim above" if average else ""
        whose = Counter(sweep_of(panel.records[int(i)].key) for i in np.flatnonzero(panel.on_front))
        each = f" ({', '.join(f'{count} of {name}' for name, count in whose.items())})" if self.is_joint else ""
        on_front = f"{int(panel.on_front.sum())} of {len(panel.records)} trials on the front{each}"
        return f"{on_front}, hypervolume {volume}{apart}"
