"""What the ledger says about privacy, in lines for a terminal: every number with all that it needs to stand alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sweeps.records import TrialRecord
from sweeps.rounding import claim_text

TAKEN = "steps_taken"
"""Metric of systems that stop themselves."""

TOTAL_SHOWN_UP_TO = 3000
"""Attempts whose total `show` and `pareto` count by the way (half a second); the report counts any number."""


def claim_lines(claims: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each kind of claim; see `sweeps.ledger.largest_claims`."""
    for claim in claims:
        among = f"the largest of {claim['trials']}, by {claim['trial']}" if claim["trials"] > 1 else claim["trial"]
        yield f"one trial by itself: {claim_text(claim)} ({among})"
    if not claims:
        yield "none yet: no trial has reported"


def total_text(total: Mapping[str, Any]) -> str:
    """The procedure's guarantee (`sweeps.ledger.summary`) in one line."""
    kind = "" if total["is_claim"] else " (no claim: budgets were chosen from results)"
    return f"all that was executed, released together: {claim_text(total)}{kind}"


def total_lines(ledger: Mapping[str, Any]) -> Iterator[str]:
    """The procedure's total, or why it is not counted; nothing where nothing was launched."""
    if "procedure" in ledger:
        yield total_text(ledger["procedure"])
    elif "uncounted" in ledger:
        yield f"all that was executed, released together: not counted ({ledger['uncounted']})"


def stopped_lines(trials: Iterable[TrialRecord]) -> Iterator[str]:
    """That trials were stopped by a budget of their own before their last step, with the shortest one."""
    complete = [one for one in trials if one.plan is not None and TAKEN in one.metrics]
    planned = {one.key: sum(count for _, count in one.plan["schedule"]) for one in complete if one.plan is not None}
    short = [one for one in complete if one.metrics[TAKEN] < planned[one.key]]
    if short:
        least = min(short, key=lambda one: one.metrics[TAKEN])
        yield (
            f"{len(short)} of {len(complete)} trials were stopped by their Bayesian budget before their last step: "
            f"{least.key} after {least.metrics[TAKEN]:.0f} of {planned[least.key]} steps"
        )


def too_many(sweep: str, attempts: int) -> str:
    """Why a total is not counted by the way."""
    return f"{attempts} attempts: `sweeps report {sweep}` counts them"
