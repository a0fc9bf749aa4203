"""What a sweep over a population needs before it may begin: a ledger, made once, which counts as the sweep does."""

from __future__ import annotations

from contextlib import closing

from dpcore.selection.filters import DPCharge, GDPCharge, GDPFilter
from sweeps.budget.sweep_budget import budget_of
from sweeps.population.arithmetic import Population
from sweeps.population.blocks import ledger_named, reserve_block
from sweeps.population.charging import check_terms
from sweeps.population.refuted import check_not_refuted
from sweeps.release.publisher import Publisher
from sweeps.spec.sections import SweepSpec
from sweeps.store.lease import Lease
from sweeps.store.store import Store
from sweeps.util.workspace import Workspace


def make_ledger(workspace: Workspace, population: Population) -> None:
    """The ledger of a population, once and for ever. Raises PopulationExists for other terms, StoreError."""
    with closing(workspace.open_store(create=True)) as store:
        store.make_population(population)


def ledger_of(store: Store, spec: SweepSpec) -> Population | None:
    """The ledger that a sweep of this spec is charged to; None where it declares no population.

    Raises UnknownPopulation where that has none yet, InvalidValue where it counts by other neighbours, and for a
    system that an audit refuted over it.
    """
    if spec.data.population is None:
        return None
    population = ledger_named(store, spec.data.population)
    check_terms(population, spec.privacy.adjacency, spec.privacy.unit)
    check_not_refuted(Publisher(store), population.name, spec.systems)
    return population


def reserve_whole(store: Store, lease: Lease, spec: SweepSpec) -> None:
    """The one row of a sweep whose one budget a filter keeps, before its first trial; for any other sweep nothing.

    Raises PopulationSpent where the population does not hold it, and as `reserve_block`.
    """
    if budget_of(spec) is not None and spec.data.population is not None:
        reserve_block(store, lease, spec.data.population, *whole_of(spec))


def whole_of(spec: SweepSpec) -> tuple[DPCharge, GDPCharge | None]:
    """What may leave a sweep with one budget, as `reserve_block` takes it: what is reserved, and what is forecast.

    The second is what covers it within its filter of Gaussian privacy, closer than its epsilon does; None without one.
    """
    budget = budget_of(spec)
    filter = None if budget is None else budget.filter
    covered = GDPCharge(filter.mu_total, filter.tau_total) if isinstance(filter, GDPFilter) else None
    return DPCharge(max(spec.privacy.epsilon), spec.privacy.delta), covered
