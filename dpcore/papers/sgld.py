"""Stochastic gradient Langevin dynamics as a sampled Gaussian mechanism: what a clipped run releases.

One step is theta <- theta - (e/2) G + N(0, e I) with G = -grad ln p(theta) + (N/b) sum of per-record gradients over the
batch. Where every per-record gradient is clipped to norm C and the batch is a Poisson sample at rate b/N, the sum has
add-remove sensitivity C, the prior no part in it, and the step is a Poisson-subsampled Gaussian with noise multiplier

    z = sqrt(e) / ((e/2) (N/b) C) = 2 b / (N C sqrt(e)).

It grows as the step size falls, so a schedule is a composition of different mechanisms. N and b are public constants.
Without clipping z is undefined; a preconditioner built from gradients without noise (pSGLD) breaks the argument even
with clipping: such a run is `NonPrivate`.

Source  Wu et al. (2020), equations 2-3; Wang, Fienberg & Smola (2015) for `published_noise_variance`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpcore import checks
from dpcore.events import Composed, Gaussian, PoissonSampled, Repeated


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of `steps` steps (at least 1) with the same `step_size` e, above 0. Raises InvalidValue."""

    step_size: float
    steps: int

    def __post_init__(self) -> None:
        checks.positive_finite(step_size=self.step_size)
        checks.count(1, steps=self.steps)


def halving_schedule(step_size: float, every_epochs: int, epochs: int, steps_per_epoch: int) -> tuple[Phase, ...]:
    """The schedule of Wu et al.: constant within blocks of `every_epochs` epochs, halved from block to block.

    step_size        of the first block, above 0
    every_epochs     epochs in a block, at least 1; the last block may be shorter
    epochs           in all, at least 1
    steps_per_epoch  at least 1; ceil(N / b) for one expected pass over the data

    Raises InvalidValue.
    """
    checks.positive_finite(step_size=step_size)
    checks.count(1, every_epochs=every_epochs, epochs=epochs, steps_per_epoch=steps_per_epoch)
    starts = range(0, epochs, every_epochs)
    return tuple(
        Phase(math.ldexp(step_size, -block), steps_per_epoch * min(every_epochs, epochs - start))
        for block, start in enumerate(starts)
    )


def step_size_of(schedule: tuple[Phase, ...], step: int) -> float:
    """e of step number `step`, counted from 0. Raises IndexError past the last."""
    for phase in schedule:
        if step < phase.steps:
            return phase.step_size
        step -= phase.steps
    raise IndexError("a step past the schedule")


def noise_multiplier(step_size: float, records: int, batch_size: float, clip_norm: float) -> float:
    """z = 2 b / (N C sqrt(e)) of one clipped step.

    step_size   e, above 0
    records     N, public, at least 1
    batch_size  b, the expected batch size that the update divides by, in (0, N]
    clip_norm   C of every per-record gradient of the negative log-likelihood, above 0

    Raises InvalidValue.
    """
    checks.positive_finite(step_size=step_size, clip_norm=clip_norm)
    return 2 * _rate(records, batch_size) / (clip_norm * math.sqrt(step_size))


def clipped_event(schedule: tuple[Phase, ...], records: int, batch_size: float, clip_norm: float) -> Composed:
    """Everything that a clipped run releases, every iterate included, under add-remove adjacency.

    Arguments as in `noise_multiplier`. Averages over iterates are post-processing. Raises InvalidValue.
    """
    rate = _rate(records, batch_size)
    return Composed(
        events=tuple(
            Repeated(
                event=PoissonSampled(
                    rate=rate,
                    event=Gaussian(noise_multiplier=noise_multiplier(phase.step_size, records, batch_size, clip_norm)),
                ),
                count=phase.steps,
            )
            for phase in schedule
        )
    )


def published_noise_variance(
    step_size: float, records: int, passes: int, lipschitz: float, batch_size: float, epsilon: float, delta: float
) -> float:
    """Noise variance of one step of DP-SGLD as published, for the update theta - e (...), without the half.

    max(e^2 * factor, e), factor = 128 N t L^2 / (b eps^2) * ln(2.5 N t / (b delta)) * ln(2 / delta).

    passes     t over the data, at least 1
    lipschitz  L, bound on every per-record gradient's norm, above 0
    epsilon    above 0; delta in (0, 1)

    Raises InvalidValue.
    """
    checks.positive_finite(step_size=step_size)
    factor = published_noise_factor(records, passes, lipschitz, batch_size, epsilon, delta)
    return max(step_size**2 * factor, step_size)


def published_noise_factor(
    records: int, passes: int, lipschitz: float, batch_size: float, epsilon: float, delta: float
) -> float:
    """The factor of e^2 in `published_noise_variance` (Wang, Fienberg & Smola 2015, Algorithm 2).

    Raises InvalidValue.
    """
    checks.positive_finite(lipschitz=lipschitz, epsilon=epsilon)
    checks.count(1, passes=passes)
    checks.probability_open(delta=delta)
    steps = passes / _rate(records, batch_size)
    return 128 * steps * lipschitz**2 / epsilon**2 * math.log(2.5 * steps / delta) * math.log(2 / delta)


def _rate(records: int, batch_size: float) -> float:
    checks.count(1, records=records)
    if not 0 < batch_size <= records:
        raise checks.InvalidValue("batch_size", batch_size, f"a number above 0 and at most records={records}")
    return batch_size / records
