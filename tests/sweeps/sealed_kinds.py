"""Kinds of sealed search, each as a change of one spec of the toy: what leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BEST, FRONT, LADDER = "best", "front", "ladder"
KINDS = (BEST, FRONT, LADDER)
BUDGETS = (0.5, 1.0, 3.0)
"""Of a ladder. Its target is met by some half of the trials, of each budget."""
TARGET = 0.42


def spec_of(kind: str, best: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of a search of this kind, from that of the same search with `release: best`."""
    privacy, selection = (dict(best[section]) for section in ("privacy", "selection"))
    objectives = list(best["objectives"])
    systems = best["systems"]
    if kind == FRONT:
        privacy["release"] = "front"
        objectives.append({"metric": "expected_error", "goal": "minimize"})
        # Towards a prior of 1 the estimate grows and its error does too: two trials leave.
        drawn_to_one = {"prior": 1.0, "shrinkage": {"uniform": [0.2, 1.0]}}
        systems = {name: {**knobs, **drawn_to_one} for name, knobs in systems.items()}
    elif kind == LADDER:
        privacy |= {"release": "first", "epsilon": list(BUDGETS)}
        selection["target"] = {"metric": "estimate", "at_least": TARGET}
    changed = {
        "systems": systems,
        "privacy": privacy,
        "selection": selection,
        "objectives": objectives,
    }
    return {**best, **changed}
