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
        missing = {name: why for name, (text, least, why) in asked.items() if len(text.strip()) < least}
        if missing:
            listed = "; ".join(f"{name}: {why}" for name, why in missing.items())
            raise InvalidValue(", ".join(missing), None, f"what no machine knows: {listed}")
