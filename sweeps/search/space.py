"""The search space of a spec: one branch per system, each with its own knobs, over a set of target budgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from sweeps.records import SYSTEM, TARGET_EPSILON
from sweeps.spec.domains import Domain
from sweeps.spec.model import SweepSpec
from trainables.system import Scalar


@dataclass(frozen=True, slots=True)
class Branch:
    """One system's part of the space.

    fixed     knobs with one value, and the system's defaults
    searched  knobs with a domain, by name in alphabetical order
    """

    system: str
    fixed: Mapping[str, Scalar]
    searched: Mapping[str, Domain]


@dataclass(frozen=True, slots=True)
class Space:
    """All configurations that a sweep may propose. A config is flat: system, target_epsilon, then every knob.

    epsilons  target budgets, ascending; with one, `target_epsilon` is fixed
    branches  by system name in alphabetical order
    """

    epsilons: tuple[float, ...]
    branches: tuple[Branch, ...]

    @classmethod
    def of(cls, spec: SweepSpec) -> Space:
        """The space of a spec."""
        return cls.over(spec.systems, spec.privacy.epsilon)

    @classmethod
    def over(cls, systems: Mapping[str, Mapping[str, Scalar | Domain]], epsilons: Iterable[float]) -> Space:
        """The space of these knobs and budgets."""
        return cls(
            epsilons=tuple(sorted(epsilons)),
            branches=tuple(
                Branch(
                    system=name,
                    fixed={knob: value for knob, value in sorted(knobs.items()) if not isinstance(value, Domain)},
                    searched={knob: value for knob, value in sorted(knobs.items()) if isinstance(value, Domain)},
                )
                for name, knobs in sorted(systems.items())
            ),
        )

    def branch(self, system: Scalar) -> Branch:
        """The branch of one system. Raises KeyError."""
        for branch in self.branches:
            if branch.system == system:
                return branch
        raise KeyError(system)

    def config(self, branch: Branch, epsilon: float, knobs: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The canonical flat configuration of one point."""
        values = {**branch.fixed, **knobs}
        return {SYSTEM: branch.system, TARGET_EPSILON: epsilon, **{name: values[name] for name in sorted(values)}}

    def draw(self, rng: np.random.Generator, stratum: tuple[str, float] | None = None) -> dict[str, Scalar]:
        """One independent draw from the prior: system and budget uniform or given, each knob from its own domain."""
        branch = self.branches[int(rng.integers(len(self.branches)))]
        epsilon = self.epsilons[int(rng.integers(len(self.epsilons)))]
        if stratum is not None:
            branch, epsilon = self.branch(stratum[0]), stratum[1]
        knobs = {name: domain.draw(float(rng.random())) for name, domain in branch.searched.items()}
        return self.config(branch, epsilon, knobs)

    def misfit(self, config: Mapping[str, Scalar]) -> str:
        """Why `config` is no point of this space; "" when it is one."""
        try:
            branch = self.branch(config.get(SYSTEM, ""))
        except KeyError:
            return f"system {config.get(SYSTEM)!r} is not in the sweep"
        if config.get(TARGET_EPSILON) not in self.epsilons:
            return f"target_epsilon {config.get(TARGET_EPSILON)!r} is not in the sweep"
        names = set(config) - {SYSTEM, TARGET_EPSILON}
        different = names ^ (set(branch.fixed) | set(branch.searched))
        if different:
            return f"knob {min(different)!r} is in only one of the two"
        for name, value in branch.fixed.items():
            if config[name] != value:
                return f"{name} is fixed at {value!r} and was {config[name]!r}"
        for name, domain in branch.searched.items():
            if not domain.contains(config[name]):
                return f"{name}={config[name]!r} is outside {domain}"
        return ""

    def grid_size(self) -> int:
        """Number of grid points. Raises ValueError for a continuous range without `points`."""
        return len(self.epsilons) * sum(
            prod(len(domain.grid()) for domain in branch.searched.values()) for branch in self.branches
        )

    def grid_point(self, index: int) -> dict[str, Scalar]:
        """Point `index` of the grid: systems and budgets outermost, the last knob innermost. Raises IndexError."""
        rest = index
        for branch in self.branches:
            grids = {name: domain.grid() for name, domain in branch.searched.items()}
            inner = prod(len(values) for values in grids.values())
            if rest >= inner * len(self.epsilons):
                rest -= inner * len(self.epsilons)
                continue
            epsilon, rest = self.epsilons[rest // inner], rest % inner
            knobs: dict[str, Scalar] = {}
            for name, values in reversed(grids.items()):
                rest, position = divmod(rest, len(values))
                knobs[name] = values[position]
            return self.config(branch, epsilon, knobs)
        raise IndexError(f"grid point {index} of {self.grid_size()}")
