"""A third party's sampler: a step from the best trial so far, as a (1+1) evolution strategy (Rechenberg 1973)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import FrozenTrial

from sweeps.search.samplers import ENTRY_POINTS, Learning

STEP = 0.1
"""Standard deviation of a step, in widths of the range."""


class Climber(BaseSampler):
    """One objective, one system."""

    def __init__(self, seed: int) -> None:
        self._rng, self._prior = np.random.default_rng(seed), RandomSampler(seed)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The sweep gives the space."""
        return {}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Near the best trial, once there is one."""
        try:
            best = study.best_trial
        except ValueError:
            return {}
        return {name: self._near(best.params[name], domain) for name, domain in search_space.items()}

    def sample_independent(self, study: Study, trial: FrozenTrial, name: str, domain: BaseDistribution) -> Any:
        """From the prior."""
        return self._prior.sample_independent(study, trial, name, domain)

    def _near(self, value: Any, domain: Any) -> Any:
        if isinstance(domain, CategoricalDistribution):
            return value
        moved = value + STEP * (domain.high - domain.low) * self._rng.standard_normal()
        kept = min(max(moved, domain.low), domain.high)
        return round(kept) if isinstance(value, int) else kept


CLIMBER = Learning(
    name="climber",
    doc="a (1+1) evolution strategy",
    build=lambda seed, trials: Climber(seed),
    several_objectives=False,
    reads_penalties=False,
)


def install(folder: Path, value: str = f"{__name__}:CLIMBER", name: str = CLIMBER.name) -> None:
    """Make `folder` hold a distribution that offers this sampler, or `value`; put it on the path."""
    distribution = folder / f"{name}-1.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (distribution / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{name} = {value}\n")
