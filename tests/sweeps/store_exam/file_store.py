"""A store of another package: everything in one file that is replaced whole. Slow, small, and it does all duties."""

from __future__ import annotations

import fcntl
import os
import pickle
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dpcore.checks import InvalidValue
from sweeps.population.arithmetic import AddingRule, Charge, Row, RowKind
from sweeps.records import (
    AttemptRecord,
    CurveReport,
    Driver,
    LedgerEntry,
    Outcome,
    Reservation,
    SweepState,
    TrialRecord,
    TrialState,
    sweep_of,
    trial_key,
)
from sweeps.requests import Request
from sweeps.store import (
    Conflict,
    LeaseHeld,
    LeaseLost,
    PopulationExists,
    StoreError,
    SweepExists,
    UnknownPopulation,
    UnknownTrial,
)
from sweeps.store.contract import LEASE_SECONDS
from sweeps.store.registry import Backend
from sweeps.util.fingerprint import keyed
from tests.sweeps.store_exam.candidate import Candidate, folders
from tests.sweeps.store_exam.file_contents import Contents


class Solved(dict[str, float]):
    """Calibrations of one process, kept when its store is closed."""

    def __setitem__(self, key: str, value: float) -> None:
        if value != value:
            raise InvalidValue(key, value, "a number")
        super().__setitem__(key, value)


@dataclass(frozen=True)
class FileLease:
    store: FileStore
    sweep: str
    token: int
    ttl_seconds: float

    def renew(self) -> None:
        with self.store.writing(self) as held:
            held.leases[self.sweep] = (self.token, os.getpid(), time.time() + self.ttl_seconds)

    def release(self) -> None:
        with self.store.writing() as held:
            if held.leases[self.sweep][0] == self.token:
                held.leases[self.sweep] = (self.token, None, 0.0)


class FileStore:
    """A `sweeps.store.contract.Store` at `file:PATH`."""

    def __init__(self, url: str, create: bool = True, *, patience_seconds: float | None = None) -> None:
        self.url, self.path = url, Path(url.partition(":")[2])
        if not self.path.exists():
            if not create:
                raise StoreError(f"store {self.path}: not there. Start a sweep with `sweeps run`.")
            self.keep(Contents())
        self.solved = Solved(self.held().solved)

    def held(self) -> Contents:
        """One state between two transactions."""
        contents: Contents = pickle.loads(self.path.read_bytes())
        return contents

    def keep(self, contents: Contents) -> None:
        """Replace all of it, durably."""
        with open(f"{self.path}.new", "wb") as new:
            new.write(pickle.dumps(contents))
            new.flush()
            os.fsync(new.fileno())
        os.replace(new.name, self.path)

    @contextmanager
    def writing(self, lease: FileLease | None = None) -> Iterator[Contents]:
        """One transaction: nothing is kept when the block raises."""
        with open(f"{self.path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            contents = self.held()
            if lease is not None:
                self.check(contents, lease)
            yield contents
            self.keep(contents)

    def check(self, contents: Contents, lease: FileLease) -> None:
        token, holder, _ = contents.leases[lease.sweep]
        if token != lease.token or holder is None:
            raise LeaseLost(f"sweep {lease.sweep!r}: lease {lease.token} is over, {token} writes")

    def close(self) -> None:
        with self.writing() as held:
            held.solved |= self.solved

    def create_sweep(self, record):
        with self.writing() as held:
            if record.name in held.names:
                raise SweepExists(record.name)
            held.names[record.name] = record.name
            held.sweeps[record.name], held.leases[record.name] = record, (0, None, 0.0)

    def sweep(self, name):
        held = self.held()
        held.of_sweep({}, held.names.get(name, name))
        return held.sweeps[held.names[name]]

    def sweeps(self):
        return list(self.held().sweeps.values())

    def acquire(self, sweep, ttl_seconds=LEASE_SECONDS):
        with self.writing() as held:
            held.of_sweep({}, sweep)
            token, holder, expires = held.leases[sweep]
            if holder is not None and expires > time.time():
                raise LeaseHeld(f"sweep {sweep!r}: driven by process {holder}")
            held.leases[sweep] = (token + 1, os.getpid(), time.time() + ttl_seconds)
        return FileLease(self, sweep, token + 1, ttl_seconds)

    def set_state(self, lease, state):
        with self.writing(lease) as held:
            before = held.sweeps[lease.sweep]
            if before.state != state:
                held.sweeps[lease.sweep] = replace(before, state=SweepState(state))
                held.announce(lease.sweep, None, "state")

    def set_place(self, lease, root, records):
        with self.writing(lease) as held:
            held.sweeps[lease.sweep] = replace(held.sweeps[lease.sweep], root=root, records=records)

    def set_fingerprints(self, lease, fingerprints):
        with self.writing(lease) as held:
            held.sweeps[lease.sweep] = replace(held.sweeps[lease.sweep], fingerprints=dict(fingerprints))

    def extend(self, lease, extension):
        with self.writing(lease) as held:
            before = held.sweeps[lease.sweep]
            if before.extensions[-1:] != (extension,):
                held.sweeps[lease.sweep] = replace(before, extensions=(*before.extensions, extension))

    def rename(self, sweep, label):
        with self.writing() as held:
            held.of_sweep({}, sweep)
            if held.names.setdefault(label, sweep) != sweep:
                raise SweepExists(label)
            held.sweeps[sweep] = replace(held.sweeps[sweep], label=label)

    def erase(self, lease):
        with self.writing(lease) as held:
            if any(one.state is TrialState.RUNNING for one in held.of_sweep(held.trials, lease.sweep)):
                raise Conflict(f"sweep {lease.sweep}: it runs")
            for one in held.of_sweep(held.trials, lease.sweep):
                held.trials[one.key] = replace(one, metrics={}, reports={step: {} for step in one.reports})
            held.told = {place: one for place, one in held.told.items() if sweep_of(one.key) != lease.sweep}
            held.outbox = [row for row in held.outbox if row.sweep != lease.sweep]
            held.sweeps[lease.sweep] = replace(held.sweeps[lease.sweep], state=SweepState.DELETED)

    def ask(self, sweep, wanted, asker):
        with self.writing() as held:
            held.of_sweep({}, sweep)
            held.asked.append((sweep, Request(id=len(held.asked) + 1, wanted=wanted, asker=asker, at=time.time())))
            return len(held.asked)

    def requests(self, sweep):
        held = self.held()
        held.of_sweep({}, sweep)
        return [one for of, one in held.asked if of == sweep]

    def driver(self, sweep):
        held = self.held()
        held.of_sweep({}, sweep)
        token, holder, expires = held.leases[sweep]
        return None if holder is None or expires <= time.time() else Driver(token=token, who=f"process {holder}")

    def data_fingerprint(self, digest):
        return keyed(digest, bytes.fromhex(self.held().secret))

    def record_infeasible(self, lease, refused):
        with self.writing(lease) as held:
            for proposal, refusal in refused:
                said = {"violations": dict(refusal.violations), "reason": refusal.reason}
                new = TrialRecord.of(lease.sweep, proposal, TrialState.INFEASIBLE, **said)
                before = held.trials.setdefault(new.key, new)
                if before is new:
                    held.announce(lease.sweep, new.key, "infeasible")
                elif before != new:
                    raise Conflict(f"trial {new.key}: already recorded with other content")

    def launch(self, lease, proposal, plan, to_step, charge=None):
        key = trial_key(lease.sweep, proposal.number)
        if not 0 < to_step <= plan.steps:
            raise InvalidValue("to_step", to_step, f"an integer in [1, {plan.steps}]")
        with self.writing(lease) as held:
            if key in held.trials:
                raise Conflict(f"trial {key}: already recorded")
            said = {"plan": plan, "attempts": 1, "proposed_at": time.time()}
            held.trials[key] = TrialRecord.of(lease.sweep, proposal, TrialState.RUNNING, **said)
            return self.reserve(held, Reservation(key=key, attempt=1, from_step=0, to_step=to_step), charge)

    def relaunch(self, lease, key, from_step, to_step, charge=None):
        with self.writing(lease) as held:
            trial = held.trial(key)
            new = Reservation(key=key, attempt=trial.attempts + 1, from_step=from_step, to_step=to_step)
            if trial.state not in (TrialState.PLANNED, TrialState.COMPLETE):
                raise Conflict(f"trial {key}: {trial.state}")
            reached = max(entry.executed_to for entry in held.entries.values() if entry.key == key)
            if from_step > reached:
                raise InvalidValue("from_step", from_step, f"at most {reached}")
            held.trials[key] = replace(trial, state=TrialState.RUNNING, attempts=new.attempt, finished_at=None)
            return self.reserve(held, new, charge)

    def reserve(self, held: Contents, new: Reservation, charge: Charge | None) -> Reservation:
        sweep = sweep_of(new.key)
        population = held.sweeps[sweep].spec.population
        if (charge is None) == bool(population and held.block(population, sweep) is None):
            raise InvalidValue("charge", charge, "one where the sweep's population is charged by attempts")
        if charge is not None:
            what = f"{new.key}/{new.attempt}"
            row = Row(kind=RowKind.ATTEMPT, what=what, sweep=sweep, charge=charge, at=time.time())
            held.charge(population, row)
        place = {"key": new.key, "attempt": new.attempt}
        held.entries[new.key, new.attempt] = LedgerEntry(**place, from_step=new.from_step, to_step=new.to_step)
        nothing = {"reason": "", "step": 0, "seconds": 0.0, "started_at": time.time(), "ended_at": None}
        held.attempts[new.key, new.attempt] = AttemptRecord(**place, outcome=Outcome.RUNNING, **nothing)
        return new

    def settle(self, lease, key, attempt, came):
        with self.writing(lease) as held:
            reported = {"step": came.step, "seconds": came.seconds}
            if not self.end(
                held, (key, attempt), Outcome.SETTLED, came.executed_to, replace(came, seconds=0), reported
            ):
                return
            held.tell(key, attempt, came.curve)
            before = held.trials[key]
            held.trials[key] = replace(
                before,
                state=TrialState.COMPLETE if came.finished else TrialState.PLANNED,
                metrics=came.metrics,
                guarantee=came.guarantee,
                step=came.step,
                reason="",
                reports={**before.reports, came.step: came.metrics},
                finished_at=time.time() if came.finished else None,
            )
            if came.announced:
                held.announce(lease.sweep, key, "settled")

    def add_to_curve(self, lease, key, attempt, curve, announced=True):
        with self.writing(lease) as held:
            if held.tell(key, attempt, curve):
                held.trials[key] = replace(held.trials[key], guarantee=held.trials[key].plan.guarantee)
                if announced:
                    held.announce(lease.sweep, key, "told")

    def lose(self, lease, key, attempt, executed_to, reason):
        with self.writing(lease) as held:
            why = {"reason": reason}
            if self.end(held, (key, attempt), Outcome.LOST, executed_to, ("lost", executed_to, reason), why):
                held.trials[key] = replace(held.trials[key], state=TrialState.PLANNED, reason=reason)
                held.announce(lease.sweep, key, "lost")

    def fail(self, lease, key, attempt, executed_to, reason):
        with self.writing(lease) as held:
            why = {"reason": reason}
            if self.end(held, (key, attempt), Outcome.FAILED, executed_to, ("failed", executed_to, reason), why):
                self.over(held, lease, key, reason)

    def end(self, held, place, outcome, executed_to, content, reported) -> bool:
        """Close an attempt and settle its entry; False when it had ended like this."""
        if place not in held.entries:
            raise UnknownTrial(f"trial {place}: not in this store")
        if place in held.ended:
            if held.ended[place] == content:
                return False
            raise Conflict(f"trial {place}: already settled, lost or failed with other content")
        entry = held.entries[place]
        charged = entry.to_step if executed_to is None else executed_to
        if not entry.from_step <= charged <= entry.to_step:
            raise InvalidValue("executed_to", executed_to, "within the reservation")
        held.ended[place], held.entries[place] = content, replace(entry, executed_to=charged)
        held.attempts[place] = replace(held.attempts[place], outcome=outcome, ended_at=time.time(), **reported)
        return True

    def over(self, held, lease, key, reason):
        held.trials[key] = replace(held.trials[key], state=TrialState.FAILED, reason=reason, finished_at=time.time())
        held.announce(lease.sweep, key, "failed")

    def charge_whole(self, lease, key, attempt):
        with self.writing(lease) as held:
            entry = held.entries[key, attempt]
            if entry.executed_to is not None:
                held.entries[key, attempt] = replace(entry, executed_to=entry.to_step)

    def abandon(self, lease, key, reason):
        with self.writing(lease) as held:
            state = held.trial(key).state
            if state in (TrialState.PLANNED, TrialState.COMPLETE):
                self.over(held, lease, key, reason)
            elif state is not TrialState.FAILED:
                raise Conflict(f"trial {key}: {state}")

    def make_population(self, population):
        with self.writing() as held:
            if held.populations.setdefault(population.name, population) != population:
                raise PopulationExists(population.name)
            held.charged.setdefault(population.name, [])

    def populations(self):
        return [one for _, one in sorted(self.held().populations.items())]

    def charges(self, population):
        held = self.held()
        if population not in held.populations:
            raise UnknownPopulation(population, held.populations)
        return held.charged[population]

    def charge(self, population, row):
        with self.writing() as held:
            held.charge(population, row)

    def reserve_block(self, lease, population, charge):
        with self.writing(lease) as held:
            row = Row(kind=RowKind.SWEEP, what=lease.sweep, sweep=lease.sweep, charge=charge, at=time.time())
            held.charge(population, row)

    def settle_block(self, lease, population, epsilon):
        with self.writing(lease) as held:
            if population not in held.populations:
                raise UnknownPopulation(population, held.populations)
            block = held.block(population, lease.sweep)
            if block is None or block.settled not in (None, epsilon):
                raise Conflict(f"{lease.sweep}: nothing to settle at {epsilon}")
            if held.populations[population].rule is not AddingRule.LINEAR or not 0 <= epsilon <= block.charge.epsilon:
                raise InvalidValue("epsilon", epsilon, "at most what was reserved, by a linear ledger")
            rows = held.charged[population]
            rows[rows.index(block)] = replace(block, settled=epsilon)

    def trials(self, sweep, states=None):
        held = self.held()
        return [one for one in held.of_sweep(held.trials, sweep) if states is None or one.state in states]

    def trials_of(self, sweep, keys):
        found = [one for one in self.trials(sweep) if one.key in keys]
        if missing := set(keys) - {one.key for one in found}:
            raise UnknownTrial(f"trial {min(missing)}: not in this store")
        return found

    def counts(self, sweep):
        return {str(state): 0 for state in TrialState} | Counter(str(one.state) for one in self.trials(sweep))

    def ledger(self, sweep):
        held = self.held()
        return held.of_sweep(held.entries, sweep)

    def ledger_of(self, key):
        return [one for one in self.ledger(key.rpartition("-")[0]) if one.key == key]

    def attempts(self, sweep):
        held = self.held()
        return held.of_sweep(held.attempts, sweep)

    def attempts_of(self, key):
        return [one for one in self.attempts(key.rpartition("-")[0]) if one.key == key]

    def curves(self, sweep, keys=None):
        held = self.held()
        found = dict(held.told)
        for one in held.of_sweep(held.attempts, sweep):
            if one.outcome is Outcome.SETTLED:
                place = {"key": one.key, "step": one.step, "attempt": one.attempt, "at": one.ended_at}
                found[one.key, one.step] = CurveReport(**place, metrics=held.trials[one.key].reports[one.step])
        mine = [one for one in found.values() if sweep_of(one.key) == sweep and (keys is None or one.key in keys)]
        return sorted(mine, key=lambda one: (int(one.key.rpartition("-")[2]), one.step))

    def outbox(self, sweep, limit=1000):
        return [row for row in self.held().outbox if row.sweep == sweep][:limit]

    def backlog(self, sweep):
        return len(self.outbox(sweep, 10**9))

    def delivered(self, lease, ids):
        with self.writing(lease) as held:
            held.outbox = [row for row in held.outbox if row.id not in ids]

    def calibrations(self):
        return self.solved


BACKEND = Backend(scheme="file", form="file:PATH", open=FileStore)
"""What the package names in its entry point."""

CANDIDATE = Candidate(name="file", open=BACKEND.open, places=lambda: folders("file:{folder}/sweeps"))
