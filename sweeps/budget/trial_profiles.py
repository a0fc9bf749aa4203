"""The profile of a whole trial: training and its reports on private validation records together."""

from __future__ import annotations

from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import Composed
from dpcore.guarantee import STANDING
from dpcore.selection import EventProfile, TrialProfile, WorstProfile
from trainables.system import PrivacyPlan


def trial_profile(plan: PrivacyPlan) -> TrialProfile:
    """Upper bounds, in both directions, on what the whole trial of `plan` reveals.

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
    training = EventProfile(plan.event(), claim.adjacency)
    reports = plan.validation
    if reports is None:
        return training
    if reports.parallel and claim.adjacency is Adjacency.ADD_REMOVE:
        return WorstProfile((training, EventProfile(reports.event(), claim.adjacency)))
    return EventProfile(Composed(events=(plan.event(), reports.event())), claim.adjacency)
