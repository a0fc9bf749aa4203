"""What every store is asked about populations: their ledgers, who may charge them, and that no budget is exceeded."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from dpcore.checks import InvalidValue
from dpcore.selection.filters import DPCharge, GDPCharge
from sweeps.privacy.population import Population, Row, RowKind
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.store.errors import Conflict, LeaseLost, PopulationExists, PopulationSpent, UnknownPopulation, UnknownTrial
from sweeps.store.lease import Lease
from sweeps.store.records import SweepRecord
from sweeps.store.store import Store
from tests.sweeps.store_exam.answers import BRIEF_SECONDS, RACERS, came, key, opened, refused, unless
from tests.sweeps.store_exam.candidate import Opens, at_once, killed_after
from tests.sweeps.stores import SWEEP, plan, proposal, record

PEOPLE = Population.of("people", "linear", 3.0, 1e-4)
COVERED = Population.of("covered", "gdp", 3.0, 1e-4)
ONE = DPCharge(0.1 + 0.2, 1e-5)


def of_population(name: str = SWEEP, population: str = PEOPLE.name) -> SweepRecord:
    """A sweep over a population."""
    plain = record(name)
    return replace(plain, spec=RecordedSpec({**plain.spec.canonical, "data": {"population": population}}))


def rows(store: Store, population: str = PEOPLE.name) -> list[tuple[object, ...]]:
    """What of a ledger is not the time."""
    return [(one.kind, one.what, one.sweep, one.charge, one.settled) for one in store.charges(population)]


@contextmanager
def people_at(opens: Opens, url: str) -> Iterator[tuple[Store, Lease]]:
    """A new store with two ledgers, a sweep over one of them, and its lease."""
    store = opens(url)
    for one in (PEOPLE, COVERED):
        store.make_population(one)
    store.create_sweep(of_population())
    lease = store.acquire(SWEEP)
    yield store, lease
    lease.release()
    store.close()


def ledgers_are_made_once(opens: Opens, url: str) -> list[str]:
    """The same again changes nothing, other terms are refused, and what was never made is unknown."""
    with people_at(opens, url) as (store, _):
        store.make_population(PEOPLE)
        for other in (
            replace(PEOPLE, epsilon=4.0),
            replace(PEOPLE, delta=1e-3),
            replace(PEOPLE, unit="person"),
            Population.of("people", "linear", 3.0, 1e-4, "replace-one"),
            Population.of("people", "gdp", 3.0, 1e-4),
            Population.of("covered", "gdp", 3.0, 1e-4, tau=1e-9),
        ):
            faults = refused(f"other terms ({other})", PopulationExists, lambda it=other: store.make_population(it))
            if faults:
                return faults
        faults = refused("charges of nobody", UnknownPopulation, lambda: store.charges("nobody"))
        row = Row(kind=RowKind.AUDIT, what="twin", sweep=SWEEP, charge=ONE)
        faults += refused("a charge to nobody", UnknownPopulation, lambda: store.charge("nobody", row))
    with opened(opens, url) as store:
        return faults + unless(store.populations() == [COVERED, PEOPLE], f"the ledgers are {store.populations()}")


def launches_are_charged_in_their_transaction(opens: Opens, url: str) -> list[str]:
    """Killed right after it, a launch has left its charge; one that the budget does not hold has left nothing."""
    with people_at(opens, url) as (store, lease):
        store.create_sweep(record("alone"))
        alone = store.acquire("alone")
        faults = refused(
            "a launch that pays nothing", InvalidValue, lambda: store.launch(lease, proposal(0), plan(), 9)
        )
        faults += refused("a charge to nobody", InvalidValue, lambda: store.launch(alone, proposal(0), plan(), 9, ONE))
        squared = GDPCharge(0.1, 1e-9)
        faults += refused("another rule", InvalidValue, lambda: store.launch(lease, proposal(0), plan(), 9, squared))
        store.launch(alone, proposal(0), plan(), 100)

    def launches() -> None:
        store = opens(url, create=False)
        lease = store.acquire(SWEEP, ttl_seconds=BRIEF_SECONDS)
        store.launch(lease, proposal(0), plan(), 60, ONE)
        store.lose(lease, key(0), 1, 0, "gone")
        store.relaunch(lease, key(0), 0, 100, DPCharge(0.5, 2e-5))

    faults += killed_after(launches)
    paid = [
        (RowKind.ATTEMPT, f"{key(0)}/{one + 1}", SWEEP, charge, None)
        for one, charge in enumerate((ONE, DPCharge(0.5, 2e-5)))
    ]
    with opened(opens, url) as store:
        faults += unless(rows(store) == paid, f"a killed process has charged {rows(store)}, expected {paid}")
        time.sleep(1.5 * BRIEF_SECONDS)
        lease = store.acquire(SWEEP)
        dear = DPCharge(2.5, 0.0)
        faults += refused("a launch beyond", PopulationSpent, lambda: store.launch(lease, proposal(1), plan(), 9, dear))
        store.fail(lease, key(0), 2, 10, "nan")
        faults += refused("its trial", UnknownTrial, lambda: store.trials_of(SWEEP, [key(1)]))
        store.launch(lease, proposal(1), plan(), 9, DPCharge(2.0, 0.0))
        store.lose(lease, key(1), 1, 9, "gone")
        faults += refused("a relaunch beyond", PopulationSpent, lambda: store.relaunch(lease, key(1), 9, 99, dear))
        faults += unless([one.attempts for one in store.trials(SWEEP)] == [2, 1], "a refused launch left an attempt")
        before = rows(store)
        store.abandon(lease, key(1), "deleted")
        store.erase(lease)
        faults += unless(rows(store) == before, "what a deleted sweep was charged has changed")
        lease.release()
    return faults


def populations_are_never_overspent(opens: Opens, url: str) -> list[str]:
    """Controllers of several sweeps that launch at once stop together where the budget ends, and every launch is in."""
    with people_at(opens, url):
        pass
    cost = DPCharge(0.25, 1e-6)

    def launches() -> bool:
        store = opens(url, create=False)
        mine = f"of-{os.getpid()}"
        store.create_sweep(of_population(mine))
        lease = store.acquire(mine)
        for number in range(13):
            try:
                store.launch(lease, proposal(number), plan(), 10, cost)
            except PopulationSpent:
                return True
        return False

    stopped = at_once(launches, RACERS)
    with opened(opens, url) as store:
        charged = store.charges(PEOPLE.name)
        made = sum(len(store.ledger(one.name)) for one in store.sweeps())
    total = math.fsum(one.charge.epsilon for one in charged if isinstance(one.charge, DPCharge))
    faults = unless(stopped == RACERS, f"of {RACERS} that spent all they could {stopped} came to an end")
    faults += unless(total <= PEOPLE.epsilon, f"epsilon={total} was charged, of {PEOPLE.epsilon}")
    return faults + unless(len(charged) == made == 12, f"{made} launches, {len(charged)} charges, expected 12")


def blocks_pay_for_a_whole_sweep(opens: Opens, url: str) -> list[str]:
    """Reserved once, settled once and never above; its attempts then cost nothing."""
    with people_at(opens, url) as (store, lease):
        early = lambda: store.settle_block(lease, PEOPLE.name, 0.5)  # noqa: E731
        faults = refused("settling nothing", Conflict, early)
        dear = DPCharge(3.5, 0.0)
        faults += refused("too large a block", PopulationSpent, lambda: store.reserve_block(lease, PEOPLE.name, dear))
        whole = DPCharge(2.0, 5e-5)
        for _ in range(2):
            store.reserve_block(lease, PEOPLE.name, whole)
        faults += refused("another block", Conflict, lambda: store.reserve_block(lease, PEOPLE.name, ONE))
        faults += refused("paying twice", InvalidValue, lambda: store.launch(lease, proposal(0), plan(), 9, ONE))
        store.launch(lease, proposal(0), plan(), 100)
        store.settle(lease, key(0), 1, came())
        block = (RowKind.SWEEP, SWEEP, SWEEP, whole)
        faults += unless(rows(store) == [(*block, None)], f"a block is {rows(store)}")
        twin = Row(kind=RowKind.AUDIT, what="twin", sweep=SWEEP, charge=DPCharge(1.5, 0.0), at=time.time())
        faults += refused("a row beyond", PopulationSpent, lambda: store.charge(PEOPLE.name, twin))
        above = lambda: store.settle_block(lease, PEOPLE.name, 2.5)  # noqa: E731
        faults += refused("settling above", InvalidValue, above)
        for _ in range(2):
            store.settle_block(lease, PEOPLE.name, 1.25)
        faults += refused("settling otherwise", Conflict, lambda: store.settle_block(lease, PEOPLE.name, 1.0))
        for _ in range(2):
            store.charge(PEOPLE.name, twin)
        other = replace(twin, charge=ONE)
        faults += refused("the same at another price", Conflict, lambda: store.charge(PEOPLE.name, other))
        store.reserve_block(lease, PEOPLE.name, whole)
        store.create_sweep(of_population("squares", COVERED.name))
        second = store.acquire("squares")
        square = GDPCharge(COVERED.mu_total * 0.999, 1e-6)
        store.reserve_block(second, COVERED.name, square)
        gives_back = lambda: store.settle_block(second, COVERED.name, 0.1)  # noqa: E731
        faults += refused("giving squares back", InvalidValue, gives_back)
        second.release()
        faults += refused("without the lease", LeaseLost, lambda: store.reserve_block(second, COVERED.name, square))
        faults += refused("settling without it", LeaseLost, gives_back)
    with opened(opens, url) as store:
        paid = [(*block, 1.25), (RowKind.AUDIT, "twin", SWEEP, twin.charge, None)]
        faults += unless(rows(store) == paid, f"a settled block is {rows(store)}, expected {paid}")
        kept = rows(store, COVERED.name)
        return faults + unless(kept == [(RowKind.SWEEP, "squares", "squares", square, None)], f"squares are {kept}")
