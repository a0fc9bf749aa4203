"""What only people know, and a certificate has to say: who approved this epsilon and why, and how the ranges were
chosen. It is asked for, never filled in."""

from __future__ import annotations

from dataclasses import dataclass

from dpcore.checks import InvalidValue

LEAST_LETTERS = 10
"""Of a reason: a word is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """The operator's answers.

    by       who approved this epsilon
    because  why this epsilon is right for these records
    ranges   how ranges of hyperparameters, features and public inputs were chosen: earlier looks at these records too

    Raises InvalidValue for an answer that is missing, all of those that are.
    """

    by: str
    because: str
    ranges: str

    def __post_init__(self) -> None:
        asked = {
            "--approved-by": (self.by, 2, "who approved this epsilon"),
            "--because": (self.because, LEAST_LETTERS, "why this epsilon is right for these records"),
            "--ranges": (
                self.ranges,
                LEAST_LETTERS,
                "how the ranges of hyperparameters were chosen, and on which data",
            ),
        }
        missing = {name: one for name, one in asked.items() if len(one[0].strip()) < one[1]}
        if missing:
            listed = "; ".join(f"{name}: {why} (at least {least} letters)" for name, (_, least, why) in missing.items())
            said = [text.strip() for text, _, _ in missing.values() if text.strip()]
            raise InvalidValue(", ".join(missing), said or None, f"what no machine knows: {listed}")
