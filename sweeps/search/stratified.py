"""A learning sampler for each system, which sees that system's trials alone: for comparing systems.

One sampler over all of them gives its trials to the system that leads, and the others' best is then the best of one or
two draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil

from sweeps.privacy.release import Published
from sweeps.search import warm_start
from sweeps.search.automatic import AtBudget
from sweeps.search.space import Space
from sweeps.search.turns import Strata
from sweeps.spec.hyperparameters import alone
from sweeps.spec.sections import SweepSpec
from trainables.system import Scalar


class StratifiedSampler:
    """A sampler that learns for each system by itself.

    build   makes it, of the system's own spec and earlier trials
    strata  the order of systems and budgets; that of the spec by default
    """

    def __init__(
        self,
        build: Callable[[SweepSpec, Iterable[Published]], AtBudget],
        spec: SweepSpec,
        warm: Iterable[Published] = (),
        strata: Strata | None = None,
    ) -> None:
        found, self.warm_start = warm_start.fitting(spec, Space.of(spec), warm)
        self._strata = strata or Strata.of(spec)
        share = spec.search.model_copy(update={"trials": ceil(spec.search.trials / len(spec.systems))})
        self._samplers = {
            system: build(
                spec.model_copy(update={"systems": {system: alone(spec.systems, system)}, "search": share}),
                [record for record in found if record.system == system],
            )
            for system in spec.systems
        }

    def rebuild(self, records: Iterable[Published]) -> None:
        """Know these records and no others."""
        known = list(records)
        for system, sampler in self._samplers.items():
            sampler.rebuild([record for record in known if record.system == system])

    def tell(self, record: Published) -> None:
        """Know a trial's latest state."""
        self._samplers[record.system].tell(record)

    def point(self, number: int, index: int) -> dict[str, Scalar] | None:
        """The configuration of trial `number`: of the system and the budget whose turn it is at proposal `index`."""
        system, epsilon = self._strata.at(index)
        return self._samplers[system].point(number, index, epsilon)
