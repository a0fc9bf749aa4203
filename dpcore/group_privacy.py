"""What a guarantee for single records leaves to a person with many: far less than its epsilon says.

A mechanism that samples and clips by record lets each of a person's k records into a batch by a coin of its own, and
each adds up to one clip norm. Whoever reads its claim as one per person can be refuted by a person of k equal records,
and by how much is known exactly.

Source  Group privacy (Vadhan 2017, Lemma 2.2) bounds the loss of k records from above, by k epsilon or more. Here is
        the other side: what no analysis can do better than.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtri

from dpcore import checks
from dpcore.events import Event, Gaussian, PoissonSampled, phases

_SAFE = 1e-9
"""Relative allowance for the rounding of sums of probabilities, all of one sign."""
_THRESHOLDS = 400
_SPREAD = 12.0
"""Standard deviations of a binomial beyond which its mass is left out, which only lowers the bound."""


def group_epsilon_lower(event: Event, delta: float, size: int) -> float | None:
    """Below this epsilon no claim at `delta` holds for groups of `size` records, for a mechanism whose event per record
    is `event` (add-remove); in nats. None without a Gaussian step, whose worst case this knows.

    size  k: a group of k records whose gradients all point one way and reach the clip norm. In every step the released
          sum moves by Binomial(k, rate) clip norms.

    The bound is the power of one test, whether the sum over the steps of one kind exceeds a threshold: with T steps,
    z = noise multiplier and K ~ Binomial(k T, rate), P[K + N(0, T z^2) > t] against P[N(0, T z^2) > t] (Kairouz, Oh &
    Viswanath 2015, Theorem 2.1). Of unlike steps the kind that shows most counts. Raises InvalidValue.
    """
    checks.probability_open(delta=delta)
    checks.count(minimum=1, size=size)
    found = [
        _of_sums(rate, gaussian.noise_multiplier, steps, delta, size)
        for part, steps in phases(event).items()
        for rate, gaussian in [(part.rate, part.event) if isinstance(part, PoissonSampled) else (1.0, part)]
        if isinstance(gaussian, Gaussian)
    ]
    return max(found, default=None)


def _of_sums(rate: float, noise_multiplier: float, steps: int, delta: float, size: int) -> float:
    """max over t of ln((P[K + S > t] - delta) / P[S > t]), S ~ N(0, steps z^2)."""
    # It takes longer to import than all else here: not for every plan.
    from scipy.stats import binom

    trials, deviation = size * steps, noise_multiplier * math.sqrt(steps)
    middle, width = trials * rate, _SPREAD * math.sqrt(trials * rate * (1 - rate)) + 1
    counts = np.arange(max(0, math.floor(middle - width)), min(trials, math.ceil(middle + width)) + 1)
    log_masses = binom.logpmf(counts, trials, rate)
    # From where the group is seen for certain to where it is seen with a chance of about delta.
    reach = -float(ndtri(delta / 4))
    low, high = counts[0] - reach * deviation, counts[-1] + reach * deviation
    best = 0.0
    for threshold in np.linspace(low, high, _THRESHOLDS):
        seen = float(np.exp(log_masses + log_ndtr((counts - threshold) / deviation)).sum()) * (1 - _SAFE) - delta
        if seen > 0:
            best = max(best, math.log(seen) - float(log_ndtr(-threshold / deviation)) - _SAFE)
    return best
