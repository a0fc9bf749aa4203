"""How much of a trial a rehearsal runs.

Steps on Poisson batches are rehearsed as they are planned, over as many made-up records as give a few in each batch.
Any other system looks at all records at once, in a way that only it knows: it is planned anew for a small number of
them, and runs a few of its steps. A system for which this is wrong says what is right (`SetsItsRehearsal`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from dpcore.checks import InvalidValue
from dpcore.events import PoissonSampled, blocks
from trainables.system import DatasetSpec, PrivacyPlan, Refusal, System

EACH_BATCH = 8
"""Expected records of a batch in the steps that are rehearsed."""
SAMPLED_STEPS, WHOLE_STEPS = 2, 20
SMALLEST, GROWTH = 64, 4
VALIDATION = 64

Replanned = Callable[[DatasetSpec], PrivacyPlan | Refusal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A trial in small.

    plan        what runs, from its first step on
    facts       those that it was planned from
    records     made-up training records, or units
    validation  made-up validation records
    steps       of the plan that are run
    """

    plan: PrivacyPlan
    facts: DatasetSpec
    records: int
    validation: int
    steps: int


@runtime_checkable
class SetsItsRehearsal(Protocol):
    """A system that knows better than `setting_of` how it is rehearsed; it changes the setting that it is given."""

    def rehearsal(self, setting: Setting) -> Setting:
        """The setting to run. Reads no record."""
        ...


def setting_of(system: System, plan: PrivacyPlan, facts: DatasetSpec, replanned: Replanned) -> Setting:
    """The small trial that stands for `plan`; `replanned` plans the same configuration from other facts.

    Raises InvalidValue where the configuration cannot be planned again.
    """
    found = _sampled(plan, facts) or _whole(plan, facts, replanned)
    return system.rehearsal(found) if isinstance(system, SetsItsRehearsal) else found


def sampling_rates(plan: PrivacyPlan) -> tuple[float, ...]:
    """The rate of each block of steps on Poisson batches; () where some step looks at other batches."""
    steps = [event for event, _ in blocks(plan.event())]
    rates = tuple(event.rate for event in steps if isinstance(event, PoissonSampled))
    return rates if len(rates) == len(steps) else ()


def _sampled(plan: PrivacyPlan, facts: DatasetSpec) -> Setting | None:
    rates = sampling_rates(plan)
    if not rates:
        return None
    steps = min(plan.steps, SAMPLED_STEPS)
    reports = plan.validation
    return Setting(
        # Nothing is released, so a report may come after any step.
        plan=plan if reports is None else replace(plan, validation=replace(reports, at=(steps,))),
        facts=facts,
        records=min(facts.n, math.ceil(EACH_BATCH / min(rates))),
        validation=min(facts.n_validation, VALIDATION),
        steps=steps,
    )


def _whole(plan: PrivacyPlan, facts: DatasetSpec, replanned: Replanned) -> Setting:
    for few in _smaller(facts):
        try:
            small = replanned(few)
        except InvalidValue:
            # Too few for this configuration: batches, parts or questions are more.
            continue
        if isinstance(small, PrivacyPlan):
            return _all_of(small, few)
    return _all_of(plan, facts)


def _all_of(plan: PrivacyPlan, facts: DatasetSpec) -> Setting:
    steps = min(plan.steps, WHOLE_STEPS)
    return Setting(plan=plan, facts=facts, records=facts.n, validation=facts.n_validation, steps=steps)


def _smaller(facts: DatasetSpec) -> Iterator[DatasetSpec]:
    size = SMALLEST
    while size < facts.n:
        yield replace(facts, n=size, n_validation=min(facts.n_validation, size))
        size *= GROWTH
