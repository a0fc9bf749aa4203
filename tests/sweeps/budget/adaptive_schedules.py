"""Random adaptive schedules of a sweep with one budget, on a real controller and store: launches in parallel, partial
work, losses, kills between and inside writes. What was reserved is added up here anew, from plans alone.

Reservations are never taken back, so what they add up to at the end is the most that they ever did."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dpcore.gdp import mu_gdp
from sweeps.execution.controller import Done, Wait
from tests.sweeps.fake_workers import NAME, FakeSweep, Worker, memory_folder

EPSILON, DELTA = 3.0, 1e-5
PRIVACY = {"epsilon": EPSILON, "delta": DELTA, "scope": "sweep", "shares": 2}
CHANGE: dict[str, Any] = {
    "privacy": PRIVACY,
    "search": {"sampler": "random", "trials": 6, "seed": 3},
    "execution": {"retries": 3},
}


class Exceeded(AssertionError):
    """More was reserved than the budget."""


def spent(sweep: FakeSweep) -> float:
    """sqrt of the sum of mu^2 over all that was ever reserved: noisy-mean adds Gaussian noise at each step."""
    noise = {one.key: float(one.plan.config["noise_multiplier"]) for one in sweep.store.trials(NAME) if one.plan}
    return math.sqrt(sum((one.to_step - one.from_step) / noise[one.key] ** 2 for one in sweep.store.ledger(NAME)))


def check(sweep: FakeSweep) -> None:
    """Raises Exceeded; and AssertionError where workers executed what nobody reserved."""
    if spent(sweep) > mu_gdp(EPSILON, DELTA) * (1 + 1e-9):
        raise Exceeded(spent(sweep))
    sweep.check()


def simulate(
    choices: Sequence[int],
    early_stopping: dict[str, Any] | None,
    change: dict[str, Any] | None = None,
    bug: Callable[[FakeSweep], None] | None = None,
) -> FakeSweep:
    """One history, told by `choices`, then without accidents to its end.

    bug  done to it before each of its decisions
    """
    with memory_folder() as folder:
        sweep = FakeSweep(folder, early_stopping, CHANGE | (change or {}))

        def alive(act: Callable[[], None]) -> None:
            if bug is not None:
                bug(sweep)
            sweep.alive(act)

        for choice in choices:
            act, detail = choice % 8, choice // 8
            everyone = sweep.workers + sweep.zombies
            if act <= 2:
                alive(sweep.decide)
            elif act == 3 and everyone:
                everyone[detail % len(everyone)].execute(1 + detail % 3, 1 + detail % 4, stop_inside=detail % 2 == 0)
            elif act == 4 and sweep.workers:
                worker = sweep.workers[detail % len(sweep.workers)]
                worker.execute(9, 9, stop_inside=False)
                if worker.result is not None:
                    alive(lambda worker=worker: sweep.deliver(worker))  # type: ignore[misc]
            elif act == 5 and sweep.workers:
                lost = sweep.workers[detail % len(sweep.workers)]
                alive(lambda lost=lost: sweep.lose(lost))  # type: ignore[misc]
            elif act == 6:
                sweep.kill_at, sweep.kill_after_write = 1 + detail % 3, detail % 2 == 0
            elif act == 7:
                sweep.lease.release()
                sweep.start()
        sweep.kill_at = None
        while not isinstance(decision := _next(sweep, bug), Done):
            if isinstance(decision, Wait):
                sweep.workers[0].finish()
                sweep.deliver(sweep.workers[0])
            else:
                sweep.workers.append(Worker(decision, sweep.trials, sweep.executed))
        check(sweep)
        sweep.store.close()
        return sweep


def _next(sweep: FakeSweep, bug: Callable[[FakeSweep], None] | None) -> object:
    if bug is not None:
        bug(sweep)
    return sweep.controller.decide()
