"""What a configuration says before any training: the published sensitivities, the repaired head, who is asked."""

from __future__ import annotations

import math
from dataclasses import replace

from dpcore.checks import InvalidValue
from dpcore.convexified.published import Bound, PublishedNoise, chain
from dpcore.convexified.repaired import Head
from trainables.system import Config, PublicFacts
from trainables.systems.linear import classes_of, width_of

OPEN = 0.01
"""Share of the exact sensitivity that the certificate may leave open."""


def sensitivities(config: Config, facts: PublicFacts) -> PublishedNoise:
    """Every sensitivity that the publication derives for this network, from public facts. None of them is a bound."""
    width = width_of(facts)
    largest = max(
        max(abs(one.low), abs(one.high)) if one.cardinality is None else 1.0 for one in facts.features.values()
    )
    try:
        return chain(
            (width, int(config["hidden"])),
            classes_of(facts),
            facts.n,
            float(config["regularisation"]),
            bound=Bound(str(config["bound"])),
            input_norm=largest * math.sqrt(width),
            step_size=float(config["learning_rate"]),
        )
    except InvalidValue as error:
        if error.name != "step_size":
            raise
        remedy = "Lower learning_rate or regularisation, or choose another bound."
        raise InvalidValue("learning_rate", error.value, error.expected, remedy) from error


def held_out(config: Config, facts: PublicFacts) -> int:
    """Validation records that are asked; under an attack the others are the attacker's own."""
    return min(facts.n, facts.n_validation // 3) if int(config["shadows"]) else facts.n_validation


def head_of(config: Config, facts: PublicFacts) -> Head:
    """The training problem, with the tolerance that adds `OPEN` to its sensitivity."""
    exact = Head(
        records=facts.n,
        classes=classes_of(facts),
        alpha=float(config["alpha"]),
        regulariser=float(config["regularisation"]),
        radius=float(config["radius"]),
        tolerance=1.0,
    )
    return replace(exact, tolerance=OPEN * exact.exact_sensitivity * exact.modulus / 2)
