"""The total of a sweep with one budget: what its filter let through, which is never more than that budget.

The controller of such a sweep launches nothing that its filter does not hold (`sweeps.budget.filling`). So whatever
sampler, early stopping, people or lost workers made of it, all of it together is within the budget, and that is its
total. Where everything was fixed beforehand, the composition of what ran is a smaller number and true as well.
"""

from __future__ import annotations

from collections.abc import Iterable

from dpcore.guarantee import FLOATING_POINT, Guarantee, Status, resting_on
from sweeps.ledger.assumptions import OF_ONE_TRIAL
from sweeps.ledger.summary import SweepTotal
from sweeps.provenance.recorded_spec import RecordedSpec
from trainables.system import PrivacyPlan
from trainables.training.noise import named_generators

IN_TIME = (
    "When results came, and which launches were lost, depended on records through nothing but the results themselves."
)
"""What a total by a filter rests on besides: running times and failures steer a search too."""

_CONCURRENT = "launches in parallel: Haney et al. (2023), concurrent composition of filters"
THEOREMS = {
    "gdp": "Gaussian privacy filter: Smith & Thakurta (2022), fully adaptive composition; Koskela, Tobaben & Honkela "
    f"(2023); each launch covered by a Gaussian up to a chance that delta holds; {_CONCURRENT}",
    "renyi": f"Renyi filter at one order fixed beforehand: Feldman & Zrnic (2021); {_CONCURRENT}",
}


def sweep_total(spec: RecordedSpec) -> SweepTotal | None:
    """The one budget of a sweep; None where each of its trials has its own."""
    if (spec.scope, spec.release) != ("sweep", "all") or spec.delta is None:
        return None
    (epsilon,) = spec.budgets
    return SweepTotal(epsilon=epsilon, delta=spec.delta, filter=spec.filter)


def filtered_guarantee(total: SweepTotal, plans: Iterable[PrivacyPlan]) -> Guarantee:
    """The budget as a claim on all trials with these plans together, one of which there is at least."""
    claims = [plan.guarantee for plan in plans]
    own = (line for claim in claims for line in claim.assumptions if line not in OF_ONE_TRIAL)
    named = named_generators((FLOATING_POINT,), claims)
    found = Guarantee(
        epsilon=total.epsilon,
        delta=total.delta,
        adjacency=claims[0].adjacency,
        unit=claims[0].unit,
        accountant=f"{total.filter}-filter",
        status=Status.PROVED,
        theorem=THEOREMS[total.filter],
        assumptions=tuple(dict.fromkeys((*named, *own, IN_TIME))),
    )
    return resting_on(found, claims)
