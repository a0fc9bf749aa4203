"""What every store is asked about people: what they ask of a sweep, what they call it, and how they delete it."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from sweeps.store.errors import Conflict, SweepExists, UnknownSweep
from sweeps.store.records import KnownPoint, Note, StopRequest, SweepState, Tag
from tests.sweeps.store_exam.answers import BRIEF_SECONDS, RACERS, all_of, came, key, opened, refused, sweep_at, unless
from tests.sweeps.store_exam.candidate import Opens, at_once
from tests.sweeps.stores import SWEEP, plan, proposal, record


def requests_need_no_lease(opens: Opens, url: str) -> list[str]:
    """Anybody appends, also while another holds the lease; nothing else changes, and nobody loses anything."""
    wanted = (
        StopRequest(token=1),
        Note(text="Zu groß? 残り"),
        Tag(key="paper", value="v2"),
        KnownPoint(config=dict(proposal(4).config)),
    )
    with sweep_at(opens, url) as (store, lease), opened(opens, url) as other:
        before = all_of(store)[:-1]
        numbers = [other.ask(SWEEP, one, f"user{place}@host") for place, one in enumerate(wanted)]
        faults = unless(all_of(store)[:-1] == before, "a request has changed what it asks about")
        store.launch(lease, proposal(0), plan(), 100)
        found = store.requests(SWEEP)
        faults += unless(tuple(one.wanted for one in found) == wanted, f"requests are {found}")
        faults += unless([one.id for one in found] == numbers, "their numbers are not those that were given")
        faults += unless([one.asker for one in found] == [f"user{place}@host" for place in range(4)], "who asked is")
        faults += unless(all(abs(one.at - time.time()) < 60 for one in found), "when they were asked is another time")
        faults += refused("asking no sweep", UnknownSweep, lambda: other.ask("quickstart", wanted[1], ""))
        faults += refused("requests of no sweep", UnknownSweep, lambda: other.requests("quickstart"))
        store.create_sweep(record("next"))
        faults += unless(store.requests("next") == [], "a sweep has the requests of another")

    def asks() -> bool:
        return opens(url, create=False).ask(SWEEP, Note(text="at once"), "") not in numbers

    faults += unless(at_once(asks, RACERS) == RACERS, "of several that ask at once not all get a number of their own")
    with opened(opens, url) as store:
        kept = store.requests(SWEEP)
        faults += unless(len({one.id for one in kept}) == len(kept) == 4 + RACERS, f"{len(kept)} requests are kept")
    return faults


def who_drives_is_told(opens: Opens, url: str) -> list[str]:
    """The token of whoever holds the lease; nobody's once it was given up, has run out, or its process was killed."""
    with sweep_at(opens, url) as (store, lease), opened(opens, url) as other:
        seen = other.driver(SWEEP)
        faults = unless(seen is not None and seen.token == lease.token and seen.who, f"of a holder is told {seen}")
        lease.release()
        faults += unless(other.driver(SWEEP) is None, "who gave it up drives on")
        brief = store.acquire(SWEEP, ttl_seconds=BRIEF_SECONDS)
        seen = other.driver(SWEEP)
        faults += unless(seen is not None and seen.token == brief.token, f"of the next holder is told {seen}")
        time.sleep(1.5 * BRIEF_SECONDS)
        faults += unless(other.driver(SWEEP) is None, "who gives no sign of life drives on")
        faults += refused("a driver of no sweep", UnknownSweep, lambda: other.driver("quickstart"))
    return faults


# -- its name and its end ----------------------------------------------------------------------------------


def a_name_stays_one_sweeps_own(opens: Opens, url: str) -> list[str]:
    """A label finds its sweep, whose keys stay; every name that a sweep had is taken for all others."""
    with sweep_at(opens, url) as (store, lease), opened(opens, url) as other:
        store.create_sweep(record("second"))
        store.launch(lease, proposal(0), plan(), 100)
        for label in ("better", "best", SWEEP, "best"):
            other.rename(SWEEP, label)
        faults = unless(other.sweep("best").called == "best", "a sweep is not called as it was renamed")
        names = {store.sweep(name).name for name in (SWEEP, "better", "best")}
        faults += unless(names == {SWEEP}, f"its names lead to {names}")
        faults += unless([one.key for one in store.trials(SWEEP)] == [key(0)], "a key of a renamed sweep is another")
        for name in (SWEEP, "better", "best"):
            faults += refused(f"{name!r} again", SweepExists, lambda it=name: store.create_sweep(record(it)))
            faults += refused(f"{name!r} for another", SweepExists, lambda it=name: store.rename("second", it))
        faults += refused("a name of no sweep", UnknownSweep, lambda: store.rename("quickstart", "new"))
        faults += unless(store.sweep("second").called == "second", "a refused name is used")
        store.settle(lease, key(0), 1, came())

    def takes() -> bool:
        mine = opens(url, create=False)
        try:
            mine.create_sweep(record(f"of-{os.getpid()}"))
            mine.rename(f"of-{os.getpid()}", "wanted")
        except SweepExists:
            return False
        return True

    taken = at_once(takes, RACERS)
    return faults + unless(taken == 1, f"of {RACERS} sweeps {taken} are called by one name")


def a_deleted_sweep_keeps_what_it_spent(opens: Opens, url: str) -> list[str]:
    """Results go for good; plans, claims, charges and names stay."""
    with sweep_at(opens, url) as (store, lease):
        store.launch(lease, proposal(0), plan(), 30)
        store.settle(lease, key(0), 1, came(30, finished=False))
        store.relaunch(lease, key(0), 30, 100)
        store.settle(lease, key(0), 2, came())
        store.launch(lease, proposal(1), plan(), 100)
        faults = refused("an end of what runs", Conflict, lambda: store.erase(lease))
        store.lose(lease, key(1), 1, None, "deleted")
        before = store.sweep(SWEEP), store.ledger(SWEEP), store.trials(SWEEP)
        for _ in range(2):
            store.erase(lease)
    with opened(opens, url) as store:
        faults += unless(store.ledger(SWEEP) == before[1], "charges have changed")
        faults += unless(store.sweep(SWEEP) == replace(before[0], state=SweepState.DELETED), "the sweep has changed")
        for one, was in zip(store.trials(SWEEP), before[2], strict=True):
            kept = (one.key, one.plan, one.config, one.guarantee, one.step, one.attempts)
            stays = (was.key, was.plan, was.config, was.guarantee, was.step, was.attempts)
            faults += unless(kept == stays, f"of {one.key} is left {kept}")
            left = [one.metrics, *one.reports.values()]
            faults += unless(not any(left), f"of {one.key} results are left: {left}")
        faults += unless(store.outbox(SWEEP) == [], "views are to be told of what is gone")
        faults += refused("its name", SweepExists, lambda: store.create_sweep(record()))
    return faults
