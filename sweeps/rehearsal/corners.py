"""Which configurations of a space are rehearsed: its middle, and where shapes change.

Every text and every truth value that may be chosen, the ends of every whole number, and the largest of all whole
numbers together; the other knobs stand in the middle. Numbers that only scale something are left there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.control.planning import plan_proposal
from sweeps.search.space import Branch, Space
from sweeps.spec.domains import Domain
from sweeps.spec.model import SweepSpec
from trainables.system import Config, PrivacyPlan, PublicFacts, Scalar

MOST = 12
"""Corners of one system."""
OTHERS = 20
"""Draws of the remaining knobs and budgets, before a corner counts as one that is never launched."""


@dataclass(frozen=True, slots=True)
class Corner:
    """One way to build a trial of `system`.

    knobs    what changes shapes here, by name
    configs  alike in that; the first that may be launched stands for all of them
    """

    system: str
    knobs: Mapping[str, Scalar]
    configs: Sequence[Config]


def corners(spec: SweepSpec) -> Iterator[Corner]:
    """One corner after the other, the middle of every system first."""
    space = Space.of(spec)
    several = [_of_branch(space, branch, spec.search.seed) for branch in space.branches]
    for position in range(MOST):
        for found in several:
            if position < len(found):
                yield found[position]


def first_plan(
    spec: SweepSpec, corner: Corner, facts: PublicFacts, calibrations: MutableMapping[str, float]
) -> tuple[Config, PrivacyPlan] | None:
    """The first configuration that may be launched, with its plan; None where none may."""
    for config in corner.configs:
        plan = plan_proposal(spec, config, facts, calibrations)
        if isinstance(plan, PrivacyPlan):
            return config, plan
    return None


def _of_branch(space: Space, branch: Branch, seed: int) -> list[Corner]:
    middle = branch.drawn(lambda: 0.5)
    moves: list[dict[str, Scalar]] = [{}]
    largest: dict[str, Scalar] = {}
    for name, domain in branch.searched.items():
        shaping = _shaping(domain)
        moves += [{**branch.with_knob(name), name: value} for value in shaping]
        if shaping and not isinstance(shaping[-1], str):
            largest[name] = max(one for one in shaping if not isinstance(one, str))
    moves.append(largest)
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(0, 5))))
    model = {"model": branch.fixed["model"]} if "model" in branch.fixed else {}
    out: dict[tuple[object, ...], Corner] = {}
    for move in moves:
        here = {**middle, **move}
        shaped = [name for name, domain in branch.searched.items() if _shaping(domain)]
        key = tuple((name, here[name]) for name in shaped if branch.is_there(name, {**branch.fixed, **here}))
        if key in out:
            continue
        kept = dict(key)
        draws = [middle] + [branch.drawn(lambda: float(rng.random())) for _ in range(OTHERS)]
        configs = [
            space.config(branch, epsilon, {**knobs, **kept, **move})
            for knobs in draws
            for epsilon in reversed(space.epsilons)
        ]
        out[key] = Corner(branch.system, {**model, **kept}, configs)
    return list(out.values())


def _shaping(domain: Domain) -> tuple[Scalar, ...]:
    """The values that change what is built, from the smallest on; () for a number that only scales."""
    if domain.kind == "choice":
        whole = all(isinstance(one, int) for one in domain.values)
        return tuple(sorted(domain.values)) if whole else tuple(one for one in domain.values if isinstance(one, str))
    return (domain.draw(0.0), domain.draw(1.0 - 1e-16)) if domain.integer else ()
