"""Whether anything of a space may be launched: where nothing may, a sweep would end without a trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping

import numpy as np

from dpcore.checks import InvalidValue
from sweeps.control.planning import plan_proposal
from sweeps.rehearsal.corners import corners
from sweeps.search import registry
from sweeps.search.grid import SearchGrid
from sweeps.search.space import Space
from sweeps.spec.model import SweepSpec
from trainables.system import Config, PrivacyPlan, PublicFacts, Refusal, System

DRAWS = 200
"""From the prior, for a plan; as many infeasible ones in a row end a sweep."""
REMEDY = "Raise epsilon or `limits`, or narrow the space."
MENDED = "Mend the relation, or move the space."


def draws(spec: SweepSpec, space: Space, count: int = DRAWS) -> Iterator[Config]:
    """Configurations from the prior, the same ones every time; of a final run its one point."""
    if spec.search.chosen is not None:
        return iter(spec.search.first)
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(spec.search.seed, spawn_key=(0, 3))))
    return (space.draw(rng) for _ in range(count))


def certain(spec: SweepSpec, space: Space) -> list[Config]:
    """Configurations that are tried whatever is drawn: points of `search.first`, and a grid that is walked whole.

    A grid of more than DRAWS points is left to draws.
    """
    found: list[Config] = [] if spec.search.chosen is not None else list(spec.search.first)
    if registry.walks_grid(spec.search.sampler):
        grid = SearchGrid.of(space)
        if len(grid) <= DRAWS and spec.search.repeats * len(grid) <= spec.search.trials - len(found):
            found += [grid.point(number) for number in range(len(grid))] * spec.search.repeats
    return found


def check_feasible(
    spec: SweepSpec,
    facts: PublicFacts,
    calibrations: MutableMapping[str, float] | None = None,
    systems: Mapping[str, System] | None = None,
) -> None:
    """At least one corner of the space, or one draw, may be launched. Reads no record. Raises InvalidValue."""
    calibrations = {} if calibrations is None else calibrations
    refusals: list[Refusal] = []
    proposals = [draws(spec, Space.of(spec)), (config for corner in corners(spec) for config in corner.configs)]
    for configs in proposals:
        for config in configs:
            outcome = plan_proposal(spec, config, facts, calibrations, systems)
            if isinstance(outcome, PrivacyPlan):
                return
            refusals.append(outcome)
    never = set.intersection(*(set(one.violations) for one in refusals)).intersection(spec.constraints)
    if never:
        raise InvalidValue(
            "constraints",
            ", ".join(sorted(never)),
            f"relations that hold of one of {DRAWS} draws, or of a corner",
            MENDED,
        )
    raise InvalidValue(
        "feasible", 0, f"one of {DRAWS} draws or a corner that may be launched ({refusals[0].reason})", REMEDY
    )
