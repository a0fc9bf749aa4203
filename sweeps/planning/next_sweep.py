"""What the next sweep would cost its population, before it runs: an estimate from public facts; no record is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from itertools import chain, cycle, islice

from sweeps.planning.plan import certain, draws, plan_proposal
from sweeps.privacy.charge import charge_of_steps, check_terms
from sweeps.privacy.population_account import IN_THIS_STORE, NOBODY_COUNTS, NextSweep, account, is_own
from sweeps.privacy.population_ledger import check_not_refuted, whole_of
from sweeps.privacy.published_store import PublishedStore
from sweeps.search.space import Space
from sweeps.spec.sections import SweepSpec
from sweeps.store.errors import StoreError, UnknownPopulation
from sweeps.store.population import Charge, Population, admits, public_files, spent, to_charge
from trainables.system import DatasetSpec, PrivacyPlan

DRAWS = 6
"""Feasible draws whose cost is counted, in turn."""


def before(spec: SweepSpec, facts: DatasetSpec, store_url: str) -> tuple[str, ...]:
    """What a sweep of this spec would cost its population; nothing for published data that declare none.

    Raises InvalidValue for a spec that its population's ledger cannot count.
    """
    name = spec.data.population
    if name is None:
        return (NOBODY_COUNTS,) if is_own(spec.data.source) else ()
    try:
        store = PublishedStore.at(store_url)
        known = account(store, name)
    except UnknownPopulation as unknown:
        return (f"{unknown} Until then no sweep over it begins.",)
    except StoreError:
        return (str(UnknownPopulation(name, ())) + " Until then no sweep over it begins.",)
    check_terms(known.population, spec.privacy.adjacency, spec.privacy.unit)
    check_not_refuted(store, name, spec.systems)
    following = next_sweep(known.population, known.counted, spec, facts)
    costs = () if following is None else (str(following), *following.public)
    if known.not_known:
        return (f"{name}: {known.not_known}", *costs)
    return (f"{name}: {known.spent_text} are spent {IN_THIS_STORE}, {known.left_text} are left", *costs)


def next_sweep(
    population: Population,
    charges: Sequence[Charge] | None,
    spec: SweepSpec,
    facts: DatasetSpec,
    calibrations: MutableMapping[str, float] | None = None,
) -> NextSweep | None:
    """What a sweep of this spec would cost beside what was charged; None where no draw of its space may be launched.

    charges  that count; None where what is spent is not known

    Raises InvalidValue for plans that have no place in the ledger.
    """
    public = public_files(spec.data.options())
    if spec.privacy.scope == "sweep":
        dp, gdp = whole_of(spec)
        whole = to_charge(population, dp.epsilon, dp.delta, gdp)
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
    spec: SweepSpec, facts: DatasetSpec, calibrations: MutableMapping[str, float] | None
) -> Iterator[Iterable[PrivacyPlan]]:
    """Of trials that there will be whatever is drawn, and of a few draws."""
    known: MutableMapping[str, float] = {} if calibrations is None else calibrations
    space = Space.of(spec)
    for configs, most in ((certain(spec, space), None), (draws(spec, space), DRAWS)):
        planned = (plan_proposal(spec, config, facts, known) for config in configs)
        yield islice((one for one in planned if isinstance(one, PrivacyPlan)), most)
