"""What `sampler: auto` comes to in a sweep: chosen from its spec and the planned cost of its trials."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

import numpy as np

from sweeps.planning.plan import plan_proposal
from sweeps.search import samplers
from sweeps.search.space import Space
from sweeps.spec.sections import SweepSpec
from trainables.system import DatasetSpec, PrivacyPlan, System

if TYPE_CHECKING:
    from sweeps.search.automatic import Resolution


PLANS, DRAWS = 5, 20
"""Plans whose median cost is taken, and draws from the prior among which they are sought."""


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
    from sweeps.search.automatic import Resolution, resolution

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
