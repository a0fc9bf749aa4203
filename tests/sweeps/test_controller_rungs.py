"""The controller and early stopping, without Ray: rungs are reservations, and claims are of whole plans."""

from __future__ import annotations

import pytest

from tests.sweeps.fake_workers import ASHA, NAME, FakeSweep, launched, memory_folder


@pytest.fixture
def tmp_path():
    """A folder in memory where there is one: these tests write thousands of durable files."""
    with memory_folder() as folder:
        yield folder


@pytest.fixture
def sweep(tmp_path):
    return FakeSweep(tmp_path, ASHA, change={"systems": {"noisy-mean": {"clip": {"uniform": [0.2, 1]}, "steps": 8}}})


def promoted(sweep):
    """Two trials end the first rung at step 2; the better one is launched into the next."""
    for error in (0.1, 0.2):
        worker = launched(sweep)
        assert (worker.member.from_step, worker.member.to_step) == (0, 2)
        worker.finish_with(error)
        sweep.deliver(worker)
    worker = launched(sweep)
    assert (worker.member.key, worker.member.attempt) == (f"{NAME}-0", 2)
    assert (worker.member.from_step, worker.member.to_step, worker.member.resume_attempt) == (2, 4, 1)
    return worker


def test_a_rung_is_a_reservation_of_its_own(sweep):
    promoted(sweep)
    entries = [(e.attempt, e.from_step, e.to_step) for e in sweep.store.ledger(NAME) if e.key == f"{NAME}-0"]
    assert entries == [(1, 0, 2), (2, 2, 4)]


def test_a_promoted_trial_that_is_lost_goes_on_from_its_rung(sweep):
    worker = promoted(sweep)
    worker.execute(1, 1, stop_inside=True)
    sweep.lose(worker)
    again = launched(sweep).member
    assert (again.key, again.attempt, again.from_step, again.to_step) == (f"{NAME}-0", 3, 2, 4)


def test_a_promoted_trial_survives_the_controller(sweep):
    worker = promoted(sweep)
    worker.execute(1, 1, stop_inside=False)
    sweep.lease.release()
    sweep.start()
    again = launched(sweep).member
    assert (again.key, again.attempt, again.from_step, again.to_step) == (f"{NAME}-0", 3, 3, 4)
    sweep.check()


def test_a_stopped_trial_claims_its_whole_plan(sweep):
    sweep.finish()
    sweep.check_end(trials=5)
    records = sweep.store.trials(NAME)
    stopped = [record for record in records if record.step == 2]
    whole = [record for record in records if record.step == 8]
    assert stopped
    assert whole
    # Two of eight steps, by results: where it stopped was no fact before its first step.
    for record in records:
        assert record.guarantee == record.plan.guarantee
        assert record.guarantee.epsilon == pytest.approx(record.config["target_epsilon"], rel=1e-6)
        assert {metrics["epsilon"] for metrics in record.reports.values()} == {record.guarantee.epsilon}
    # What was executed is what the ledger counts.
    assert sum(e.steps_spent for e in sweep.store.ledger(NAME)) == sum(record.step for record in records)


def test_what_was_reported_at_each_rung_is_known_now_and_after_a_restart(sweep):
    sweep.finish()
    known = {key: dict(record.reports) for key, record in sweep.controller.table.records.items()}
    assert sorted(next(reports for reports in known.values() if len(reports) == 3)) == [2, 4, 8]
    sweep.lease.release()
    sweep.start()
    assert {key: dict(record.reports) for key, record in sweep.controller.table.records.items()} == known
