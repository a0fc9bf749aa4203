"""The door between a trial and the world: every number that leaves is an access to data.

A worker's result passes it before it is written anywhere (`trainables.worker.trial`), the controller passes what
workers report through it once more, and what a store kept before metrics were declared passes it when it is read
(`sweeps.privacy.release`). What leaves is what a system declares, and of that only what does not depend on what is
withheld.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from functools import partial

from dpcore.checks import InvalidValue
from trainables.measures.objectives import measured
from trainables.metrics import Config, Dependence, Metric, Worst
from trainables.system import DatasetSpec, System, Task

_planned = partial(Metric, goal="minimize", released="the plan: no record", depends=Dependence.PUBLIC)
_of_machine = partial(
    Metric,
    goal="minimize",
    released="time and memory of a run over private records: a side channel that no claim covers",
    depends=Dependence.SIDE_CHANNEL,
)

OWN_METRICS: Mapping[str, Metric] = {
    one.name: one
    for one in (
        _planned(name="epsilon", doc="claimed epsilon of the steps behind the other metrics"),
        _planned(
            name="target_epsilon",
            doc="the budget that the trial was held to; infinite where its claim exceeds that (no protection)",
        ),
        _planned(name="work", doc="planned cost in the system's unit of work"),
        _of_machine(name="seconds", doc="time from the trial's first step to its last"),
        _of_machine(name="peak_memory_mb", doc="largest memory of the trial's processes, in MiB"),
    )
}
"""Metrics of every trial, whatever its system."""


def declared(system: System, asked: Collection[str] = ()) -> Mapping[str, Metric]:
    """Every metric that a trial of `system` may report, by name; of those of records also the error.

    A system's own declaration goes before a measure's.

    asked  names in the spec, of which some may be functions of the user's own: no other such function is known
    """
    known = {**measured(asked), **{metric.name: metric for metric in system.metrics}, **OWN_METRICS}
    of_records = (Dependence.VALIDATION, Dependence.RAW)
    errors = (metric.error for metric in known.values() if metric.depends in of_records)
    return {**{one.name: one for one in errors}, **known}


class Undeclared(InvalidValue):
    """A trial reported a number that its system does not declare. The text names it and never quotes it."""


def published(
    metrics: Mapping[str, float],
    system: System,
    config: Config,
    withheld: Collection[Dependence],
    asked: Collection[str] = (),
) -> dict[str, float]:
    """Those of a trial's `metrics` that may leave it: none that depends on what is `withheld` under this `config`.

    asked  see `declared`

    Raises Undeclared for a name that neither the system nor a measure declares.
    """
    known = declared(system, asked)
    unknown = sorted(metrics.keys() - known.keys())
    if unknown:
        expected = f"metrics that {system.name} declares"
        remedy = "Add a Metric for each to its `metrics`, which says on what it depends, or report it no more."
        raise Undeclared("metrics", ", ".join(unknown), expected, remedy)
    return {name: value for name, value in metrics.items() if known[name].depends_under(config) not in withheld}


# The natural worst value of a metric: public, and the same for every sweep over the same kind of data.


def natural_worst(metric: Metric, facts: DatasetSpec) -> tuple[float, str] | None:
    """(value, where it comes from); None for a metric without one: unbounded, or only the records would say."""
    match metric.worst:
        case None:
            return None
        case Worst.GUESSED_LOSS:
            if facts.classes is None or facts.own_loss:
                return None
            return math.log(facts.classes), f"the loss of guessing among {facts.classes} classes"
        case Worst.GUESSED_PERPLEXITY:
            return float(facts.classes or 1), Worst.GUESSED_PERPLEXITY.value
        case Worst.TARGET_RANGE:
            # Ratings are judged by the expected class: classes are one apart.
            if facts.task is Task.RATING and facts.classes is not None:
                return facts.classes - 1.0, Worst.TARGET_RANGE.value
            return facts.target_high - facts.target_low, Worst.TARGET_RANGE.value
        case worst:
            return worst, f"the worst {metric.name} there is"
