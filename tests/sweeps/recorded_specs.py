"""Specs as a store has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweeps.spec.sections import SweepSpec

PLAIN: dict[str, Any] = {
    "name": "s",
    "data": {"source": "uniform"},
    "systems": {"noisy-mean": {"clip": 1.0}},
    "privacy": {"epsilon": [1.0], "delta": 1e-5},
    "objectives": [{"metric": "expected_error", "goal": "minimize"}],
    "search": {"sampler": "random", "trials": 3},
}


def recorded(sections: Mapping[str, Any]) -> SweepSpec:
    """A spec as a store has it: a plain one with these sections, or keys of them."""
    changed = {name: {**PLAIN.get(name, {}), **one} if isinstance(one, dict) else one for name, one in sections.items()}
    return SweepSpec.model_validate({**PLAIN, **changed})
