"""Metrics that read training records outside of every claim: a spec names none without saying why it may leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweeps.search import registry
from sweeps.spec.domains import Domain
from sweeps.spec.errors import Problems
from sweeps.spec.knobs import Knobs
from sweeps.spec.model import Data, EarlyStopping, Objective, Privacy, Search
from trainables.metrics import Dependence, Metric
from trainables.publishing import declared
from trainables.system import System


def may_be_raw(metric: Metric, knobs: Knobs) -> bool:
    """Whether `metric` reads raw records in some trial of a system with these knobs, canonical ones."""
    searched = {name: knob for name, knob in knobs.items() if isinstance(knob, Domain)}
    fixed = {name: knob for name, knob in knobs.items() if not isinstance(knob, Domain)}
    meant = {name: value for name, value in metric.raw_under.items() if name not in searched}
    drawn = any(searched[name].contains(value) for name, value in metric.raw_under.items() if name in searched)
    return metric.depends is Dependence.RAW or drawn or any(fixed.get(one, at) == at for one, at in meant.items())


def raw_metrics(system: System, knobs: Knobs) -> tuple[str, ...]:
    """Names of the metrics of `system` itself that read raw records in some of its trials."""
    return tuple(metric.name for metric in system.metrics if may_be_raw(metric, knobs))


def check_raw_measures(
    objectives: Sequence[Objective] | None,
    systems: Mapping[str, Knobs],
    chosen: Mapping[str, System],
    data: Data | None,
    privacy: Privacy | None,
    search: Search | None,
    early_stopping: EarlyStopping | None,
    problems: Problems,
) -> None:
    """Raw metrics as objectives need a reason, and one that leaves them uncovered forbids learning from them.

    Sections that are themselves wrong are None.
    """
    public = data is not None and data.records_are_public is not None
    allowed = privacy is not None and privacy.allow_raw_measures is not None
    if public and allowed:
        assert privacy is not None
        problems.add(
            "privacy.allow_raw_measures",
            privacy.allow_raw_measures,
            "left out beside data.records_are_public: public records leave nothing uncovered",
            "Keep the one that is true.",
        )
    raw: dict[str, Metric] = {}
    for i, objective in enumerate(objectives or ()):
        for name, knobs in systems.items():
            metric = declared(chosen[name]).get(objective.metric)
            if metric is None or objective.metric in raw or not may_be_raw(metric, knobs):
                continue
            raw[metric.name] = metric
            if data is not None and privacy is not None and not public and not allowed:
                problems.add(
                    f"objectives.{i}.metric",
                    metric.name,
                    f"a metric that a claim covers; of {name} this one depends on: {metric.released}",
                    "Drop it; or say in data.records_are_public why these records are public, or in "
                    "privacy.allow_raw_measures why it leaves uncovered.",
                )
    if raw and allowed and not public:
        _check_nothing_learns(raw, search, early_stopping, problems)


def _check_nothing_learns(
    raw: Mapping[str, Metric], search: Search | None, early_stopping: EarlyStopping | None, problems: Problems
) -> None:
    names = ", ".join(raw)
    if search is not None and registry.learns(search.sampler):
        problems.add(
            "search.sampler",
            search.sampler,
            f"{registry.one_of(registry.fixed())} with {names}: every later configuration would carry training "
            "records on",
            "Use the random sampler, or drop that objective.",
        )
    if early_stopping is not None:
        problems.add(
            "early_stopping.method",
            early_stopping.method,
            f"no early stopping with {names}: which trials go on would carry training records on",
            "Drop `early_stopping`, or that objective.",
        )
