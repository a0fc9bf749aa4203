"""What a sweep over a population needs before it may begin: a ledger of that population, which counts as it does."""

from __future__ import annotations

from sweeps.population.arithmetic import Population
from sweeps.population.blocks import ledger_named
from sweeps.population.charging import check_terms
from sweeps.spec.model import SweepSpec
from sweeps.store import Store


def ledger_of(store: Store, spec: SweepSpec) -> Population | None:
    """The ledger that a sweep of this spec is charged to; None where it declares no population.

    Raises UnknownPopulation where that has none yet, InvalidValue where it counts by other neighbours.
    """
    if spec.data.population is None:
        return None
    population = ledger_named(store, spec.data.population)
    check_terms(population, spec.privacy.adjacency, spec.privacy.unit)
    return population
