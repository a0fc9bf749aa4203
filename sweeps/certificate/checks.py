"""What a recomputation came to: one `Check` for each number that was found again, or was not."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dpcore.guarantee import Guarantee

SAME = 1e-9
"""Relative difference of one number counted twice: on another machine the last digits of a logarithm may differ."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was recomputed.

    what  was looked at, in few words
    held  whether it is as the document says
    said  both values, or what held
    """

    what: str
    held: bool
    said: str

    def __str__(self) -> str:
        return f"{'holds' if self.held else 'FAILS'}  {self.what}: {self.said}"


def same(one: float, other: float) -> bool:
    """Whether both are one number, counted twice."""
    return one == other or math.isclose(one, other, rel_tol=SAME, abs_tol=1e-300)


def number(what: str, claimed: float | None, found: float | None) -> Check:
    """Whether a number of the document is the one that was found."""
    held = claimed is found if claimed is None or found is None else same(claimed, found)
    return Check(what, held, f"{_shown(claimed)} in the document, {_shown(found)} recomputed")


def at_most(what: str, found: float, allowed: float) -> Check:
    """Whether what was found keeps a bound of the document."""
    return Check(what, found <= allowed * (1 + SAME), f"{_shown(found)} recomputed, at most {_shown(allowed)} allowed")


def equal(what: str, claimed: object, found: object) -> Check:
    """Whether a value of the document is the one that was found."""
    return Check(what, claimed == found, f"{claimed} in the document, {found} recomputed")


def same_claim(claim: Guarantee, found: Guarantee, what: str) -> Iterator[Check]:
    """Whether the claim is the one that was found.  what  the epsilon is of"""
    yield number(f"epsilon of {what}", claim.epsilon, found.epsilon)
    yield number("delta", claim.delta, found.delta)
    yield number("lower end of epsilon", claim.epsilon_lower, found.epsilon_lower)
    for name in ("accountant", "notion", "status"):
        yield equal(name, getattr(claim, name), getattr(found, name))


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.10g}"
