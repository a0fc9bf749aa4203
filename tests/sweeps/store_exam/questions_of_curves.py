"""What every store is asked about curves: what attempts tell before their ends."""

from __future__ import annotations

import time

from dpcore.checks import InvalidValue
from sweeps.store.errors import Conflict, LeaseLost, UnknownTrial
from sweeps.store.records import CurveReport
from tests.sweeps.store_exam.answers import BRIEF_SECONDS, all_of, came, key, opened, refused, sweep_at, unless
from tests.sweeps.store_exam.candidate import Opens, killed_after
from tests.sweeps.stores import SWEEP, plan, proposal

TOLD = {10: {"accuracy": 0.1 + 0.2, "loss": 3.0}, 20: {"accuracy": 0.4, "loss": 2.0}}


def curves_are_kept_once(opens: Opens, url: str) -> list[str]:
    """What is told is durable with the trial's claim, there once however often it is told, and never another."""
    with sweep_at(opens, url) as (store, lease):
        store.launch(lease, proposal(0), plan(), 60)
        store.launch(lease, proposal(1), plan(), 100)

    def tells() -> None:
        store = opens(url, create=False)
        store.add_to_curve(store.acquire(SWEEP, ttl_seconds=BRIEF_SECONDS), key(0), 1, TOLD)

    faults = killed_after(tells)
    with opened(opens, url) as store:
        time.sleep(BRIEF_SECONDS)
        lease = store.acquire(SWEEP, ttl_seconds=60)
        points = [(one.key, one.step, one.attempt, dict(one.metrics)) for one in store.curves(SWEEP)]
        expected = [(key(0), step, 1, metrics) for step, metrics in TOLD.items()]
        faults += unless(points == expected, f"a killed process left {points}")
        (trial,) = store.trials_of(SWEEP, [key(0)])
        what = (trial.guarantee, dict(trial.metrics), dict(trial.reports))
        faults += unless(what == (plan().guarantee, {}, {}), f"of the trial is left {what}")
        faults += unless([(row.key, row.kind) for row in store.outbox(SWEEP)] == [(key(0), "told")], "nobody is told")
        before = everything(store)
        store.add_to_curve(lease, key(0), 1, TOLD)
        store.add_to_curve(lease, key(0), 1, {})
        for step in (0, 60, 61):
            what = f"a point after {step} steps of a reservation [0, 60]"
            faults += refused(what, InvalidValue, lambda at=step: store.add_to_curve(lease, key(0), 1, {at: {}}))
        other = {20: {"accuracy": 0.5, "loss": 2.0}}
        faults += refused("another point", Conflict, lambda: store.add_to_curve(lease, key(0), 1, other))
        faults += refused("an attempt that is none", UnknownTrial, lambda: store.add_to_curve(lease, key(0), 2, TOLD))
        faults += unless(everything(store) == before, "the same again, or what was refused, has changed something")
        store.lose(lease, key(0), 1, 40, "gone")
        store.add_to_curve(lease, key(0), 1, {30: {"accuracy": 0.5}}, announced=False)
        store.relaunch(lease, key(0), 30, 60)
        store.settle(lease, key(0), 2, came(60, curve={40: {"accuracy": 0.6}}, finished=False))
        store.relaunch(lease, key(0), 60, 100)
        store.settle(lease, key(0), 3, came(curve={80: {"accuracy": 0.7}}))
        store.settle(lease, key(1), 1, came())
        kinds = [row.kind for row in store.outbox(SWEEP) if row.key == key(0)]
        faults += unless(kinds == ["told", "lost", "settled", "settled"], f"the outbox is {kinds}")
        places = [(one.step, one.attempt) for one in store.curves(SWEEP, [key(0)])]
        expected_places = [(10, 1), (20, 1), (30, 1), (40, 2), (60, 2), (80, 3), (100, 3)]
        faults += unless(places == expected_places, f"its curve is {places}")
        last: CurveReport = store.curves(SWEEP)[-1]
        faults += unless((last.key, last.step) == (key(1), 100), "curves are not in the order of trials")
        faults += unless(dict(last.metrics) == came().metrics and last.at > 0, f"the end of a curve is {last}")
        lease.release()
        faults += refused("a curve without a lease", LeaseLost, lambda: store.add_to_curve(lease, key(0), 3, {90: {}}))
        again = store.acquire(SWEEP, ttl_seconds=60)
        store.erase(again)
        left = [one for one in store.curves(SWEEP) if one.metrics]
        return faults + unless(left == [], f"of a deleted sweep is left {left}")


def everything(store: object) -> list[object]:
    return [*all_of(store), store.curves(SWEEP)]  # type: ignore[arg-type, attr-defined]
