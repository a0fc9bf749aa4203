"""NSGA-II without generations of its own."""

from __future__ import annotations

from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import NSGAIISampler
from optuna.trial import FrozenTrial, TrialState


class SteadyStateNSGAII(NSGAIISampler):
    """NSGA-II (Deb, Pratap, Agarwal & Meyarivan 2002) whose parents are the elite of all finished trials that have the
    knobs in question.

    Stock NSGA-II keeps generations in trial attributes, which a rebuilt study lacks. Constraint-dominance included.
    """

    _finished: list[FrozenTrial]

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """As in Optuna; nothing while fewer trials have finished than a population holds."""
        finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        self._finished = [one for one in finished if search_space.keys() <= one.params.keys()]
        if len(self._finished) < self.population_size:
            return {}
        return super().sample_relative(study, trial, search_space)

    def get_trial_generation(self, study: optuna.Study, trial: FrozenTrial) -> int:
        """Every trial is a child of the one population."""
        return 1

    def get_population(self, study: optuna.Study, generation: int) -> list[FrozenTrial]:
        """All finished trials."""
        return self._finished

    def get_parent_population(self, study: optuna.Study, generation: int) -> list[FrozenTrial]:
        """Their elite."""
        return [] if generation == 0 else self.select_parent(study, generation)
