"""What every store is asked about who may write: names, leases, and what a lost lease is good for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from sweeps.store.errors import LeaseHeld, LeaseLost, SweepExists, UnknownSweep
from sweeps.store.records import Extension
from tests.sweeps.store_exam.answers import (
    BRIEF_SECONDS,
    RACERS,
    all_of,
    came,
    key,
    opened,
    refused,
    sweep_at,
    unless,
)
from tests.sweeps.store_exam.candidate import Opens, at_once
from tests.sweeps.stores import SWEEP, plan, proposal, record, refusal


def names_are_unique(opens: Opens, url: str) -> list[str]:
    """A name is taken once, whoever else asks for it at the same moment."""
    with sweep_at(opens, url) as (store, _):
        before = store.sweeps()
        other = replace(record(), digest="other", root="/other")
        faults = refused("a name that is taken", SweepExists, lambda: store.create_sweep(other))
        faults += refused("a name that nobody has", UnknownSweep, lambda: store.sweep("quickstart"))
        faults += refused("a lease of no sweep", UnknownSweep, lambda: store.acquire("quickstart"))
        faults += refused("trials of no sweep", UnknownSweep, lambda: store.trials("quickstart"))
        faults += unless(store.sweeps() == before, "a sweep was replaced by another of its name")

    def creates() -> bool:
        try:
            opens(url, create=False).create_sweep(record("wanted"))
        except SweepExists:
            return False
        return True

    created = at_once(creates, RACERS)
    faults += unless(created == 1, f"of {RACERS} processes {created} made the sweep of one name")
    with opened(opens, url) as store:
        names = [sweep.name for sweep in store.sweeps()]
        faults += unless(names == [SWEEP, "wanted"], f"the sweeps are {names}, oldest first")
    return faults


def one_process_writes(opens: Opens, url: str) -> list[str]:
    """Of several that ask for the lease at once, one gets it; the next after it was given up, or has run out."""
    with sweep_at(opens, url) as (store, lease):
        with opened(opens, url) as other:
            faults = refused("a second holder", LeaseHeld, lambda: other.acquire(SWEEP))
            lease.renew()
            lease.release()
            taken = other.acquire(SWEEP)
        faults += unless(taken.token > lease.token, "the token does not grow")
        faults += refused("a write without the lease", LeaseLost, lambda: store.set_state(lease, "stopped"))
        lease.release()
        faults += refused("a release by another", LeaseHeld, lambda: store.acquire(SWEEP))
        taken.release()

    def acquires() -> bool:
        try:
            opens(url, create=False).acquire(SWEEP)
        except LeaseHeld:
            return False
        return True

    held = at_once(acquires, RACERS)
    return faults + unless(held == 1, f"of {RACERS} processes {held} hold the lease")


def a_lost_lease_refuses_every_write(opens: Opens, url: str) -> list[str]:
    """Whoever was stopped beyond its expiry, and wakes up after another has taken over, changes nothing."""
    store = opens(url)
    store.create_sweep(record())
    old = store.acquire(SWEEP, ttl_seconds=BRIEF_SECONDS)
    for number in range(2):
        store.launch(old, proposal(number), plan(), 100)
    store.lose(old, key(1), 1, 50, "gone")
    time.sleep(1.1 * BRIEF_SECONDS)
    with opened(opens, url) as other:
        new = other.acquire(SWEEP)
        before = all_of(other)
        writes: dict[str, Callable[[], object]] = {
            "launch": lambda: store.launch(old, proposal(2), plan(), 100),
            "relaunch": lambda: store.relaunch(old, key(1), 50, 100),
            "settle": lambda: store.settle(old, key(0), 1, came()),
            "lose": lambda: store.lose(old, key(0), 1, None, ""),
            "fail": lambda: store.fail(old, key(0), 1, None, ""),
            "charge_whole": lambda: store.charge_whole(old, key(1), 1),
            "abandon": lambda: store.abandon(old, key(1), ""),
            "record_infeasible": lambda: store.record_infeasible(old, [(proposal(3), refusal())]),
            "set_state": lambda: store.set_state(old, "finished"),
            "set_place": lambda: store.set_place(old, "/other", ""),
            "extend": lambda: store.extend(old, Extension(trials=80, launched=2, at=1.0)),
            "set_fingerprints": lambda: store.set_fingerprints(old, {}),
            "erase": lambda: store.erase(old),
            "delivered": lambda: store.delivered(old, [row.id for row in store.outbox(SWEEP)]),
            "renew": old.renew,
        }
        time.sleep(0.5 * BRIEF_SECONDS)
        faults = [fault for name, write in writes.items() for fault in refused(f"{name} late", LeaseLost, write)]
        old.release()
        faults += unless(all_of(other) == before, "a holder that was replaced has changed something")
        other.launch(new, proposal(2), plan(), 100)
    store.close()
    return faults
