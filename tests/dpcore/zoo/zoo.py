"""All models of the zoo."""

from __future__ import annotations

from tests.dpcore.zoo import layers, mixing, parameters, surroundings, uses

ZOO = [*layers.CASES, *mixing.CASES, *parameters.CASES, *uses.CASES, *surroundings.CASES]
