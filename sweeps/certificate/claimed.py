"""What is certified: the claim, and what a check of its arithmetic came to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee, Notion, Status
from sweeps.certificate.fields import FrozenPart, NotNegative, Sentence

SAME = 1e-9
"""Relative difference of one number counted twice: on another machine the last digits of a logarithm may differ."""
_FLOATING_POINT = "floating-point"
_SHORT = 100


class Claimed(FrozenPart):
    """Epsilon and delta of the procedure, by which argument, how firmly, and on what it rests.

    covers     what is certified, in words: the first sentence of the certificate
    unit       what neighbours differ in
    contributions  records that one unit contributes at most, as enforced
    accountant, version  who counted, and the version of this project that it is of
    epsilon_lower  what a release with the same events can spend, certified from below; null where none is known
    assumptions  what must hold besides, one sentence each
    """

    covers: Sentence
    notion: Notion
    epsilon: NotNegative
    delta: Annotated[float, Field(ge=0, lt=1)]
    adjacency: Adjacency
    unit: Sentence
    contributions: Annotated[int, Field(ge=1)]
    accountant: Sentence
    version: Sentence
    status: Status
    theorem: Sentence
    epsilon_lower: NotNegative | None
    assumptions: tuple[Sentence, ...]

    @property
    def guarantee(self) -> Guarantee:
        """The claim as the rest of the house has it."""
        left_out = {"covers", "contributions", "version"}
        return Guarantee(**{name: value for name, value in self if name not in left_out})


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


def word(what: str, claimed: object, found: object) -> Check:
    """Whether a word of the document is the one that was found."""
    held = claimed == found
    shown = str(found) if isinstance(found, str) and len(found) <= _SHORT else "as the document says"
    return Check(what, held, shown if held else f"{claimed} in the document, {found} recomputed")


def rests_on(claimed: Claimed, found: Sequence[str]) -> Check:
    """Whether the document states all sentences that the recomputed claim rests on.

    The line on floating point is worded by whoever drew the noise.
    """
    wanted = [line for line in found if not line.startswith(_FLOATING_POINT)]
    missing = [line for line in wanted if line not in claimed.assumptions]
    if len(wanted) < len(found) and not any(line.startswith(_FLOATING_POINT) for line in claimed.assumptions):
        missing.append(_FLOATING_POINT)
    return Check("what the arithmetic rests on", not missing, "; ".join(missing) or "stated in the document")


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.10g}"
