"""`sampler: auto`: which method proposes, by a rule that looks at the spec and at what its trials are planned to cost.

The rule looks at nothing that was measured, and once: a sweep keeps in `search.resolved` what was chosen when it began,
however it is extended. Which budget a proposal gets is a schedule of seed and number (`sweeps.search.turns`).
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

import numpy as np

from sweeps.planning.plan import SECONDS_PER_GRADIENT, plan_proposal
from sweeps.search import samplers
from sweeps.search.asha import judged
from sweeps.search.space import Space
from sweeps.spec.sections import SweepSpec
from trainables.system import DatasetSpec, PrivacyPlan, System

PLANS, DRAWS = 5, 20
"""Plans whose median cost is taken, and draws from the prior among which they are sought."""
MANY_TRIALS = 300
"""From here on a Gaussian process would look at some trials only, and take seconds for a proposal."""
PROPOSAL_SECONDS = 0.1
"""A trial that is planned to take less than that waits for the process, not the process for it."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """What `auto` comes to, and why, in words for people."""

    method: str
    why: str


def resolution(spec: SweepSpec, work: float) -> Resolution:
    """The method for a sweep whose median trial is planned to cost `work`."""
    trials, goals, seconds = spec.search.trials, len(judged(spec)), work * SECONDS_PER_GRADIENT
    many = "nsga2" if goals > 1 else "tpe"
    if len(spec.systems) > 1 and not spec.search.stratified:
        return Resolution(many, f"{len(spec.systems)} systems share one search")
    if trials > MANY_TRIALS:
        return Resolution(many, f"{trials} trials are many for a Gaussian process")
    if seconds < PROPOSAL_SECONDS:
        return Resolution(many, f"a trial of work {work:,.0f} is small beside a proposal of a Gaussian process")
    return Resolution("gp", f"{trials} trials of work {work:,.0f} each")


def resolved(
    spec: SweepSpec,
    facts: DatasetSpec,
    calibrations: MutableMapping[str, float] | None = None,
    systems: Mapping[str, System] | None = None,
) -> SweepSpec:
    """The spec with `search.resolved`, where its sampler is `auto` and none is given; else the spec as it is.

    A function of spec and public facts. Reads no record.
    """
    if spec.search.resolved is not None:
        return spec
    found = resolution_of(spec, facts, calibrations, systems)
    if found is None:
        return spec
    return spec.model_copy(update={"search": spec.search.model_copy(update={"resolved": found.method})})


def resolution_of(
    spec: SweepSpec,
    facts: DatasetSpec,
    calibrations: MutableMapping[str, float] | None = None,
    systems: Mapping[str, System] | None = None,
) -> Resolution | None:
    """What `sampler: auto` comes to, and why; None for other samplers."""
    if not samplers.is_automatic(spec.search.sampler):
        return None
    if spec.search.resolved is not None:
        return Resolution(spec.search.resolved, "as search.resolved says")
    return resolution(spec, median_work(spec, facts, {} if calibrations is None else calibrations, systems))


def median_work(
    spec: SweepSpec,
    facts: DatasetSpec,
    calibrations: MutableMapping[str, float],
    systems: Mapping[str, System] | None = None,
) -> float:
    """Planned work of the median trial, of a few draws; 0 where none of them may be launched."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(spec.search.seed, spawn_key=(0, 6))))
    space, found = Space.of(spec), list[float]()
    for _ in range(DRAWS):
        plan = plan_proposal(spec, space.draw(rng), facts, calibrations, systems)
        if isinstance(plan, PrivacyPlan):
            found.append(plan.work)
        if len(found) == PLANS:
            break
    return float(np.median(found)) if found else 0.0
