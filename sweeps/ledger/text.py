"""What the ledger says about privacy, in lines for people: every number with all that it needs to stand alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sweeps.ledger.assumptions import Assumptions
from sweeps.records import TrialRecord
from sweeps.release.policy import is_demonstration
from sweeps.release.rounding import claim_text, count_text

TAKEN = "steps_taken"
"""Metric of systems that stop themselves."""

PROMISES_NOTHING = "epsilon inf, since some promise nothing"
"""Of a total with unprotected trials among them."""

COVERS = "It covers all results of this sweep and the choice of the best, but no running times and memory."
COUNTS = "It counts the mechanisms alone, and not what else leaves of these public records."
"""What a total is a claim about, and what it is where the records are declared public."""

TOTAL_SHOWN_UP_TO = 3000
"""Attempts whose total `show` and `pareto` count by the way (half a second); the report counts any number."""


def claims_of(ledger: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The claims that `claim_lines` and `total_lines` of `sweeps.ledger.spending.summary` put a status on."""
    total = ledger.get("procedure")
    return [*ledger["claims"], *([total] if total is not None and total["is_claim"] else [])]


def claim_lines(claims: Sequence[Mapping[str, Any]], assumptions: Assumptions) -> Iterator[str]:
    """One line for each kind of claim; see `sweeps.ledger.spending.largest_claims`."""
    for claim in claims:
        whose = f"the largest of {claim['trials']} trials, {claim['trial']}" if claim["trials"] > 1 else claim["trial"]
        yield f"one trial by itself: {claim_text(claim, assumptions.status(claim))} ({whose})"
    if not claims:
        yield "none yet: no trial has reported"


def total_text(total: Mapping[str, Any], assumptions: Assumptions) -> str:
    """What all trials promise together (`sweeps.ledger.spending.summary`), and which number may be quoted for what."""
    who = "all trials together" if total["trials"] > 1 else "the one trial"
    if math.isinf(float(total["epsilon"])):
        return f"{who}: {PROMISES_NOTHING}"
    if total["is_claim"]:
        covers = COUNTS if is_demonstration(total) else COVERS
        return f"{who}: {claim_text(total, assumptions.status(total))}. {covers}"
    return f"{who}: no guarantee, because {_no_total_text(total)} (Added up as it ran: {claim_text(total, None)}.)"


def _no_total_text(total: Mapping[str, Any]) -> str:
    """Why the total may not be quoted, what may be, and what makes it quotable."""
    if not total["chosen_by_results"]:
        return f"the weakest claim among them is {total['status']}."
    return (
        f"{' and '.join(total['chosen_by_results'])}. Quote one trial's epsilon, and say that it leaves out the search "
        f"for its hyperparameters. For a total that can be quoted, {' and '.join(total['instead'])}."
    )


def total_lines(ledger: Mapping[str, Any], assumptions: Assumptions) -> Iterator[str]:
    """The procedure's total, or why it is not counted; nothing where nothing was launched."""
    if "procedure" in ledger:
        yield total_text(ledger["procedure"], assumptions)
    elif "uncounted" in ledger:
        yield f"all trials together: not counted ({ledger['uncounted']})"


def executed_text(ledger: Mapping[str, Any]) -> str:
    """The steps of the ledger, and reports on private validation records, in one line."""
    again, open_ = ledger["steps_in_excess"], ledger["steps_reserved_unsettled"]
    more = f", {again} of them run again after a lost launch" if again else ""
    more += f", {open_} of them reserved and not yet reported, counted as run" if open_ else ""
    reports = ledger.get("reports_charged", 0)
    more += f", with {count_text(reports, 'report')} on private validation records" if reports else ""
    return f"{count_text(ledger['steps_executed'], 'step')} charged in {count_text(ledger['attempts'], 'launch')}{more}"


def stopped_lines(trials: Iterable[TrialRecord], early_stopping: bool = False) -> Iterator[str]:
    """How many trials ended before their last planned step, by which rule, and what that means for their claims.

    early_stopping  whether the sweep stops trials by their results (every plan is looked into)
    """
    listed = list(trials)
    complete = [one for one in listed if one.plan is not None and TAKEN in one.metrics]
    planned = {one.key: _steps(one) for one in complete}
    short = [one for one in complete if one.metrics[TAKEN] < planned[one.key]]
    if short:
        least = min(short, key=lambda one: one.metrics[TAKEN])
        yield (
            f"{len(short)} of {len(complete)} trials were stopped by their Bayesian budget before their last step: "
            f"{least.key} after {least.metrics[TAKEN]:.0f} of {planned[least.key]} steps"
        )
    reported = [one for one in listed if one.plan is not None and one.guarantee is not None] if early_stopping else []
    planned = {one.key: _steps(one) for one in reported}
    early = [one for one in reported if one.step < planned[one.key]]
    if early:
        least = min(early, key=lambda one: one.step / planned[one.key])
        yield (
            f"{len(early)} of {len(reported)} trials were stopped early, {least.key} after {least.step} of "
            f"{planned[least.key]} steps: each claims all of its planned steps, since results chose where it stopped"
        )


def _steps(trial: TrialRecord) -> int:
    assert trial.plan is not None
    return sum(int(count) for _, count in trial.plan["schedule"])


def too_many(sweep: str, attempts: int) -> str:
    """Why a total is not counted by the way."""
    return f"{attempts} attempts: `sweeps report {sweep}` counts them"
