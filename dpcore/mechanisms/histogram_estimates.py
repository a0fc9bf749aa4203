"""What noised counts say: means and the area under a curve, each with the standard error that the noise gives it.

Post-processing: counts, their noise's standard deviation, public weights and bounds go in; records do not.
Denominators are noised counts too, held between public bounds: never the number of records that were there.

A standard error here is of the noise alone, to first order (delta method): the records are a sample, and cells have a
width, which both add to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue

Counts = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the standard deviation that the noise gives it."""

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


def mean(counts: Counts, weights: Counts, between: tuple[float, float], deviation: float) -> Estimate:
    """The mean over all records of a weight that depends on the cell: sum of weight times count over sum of counts.

    counts, weights  [cells]; a weight of 1 for right and 0 for wrong cells gives the accuracy
    between          public bounds of the number of records, 0 < low <= high: a noised total outside says more about
                     the noise than about the records
    deviation        standard deviation of the noise on a count

    With total T and mean m the error is deviation * ||weights - m|| / T: dividing by the noised total costs no
    accuracy, since its noise cancels part of the numerator's. Raises InvalidValue.
    """
    low, high = between
    if not 0 < low <= high:
        raise InvalidValue("between", between, "two numbers, 0 < low <= high")
    total = float(np.clip(counts.sum(), low, high))
    value = float(weights @ counts) / total
    return Estimate(value, deviation * float(np.linalg.norm(weights - value)) / total)


def area_under_curve(
    positives: Counts, negatives: Counts, of_positives: Counts | float, of_negatives: Counts | float
) -> Estimate:
    """The area under the ROC curve of binned scores, bins in increasing order of the score [bins each].

    of_positives, of_negatives  standard deviations of the noise, for all bins or for each

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
    return Estimate(area, float(np.linalg.norm(slopes))).clipped(0.0, 1.0)
