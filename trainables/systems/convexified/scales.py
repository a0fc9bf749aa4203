"""What a configuration says before any training: the published sensitivities, the repaired head, who is asked."""

from __future__ import annotations

import math
from dataclasses import replace

from dpcore.checks import InvalidValue
from dpcore.papers.convexified import Head, PublishedNoise, published_noise
from trainables.system import PublicFacts
from trainables.systems.convexified.knobs import ConvexifiedHeadKnobs, ConvexifiedLossKnobs
from trainables.systems.linear import classes_of, width_of

OPEN = 0.01
"""Share of the exact sensitivity that the certificate may leave open."""


def sensitivities(knobs: ConvexifiedLossKnobs, facts: PublicFacts) -> PublishedNoise:
    """Every sensitivity that the publication derives for this network, from public facts. None of them is a bound."""
    width = width_of(facts)
    largest = max(
        max(abs(one.low), abs(one.high)) if one.cardinality is None else 1.0 for one in facts.features.values()
    )
    try:
        return published_noise(
            (width, knobs.hidden),
            classes_of(facts),
            facts.n,
            knobs.regularisation,
            bound=knobs.bound,
            input_norm=largest * math.sqrt(width),
            step_size=knobs.learning_rate,
        )
    except InvalidValue as error:
        if error.name != "step_size":
            raise
        remedy = "Lower learning_rate or regularisation, or choose another bound."
        raise InvalidValue("learning_rate", error.value, error.expected, remedy) from error


def held_out(knobs: ConvexifiedLossKnobs, facts: PublicFacts) -> int:
    """Validation records that are asked; under an attack the others are the attacker's own."""
    return min(facts.n, facts.n_validation // 3) if knobs.shadows else facts.n_validation


def head_of(knobs: ConvexifiedHeadKnobs, facts: PublicFacts) -> Head:
    """The training problem, with the tolerance that adds `OPEN` to its sensitivity."""
    exact = Head(
        records=facts.n,
        classes=classes_of(facts),
        alpha=knobs.alpha,
        regulariser=knobs.regularisation,
        radius=knobs.radius,
        tolerance=1.0,
    )
    return replace(exact, tolerance=OPEN * exact.exact_sensitivity * exact.modulus / 2)
