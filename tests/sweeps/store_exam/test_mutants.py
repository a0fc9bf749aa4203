"""Each question finds the store that it is there for; and a store of another package sits the exam, and is opened."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.process.workspace import Workspace
from sweeps.records import Driver, TrialState
from sweeps.store import StoreError, UnknownSweep, open_store, registry
from tests.sweeps.store_exam import QUESTIONS, sit
from tests.sweeps.store_exam.candidate import asked
from tests.sweeps.store_exam.file_store import BACKEND, CANDIDATE, FileLease, FileStore
from tests.sweeps.stores import SWEEP, record
from trainables import plugins


def test_an_outside_store_sits_it_by_a_call():
    assert sit(CANDIDATE) == {}


def test_an_outside_store_sits_it_by_pytest():
    place = f"{FileStore.__module__}:CANDIDATE"
    environment = {**os.environ, "SWEEPS_EXAM_STORE": place}
    command = ["-m", "pytest", "-q", "-n", "0", "--pyargs", "tests.sweeps.store_exam.test_exam", "-k", "file and order"]
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, *command], env=environment, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


class Offered:
    """An entry point."""

    name, value = "file", f"{FileStore.__module__}:BACKEND"

    def __init__(self, found=BACKEND):
        self.found = found

    def load(self):
        return self.found


def test_the_store_of_an_installed_package_is_opened_by_its_scheme(monkeypatch, tmp_path):
    url = f"file:{tmp_path}/sweeps"
    with pytest.raises(StoreError, match=r"expected sqlite:///FILE or postgresql://USER@HOST/DATABASE\. Check --store"):
        open_store(url)
    monkeypatch.setattr(plugins, "offered", lambda group: {"file": Offered()} if group == registry.ENTRY_POINTS else {})
    with pytest.raises(StoreError, match=r"expected sqlite:///FILE, postgresql:.* or file:\.\.\."):
        open_store("mongo:place")
    Workspace.at(tmp_path, store=url).open_store(create=True).create_sweep(record())
    assert [one.name for one in open_store(url, create=False).sweeps()] == [SWEEP]
    monkeypatch.setenv(plugins.VARIABLE, "deny")
    with pytest.raises(ValueError, match="SWEEPS_PLUGINS=deny lets run"):
        open_store(url)


def test_what_is_no_backend_is_refused(monkeypatch, tmp_path):
    wrong = replace(BACKEND, scheme="other")
    monkeypatch.setattr(plugins, "offered", lambda group: {"file": Offered(wrong)})
    with pytest.raises(ValueError, match=r"a sweeps\.store\.registry\.Backend of that scheme at"):
        open_store(f"file:{tmp_path}/sweeps")


# -- broken stores -----------------------------------------------------------------------------------------


class Lazy(FileStore):
    """It keeps reservations in memory until something has come of them."""

    unwritten = None

    def held(self):
        return self.unwritten or super().held()

    def keep(self, contents):
        self.unwritten = contents
        if all(entry.executed_to is not None for entry in contents.entries.values()):
            super().keep(contents)
            self.unwritten = None


class Deaf(FileStore):
    """What it settles is told to nobody."""

    def settle(self, lease, key, attempt, came):
        super().settle(lease, key, attempt, replace(came, announced=False))


class Rounding(FileStore):
    """It keeps six digits."""

    def settle(self, lease, key, attempt, came):
        metrics = {name: float(f"{value:.6g}") for name, value in came.metrics.items()}
        super().settle(lease, key, attempt, replace(came, metrics=metrics))


class LastWordWins(FileStore):
    """It settles again what is settled."""

    def end(self, held, place, *rest):
        held.ended.pop(place, None)
        return super().end(held, place, *rest)


class Generous(FileStore):
    """Without a horizon it charges nothing."""

    def lose(self, lease, key, attempt, executed_to, reason):
        super().lose(
            lease, key, attempt, self.ledger_of(key)[-1].from_step if executed_to is None else executed_to, reason
        )


class Forgiving(FileStore):
    """What turned out to have gone on is not charged."""

    def charge_whole(self, lease, key, attempt):
        self.set_state(lease, "running")


class Twice(FileStore):
    """It launches what runs."""

    def relaunch(self, lease, key, from_step, to_step):
        with self.writing(lease) as held:
            if key in held.trials and held.trials[key].state is TrialState.RUNNING:
                held.trials[key] = replace(held.trials[key], state=TrialState.PLANNED)
        return super().relaunch(lease, key, from_step, to_step)


class LatestAlone(FileStore):
    """It remembers the last extension."""

    def extend(self, lease, extension):
        with self.writing(lease) as held:
            held.sweeps[lease.sweep] = replace(held.sweeps[lease.sweep], extensions=(extension,))


class Unlocked(FileStore):
    """It looks, and then writes, without a lock."""

    @contextmanager
    def writing(self, lease=None):
        contents = self.held()
        if lease is not None:
            self.check(contents, lease)
        yield contents
        time.sleep(1.0)
        self.keep(contents)


class Replacing(FileStore):
    """The second of a name takes the place of the first."""

    def create_sweep(self, record):
        with self.writing() as held:
            held.sweeps[record.name], held.leases[record.name] = record, (0, None, 0.0)


class Fenceless(FileStore):
    """It trusts whoever once had the lease."""

    def check(self, contents, lease):
        pass


class Impatient(FileStore):
    """It takes the lease from a living holder."""

    def acquire(self, sweep, ttl_seconds=30.0):
        with self.writing() as held:
            if sweep not in held.sweeps:
                raise UnknownSweep(sweep, held.sweeps)
            token = held.leases[sweep][0]
            held.leases[sweep] = (token, None, 0.0)
        return super().acquire(sweep, ttl_seconds)


class ReleasesOthers(FileStore):
    """A lease that is over gives up another's."""

    def acquire(self, sweep, ttl_seconds=30.0):
        given = super().acquire(sweep, ttl_seconds)
        return Releasing(given.store, given.sweep, given.token, given.ttl_seconds)


class Releasing(FileLease):
    def release(self):
        with self.store.writing() as held:
            held.leases[self.sweep] = (self.token, None, 0.0)


class Formal(FileStore):
    """Who asks has to hold the lease."""

    def ask(self, sweep, wanted, asker):
        lease = self.acquire(sweep)
        try:
            return super().ask(sweep, wanted, asker)
        finally:
            lease.release()


class LastOne(FileStore):
    """A request takes the place of the one before."""

    def requests(self, sweep):
        return super().requests(sweep)[-1:]


class Undead(FileStore):
    """Whoever once drove, drives."""

    def driver(self, sweep):
        return super().driver(sweep) or Driver(token=self.held().leases[sweep][0], who="somebody")


class Recycling(FileStore):
    """A name that is not used any more is free."""

    def rename(self, sweep, label):
        with self.writing() as held:
            before = held.sweeps.get(sweep)
            if before is not None and before.called != sweep:
                held.names.pop(before.called)
        super().rename(sweep, label)


class Thorough(FileStore):
    """With a sweep goes what it spent."""

    def erase(self, lease):
        super().erase(lease)
        with self.writing(lease) as held:
            held.entries = {place: one for place, one in held.entries.items() if place[1] > 1}


class Sparing(FileStore):
    """A deleted sweep is only called so."""

    def erase(self, lease):
        self.set_state(lease, "deleted")


class Negotiable(FileStore):
    """The terms of a ledger are those that were given last."""

    def make_population(self, population):
        with self.writing() as held:
            held.populations[population.name] = population
            held.charged.setdefault(population.name, [])


class PaysLater(FileStore):
    """A launch is charged once it runs."""

    def launch(self, lease, proposal, plan, to_step, charge=None):
        reserved = super().launch(lease, proposal, plan, to_step, charge)
        with self.writing(lease) as held:
            held.charged = {name: rows[:-1] for name, rows in held.charged.items()}
        return reserved


class PerSweep(FileStore):
    """Every sweep has the whole budget."""

    @contextmanager
    def writing(self, lease=None):
        with super().writing(lease) as held:
            kept = {name: list(rows) for name, rows in held.charged.items()}
            if lease is not None:
                mine = {name: [one for one in rows if one.sweep == lease.sweep] for name, rows in kept.items()}
                held.charged = {name: list(rows) for name, rows in mine.items()}
            yield held
            if lease is not None:
                others = {name: [one for one in rows if one.sweep != lease.sweep] for name, rows in kept.items()}
                held.charged = {name: others.get(name, []) + rows for name, rows in held.charged.items()}


class HandsBackSquares(FileStore):
    """A block of any rule is settled, and its attempts are charged besides."""

    def settle_block(self, lease, population, epsilon):
        with self.writing(lease) as held:
            block = held.block(population, lease.sweep)
            rows = held.charged[population]
            rows[rows.index(block)] = replace(block, settled=epsilon)


class InTwoSteps(FileStore):
    """The result is there before its charge."""

    def settle(self, lease, key, attempt, came):
        with self.writing(lease) as held:
            result = {"metrics": came.metrics, "guarantee": came.guarantee, "step": came.step}
            held.trials[key] = replace(held.trials[key], state=TrialState.COMPLETE, **result)
        time.sleep(0.2)
        super().settle(lease, key, attempt, came)


class AsTheyCame(FileStore):
    """Trials in the order of their launches."""

    def trials(self, sweep, states=None):
        held = self.held()
        return [one for one in held.trials.values() if states is None or one.state in states]


class ByText(FileStore):
    """The ledger in the order of the letters of its keys."""

    def ledger(self, sweep):
        return sorted(super().ledger(sweep), key=lambda row: (row.key, row.attempt))


class Forgetful(FileStore):
    """A delivery takes all changes."""

    def delivered(self, lease, ids):
        super().delivered(lease, [row.id for row in self.held().outbox])


class Retelling(FileStore):
    """The last word about a point counts."""

    def add_to_curve(self, lease, key, attempt, curve, announced=True):
        with self.writing(lease) as held:
            held.told = {place: one for place, one in held.told.items() if place[0] != key or place[1] not in curve}
        super().add_to_curve(lease, key, attempt, curve, announced)


class Short(FileStore):
    """It solves everything again."""

    def close(self):
        pass


class Eager(FileStore):
    """It makes a store wherever somebody looks."""

    def __init__(self, url, create=True, **options):
        super().__init__(url, create=True, **options)


@pytest.mark.parametrize(
    ("question", "mutant"),
    [
        ("reservations_are_durable_before_a_launch", Lazy),
        ("settlements_are_durable_and_whole", Deaf),
        ("reopening_gives_equal_records", Rounding),
        ("curves_are_kept_once", Retelling),
        ("charges_never_fall", LastWordWins),
        ("what_is_unknown_or_contradicts_is_charged_whole", Generous),
        ("what_is_unknown_or_contradicts_is_charged_whole", Forgiving),
        ("trials_have_one_running_attempt", Twice),
        ("extensions_are_appended", LatestAlone),
        ("names_are_unique", Unlocked),
        ("names_are_unique", Replacing),
        ("one_process_writes", Unlocked),
        ("one_process_writes", Impatient),
        ("one_process_writes", ReleasesOthers),
        ("a_lost_lease_refuses_every_write", Fenceless),
        ("requests_need_no_lease", Formal),
        ("requests_need_no_lease", LastOne),
        ("who_drives_is_told", Undead),
        ("a_name_stays_one_sweeps_own", Recycling),
        ("a_deleted_sweep_keeps_what_it_spent", Thorough),
        ("a_deleted_sweep_keeps_what_it_spent", Sparing),
        ("ledgers_are_made_once", Negotiable),
        ("launches_are_charged_in_their_transaction", PaysLater),
        ("populations_are_never_overspent", PerSweep),
        ("blocks_pay_for_a_whole_sweep", HandsBackSquares),
        ("readers_see_no_half_settlement", InTwoSteps),
        ("readings_have_one_order", AsTheyCame),
        ("readings_have_one_order", ByText),
        ("changes_wait_until_they_are_delivered", Forgetful),
        ("solved_values_are_kept", Short),
        ("an_absent_store_is_named", Eager),
    ],
)
def test_a_mutant_fails_its_question(question, mutant):
    with CANDIDATE.places() as place:
        assert asked(question, mutant, place()) != []


def test_every_question_has_a_mutant():
    (marker,) = test_a_mutant_fails_its_question.pytestmark
    assert {question for question, _ in marker.args[1]} == set(QUESTIONS)
