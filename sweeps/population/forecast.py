"""What the next sweep would cost its population, before it runs: an estimate from public facts; no record is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import chain, cycle, islice
from typing import Any

from dpcore.rounding import delta_text, epsilon_text
from sweeps.population.arithmetic import Charge, Population, Spent, admits, entering, spent
from sweeps.population.charging import charge_of_steps
from sweeps.population.declared_public import public_files
from sweeps.population.joining import whole_of
from sweeps.release.rounding import count_text
from sweeps.search.space import Space
from sweeps.spec.sections import SweepSpec
from trainables.system import PrivacyPlan, PublicFacts

DRAWS = 6
"""Feasible draws whose cost is counted, in turn."""
NOT_KNOWN = "whether what is left holds it is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class NextSweep:
    """The cost of a sweep that was not begun.

    trials  that it asks for
    cost    of all of them together
    fits    how many of them what is left of the budget holds; of a sweep with one budget all or none; None where what
            is left is not known
    whole   whether it is one row, reserved at its start
    public  a sentence for each file of records that are declared public, and not counted
    """

    trials: int
    cost: Spent
    fits: int | None
    whole: bool
    public: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        cost = {"epsilon": self.cost.epsilon, "delta": self.cost.delta, "mu": self.cost.mu, "tau": self.cost.tau}
        known = {name: value for name, value in cost.items() if value is not None}
        return {"trials": self.trials, "fits": self.fits, "whole": self.whole, "public": list(self.public), **known}

    def __str__(self) -> str:
        cost = f"epsilon {epsilon_text(self.cost.epsilon)} at delta {delta_text(self.cost.delta)}"
        if self.cost.mu is not None:
            cost += f" (mu {epsilon_text(self.cost.mu)}, tau {delta_text(self.cost.tau or 0.0)})"
        if self.whole:
            fits = "what is left holds it" if self.fits else "what is left does not hold it: it would not begin"
            fits = NOT_KNOWN if self.fits is None else fits
            return f"the whole sweep is one row of {cost}, reserved at its start; {fits}"
        text = f"{count_text(self.trials, 'trial')} together about {cost}, an estimate from draws of the space"
        if self.fits is None:
            return f"{text}; {NOT_KNOWN}"
        if not self.fits:
            return f"{text}; what is left holds none of them: it would not begin"
        many = "all of them" if self.fits >= self.trials else f"about {self.fits} of them"
        return f"{text}; what is left holds {many}. A launch that is lost and made again is charged again"


def next_sweep(
    population: Population,
    charges: Sequence[Charge] | None,
    spec: SweepSpec,
    facts: PublicFacts,
    calibrations: MutableMapping[str, float] | None = None,
) -> NextSweep | None:
    """What a sweep of this spec would cost beside what was charged; None where no draw of its space may be launched.

    charges  that count; None where what is spent is not known

    Raises InvalidValue for plans that have no place in the ledger.
    """
    public = public_files(spec.data.options())
    if spec.privacy.scope == "sweep":
        dp, gdp = whole_of(spec)
        whole = entering(population, dp.epsilon, dp.delta, gdp)
        fits = None if charges is None else spec.search.trials * admits(population, charges, whole)
        return NextSweep(
            trials=spec.search.trials, cost=spent(population, [whole]), fits=fits, whole=True, public=public
        )
    known, drawn = (
        [charge_of_steps(population, plan, 0, plan.steps) for plan in plans]
        for plans in _plans(spec, facts, calibrations)
    )
    if not known and not drawn:
        return None
    wanted = list(islice(chain(known, cycle(drawn or known)), spec.search.trials))
    fits = None if charges is None else _held(population, charges, wanted)
    return NextSweep(trials=len(wanted), cost=spent(population, wanted), fits=fits, whole=False, public=public)


def _held(population: Population, charges: Sequence[Charge], wanted: Sequence[Charge]) -> int:
    """How many from the first on the budget holds: it stops at the first that it does not."""
    low, high = 0, len(wanted)
    while low < high:
        middle = (low + high + 1) // 2
        fits = admits(population, [*charges, *wanted[: middle - 1]], wanted[middle - 1])
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _plans(
    spec: SweepSpec, facts: PublicFacts, calibrations: MutableMapping[str, float] | None
) -> Iterator[Iterable[PrivacyPlan]]:
    """Of trials that there will be whatever is drawn, and of a few draws."""
    from sweeps.planning.plan import certain, draws, plan_proposal

    known: MutableMapping[str, float] = {} if calibrations is None else calibrations
    space = Space.of(spec)
    for configs, most in ((certain(spec, space), None), (draws(spec, space), DRAWS)):
        planned = (plan_proposal(spec, config, facts, known) for config in configs)
        yield islice((one for one in planned if isinstance(one, PrivacyPlan)), most)
