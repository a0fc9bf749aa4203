"""The natural worst value of a metric: public, and the same for every sweep over the same kind of data."""

from __future__ import annotations

import math

from trainables.metrics import Metric, Worst
from trainables.system import PublicFacts, Task


def natural_worst(metric: Metric, facts: PublicFacts) -> tuple[float, str] | None:
    """(value, where it comes from); None for a metric without one: unbounded, or only the records would say."""
    match metric.worst:
        case None:
            return None
        case Worst.GUESSED_LOSS:
            if facts.classes is None:
                return None
            return math.log(facts.classes), f"the loss of guessing among {facts.classes} classes"
        case Worst.TARGET_RANGE:
            # Ratings are judged by the expected class: classes are one apart.
            if facts.task is Task.RATING and facts.classes is not None:
                return facts.classes - 1.0, Worst.TARGET_RANGE.value
            return facts.target_high - facts.target_low, Worst.TARGET_RANGE.value
        case worst:
            return worst, f"the worst {metric.name} there is"
