"""What `sweeps check` and `sweeps show` say of a sweep's population, in a line or two."""

from __future__ import annotations

from sweeps.population.accounts import IN_THIS_STORE, account
from sweeps.population.charging import check_terms
from sweeps.population.forecast import next_sweep
from sweeps.population.refuted import check_not_refuted
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.release.publisher import Publisher
from sweeps.spec.sections import FUNCTION, SweepSpec
from sweeps.store.errors import StoreError, UnknownPopulation
from trainables.system import PublicFacts

NOBODY_COUNTS = (
    "none declared, so nothing is counted across sweeps: declare data.population: NAME, and `sweeps budget NAME` keeps "
    "one budget for all sweeps over the same people"
)
OWN_SOURCE = "table"
"""The packaged source that reads the user's own data."""


def before(spec: SweepSpec, facts: PublicFacts, store_url: str) -> tuple[str, ...]:
    """What a sweep of this spec would cost its population; nothing for published data that declare none.

    Raises InvalidValue for a spec that its population's ledger cannot count.
    """
    name = spec.data.population
    if name is None:
        return (NOBODY_COUNTS,) if _is_own(spec.data.source) else ()
    try:
        store = Publisher.open(store_url)
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


def now(spec: RecordedSpec, store: Publisher) -> str | None:
    """Where the population of a recorded sweep stands; None for published data that declare none."""
    name = spec.population
    if not name:
        return NOBODY_COUNTS if _is_own(spec.source) else None
    known = account(store, name)
    if known.not_known:
        return f"{name}: {known.not_known} (`sweeps budget {name}`)"
    return (
        f"{name}: {known.spent_text} are spent by all sweeps over it {IN_THIS_STORE}, {known.left_text} are left "
        f"(`sweeps budget {name}`)"
    )


def _is_own(source: str) -> bool:
    return source == OWN_SOURCE or FUNCTION.fullmatch(source) is not None
