"""A sweep without Ray: a real controller on a real store, and workers that execute any part of what they were given.

Steps are counted where they are "executed", apart from every record, so that the ledger can be held against them.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sweeps.execution.limits import SharedBudget
from sweeps.privacy.ledger import spending
from sweeps.privacy.population import ledger_of
from sweeps.search.asha import report_steps
from sweeps.search.proposer import Proposer
from sweeps.spec.parse import load_spec
from sweeps.store.population import Population
from sweeps.store.records import SweepState, TrialRecord, TrialState
from sweeps.store.store import open_store
from tests.sweeps import stores
from trainables.data import SOURCES
from trainables.registry import SYSTEMS
from trainables.system import Launch
from trainables.worker.attempt import Attempt, Cancelled, Progress
from trainables.worker.files import Folder

NAME = "fake"
SPEC: dict[str, Any] = {
    "name": NAME,
    "data": {"source": "uniform", "n": 100},
    "systems": {
        "noisy-mean": {"clip": {"uniform": [0.2, 1.0]}, "steps": {"int_uniform": [1, 9]}, "shrinkage": 1.0},
    },
    "privacy": {"epsilon": 1.0, "delta": 1e-5},
    "objectives": [{"metric": "expected_error", "goal": "minimize"}],
    "search": {"sampler": "random", "trials": 5, "seed": 3},
    "execution": {"retries": 2},
}
CLIPPED = {"clip": {"uniform": [0.2, 1]}}
ASHA = {"method": "asha", "reduction": 2, "rungs": 3}
WRITES = ("launch", "relaunch", "add_to_curve", "settle", "lose", "fail", "record_infeasible")


@contextmanager
def memory_folder() -> Iterator[Path]:
    """A folder for one test, in memory where the system has one."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


class Killed(BaseException):
    """The controller's process ends here."""


@dataclass
class Worker:
    """One launch. `reserved` is where the horizon allows it to go, `step` where it is."""

    group: Launch
    trials: Folder
    executed: Counter[tuple[str, int]]
    step: int = 0
    reserved: int = 0
    saved: int = -1
    result: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        (self.member,) = self.group.members
        self.step = self.reserved = self.member.from_step
        self.attempt = Attempt.of(self.trials, self.member.key, self.member.attempt)
        self.claimed = False
        if self.member.resume_attempt:
            Attempt.of(self.trials, self.member.key, self.member.resume_attempt).read(self.member.from_step)

    def execute(self, intervals: int, length: int, stop_inside: bool) -> None:
        """Run some intervals; with `stop_inside`, end in the middle of the last one. A fenced worker stops."""
        try:
            for number in range(intervals):
                self._finish_interval()
                if self.step == self.member.to_step:
                    return
                until = min(self.member.to_step, self.step + length)
                # The horizon is durable even when the fence is seen: it counts from here on.
                self.reserve_until(until)
                self.reserved = until
                self._draw((until - self.step + 1) // 2)
                if not (stop_inside and number == intervals - 1):
                    self._finish_interval()
        except Cancelled:
            return

    def reserve_until(self, until: int) -> None:
        """As `RecordedRun`: claimed first."""
        if not self.claimed:
            self.attempt.claim(self.member.from_step)
            self.claimed = True
        self.attempt.reserve_until(until)

    def _finish_interval(self) -> None:
        if self.step < self.reserved:
            self._draw(self.reserved - self.step)
        if self.reserved > self.member.from_step and self.saved != self.step:
            self._save()

    def _draw(self, steps: int) -> None:
        self.executed[self.member.key, self.member.attempt] += steps
        self.step += steps

    def _save(self, value: float | None = None) -> None:
        result = None
        if self.step == self.member.to_step:
            error = (self.member.seed % 97) / 97 if value is None else value
            result = {
                "key": self.member.key,
                "attempt": self.member.attempt,
                "step": self.step,
                "metrics": {"expected_error": error, "estimate": 0.5},
                "seconds": 1.0,
                "peak_memory_mb": 1.0,
                "curve": self.told()["curve"],
            }
        self.attempt.save(self.step, {"total": np.zeros(1)}, result, self.curve())
        self.saved = self.step
        self.result = result

    def curve(self) -> dict[int, dict[str, float]]:
        """What it has to tell so far. The estimate says which attempt told it."""
        reached = [step for step in self.member.curve if step <= self.step]
        return {step: {"expected_error": 1 / step, "estimate": float(self.member.attempt)} for step in reached}

    def told(self) -> dict[str, Any]:
        """The same as a worker sends it."""
        return Progress(key=self.member.key, attempt=self.member.attempt, curve=self.curve()).model_dump()

    def finish(self) -> None:
        """Run to the end."""
        while self.result is None:
            before = self.step
            self.execute(1, 100, stop_inside=False)
            assert self.step > before or self.result is not None, "fenced"

    def finish_with(self, value: float) -> None:
        """Run to the end and report this error."""
        self.reserve_until(self.member.to_step)
        self._draw(self.member.to_step - self.step)
        self.reserved = self.step
        self._save(value)


@dataclass
class FakeSweep:
    """Controller, store and workers of one sweep; `kill_at` ends the controller around its n-th write from now.

    population  whose ledger is made, where `change` declares it
    bug         done before each decision
    """

    folder: Path
    early_stopping: dict[str, Any] | None = None
    change: dict[str, Any] = field(default_factory=dict)
    population: Population | None = None
    kill_at: int | None = None
    kill_after_write: bool = False
    bug: Callable[[FakeSweep], None] | None = None

    def __post_init__(self) -> None:
        self.spec = load_spec({**SPEC, "early_stopping": self.early_stopping, **self.change})
        self.facts = SOURCES["uniform"].facts(self.spec.data.options())
        self.trials = Folder(str(self.folder / "trials"))
        self.executed: Counter[tuple[str, int]] = Counter()
        self.workers: list[Worker] = []
        self.zombies: list[Worker] = []
        self.store = open_store(f"sqlite:///{self.folder}/store.db")
        if self.population is not None:
            self.store.make_population(self.population)
        self.store.create_sweep(stores.record(NAME, spec=self.spec, fingerprints={}, created_at=1.0))
        for name in WRITES:
            setattr(self.store, name, self._mortal(getattr(self.store, name)))
        self.start()

    def _mortal(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            if self.kill_at is None:
                return write(*arguments, **options)
            self.kill_at -= 1
            if self.kill_at > 0:
                return write(*arguments, **options)
            self.kill_at = None
            if self.kill_after_write:
                write(*arguments, **options)
            raise Killed

        return counted

    def start(self) -> None:
        """A new controller takes over; whatever an old one launched is a zombie, dead or alive."""
        while True:
            self.lease = self.store.acquire(NAME)
            budget = SharedBudget(ledger_of(self.store, self.spec))
            self.controller = stores.controller_of(self.store, self.lease, self.spec, self.trials, budget)
            self.zombies += self.workers
            self.workers = []
            try:
                self.controller.recover()
                return
            except Killed:
                self.lease.release()

    def alive(self, act: Callable[[], None]) -> None:
        """Do something with the controller; start another one when it is killed over it."""
        try:
            act()
        except Killed:
            self.lease.release()
            self.start()

    def decision(self) -> Launch | SweepState | None:
        if self.bug is not None:
            self.bug(self)
        return self.controller.decide()

    def decide(self) -> None:
        decision = self.decision()
        if isinstance(decision, Launch):
            self.workers.append(Worker(decision, self.trials, self.executed))

    def deliver(self, worker: Worker) -> None:
        """Its result reaches the controller."""
        assert worker.result is not None
        self.workers.remove(worker)
        self.controller.finished(worker.group, [worker.result])

    def tell(self, worker: Worker) -> None:
        """What it has told, and a checkpoint covers, reaches the controller."""
        if worker in self.workers and worker.saved == worker.step < worker.member.to_step:
            self.controller.told(worker.group, worker.told())

    def lose(self, worker: Worker) -> None:
        """The controller hears that it is gone; perhaps it is not."""
        self.workers.remove(worker)
        self.zombies.append(worker)
        self.controller.lost(worker.group, "killed")

    def finish(self) -> bool:
        """Without further accidents, to the end. Returns whether the space ran dry."""
        for _ in range(1000):
            decision = self.decision()
            if isinstance(decision, SweepState):
                return decision is SweepState.EXHAUSTED
            if decision is None:
                worker = self.workers[0]
                worker.finish()
                self.deliver(worker)
            else:
                self.workers.append(Worker(decision, self.trials, self.executed))
        raise AssertionError("no end in 1000 decisions")

    # -- what must hold at every moment -----------------------------------------------------------------

    def check(self) -> None:
        """No step is executed that the ledger does not charge; no attempt runs without a reservation."""
        charged = {(entry.key, entry.attempt): entry.steps_spent for entry in self.store.ledger(NAME)}
        assert {one: (n, charged.get(one, 0)) for one, n in self.executed.items() if n > charged.get(one, 0)} == {}

    def check_end(self, trials: int) -> None:
        """Every trial once, as the unbroken sweep would have proposed it; claims within the budget and paid for."""
        records = self.store.trials(NAME)
        assert [record.number for record in records] == list(range(trials))
        reference = Proposer(self.spec)
        for record in records:
            proposal = reference.propose()
            assert proposal is not None
            assert (record.config, record.seed) == (proposal.config, proposal.seed)
        for record in records:
            assert record.state in (TrialState.COMPLETE, TrialState.FAILED)
            if record.state is TrialState.COMPLETE:
                assert record.guarantee is not None
                assert record.guarantee.epsilon <= record.config["target_epsilon"]
                assert spending(self.store.ledger(NAME, record.key)).path >= record.step > 0
            self._check_curve(record)
        self.check()

    def _check_curve(self, record: TrialRecord) -> None:
        """Each point once, of the attempt that told it, on one path; of a complete trial all that were planned."""
        curve = self.store.curves(NAME, [record.key])
        if record.state is TrialState.COMPLETE:
            planned = report_steps(self.spec, SYSTEMS[record.system], record.planned_steps)
            assert [one.step for one in curve] == [step for step in planned if step <= record.step]
        between = [one for one in curve if one.step not in record.reports]
        assert [one.metrics["estimate"] for one in between] == [one.attempt for one in between]
        attempts = [one.attempt for one in curve]
        assert attempts == sorted(attempts)


def launched(sweep: FakeSweep) -> Worker:
    """The worker of the sweep's next launch."""
    group = sweep.controller.decide()
    assert isinstance(group, Launch)
    worker = Worker(group, sweep.trials, sweep.executed)
    sweep.workers.append(worker)
    return worker


def first_rung(rungs: FakeSweep) -> list[Worker]:
    """Two trials have ended the first rung, at step 2; the first is the better one."""
    workers = []
    for error in (0.1, 0.2):
        workers.append(worker := launched(rungs))
        assert (worker.member.from_step, worker.member.to_step) == (0, 2)
        worker.finish_with(error)
        rungs.deliver(worker)
    return workers


def simulate(
    choices: Sequence[int],
    early_stopping: dict[str, Any] | None,
    change: Mapping[str, Any] | None = None,
    bug: Callable[[FakeSweep], None] | None = None,
    check_end: Callable[[FakeSweep], None] = lambda sweep: sweep.check_end(trials=5),
) -> FakeSweep:
    """One history, told by `choices`: launches, partial work, deliveries, losses, kills between and inside writes."""
    with memory_folder() as folder:
        sweep = FakeSweep(folder, early_stopping, dict(change or {}), bug=bug)
        for choice in choices:
            choice, detail = divmod(choice, 64)
            act = choice % 8
            everyone = sweep.workers + sweep.zombies
            if act <= 1:
                sweep.alive(sweep.decide)
            elif act <= 3 and everyone:
                # Zombies work on too: only the fence stops them.
                worker = everyone[detail % len(everyone)]
                worker.execute(1 + detail % 3, 1 + detail % 4, stop_inside=detail % 2 == 0)
                sweep.alive(lambda worker=worker: sweep.tell(worker))  # type: ignore[misc]
            elif act == 4 and (ready := [worker for worker in sweep.workers if worker.result is not None]):
                sweep.alive(lambda ready=ready, detail=detail: sweep.deliver(ready[detail % len(ready)]))  # type: ignore[misc]
            elif act == 5 and sweep.workers:
                lost = sweep.workers[detail % len(sweep.workers)]
                sweep.alive(lambda lost=lost: sweep.lose(lost))  # type: ignore[misc]
            elif act == 6:
                sweep.kill_at, sweep.kill_after_write = 1 + detail % 3, detail % 2 == 0
            elif act == 7:
                sweep.lease.release()
                sweep.start()
            sweep.check()
        sweep.kill_at = None
        sweep.finish()
        check_end(sweep)
        for worker in sweep.zombies:
            worker.execute(3, 100, stop_inside=False)
        sweep.check()
        sweep.store.close()
        return sweep
