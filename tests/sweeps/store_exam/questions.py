"""What every store is asked, duty by duty. Each question gets a place where no store is yet, and returns what is wrong
there, one sentence each; nothing is a pass."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np

from dpcore.checks import InvalidValue
from sweeps.store.errors import Conflict, StoreError, UnknownTrial
from sweeps.store.records import Extension, KnownPoint, Outcome, SweepState, TrialState
from sweeps.store.store import Store
from tests.sweeps.store_exam import questions_of_curves as curves
from tests.sweeps.store_exam import questions_of_people as people
from tests.sweeps.store_exam import questions_of_populations as populations
from tests.sweeps.store_exam import questions_of_writers as writers
from tests.sweeps.store_exam.answers import (
    BRIEF_SECONDS,
    Question,
    all_of,
    came,
    key,
    opened,
    refused,
    sweep_at,
    unless,
)
from tests.sweeps.store_exam.candidate import Opens, killed_after
from tests.sweeps.stores import SWEEP, guarantee, plan, proposal, record, refusal

SETTLED_WHILE_READ = 8

# -- what is durable when ----------------------------------------------------------------------------------


def reservations_are_durable_before_a_launch(opens: Opens, url: str) -> list[str]:
    """Killed at the moment at which a worker would be launched, a process leaves trial, attempt and reservation."""
    with sweep_at(opens, url):
        pass

    def launches() -> None:
        store = opens(url, create=False)
        lease = store.acquire(SWEEP, ttl_seconds=BRIEF_SECONDS)
        store.launch(lease, proposal(0), plan(), 60)
        store.launch(lease, proposal(1), plan(), 60)
        store.lose(lease, key(1), 1, 40, "gone")
        store.relaunch(lease, key(1), 30, 100)

    faults = killed_after(launches)
    with opened(opens, url) as store:
        found = store.trials(SWEEP)
        if [one.state for one in found] != [TrialState.RUNNING] * 2:
            return [*faults, f"of two reserved trials a killed process left {[one.state for one in found]}"]
        entries = [(one.key, one.attempt, one.from_step, one.to_step, one.executed_to) for one in store.ledger(SWEEP)]
        expected = [(key(0), 1, 0, 60, None), (key(1), 1, 0, 60, 40), (key(1), 2, 30, 100, None)]
        faults += unless(entries == expected, f"the ledger of a killed process is {entries}, expected {expected}")
        faults += unless(found[0].plan == plan(), "the plan is not the one that was reserved for")
        outcomes = [one.outcome for one in store.attempts(SWEEP)]
        faults += unless(outcomes == ["running", "lost", "running"], f"attempts of a killed process: {outcomes}")
    return faults


def settlements_are_durable_and_whole(opens: Opens, url: str) -> list[str]:
    """Result, charge, state and outbox row are there together, when their writer is killed right after it."""
    with sweep_at(opens, url) as (store, lease):
        for number in range(3):
            store.launch(lease, proposal(number), plan(), 100)

    def ends() -> None:
        store = opens(url, create=False)
        lease = store.acquire(SWEEP, ttl_seconds=BRIEF_SECONDS)
        store.settle(lease, key(0), 1, came())
        store.settle(lease, key(1), 1, came(announced=False))
        store.fail(lease, key(2), 1, 70, "loss=nan")

    faults = killed_after(ends)
    with opened(opens, url) as store:
        done, silent, failed = store.trials(SWEEP)
        for one in (done, silent):
            whole = (one.state, one.metrics, one.guarantee, one.step, one.reports)
            faults += unless(
                whole == (TrialState.COMPLETE, came().metrics, guarantee(), 100, {100: came().metrics}),
                f"a settled trial is {whole}",
            )
        faults += unless((failed.state, failed.reason) == (TrialState.FAILED, "loss=nan"), "a failed trial is not")
        charged = [one.executed_to for one in store.ledger(SWEEP)]
        faults += unless(charged == [100, 100, 70], f"settled to {charged}, expected [100, 100, 70]")
        told = [(row.key, row.kind) for row in store.outbox(SWEEP)]
        expected = [(key(0), "settled"), (key(2), "failed")]
        faults += unless(told == expected, f"the outbox is {told}, expected {expected}")
    return faults


def reopening_gives_equal_records(opens: Opens, url: str) -> list[str]:
    """What was written comes back equal, in the same order, by another handle and after closing."""
    numbers = {"accuracy": 0.1 + 0.2, "loss": float("inf"), "tiny": 5e-324, "n": 3}
    with sweep_at(opens, url) as (store, lease):
        store.launch(lease, proposal(0), plan(), 10)
        store.settle(lease, key(0), 1, came(10, metrics=numbers, finished=False))
        store.relaunch(lease, key(0), 10, 30)
        store.settle(lease, key(0), 2, came(30, metrics={"accuracy": 0.3}))
        store.launch(lease, replace(proposal(1), request=7), plan(), 100)
        store.settle(lease, key(1), 1, came(metrics={"accuracy": np.float32(0.5), "n": np.int64(3)}))
        store.launch(lease, proposal(2), plan(), 100)
        store.fail(lease, key(2), 1, None, "Zu wenig Speicher: 残り 0 B")
        store.record_infeasible(lease, [(proposal(3), refusal())])
        store.ask(SWEEP, KnownPoint(config=dict(proposal(0).config)), "me@here")
        store.rename(SWEEP, "better")
        store.set_place(lease, "/elsewhere", "s3://bucket/folder")
        store.set_fingerprints(lease, {"code": "c1", "data": "d1"})
        store.set_state(lease, "finished")
        before, keyed = all_of(store), store.data_fingerprint("digest")
        with opened(opens, url) as other:
            faults = unless(all_of(other) == before, "another handle reads other records")
    with opened(opens, url) as store:
        faults += unless(all_of(store) == before, "closed and opened again, it has other records")
        first, second, *_, infeasible = store.trials(SWEEP)
        faults += unless(list(first.config) == list(proposal(0).config), "the order of a trial's knobs is another")
        faults += unless((first.seed, first.plan) == (proposal(0).seed, plan()), "seed or plan is another")
        faults += unless(first.reports == {10: numbers, 30: {"accuracy": 0.3}}, f"reports are {first.reports}")
        faults += unless(second.metrics == {"accuracy": 0.5, "n": 3}, f"NumPy's numbers are {second.metrics}")
        faults += unless((first.request, second.request) == (None, 7), "who asked for a trial is another")
        faults += unless(infeasible.violations == refusal().violations, "what was violated is another")
        sweep = replace(record(), state=SweepState.FINISHED, root="/elsewhere", records="s3://bucket/folder")
        sweep = replace(sweep, fingerprints={"code": "c1", "data": "d1"}, label="better")
        faults += unless(store.sweep(SWEEP) == sweep, f"the sweep is {store.sweep(SWEEP)}")
        order = list(store.sweep(SWEEP).spec.systems["noisy-sgd"])
        faults += unless(order == ["z", "a"], "the order of a spec's knobs is another")
        faults += unless(store.data_fingerprint("digest") == keyed != "digest", "the key of the data is another")
    return faults


# -- what never changes ------------------------------------------------------------------------------------


def charges_never_fall(opens: Opens, url: str) -> list[str]:
    """A closed attempt stays as it was closed, and no later attempt begins beyond what was executed."""
    with sweep_at(opens, url) as (store, lease):
        store.launch(lease, proposal(0), plan(), 100)
        store.lose(lease, key(0), 1, 60, "gone")
        before = all_of(store)
        store.lose(lease, key(0), 1, 60, "gone")
        faults = unless(all_of(store) == before, "the same loss again changes something")
        for executed_to in (0, 59, 61, None):
            what = f"a loss at {executed_to} after one at 60"
            faults += refused(what, Conflict, lambda to=executed_to: store.lose(lease, key(0), 1, to, "gone"))
        faults += refused("a failure after a loss", Conflict, lambda: store.fail(lease, key(0), 1, 60, "gone"))
        faults += refused("a result after a loss", Conflict, lambda: store.settle(lease, key(0), 1, came()))
        faults += refused("a gap of steps", InvalidValue, lambda: store.relaunch(lease, key(0), 61, 100))
        faults += unless(all_of(store) == before, "what was refused has changed something")
        store.relaunch(lease, key(0), 60, 100)
        store.settle(lease, key(0), 2, came())
        settled = all_of(store)
        store.settle(lease, key(0), 2, came(seconds=9.0, metrics={"epsilon": 1.0, "accuracy": 0.5}))
        faults += unless(all_of(store) == settled, "the same result again changes something")
        for change in ({"metrics": {"accuracy": 0.6}}, {"finished": False}, {"step": 99}):
            what = f"another result ({change})"
            faults += refused(what, Conflict, lambda it=change: store.settle(lease, key(0), 2, came(**it)))
        faults += unless(all_of(store) == settled, "another result has changed something")
    return faults


def what_is_unknown_or_contradicts_is_charged_whole(opens: Opens, url: str) -> list[str]:
    """An open reservation counts whole; so does one without a horizon, and one whose worker turned out to go on."""
    with sweep_at(opens, url) as (store, lease):
        for number in range(4):
            store.launch(lease, proposal(number), plan(), 80)
        faults = unless([one.steps_spent for one in store.ledger(SWEEP)] == [80] * 4, "open reservations do not count")
        for outside in (-1, 81):
            what = f"a horizon at {outside} of a reservation [0, 80]"
            faults += refused(what, InvalidValue, lambda to=outside: store.lose(lease, key(0), 1, to, ""))
            faults += refused(what, InvalidValue, lambda to=outside: store.fail(lease, key(0), 1, to, ""))
        faults += refused("a result beyond it", InvalidValue, lambda: store.settle(lease, key(0), 1, came(81)))
        faults += unless(store.ledger(SWEEP)[0].executed_to is None, "a horizon that was refused has settled it")
        store.lose(lease, key(0), 1, None, "no horizon")
        store.fail(lease, key(1), 1, None, "no horizon")
        store.lose(lease, key(2), 1, 20, "gone")
        store.charge_whole(lease, key(2), 1)
        store.charge_whole(lease, key(2), 1)
        store.lose(lease, key(2), 1, 20, "gone")
        store.charge_whole(lease, key(3), 1)
        charged = [one.executed_to for one in store.ledger(SWEEP)]
        faults += unless(charged == [80, 80, 80, None], f"charged to {charged}, expected [80, 80, 80, None]")
    return faults


def trials_have_one_running_attempt(opens: Opens, url: str) -> list[str]:
    """Nothing is launched twice, goes on after its end, or runs what nobody planned."""
    with sweep_at(opens, url) as (store, lease):
        store.launch(lease, proposal(0), plan(), 100)
        store.record_infeasible(lease, [(proposal(1), refusal())])
        store.launch(lease, proposal(2), plan(), 100)
        store.fail(lease, key(2), 1, 100, "loss=nan")
        before = all_of(store)
        store.record_infeasible(lease, [(proposal(1), refusal())])
        store.abandon(lease, key(2), "loss=nan")
        other = replace(proposal(1), config={"system": "other"})
        faults = refused("a number again", Conflict, lambda: store.launch(lease, proposal(0), plan(), 100))
        faults += refused("an attempt beside another", Conflict, lambda: store.relaunch(lease, key(0), 0, 100))
        faults += refused("an end of a running trial", Conflict, lambda: store.abandon(lease, key(0), "gone"))
        faults += refused("a launch of a refused trial", Conflict, lambda: store.relaunch(lease, key(1), 0, 10))
        faults += refused("another refusal", Conflict, lambda: store.record_infeasible(lease, [(other, refusal())]))
        faults += refused("a launch of a failed trial", Conflict, lambda: store.relaunch(lease, key(2), 0, 100))
        faults += refused("steps beyond the plan", InvalidValue, lambda: store.launch(lease, proposal(3), plan(), 101))
        faults += refused("an unknown trial", UnknownTrial, lambda: store.settle(lease, key(7), 1, came()))
        faults += refused("an unknown attempt", UnknownTrial, lambda: store.lose(lease, key(0), 2, None, ""))
        faults += refused("another sweep's trial", UnknownTrial, lambda: store.relaunch(lease, "other-1", 0, 1))
        faults += refused("reading an unknown trial", UnknownTrial, lambda: store.trials_of(SWEEP, [key(7)]))
        faults += unless(all_of(store) == before, "what was refused, or the same again, has changed something")
        store.lose(lease, key(0), 1, 100, "gone")
        faults += refused("no steps", InvalidValue, lambda: store.relaunch(lease, key(0), 100, 100))
        store.abandon(lease, key(0), "its checkpoint is gone")
        (ended,) = store.trials_of(SWEEP, [key(0)])
        what = "a trial that cannot go on is not failed as it was said"
        faults += unless((ended.state, ended.reason) == (TrialState.FAILED, "its checkpoint is gone"), what)
    return faults


def extensions_are_appended(opens: Opens, url: str) -> list[str]:
    """What a sweep is extended by is durable, stays in order beside the spec that it began with, and is no other's."""
    more = Extension(trials=80, epsilon=(0.1 + 0.2, 4.0), proposed=45, launched=40, at=1.5)
    longer = Extension(hours=0.1 + 0.2, launched=60, at=2.5)
    with sweep_at(opens, url) as (store, _):
        store.create_sweep(record("other"))

    def extends() -> None:
        store = opens(url, create=False)
        lease = store.acquire(SWEEP, ttl_seconds=BRIEF_SECONDS)
        for one in (more, more, longer, replace(more, at=3.5)):
            store.extend(lease, one)

    faults = killed_after(extends)
    with opened(opens, url) as store:
        kept, other = store.sweeps()
        expected = (more, longer, replace(more, at=3.5))
        faults += unless(kept.extensions == expected, f"extensions are {kept.extensions}, expected {expected}")
        faults += unless(replace(kept, extensions=()) == record(), "an extension has changed what the sweep began with")
        faults += unless(other.extensions == (), "another sweep is extended too")
        faults += unless(store.sweep(SWEEP) == kept, "one sweep by itself is another than among all")
    return faults


# -- what a reader may see ---------------------------------------------------------------------------------


def readers_see_no_half_settlement(opens: Opens, url: str) -> list[str]:
    """A result is visible with its charge and its outbox row, and none of them without the others."""
    with sweep_at(opens, url) as (store, lease), opened(opens, url) as reader:
        for number in range(SETTLED_WHILE_READ):
            store.launch(lease, proposal(number), plan(), 100)

        def settles() -> None:
            for number in range(SETTLED_WHILE_READ):
                store.settle(lease, key(number), 1, came())

        writer = threading.Thread(target=settles)
        writer.start()
        faults: set[str] = set()
        while writer.is_alive():
            told, charged = _told(reader), _charged(reader)
            found = reader.trials(SWEEP)
            done = {one.key for one in found if one.state is TrialState.COMPLETE}
            whole = {one.key for one in found if one.metrics and one.step and one.guarantee}
            pairs = {
                "a change is told of a trial that is not complete": told <= done,
                "a trial is charged as settled and not complete": charged <= done,
                "a complete trial has no result": done == whole,
                "a complete trial is not charged": done <= _charged(reader),
                "nobody is told of a complete trial": done <= _told(reader),
            }
            faults |= {fault for fault, holds in pairs.items() if not holds}
        writer.join()
        faults |= set(unless(len(_told(reader)) == SETTLED_WHILE_READ, "not all results were told"))
    return sorted(faults)


def _told(store: Store) -> set[str | None]:
    return {row.key for row in store.outbox(SWEEP) if row.kind == "settled"}


def _charged(store: Store) -> set[str]:
    return {entry.key for entry in store.ledger(SWEEP) if entry.executed_to is not None}


def readings_have_one_order(opens: Opens, url: str) -> list[str]:
    """Trials by number, ledger and attempts by trial and attempt, changes as they happened; each as a part of all."""
    with sweep_at(opens, url) as (store, lease):
        for number in (12, 3, 7, 100):
            store.launch(lease, proposal(number), plan(), 50)
        store.record_infeasible(lease, [(proposal(number), refusal()) for number in (9, 1)])
        for number in (7, 3):
            store.lose(lease, key(number), 1, 50, "gone")
            store.relaunch(lease, key(number), 50, 100)
        store.settle(lease, key(100), 1, came(50))
        store.settle(lease, key(3), 2, came())
        numbers = [one.number for one in store.trials(SWEEP)]
        faults = unless(numbers == [1, 3, 7, 9, 12, 100], f"trials in the order {numbers}")
        places = [(key(3), 1), (key(3), 2), (key(7), 1), (key(7), 2), (key(12), 1), (key(100), 1)]
        for name, rows in (("ledger", store.ledger(SWEEP)), ("attempts", store.attempts(SWEEP))):
            found = [(row.key, row.attempt) for row in rows]
            faults += unless(found == places, f"{name} in the order {found}")
        own = ([one for one in store.ledger(SWEEP) if one.key == key(3)], store.ledger_of(key(3)))
        faults += unless(own[0] == own[1], "the ledger of one trial is another")
        faults += unless(store.attempts_of(key(3)) == store.attempts(SWEEP)[:2], "the attempts of one trial are others")
        asked = store.trials_of(SWEEP, [key(100), key(3)])
        faults += unless([one.number for one in asked] == [3, 100], "some trials come in another order")
        refused_ones = [one.number for one in store.trials(SWEEP, states=[TrialState.INFEASIBLE])]
        faults += unless(refused_ones == [1, 9], f"infeasible trials are {refused_ones}")
        counts = {"planned": 0, "running": 2, "complete": 2, "failed": 0, "infeasible": 2}
        faults += unless(store.counts(SWEEP) == counts, f"counts are {store.counts(SWEEP)}")
        kinds = [(row.key, row.kind) for row in store.outbox(SWEEP)][2:]
        expected = [(key(7), "lost"), (key(3), "lost"), (key(100), "settled"), (key(3), "settled")]
        faults += unless(kinds == expected, f"changes in the order {kinds}")
        lost = [one for one in store.attempts(SWEEP) if one.outcome is Outcome.LOST]
        faults += unless([one.reason for one in lost] == ["gone"] * 2, "why an attempt was lost is not kept")
    return faults


def changes_wait_until_they_are_delivered(opens: Opens, url: str) -> list[str]:
    """The outbox is emptied by whoever delivers, which needs no lease; nothing else takes a row away."""
    with sweep_at(opens, url) as (store, lease), opened(opens, url) as drain:
        for number in range(4):
            store.launch(lease, proposal(number), plan(), 100)
            store.settle(lease, key(number), 1, came())
        store.set_state(lease, "finished")
        store.set_state(lease, SweepState.FINISHED)
        first = drain.outbox(SWEEP, limit=2)
        faults = unless([row.key for row in first] == [key(0), key(1)], "the oldest are not the first")
        for _ in range(2):
            drain.delivered(None, [row.id for row in first])
        rest = drain.outbox(SWEEP)
        faults += unless([row.key for row in rest] == [key(2), key(3), None], f"what is left is {rest}")
        faults += unless(drain.backlog(SWEEP) == 3, f"their number is {drain.backlog(SWEEP)}")
        store.delivered(lease, [row.id for row in rest])
        faults += unless(drain.backlog(SWEEP) == 0, "what was delivered is not forgotten")
        store.set_state(lease, "stopped")
        (last,) = drain.outbox(SWEEP)
        faults += unless((last.kind, last.key) == ("state", None), "a change of the sweep is not told")
        faults += unless(last.id not in {row.id for row in (*first, *rest)}, "the number of a row is used again")
    return faults


def solved_values_are_kept(opens: Opens, url: str) -> list[str]:
    """Calibrations are seen here at once, and elsewhere once their store was closed."""
    with sweep_at(opens, url) as (store, _):
        solved = store.calibrations()
        faults = refused("a value that nobody solved", KeyError, lambda: solved["a"])
        solved["a"] = 1.25
        solved["a"] = 1.5
        solved["unreachable"] = float("inf")
        faults += unless(solved["a"] == 1.5, "a solved value is not the last one")
        faults += refused("not a number", InvalidValue, lambda: solved.__setitem__("b", float("nan")))
    with opened(opens, url) as store:
        found = dict(store.calibrations())
        faults += unless(found == {"a": 1.5, "unreachable": float("inf")}, f"closed and opened again: {found}")
    return faults


def an_absent_store_is_named(opens: Opens, url: str) -> list[str]:
    """Who only looks makes no store."""
    faults = refused("looking where none is", StoreError, lambda: opens(url, create=False))
    faults += refused("looking there again", StoreError, lambda: opens(url, create=False))
    opens(url).close()
    with opened(opens, url) as store:
        return faults + unless(store.sweeps() == [], "a new store is not empty")


QUESTIONS: dict[str, Question] = {
    ask.__name__: ask
    for ask in (
        reservations_are_durable_before_a_launch,
        settlements_are_durable_and_whole,
        reopening_gives_equal_records,
        curves.curves_are_kept_once,
        charges_never_fall,
        what_is_unknown_or_contradicts_is_charged_whole,
        trials_have_one_running_attempt,
        extensions_are_appended,
        writers.names_are_unique,
        writers.one_process_writes,
        people.requests_need_no_lease,
        people.who_drives_is_told,
        people.a_name_stays_one_sweeps_own,
        people.a_deleted_sweep_keeps_what_it_spent,
        populations.ledgers_are_made_once,
        populations.launches_are_charged_in_their_transaction,
        populations.populations_are_never_overspent,
        populations.blocks_pay_for_a_whole_sweep,
        writers.a_lost_lease_refuses_every_write,
        readers_see_no_half_settlement,
        readings_have_one_order,
        changes_wait_until_they_are_delivered,
        solved_values_are_kept,
        an_absent_store_is_named,
    )
}
