"""The whole of a sweep as one row of its population's ledger.

Of a sweep whose procedure has one fixed budget: a filter's, or that of a sealed search, whose rows per attempt would
tell how many trials it drew. The row is reserved before its first trial and stays, however little of it was used; only
a `first` sweep is settled, by a linear ledger, at the epsilon of the rung that it released.
"""

from __future__ import annotations

from dpcore.selection.filters import DPCharge, GDPCharge
from sweeps.population.arithmetic import AddingRule, Charge, Population, entering
from sweeps.store.errors import UnknownPopulation
from sweeps.store.lease import Lease
from sweeps.store.store import Store


def ledger_named(store: Store, population: str) -> Population:
    """The ledger of a population. Raises UnknownPopulation."""
    found = {one.name: one for one in store.populations()}
    if population not in found:
        raise UnknownPopulation(population, found)
    return found[population]


def reserve_block(
    store: Store, lease: Lease, population: str, whole: DPCharge, gdp: GDPCharge | None = None
) -> Charge | None:
    """Reserve what the lease's sweep costs at most, durable on return; the same again changes nothing.

    population  as its spec declares; "" for none, and then nothing is reserved
    whole       (epsilon, delta) of everything that may leave the sweep
    gdp         (mu_total, tau_total) where it runs within a GDP filter: what a gdp ledger is charged instead of `whole`

    Returns what was reserved. Raises PopulationSpent where the budget does not hold it: the sweep then must not begin;
    and UnknownPopulation, LeaseLost, Conflict for another block than before.
    """
    if not population:
        return None
    charge = entering(ledger_named(store, population), whole.epsilon, whole.delta, gdp)
    store.reserve_block(lease, population, charge)
    return charge


def settle_block(store: Store, lease: Lease, population: str, epsilon: float) -> None:
    """What a `first` sweep came to: the ex-post epsilon of what it released, at most the reserved one.

    By a gdp ledger nothing is handed back: it stands at its dearest rung. The same again changes nothing. Raises
    UnknownPopulation, LeaseLost, Conflict, InvalidValue.
    """
    if population and ledger_named(store, population).rule is AddingRule.LINEAR:
        store.settle_block(lease, population, epsilon)
