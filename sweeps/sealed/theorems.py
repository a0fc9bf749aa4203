"""The arguments of sealed searches, in words: a claim names its own, and a certificate is held against it."""

from __future__ import annotations

from collections.abc import Sequence

from dpcore.selection.best import TIGHT
from trainables.orders import PublicOrder

_BEST = f"{TIGHT}; two-point calibration: dpcore.selection.best"
_FRONT = (
    "one shift for all orders: dpcore.selection.front; configurations that differ, by a Gaussian that covers each: "
    "dpcore.selection.front"
)
_ADAPTIVE = (
    "after Wang, Gao, Zhang, Su & Shen (2023), DP-HyPO; profile form for any policy within the bounds: "
    "dpcore.selection.best; two-point calibration: dpcore.selection.best"
)
_FIRST = (
    "Liu & Talwar (2019), algorithm 1; profile form, word of none and configurations that differ: "
    "dpcore.selection.ladder and ladder_points"
)
_LADDER = f"after Ghazi, Kamath, Knop, Kumar, Manurangsi & Zhang (2025) and {_FIRST}"


def of_best(law: str) -> str:
    """Of the best trial.  law  in words"""
    return f"The best of a secret number of trials ({law}): {_BEST}"


def of_front(law: str, orders: Sequence[PublicOrder]) -> str:
    """Of the best trials by several orders.  law  in words"""
    by = "; ".join(map(str, orders))
    return f"The best of a secret number of trials ({law}) by each of {len(orders)} orders ({by}): {_FRONT}"


def of_adaptive(law: str, low: float, high: float) -> str:
    """Of the best trial, where results choose what is proposed.

    law        in words
    low, high  bounds on the ratio of every proposal's density to the prior's
    """
    within = f"each proposed between {low:g} and {high:g} times as often as by the prior"
    return f"The best of a secret number of trials ({law}), {within}: {_ADAPTIVE}"


def of_first(law: str, target: str, budgets: int) -> str:
    """Of the first trial that meets a target, and of word of none.  law, target  in words"""
    if budgets == 1:
        return f"The first of a secret number of trials ({law}) with {target}, or word of none: {_FIRST}"
    return (
        f"The first of a secret number of trials ({law}) with {target}, of the cheapest of {budgets} budgets that has "
        f"one, or word of none: {_LADDER}"
    )
