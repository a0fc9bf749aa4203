"""Notes under the plan of a sweep: what a person may not have meant, or should know before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpcore.guarantee import Status
from sweeps.control.planning import EXHAUSTED_PROPOSALS_PER_TRIAL, is_unprotected
from sweeps.release.policy import Release
from sweeps.search import registry
from sweeps.search.rungs import first_stop
from sweeps.spec.model import SweepSpec
from sweeps.spec.raw import raw_metrics
from sweeps.spec.same_as import spelled_out
from trainables.system import PrivacyPlan, PublicFacts, System


def notes_on(
    spec: SweepSpec, facts: PublicFacts, plans: Sequence[PrivacyPlan], samples: int, grid_size: int | None
) -> list[str]:
    """One sentence each.

    facts      of the spec's data
    plans      of those of the `samples` draws that may be launched
    grid_size  number of grid points; None for samplers that walk no grid
    """
    notes: list[str] = []
    if unprotected := sorted({plan.system for plan in plans if is_unprotected(plan)}):
        notes.append(
            f"{', '.join(unprotected)} claim NOTHING: epsilon is infinite, whatever the budget. "
            f"Allowed because: {spec.privacy.allow_unprotected}"
        )
    if refuted := sorted({plan.system for plan in plans if plan.guarantee.status is Status.REFUTED}):
        notes.append(
            f"{', '.join(refuted)} run as published, with claims that are REFUTED: their epsilon bounds nothing, and "
            "stands on no front beside claims that hold. `sweeps audit` shows it"
        )
    if spec.limits.stall_seconds is not None:
        notes.append(
            f"a launch silent for {spec.limits.stall_seconds:g} s is ended: start, steps and judging must be faster"
        )
    if facts.asserted_by:
        notes.append(
            f"facts and records are asserted by {facts.asserted_by}, none of whose code was read here. It is held to "
            "bounds, counts and units as declared; private validation adds to training"
        )
    if not plans:
        notes.append("no draw is feasible: raise epsilon or `limits`, or narrow the space")
    elif len(plans) * EXHAUSTED_PROPOSALS_PER_TRIAL < samples:
        notes.append("few draws are feasible: a sampler that does not learn would end exhausted. Narrow the space.")
    first = len(spec.search.first)
    if first and spec.search.chosen_from is None:
        notes.append(
            f"{first} of the trials are the points of search.first, tried before the sampler's own. They count in the "
            "total; how they were found does not: if these records were looked at for that, add what it cost"
        )
    points = None if grid_size is None else grid_size * spec.search.repeats + first
    if points is not None and points < spec.search.trials:
        notes.append(f"the grid ends after {points} of {spec.search.trials} trials")
    if len(spec.privacy.epsilon) == 1 and any(objective.metric == "epsilon" for objective in spec.objectives):
        notes.append("epsilon is an objective and there is one budget: it will hardly vary. Give a list of budgets.")
    favours = registry.learns(spec.search.sampler) and not registry.is_automatic(spec.search.sampler)
    if len(spec.privacy.epsilon) > 1 and len(spec.objectives) == 1 and favours:
        notes.append(
            f"{spec.search.sampler} will favour the best budget: add epsilon as an objective to cover them all"
        )
    if spec.early_stopping is not None and plans:
        steps = round(float(np.median([plan.steps for plan in plans])))
        notes.append(f"early stopping: a trial of {steps} steps stops first after {first_stop(spec, steps)}")
    timed = sorted({"seconds", "peak_memory_mb"} & {objective.metric for objective in spec.objectives})
    if timed:
        notes.append(f"{', '.join(timed)} depend on the machine: the same seed may then not give the same proposals")
    return notes


def notes_on_withheld(spec: SweepSpec, systems: Mapping[str, System] | None = None) -> list[str]:
    """Which metrics of the systems leave no trial."""
    from trainables.registry import SYSTEMS

    if not Release.of(spec).withheld:
        return []
    found = {name: raw_metrics((systems or SYSTEMS)[name], spelled_out(spec.systems, name)) for name in spec.systems}
    return [
        f"{', '.join(names)} of {system} read training records outside of every claim: they leave no trial"
        for system, names in found.items()
        if names
    ]
