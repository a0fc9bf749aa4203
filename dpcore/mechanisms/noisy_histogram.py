"""A histogram over disjoint cells, released with Gaussian noise on every count.

Every record is counted in one cell, which is a function of that record and of public values alone. A unit of at most k
records therefore adds a vector of non-negative whole numbers of sum at most k, whose L2 norm is at most k (all of them
in one cell). Exchanging a unit for another subtracts one such vector and adds another; no product of their entries is
negative, so the squared norm of the difference is at most k^2 + k^2. L2 sensitivities:

    add-remove   k
    replace-one  sqrt(2) k

Source  Dwork & Roth (2014), section 3.3 (histograms) and appendix A (Gaussian mechanism); Dong, Roth & Su (2022),
        corollary 2 (adaptive releases compose exactly). What is computed from the noised counts and public numbers is
        post-processing; the number of records that were there is neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Gaussian, Repeated
from dpcore.gdp import mu_gdp

if TYPE_CHECKING:
    from dpcore.noise import NoiseSource


_UP = 1 + 1e-9
"""More noise by this factor outweighs what accountants charge for the rounding of a sum of Gaussians."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyHistogram:
    """The mechanism.

    cells             how many, at least 1
    noise_multiplier  standard deviation of the noise on a count, divided by the L2 sensitivity
    adjacency         the relation that the sensitivity refers to
    unit_records      k, the largest number of records that one unit may have among those counted

    Raises InvalidValue.
    """

    cells: int
    noise_multiplier: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit_records: int = 1

    def __post_init__(self) -> None:
        checks.count(minimum=1, cells=self.cells, unit_records=self.unit_records)
        checks.positive_finite(noise_multiplier=self.noise_multiplier)

    @property
    def sensitivity(self) -> float:
        """L2, in records."""
        return self.unit_records * (math.sqrt(2) if self.adjacency is Adjacency.REPLACE_ONE else 1.0)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise on each count, in records."""
        return self.noise_multiplier * self.sensitivity

    def event(self) -> Gaussian:
        """What one release spends."""
        return Gaussian(noise_multiplier=self.noise_multiplier, adjacency=self.adjacency)

    def release(self, cells: NDArray[np.int64], noise: NoiseSource) -> NDArray[np.float64]:
        """Noised counts [cells] of the records' cells [records], each in 0..cells-1; no record at all will do.

        Raises InvalidValue for a cell outside. At most `unit_records` of them may belong to one unit.
        """
        import torch

        if len(cells) and not 0 <= int(cells.min()) <= int(cells.max()) < self.cells:
            raise checks.InvalidValue("cells", "(private)", f"cells in 0..{self.cells - 1}")
        counts = np.bincount(cells, minlength=self.cells).astype(np.float64)
        normal: NDArray[np.float64] = noise.fill_(torch.empty(self.cells, dtype=torch.float64)).numpy()
        return counts + self.deviation * normal


def noise_for(epsilon: float, delta: float, releases: int, share: float = 1.0) -> float:
    """The noise multiplier at which `releases` histograms together spend a share of an (epsilon, delta) budget.

    share  in (0, 1], of the squared mu of the Gaussian release that is (epsilon, delta)-DP: shares add up to a whole
           budget when everything is Gaussian, and 1 is (epsilon, delta) itself

    Solved in closed form (Dong, Roth & Su 2022, corollaries 1 and 2) and rounded up. Raises InvalidValue.
    """
    checks.count(minimum=1, releases=releases)
    checks.rate(share=share)
    return math.sqrt(releases / share) / mu_gdp(epsilon, delta) * _UP


def several(histogram: NoisyHistogram, releases: int) -> Repeated:
    """What `releases` of them spend, each on a model that may depend on the earlier ones."""
    return Repeated(event=histogram.event(), count=releases)


# What noised counts say: means and the area under a curve, each with its standard error.
#
# Post-processing: counts, their noise's standard deviation, public weights and bounds go in; records do not.
# Denominators are noised counts too, held between public bounds: never the number of records that were there.
#
# A standard error is that of the noise, to first order (delta method), and of the records as a sample of others like
# them, which the noised counts estimate too. That cells have a width adds to it, and is not counted.

Counts = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its standard error."""

    value: float
    standard_error: float

    def clipped(self, low: float, high: float) -> Estimate:
        """The value cut to a public range; the standard error as it stands."""
        return Estimate(min(max(self.value, low), high), self.standard_error)

    def root(self) -> Estimate:
        """Of the square root, to first order; where the value is below its own error, the error's root is the scale."""
        return Estimate(
            math.sqrt(max(self.value, 0.0)),
            self.standard_error / (2 * math.sqrt(max(self.value, self.standard_error, 1e-300))),
        )

    def exp(self) -> Estimate:
        """Of the exponential, to first order."""
        with np.errstate(over="ignore"):
            value = float(np.exp(self.value))
        return Estimate(value, value * self.standard_error)


def mean(counts: Counts, weights: Counts, between: tuple[float, float], deviation: float, alike: int = 1) -> Estimate:
    """The mean over all records of a weight that depends on the cell: sum of weight times count over sum of counts.

    counts, weights  [cells]; a weight of 1 for right and 0 for wrong cells gives the accuracy
    between          public bounds of the number of records, 0 < low <= high: a noised total outside says more about
                     the noise than about the records
    deviation        standard deviation of the noise on a count
    alike            largest number of records that belong together, and may all fall into one cell

    With total T and mean m the noise's error is deviation * ||weights - m|| / T: dividing by the noised total costs no
    accuracy, since its noise cancels part of the numerator's. A sample's variance is at most `alike` * sum of count *
    (weight - m)^2 / T^2. Raises InvalidValue.
    """
    low, high = between
    if not 0 < low <= high:
        raise InvalidValue("between", between, "two numbers, 0 < low <= high")
    total = float(np.clip(counts.sum(), low, high))
    value = float(weights @ counts) / total
    off = weights - value
    # Counts that their noise takes below 0 say that no record fell there.
    sampled = alike * float(np.maximum(counts, 0.0) @ off**2)
    return Estimate(value, math.sqrt(deviation**2 * float(off @ off) + sampled) / total)


def area_under_curve(
    positives: Counts,
    negatives: Counts,
    of_positives: Counts | float,
    of_negatives: Counts | float,
    alike: int = 1,
) -> Estimate:
    """The area under the ROC curve of binned scores, bins in increasing order of the score [bins each].

    of_positives, of_negatives  standard deviations of the noise, for all bins or for each
    alike  as for `mean`

    A pair in the same bin counts one half. With p, q the counts and P, Q their sums it is
    sum_s p_s (sum_{t<s} q_t + q_s / 2) / (P Q) (Hanley & McNeil 1982). Where a noised sum is below 1, nothing is known:
    one half, with an error as large.
    """
    below = np.cumsum(negatives) - negatives / 2
    above = positives.sum() - np.cumsum(positives) + positives / 2
    total_p, total_q = float(positives.sum()), float(negatives.sum())
    if min(total_p, total_q) < 1:
        return Estimate(0.5, 0.5)
    pairs = total_p * total_q
    area = float(positives @ below) / pairs
    slopes = np.concatenate(
        [(below - area * total_q) * of_positives / pairs, (above - area * total_p) * of_negatives / pairs]
    )
    sampled = area_error(area, total_p, total_q, alike)
    return Estimate(area, math.hypot(float(np.linalg.norm(slopes)), sampled)).clipped(0.0, 1.0)


def area_error(area: float, positives: float, negatives: float, alike: int = 1) -> float:
    """Standard error of an area under the ROC curve of so many records, as a sample of others; `alike` as for `mean`.

    Hanley & McNeil (1982), Radiology 143, equation 2. The area is kept off 0 and 1, as no sample is sure.
    """
    edge = 1 / (2 * min(positives, negatives) + 2)
    a = min(max(area, edge), 1 - edge)
    both_above, both_below = a / (2 - a), 2 * a * a / (1 + a)
    spread = a * (1 - a) + (positives - 1) * (both_above - a * a) + (negatives - 1) * (both_below - a * a)
    return math.sqrt(alike * spread / (positives * negatives))
