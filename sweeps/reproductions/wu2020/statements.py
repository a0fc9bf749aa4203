"""What the paper says about its tables, held against the results.

An ordering holds when the mean difference over splits passes two standard errors in the stated direction, and falls
when it does in the other; between the two it is undecided. "No change" holds when the difference and two standard
errors stay within a margin that is printed, and falls when they pass it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sweeps.reproductions.claims import Claim
from sweeps.reproductions.wu2020.parts import HIDDEN
from sweeps.reproductions.wu2020.published import TABLE_1, Row
from sweeps.reproductions.wu2020.results import LAST, Mean, Measurements

AUC_ERROR, ACCURACY_ERROR = 0.022, 0.025
"""Standard errors of one printed run: AUC of 400 members and 300 others (Hanley & McNeil 1982), accuracy of 300."""
SAME_ACCURACY, SAME_AUC = 0.02, 0.01
NO_ERROR = "one split has no standard error"
NOT_RUN = "not run in this scope"

AUC, ACCURACY, GAP = LAST + "attack_auc", LAST + "accuracy", LAST + "gap"


@dataclass(frozen=True, slots=True)
class Ordering:
    """`less` is below `more`, each a (system, metric)."""

    claim: str
    published: str
    less: tuple[str, str]
    more: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Unchanged:
    """`one` does not pass `other` by more than `margin`, each a (system, metric)."""

    claim: str
    published: str
    one: tuple[str, str]
    other: tuple[str, str]
    margin: float


SGD, DROPOUT, RMSPROP = ("sgd", AUC), ("dropout", AUC), ("rmsprop", AUC)
SGLD, PSGLD = ("sgld", AUC), ("psgld", AUC)
"""Attack AUC of the last iterate."""
SGD_TEST, DROPOUT_TEST = ("sgd", ACCURACY), ("dropout", ACCURACY)
SGLD_TEST, PSGLD_TEST = ("sgld", ACCURACY), ("psgld", ACCURACY)
"""Test accuracy of the last iterate; without the prefix it is the ensemble's."""

STATEMENTS: tuple[Ordering | Unchanged, ...] = (
    Ordering("SGLD leaks less than SGD (attack AUC)", "0.536 < 0.677", SGLD, SGD),
    Ordering("SGLD leaks less than pSGLD (attack AUC)", "0.536 < 0.551", SGLD, PSGLD),
    Ordering("pSGLD leaks less than SGD (attack AUC)", "0.551 < 0.677", PSGLD, SGD),
    Ordering("dropout leaks less than SGD on the MLP (attack AUC)", "0.527 < 0.677", DROPOUT, SGD),
    Ordering("RMSprop leaks less than SGD (attack AUC)", "0.589 < 0.677", RMSPROP, SGD),
    Ordering("SGLD overfits less than SGD (gap)", "0.075 < 0.266", ("sgld", GAP), ("sgd", GAP)),
    Ordering("pSGLD is more accurate than SGLD (test)", "0.736 < 0.753", SGLD_TEST, PSGLD_TEST),
    Ordering("ensembling makes SGLD more accurate (test)", "0.736 < 0.751", SGLD_TEST, ("sgld", "accuracy")),
    Ordering("ensembling makes pSGLD more accurate (test)", "0.753 < 0.758", PSGLD_TEST, ("psgld", "accuracy")),
    Ordering("dropout is more accurate than SGD (test)", "0.734 < 0.747", SGD_TEST, DROPOUT_TEST),
    Ordering(
        "DP-SGLD leaks less than SGLD (attack AUC, 300 + 300)",
        "said in the text",
        ("dp-sgld", "membership_auc"),
        ("sgld", "membership_auc"),
    ),
    Ordering("DP-SGLD loses accuracy to SGLD (test)", "said in the text", ("dp-sgld", "accuracy"), SGLD_TEST),
    Unchanged("SGLD is about as accurate as SGD (test)", "0.736, 0.734", SGD_TEST, SGLD_TEST, SAME_ACCURACY),
    Unchanged("ensembling leaves SGLD's attack AUC", "0.536, 0.536", ("sgld", "attack_auc"), SGLD, SAME_AUC),
    Unchanged("ensembling leaves pSGLD's attack AUC", "0.550, 0.551", ("psgld", "attack_auc"), PSGLD, SAME_AUC),
)


def claims(found: Measurements, hidden: int) -> list[Claim]:
    """Every row's AUC and test accuracy, then every statement."""
    return [*(claim for row in TABLE_1 for claim in _row(row, found, hidden)), *_statements(found, hidden)]


def untried(why: str) -> list[Claim]:
    """The same claims without results."""
    return [replace(one, note=why) for one in claims(Measurements(), 0)]


def image_claim(claim: str, found: Measurements, part: Mapping[str, Any], *, whole: bool) -> Claim:
    """The ordering of Table 2 from one training each: shown, and held against the table only if that was run."""
    source = part["data"]["source"]
    values = [found.mean(system, HIDDEN, AUC) for system in ("sgld", "sgd")]
    if None in values:
        return Claim(claim=claim, published="0.641 < 0.669", ours=None, holds=None, note="a training did not finish")
    sgld, sgd = (one.value for one in values if one is not None)
    tried = whole and source == "idc"
    return Claim(
        claim=claim,
        published="0.641 < 0.669",
        ours=f"{sgld:.3f}, {sgd:.3f} ({source})",
        holds=sgld < sgd if tried else None,
        note="one training each" if tried else "a few steps: they show that the path runs, and nothing about the table",
    )


def _row(row: Row, found: Measurements, hidden: int) -> Iterator[Claim]:
    for metric, printed, error in (
        ("attack_auc", row.attack_auc, AUC_ERROR),
        ("accuracy", row.accuracy, ACCURACY_ERROR),
    ):
        label = "attack AUC" if metric == "attack_auc" else "test accuracy"
        ours = found.row(row, hidden, metric)
        if ours is None:
            yield Claim(claim=f"Table 1, {row.name}: {label}", published=printed, ours=None, holds=None, note=NOT_RUN)
            continue
        own = 0.0 if math.isnan(ours.error) else ours.error
        # One training on one split is as uncertain as the printed one.
        within = 2 * math.hypot(error, own if own else error)
        yield Claim(
            claim=f"Table 1, {row.name}: {label} within {within:.3f}",
            published=printed,
            ours=str(ours),
            holds=abs(ours.value - printed) <= within,
            note="two standard errors of the printed run and of ours",
        )


def _statements(found: Measurements, hidden: int) -> Iterator[Claim]:
    for one in STATEMENTS:
        difference = (
            found.difference(one.more, one.less, hidden)
            if isinstance(one, Ordering)
            else found.difference(one.one, one.other, hidden)
        )
        claim = f"Table 1: {one.claim}"
        if difference is None:
            yield Claim(claim=claim, published=one.published, ours=None, holds=None, note=NOT_RUN)
        elif math.isnan(difference.error):
            yield Claim(
                claim=claim, published=one.published, ours=f"difference {difference}", holds=None, note=NO_ERROR
            )
        else:
            holds, note = _ordered(difference) if isinstance(one, Ordering) else _same(difference, one.margin)
            yield Claim(claim=claim, published=one.published, ours=f"difference {difference}", holds=holds, note=note)


def _ordered(difference: Mean) -> tuple[bool | None, str]:
    """Of a difference that should be above 0."""
    if difference.value > 2 * difference.error:
        return True, "by more than two standard errors"
    if difference.value < -2 * difference.error:
        return False, "the other way round, by more than two standard errors"
    return None, "undecided at two standard errors"


def _same(difference: Mean, margin: float) -> tuple[bool | None, str]:
    """Of a difference that should not be above `margin`."""
    within = f"margin {margin:g}"
    if difference.value + 2 * difference.error <= margin:
        return True, within
    if difference.value - 2 * difference.error > margin:
        return False, f"{within}: passed"
    return None, f"{within}: undecided at two standard errors"
