"""The profile of a whole trial: training and its reports on private validation records together."""

from __future__ import annotations

from dpcore.accountants.registry import TOLERANCE
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Composed
from dpcore.guarantee import STANDING
from dpcore.selection import EventProfile, TrialProfile, WorstProfile
from trainables.system import PrivacyPlan


def trial_profile(
    plan: PrivacyPlan, from_step: int = 0, to_step: int | None = None, tolerance: float = TOLERANCE
) -> TrialProfile:
    """Upper bounds, in both directions, on what steps from_step..to_step-1 of `plan` reveal, with the reports that
    follow them (the whole trial by default).

    tolerance  relative, of the accountant's bounds: they are upper ones whatever it is

    Where train and validation compose in parallel a record is in one of them: the larger at every point. Else both are
    composed. What a price of a search is made of has to be proved: raises InvalidValue for a plan whose claim does not
    stand, and UnsupportedEvent for one that no accountant counts as a curve.
    """
    claim = plan.guarantee
    if claim.status not in STANDING:
        raise InvalidValue(
            f"{plan.system}'s claim",
            str(claim.status),
            f"{' or '.join(STANDING)}",
            "A budget for the whole sweep covers trials whose claims stand. Use privacy.scope: trial.",
        )
    training, reports = plan.event(from_step, to_step), plan.validation
    if reports is None:
        return EventProfile(training, claim.adjacency, tolerance=tolerance)
    judging = reports.event(from_step, to_step)
    if reports.parallel and claim.adjacency is Adjacency.ADD_REMOVE:
        return WorstProfile(
            (
                EventProfile(training, claim.adjacency, tolerance=tolerance),
                EventProfile(judging, claim.adjacency, tolerance=tolerance),
            )
        )
    return EventProfile(Composed(events=(training, judging)), claim.adjacency, tolerance=tolerance)
