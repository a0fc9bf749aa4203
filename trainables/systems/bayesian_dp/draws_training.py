"""Steps of DPVI as published for the Bayesian accountant: no noise but the draw of the weights itself."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcore.accountants.bayesian import contribution_norms
from dpcore.sampling import PoissonSampling
from trainables.parallel import limited_threads
from trainables.system import Dataset, Execution, Run
from trainables.systems.bayesian_dp.bayesian_knobs import VariationalDrawsKnobs
from trainables.systems.bayesian_dp.variational import TINY, LookedAt, Posterior, design, infer, record_gradients
from trainables.training.noise import batches
from trainables.training.private_sgd import device_of


class Drawn:
    """Plain gradients of a Poisson batch; a draw's own deviation stands for the noise.

    The distance of a record is what its gradient adds to the mean of the next draw, in deviations of that draw: what
    the deviation itself gives away, and what earlier steps left in the mean, is not counted.
    """

    sigma = 1.0

    def __init__(
        self, run: Run, knobs: VariationalDrawsKnobs, data: Dataset, execution: Execution, device: torch.device
    ) -> None:
        self._knobs = knobs
        self.rate = knobs.batch_size / data.facts.n
        self._scale = data.facts.n / knobs.batch_size
        self._sampling = PoissonSampling(rate=self.rate)
        self._batches = batches(run, execution)
        self._x, self._y = design(data.facts, data.train, device)
        self._looked_at = LookedAt.of(run, knobs, data, device)
        self._next: Tensor | None = None

    def distances(self, posterior: Posterior, z_D: Tensor) -> NDArray[np.float64]:
        """Of the step that `likelihood` returns next."""
        batch = torch.from_numpy(self._sampling.indices(len(self._y), self._batches)).to(self._y.device)
        total = record_gradients(self._x[batch], self._y[batch], posterior, z_D).sum(dim=0)
        self._next = self._scale * total
        width = len(posterior.mean)
        squares = posterior.squares + posterior.with_divergence(self._next, self._knobs.prior_variance).square()
        # AdaGrad moves the mean by this much for each unit of a record's gradient, in deviations of the draw.
        moved = self._knobs.learning_rate * self._scale / (squares[:width].sqrt() + TINY)
        per_unit = (moved / posterior.log_sd.exp()).double().cpu().numpy()
        return contribution_norms(self._looked_at.gradients(posterior, z_D)[:, :width] * per_unit)

    def likelihood(self, posterior: Posterior, z_D: Tensor) -> Tensor:
        """The gradient that `distances` has looked at."""
        assert self._next is not None
        return self._next


def train(run: Run, knobs: VariationalDrawsKnobs, data: Dataset, execution: Execution) -> None:
    """Execute one run up to its `member.to_step`."""
    with limited_threads(execution.threads):
        infer(run, knobs, data, execution, Drawn(run, knobs, data, execution, device_of(execution)), None)
