"""Membership leakage of Bayesian samplers: the published loss, its bounds, and how much they say.

An attacker with prior lambda that a record is a member computes P(member | model) = sigmoid(s + t), t = logit(lambda).
The leakage is Mpl = max(P - lambda, 0). Nothing here is differential privacy: every claim is `membership-only`.

Source  Wu et al. (2020), equations 4-15, after Sablayrolles et al. (2019).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logit, logsumexp, ndtr

from dpcore import checks
from dpcore.events import Composed, Gaussian, PoissonSampled, Repeated
from dpcore.gdp import delta_gdp
from dpcore.guarantee import Status


def threshold(shadow_losses: ArrayLike) -> float:
    """t_p(z) = -ln mean exp(-l(z, theta)) over draws theta ~ p_S, in nats; shape (draws,). Raises InvalidValue."""
    losses = np.asarray(shadow_losses, dtype=np.float64)
    if losses.ndim != 1 or losses.size == 0 or not np.all(np.isfinite(losses)):
        raise checks.InvalidValue("shadow_losses", shadow_losses, "a non-empty vector of finite losses")
    return math.log(losses.size) - float(logsumexp(-losses))


def score(shadow_losses: ArrayLike, loss: float) -> float:
    """s = t_p(z) - l(z, theta): above 0 where the record fits the model better than it should (lemma 1)."""
    return threshold(shadow_losses) - loss


def leakage(score: float, prior: float = 0.5) -> float:
    """Mpl = max(sigmoid(score + logit(prior)) - prior, 0), prior in (0, 1). Raises InvalidValue."""
    checks.probability_open(prior=prior)
    return max(0.0, float(expit(score + logit(prior))) - prior)


# Theorem 1, for losses bounded by B


def published_bound(loss_bound: float) -> float:
    """(B/4) (exp(2B) - 1): Theorem 1 without its remainder O(1/S_L + sum e^2 / S_L). Raises InvalidValue."""
    checks.positive_finite(loss_bound=loss_bound)
    return loss_bound / 4 * math.expm1(2 * loss_bound)


def trivial_bound(loss_bound: float, prior: float = 0.5) -> float:
    """sigmoid(B + t) - prior, at most B/4: what losses in [0, B] allow at all, by any algorithm.

    Raises InvalidValue.
    """
    checks.positive_finite(loss_bound=loss_bound)
    return leakage(loss_bound, prior)


def leave_one_out_constant(loss_bound: float) -> float:
    """B tanh(B/4): the exact supremum of |E_{p_S} l - E_{p_D} l| for l in [0, B], S being D without the record.

    p_D is p_S tilted by exp(-l). For a given difference a two-point loss is extreme; with mass p on B the difference is
    p B (1 - e^-B)(1 - p) / (1 - p + p e^-B), largest at p = 1 / (1 + e^(-B/2)). Raises InvalidValue.
    """
    checks.positive_finite(loss_bound=loss_bound)
    return loss_bound * math.tanh(loss_bound / 4)


def repaired_bound(loss_bound: float) -> float:
    """(B/4) tanh(B/4) + B^2/32: Theorem 1 with the exact constant and the Jensen gap that it drops.

    The gap between the mean loss and the loss of the mean prediction is at most B^2/8 (Hoeffding's lemma) and does not
    vanish with the number of draws. Still without the remainder, and conditional on the sampler having converged.
    """
    return leave_one_out_constant(loss_bound) / 4 + loss_bound**2 / 32


def vacuity_thresholds() -> tuple[float, float, float]:
    """Loss bounds B from which Theorem 1 says nothing: it passes B/4, 1/2 and 1 at 0.3466, 0.6837 and 0.8640.

    B/4 holds for any algorithm; 1/2 is the most that can leak at prior 1/2; 1 is the most at any prior. A coin flip has
    loss 0.6931.
    """

    def crosses(level: float) -> float:
        return float(brentq(lambda b: published_bound(b) - level, 0.1, 2.0, xtol=1e-14))

    return math.log(2) / 2, crosses(0.5), crosses(1.0)


# Property 1: differential privacy bounds the leakage


def dp_leakage_bound(epsilon: float, prior: float = 0.5) -> float:
    """sigmoid(epsilon + t) - prior, at most epsilon/4: pure (epsilon, 0)-DP bounds the leakage of every outcome.

    The score of the optimal attack is a log-likelihood ratio of neighbouring runs, so at most epsilon.
    Raises InvalidValue.
    """
    checks.non_negative_finite(epsilon=epsilon)
    return leakage(epsilon, prior)


def property_1_status(delta: float) -> Status:
    """How Property 1 (leakage at most epsilon/4 with probability 1 - delta) stands: it needs delta = 0.

    Raises InvalidValue.
    """
    checks.probability_below_one(delta=delta)
    return Status.PROVED if delta == 0 else Status.REFUTED


@dataclass(frozen=True, slots=True)
class Property1Counterexample:
    """A Gaussian release against Property 1, at epsilon 1.

    delta          exact delta of the release
    loss_exceeds   probability that the privacy loss exceeds epsilon, the step of the published proof
    leakage_exceeds  probability that the optimal attacker's leakage at prior 1/2 exceeds epsilon/4, the statement
    """

    delta: float
    loss_exceeds: float
    leakage_exceeds: float


def property_1_counterexample() -> Property1Counterexample:
    """A 1-GDP Gaussian release, which is exactly (1, delta)-DP.

    Its privacy loss is N(1/2, 1). delta averages how far the loss passes 1; the probability that it does is larger:
    0.3085 against 0.1269, and the leakage passes 1/4 with probability 0.2747.
    """
    needed = float(logit(0.75))
    return Property1Counterexample(delta_gdp(1.0, 1.0), float(ndtr(0.5 - 1.0)), float(ndtr(0.5 - needed)))


# Stochastic gradient Langevin dynamics as a sampled Gaussian mechanism: what a clipped run releases.
#
# One step is theta <- theta - (e/2) G + N(0, e I) with G = -grad ln p(theta) + (N/b) sum of per-record gradients over
# the batch. Where every per-record gradient is clipped to norm C and the batch is a Poisson sample at rate b/N, the sum
# has add-remove sensitivity C, the prior no part in it, and the step is a Poisson-subsampled Gaussian with noise
# multiplier
#
#     z = sqrt(e) / ((e/2) (N/b) C) = 2 b / (N C sqrt(e)).
#
# It grows as the step size falls, so a schedule is a composition of different mechanisms. N and b are public constants.
# Without clipping z is undefined; a preconditioner built from gradients without noise (pSGLD) breaks the argument even
# with clipping: such a run is `NonPrivate`.
#
# Source  Wu et al. (2020), equations 2-3; Wang, Fienberg & Smola (2015) for `published_noise_variance`.


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
