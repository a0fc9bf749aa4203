"""What the claim of a private selection rests on, and its arguments, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcore.selection.best import TIGHT
from trainables.scalarisation import Scalarisation

if TYPE_CHECKING:
    from sweeps.spec.sections import Selection


# What the claim of a private selection rests on besides what its trials' claims do: one sentence each.

SEALED = (
    "The number of trials, the other trials, and which of them won stay inside the release boundary for ever: nobody "
    "outside sees the load, memory, power or bill of the machines, Ray's dashboard, logs, object store and what that "
    "spills to disk, or the sweep's folder while it runs."
)
FAILURES = (
    "Whether a trial fails or is late does not depend on the records but through its private state: nothing is added "
    "to delta for memory that ran out, an exception, or a deadline that was missed."
)
LOSSES = (
    "Workers are lost independently of the records; what they ran is run again with the same randomness, on machines "
    "that compute alike."
)
OF_THE_PRIOR = "The space and its prior were"
"""As every sentence on it begins."""
PRIOR = f"{OF_THE_PRIOR} not chosen by looking at these records."
TARGET = "The target was fixed before the search, and not by looking at these records."
OF_EVERY_SEARCH = (SEALED, FAILURES, LOSSES)
"""Whatever its prior was chosen by."""


def rests_on(selection: Selection) -> tuple[str, ...]:
    """What the claim of a private selection rests on, or leaves out, besides what its trials' claims do."""
    said = selection.chosen_by
    chosen = (
        PRIOR
        if said is None
        else f"{OF_THE_PRIOR} chosen by looking at these records, which this claim does not cover: {said}"
    )
    return *OF_EVERY_SEARCH, chosen, *(() if selection.target is None else (TARGET,))


# The arguments of sealed searches, in words: a claim names its own, and a certificate is held against it.

_BEST = f"{TIGHT}; two-point calibration: dpcore.selection.best"
_FRONT = (
    "one shift for all orders: dpcore.selection.front; configurations that differ, by a Gaussian that covers each: "
    "dpcore.selection.front"
)
_FIRST = (
    "Liu & Talwar (2019), algorithm 1; profile form, word of none and configurations that differ: "
    "dpcore.selection.ladder and ladder_points"
)
_LADDER = f"after Ghazi, Kamath, Knop, Kumar, Manurangsi & Zhang (2025) and {_FIRST}"


def of_best(law: str) -> str:
    """Of the best trial.  law  in words"""
    return f"The best of a secret number of trials ({law}): {_BEST}"


def of_front(law: str, orders: Sequence[Scalarisation]) -> str:
    """Of the best trials by several orders.  law  in words"""
    by = "; ".join(map(str, orders))
    return f"The best of a secret number of trials ({law}) by each of {len(orders)} orders ({by}): {_FRONT}"


def of_first(law: str, target: str, budgets: int) -> str:
    """Of the first trial that meets a target, and of word of none.  law, target  in words"""
    if budgets == 1:
        return f"The first of a secret number of trials ({law}) with {target}, or word of none: {_FIRST}"
    return (
        f"The first of a secret number of trials ({law}) with {target}, of the cheapest of {budgets} budgets that has "
        f"one, or word of none: {_LADDER}"
    )
