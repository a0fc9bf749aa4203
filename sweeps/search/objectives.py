"""What a trial is judged by: its objectives as numbers, or that it has none."""

from __future__ import annotations

import math

from sweeps.records import TrialRecord
from sweeps.spec.model import SweepSpec


def metric_of(record: TrialRecord, metric: str) -> float | None:
    """A metric of a trial; None when it has not been reported.

    `epsilon` is always the trial's claim, `work` always the plan's estimate: a reported metric of the same name cannot
    replace them.
    """
    if metric == "epsilon":
        return None if record.guarantee is None else float(record.guarantee["epsilon"])
    if metric == "work":
        return None if record.plan is None else float(record.plan["work"])
    value = record.metrics.get(metric)
    return None if value is None else float(value)


def objective_at(record: TrialRecord, metric: str, step: int) -> float | None:
    """A metric as reported after `step` steps; None when nothing finite was reported there.

    The controller writes the trial's claim into each report as `epsilon`.
    """
    if step == record.step or metric == "work":
        value = metric_of(record, metric) if 0 < step <= record.step else None
    else:
        value = record.reports.get(step, {}).get(metric)
    return float(value) if value is not None and math.isfinite(value) else None


def objective_values(spec: SweepSpec, record: TrialRecord) -> tuple[float, ...] | None:
    """One number per objective, in the spec's order; None unless all are reported and finite."""
    values: list[float] = []
    for objective in spec.objectives:
        value = metric_of(record, objective.metric)
        if value is None or not math.isfinite(value):
            return None
        values.append(value)
    return tuple(values)
