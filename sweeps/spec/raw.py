"""Metrics that read training records outside of every claim: a spec names none without saying why it may leave."""

from __future__ import annotations

from collections.abc import Mapping

from sweeps.population.declared_public import own_public_parts
from sweeps.search import registry
from sweeps.spec.domains import Domain
from sweeps.spec.draft import Draft
from sweeps.spec.problems import Problems
from sweeps.spec.same_as import spelled_out
from sweeps.spec.sections import Data
from trainables.metrics import Dependence, Metric
from trainables.publishing import declared
from trainables.system import PublicFacts, Scalar, System


def may_be_raw(metric: Metric, system: System, knobs: Mapping[str, Scalar | Domain]) -> bool:
    """Whether `metric` reads raw records in some trial of a system with these knobs (`spelled_out`)."""
    defaults = {one.name: one.default for one in system.parameters}

    def may_be(name: str, value: Scalar) -> bool:
        knob = knobs.get(name, value)
        if not isinstance(knob, Domain):
            return knob == value
        # Where a knob is not there, the system uses its default.
        return knob.contains(value) or (bool(knob.when) and defaults.get(name) == value)

    return metric.depends is Dependence.RAW or any(may_be(*one) for one in metric.raw_under.items())


def raw_metrics(system: System, knobs: Mapping[str, Scalar | Domain]) -> tuple[str, ...]:
    """Names of the metrics of `system` itself that read raw records in some of its trials."""
    return tuple(metric.name for metric in system.metrics if may_be_raw(metric, system, knobs))


def check_raw_measures(draft: Draft, problems: Problems) -> None:
    """Raw metrics need a reason, and one that leaves them uncovered forbids learning from them."""
    data, privacy = draft.data, draft.privacy
    public = data is not None and data.records_are_public is not None
    reason = None if privacy is None else privacy.allow_raw_measures
    if public and reason is not None:
        problems.add(
            "privacy.allow_raw_measures",
            reason,
            "left out beside data.records_are_public: public records leave nothing uncovered",
            "Keep the one that is true.",
        )
    raw: dict[str, Metric] = {}
    knobs = {name: spelled_out(draft.systems, name) for name in draft.systems}
    steering = {one.metric for one in draft.objectives or ()}
    told = set()
    for path, name in draft.asked:
        for system in draft.chosen:
            metric = declared(system, [name]).get(name)
            if metric is None or path in told or not may_be_raw(metric, system, knobs[system.name]):
                continue
            told.add(path)
            if name in steering:
                raw[name] = metric
            if data is not None and privacy is not None and not public and reason is None:
                problems.add(
                    path,
                    metric.name,
                    f"a metric that a claim covers; of {system.name} this one depends on: {metric.released}",
                    "Drop it; or say in data.records_are_public why these records are public, or in "
                    "privacy.allow_raw_measures why it leaves uncovered.",
                )
    if not raw or reason is None or public:
        return
    names = ", ".join(raw)
    if draft.search is not None and registry.learns(draft.search.sampler):
        problems.add(
            "search.sampler",
            draft.search.sampler,
            f"{registry.one_of(registry.fixed())} with {names}: every later configuration would carry training "
            "records on",
            "Use the random sampler, or drop that objective.",
        )
    if draft.early_stopping is not None:
        problems.add(
            "early_stopping.method",
            draft.early_stopping.method,
            f"no early stopping with {names}: which trials go on would carry training records on",
            "Drop `early_stopping`, or that objective.",
        )


def check_population(draft: Draft, problems: Problems) -> None:
    """The ledger of a population counts all that leaves its sweeps: what no epsilon covers has no place in it."""
    data, privacy = draft.data, draft.privacy
    if data is None or data.population is None:
        return
    outside = {
        "data.records_are_public": data.records_are_public,
        "privacy.allow_raw_measures": privacy and privacy.allow_raw_measures,
        "privacy.allow_unprotected": privacy and privacy.allow_unprotected,
    }
    for path, reason in outside.items():
        if reason:
            problems.add(
                path,
                reason,
                f"left out beside data.population: {data.population}, whose ledger counts all that is released",
                "Leave the population out where its records need no protection.",
            )
    _check_own_parts(data, draft.facts, problems)


def _check_own_parts(data: Data, facts: PublicFacts | None, problems: Problems) -> None:
    """Scores on public records leave as they are, and the ledger shows nothing for them: not of its own records."""
    options = data.options()
    expected = f"private beside data.population: {data.population}, whose ledger would show nothing for exact scores"
    parts = own_public_parts(options)
    for name in parts:
        problems.add(
            f"data.{name}.records",
            "public",
            f"{expected} on records of its own source",
            "Declare them private, or name a separate file (path, n) of people outside of the population.",
        )
    declared = isinstance(options.get("validation"), Mapping)
    if not declared and facts is not None and facts.n_validation and facts.private_validation is None:
        problems.add(
            "data.source",
            data.source,
            f"{expected} on records of its own: the validation records of this source are public",
            "Declare data.validation {records: private, ...} where the source takes it; or leave the population out "
            "where its records need no protection.",
        )
