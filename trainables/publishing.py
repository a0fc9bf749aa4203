"""Which numbers leave a trial: every one of them is an access to data, and says on what it depends."""

from __future__ import annotations

from collections.abc import Mapping

from trainables.measures.objectives import MEASURES
from trainables.system import Dependence, Metric, System

_MACHINE = "time and memory of a run over private records: a side channel that no claim covers"

OWN_METRICS: Mapping[str, Metric] = {
    one.name: one
    for one in (
        Metric(
            name="epsilon",
            goal="minimize",
            doc="claimed epsilon of the steps behind the other metrics",
            released="the plan: no record",
            depends=Dependence.PUBLIC,
        ),
        Metric(
            name="target_epsilon",
            goal="minimize",
            doc="the budget that the trial was held to; infinite where its claim exceeds that (no protection)",
            released="the plan: no record",
            depends=Dependence.PUBLIC,
        ),
        Metric(
            name="work",
            goal="minimize",
            doc="planned cost in the system's unit of work",
            released="the plan: no record",
            depends=Dependence.PUBLIC,
        ),
        Metric(
            name="seconds",
            goal="minimize",
            doc="time from the trial's first step to its last",
            released=_MACHINE,
            depends=Dependence.SIDE_CHANNEL,
        ),
        Metric(
            name="peak_memory_mb",
            goal="minimize",
            doc="largest memory of the trial's processes, in MiB",
            released=_MACHINE,
            depends=Dependence.SIDE_CHANNEL,
        ),
    )
}
"""Metrics of every trial, whatever its system."""


def declared(system: System) -> Mapping[str, Metric]:
    """Every metric that a trial of `system` may report, by name. A system's own declaration goes before a measure's."""
    return {**MEASURES, **{metric.name: metric for metric in system.metrics}, **OWN_METRICS}
