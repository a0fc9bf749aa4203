"""The objectives of a trial as numbers, by which it is ranked."""

from __future__ import annotations

import math

from sweeps.records import DECIDED
from sweeps.release.comparing import compared
from sweeps.release.published import Published
from sweeps.spec.model import SweepSpec
from sweeps.spec.sections import ObjectiveOptions


def objective_at(record: Published, metric: str, step: int) -> float | None:
    """A metric as reported after `step` steps; None when nothing finite was reported there.

    What the plan decides is the same at every step: a trial claims its whole plan wherever it stops.
    """
    if step == record.step or metric in DECIDED:
        value = compared(record, metric) if 0 < step <= record.step else None
    else:
        value = record.reports.get(step, {}).get(metric)
    return float(value) if value is not None and math.isfinite(value) else None


def objective_values(spec: SweepSpec, record: Published) -> tuple[float, ...] | None:
    """One number per objective, in the spec's order; None unless all are reported and finite."""
    values: list[float] = []
    for objective in spec.objectives:
        value = compared(record, objective.metric)
        if value is None or not math.isfinite(value):
            return None
        values.append(value)
    return tuple(values)


def judged(spec: SweepSpec) -> tuple[ObjectiveOptions, ...]:
    """The objectives that results decide; what plans decide is known beforehand."""
    open_ones = tuple(one for one in spec.objectives if one.metric not in DECIDED)
    return open_ones or spec.objectives
