"""The trials as a sampler sees them: the lesson of each one, and which of them are looked at."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpcore.guarantee import delta_text
from sweeps.privacy.release import Published
from sweeps.search.asha import objective_values
from sweeps.search.space import Space
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import TrialState

FEASIBLE = -1.0
"""Constraint value of a feasible trial. One unit: violations are logarithms of ratios, so a factor e inside."""
FAILED = 1.0
"""Constraint value of a trial that failed or returned no finite objective: its neighbourhood is worth avoiding."""
LARGEST_VIOLATION = 1e6

WINDOW_STEP = 500
KEPT = 100
"""How many of the best trials before its window a sampler looks at."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a trial teaches a sampler.

    values      one per objective; for an infeasible trial they mean nothing
    violation   above 0: infeasible
    paused_at   the step of a trial that early stopping has paused there; None: finished, or as good as that: of several
                objectives a paused trial teaches what it has reported, until it reports more
    """

    values: tuple[float, ...]
    violation: float
    paused_at: int | None = None


def lesson(spec: SweepSpec, record: Published) -> Lesson | None:
    """The lesson of a trial; None while there is none yet."""
    nothing = (0.0,) * len(spec.objectives)
    amounts = [amount for amount in record.violations.values() if not amount <= 0]
    if amounts:
        total = sum(amounts)
        return Lesson(nothing, min(total, LARGEST_VIOLATION) if math.isfinite(total) else LARGEST_VIOLATION)
    if record.state in (TrialState.FAILED, TrialState.INFEASIBLE):
        return Lesson(nothing, FAILED)
    values = objective_values(spec, record) if record.step > 0 or record.state is TrialState.COMPLETE else None
    stops_early = spec.early_stopping is not None and record.step < record.planned_steps
    if stops_early and record.metrics and values is not None:
        # Optuna has no paused trials of several objectives. What such a trial has reported is a point of the front.
        return Lesson(values, FEASIBLE, paused_at=record.step if len(values) == 1 else None)
    if record.state is not TrialState.COMPLETE:
        return None
    return Lesson(nothing, FAILED) if values is None else Lesson(values, FEASIBLE)


def window_start(number: int, window: int) -> int:
    """First trial number that proposal `number` looks at: at least `window` trials back, moved in whole steps.

    A function of the number alone, so that a rebuilt study holds the same trials as one that grew.
    """
    return max(0, (number - window) // WINDOW_STEP * WINDOW_STEP)


def kept(spec: SweepSpec, earlier: Sequence[Published]) -> list[Published]:
    """The best feasible trials before the window: by value, or the non-dominated ones."""
    lessons = [(record, lesson(spec, record)) for record in earlier]
    good = [(record, one.values) for record, one in lessons if one is not None and one.violation <= 0]
    good = [(record, values) for record, values in good if record.state is TrialState.COMPLETE]
    if not good:
        return []
    signs = [1.0 if objective.goal == "minimize" else -1.0 for objective in spec.objectives]
    costs = np.array([values for _, values in good]) * signs
    if len(signs) == 1:
        chosen = np.argsort(costs[:, 0], kind="stable")[:KEPT]
    else:
        import moocore

        # The latest of the front: a long front would otherwise outgrow the window.
        chosen = np.flatnonzero(moocore.is_nondominated(costs, keep_weakly=False))[-KEPT:]
    return [good[i][0] for i in sorted(chosen)]


@dataclass(frozen=True, slots=True)
class WarmStart:
    """What an earlier sweep's trials are worth here.

    offered  trials of the earlier sweep
    fitting  finished ones that are points of this space, under the same delta and adjacency
    reasons  why the others were left out, with counts
    """

    offered: int = 0
    fitting: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        left_out = "; ".join(f"{count}: {reason}" for reason, count in self.reasons.most_common(5))
        return f"{self.fitting} of {self.offered} earlier trials fit" + (f" (left out: {left_out})" if left_out else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"offered": self.offered, "fitting": self.fitting, "reasons": dict(self.reasons)}


def fitting(spec: SweepSpec, space: Space, warm: Iterable[Published]) -> tuple[tuple[Published, ...], WarmStart]:
    """The trials of an earlier sweep that this one may learn from, by number, and how many there are."""
    records, reasons = sorted(warm, key=lambda record: record.number), Counter[str]()
    found = list[Published]()
    for record in records:
        if reason := space.misfit(record.config) or _unusable(spec, space, record):
            reasons[reason] += 1
        else:
            found.append(record)
    return tuple(found), WarmStart(len(records), len(found), reasons)


def _unusable(spec: SweepSpec, space: Space, record: Published) -> str:
    """Why nothing is learned from a point of the space."""
    claim, privacy = record.guarantee, spec.privacy
    if claim is not None and claim.delta != privacy.delta:
        return f"delta was {delta_text(claim.delta)}"
    if claim is not None and claim.adjacency != privacy.adjacency:
        return f"adjacency was {claim.adjacency}"
    if broken := space.broken(record.config):
        return f"{', '.join(broken)} does not hold"
    return "" if lesson(spec, record) is not None else "not finished"
