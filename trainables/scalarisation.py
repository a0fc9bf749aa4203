"""A public order of trials by what they put out: one metric, or a weighted sum of several."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scalarisation:
    """Larger sums are better.

    weights  (metric, weight) each; a metric that is to be small has a weight below 0
    """

    weights: tuple[tuple[str, float], ...]

    @classmethod
    def by(cls, metric: str, goal: str) -> Scalarisation:
        """That of one objective; `goal` is "maximize" or "minimize"."""
        return cls(((metric, -1.0 if goal == "minimize" else 1.0),))

    def worth(self, metrics: Mapping[str, float]) -> float | None:
        """The sum; None where a metric is missing, or it or the sum is not finite."""
        terms = [weight * metrics.get(metric, math.nan) for metric, weight in self.weights]
        if not all(map(math.isfinite, terms)):
            return None
        try:
            return math.fsum(terms)
        except OverflowError:
            # Finite terms whose sum leaves double precision.
            return None

    def __str__(self) -> str:
        match self.weights:
            case ((metric, 1.0),):
                return metric
            case ((metric, -1.0),):
                return f"least {metric}"
        return " + ".join(f"{weight:g} {metric}" for metric, weight in self.weights).replace("+ -", "- ")
