"""What a proposer is told of finished, failed, paused and earlier trials."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpcore.events import Adjacency
from sweeps.search import Proposer
from sweeps.search.warm_start import lesson
from sweeps.store.records import Proposal, TrialRecord, TrialState
from tests.sweeps.test_search import MIXED, ONE, TWO, exam
from tests.sweeps.toys import finished, infeasible, running
from tests.sweeps.view_sweeps import guarantee


def test_outcomes() -> None:
    spec = exam("tpe")
    proposal = Proposer(spec).propose()
    assert proposal is not None
    done = finished(spec, proposal)
    assert lesson(spec, running(spec, proposal)) is None
    assert lesson(spec, replace(running(spec, proposal), state=TrialState.PLANNED)) is None
    good = lesson(spec, done)
    assert good is not None
    assert (good.values, good.violation, good.paused_at) == ((done.metrics["accuracy"],), -1.0, None)
    for bad, violation in [
        (infeasible(spec, proposal, 0.25), 0.25),
        (infeasible(spec, proposal, float("inf")), 1e6),
        (infeasible(spec, proposal, float("nan")), 1e6),
        (replace(done, state=TrialState.FAILED), 1.0),
        (replace(done, metrics={"accuracy": float("nan")}), 1.0),
        (replace(done, metrics={}), 1.0),
    ]:
        told = lesson(spec, bad)
        assert told is not None
        assert told.violation == violation
        assert told.values == (0.0,)


def test_a_claim_cannot_be_replaced_by_a_metric_of_its_name() -> None:
    spec = exam("tpe", TWO)
    proposal = Proposer(spec).propose()
    assert proposal is not None
    done = finished(spec, proposal)
    lying = replace(done, metrics={**done.metrics, "epsilon": 0.0})
    told = lesson(spec, lying)
    assert told is not None
    assert told.values[1] == proposal.config["target_epsilon"]


@pytest.mark.parametrize(
    ("sampler", "objectives"), [("tpe", ONE), ("tpe", TWO), ("nsga2", TWO), ("gp", TWO)], ids=lambda one: str(len(one))
)
def test_paused_trials_count_and_may_come_back(sampler: str, objectives: list[dict[str, str]]) -> None:
    """As pruned ones with one objective, by what they reported with two."""
    spec = exam(sampler, objectives, early_stopping={"method": "asha"})

    def run(rebuild_every: int) -> list[dict[str, Any]]:
        proposer = Proposer(spec)
        records: list[TrialRecord] = []
        out: list[dict[str, Any]] = []
        for number in range(40):
            if rebuild_every and number % rebuild_every == 0:
                proposer = Proposer(spec)
                proposer.rebuild(records)
            proposal = proposer.propose()
            assert proposal is not None
            out.append(dict(proposal.config))
            records.append(finished(spec, proposal, step=3))
            proposer.tell(records[-1])
            if number % 3 == 2:
                best = max(records[-3:], key=lambda record: record.metrics["accuracy"])
                for step, state in [(3, TrialState.RUNNING), (27, TrialState.COMPLETE)]:
                    records[best.number] = replace(best, step=step, state=state)
                    proposer.tell(records[best.number])
        return out

    paused = lesson(spec, finished(spec, Proposal(number=0, config={"target_epsilon": 1.0, "rate": 1}, seed=0), step=3))
    assert paused is not None
    assert paused.paused_at == (3 if objectives == ONE else None)
    assert len(paused.values) == len(objectives)
    assert run(0) == run(4)


def test_warm_start_takes_what_fits_and_says_what_does_not() -> None:
    spec = exam("tpe", systems={"hill": MIXED["hill"]})
    earlier = Proposer(exam("random", systems={"hill": MIXED["hill"]}))
    proposals = [proposal for proposal in (earlier.propose() for _ in range(30)) if proposal]
    records = [finished(spec, proposal) for proposal in proposals]
    records[0] = finished(spec, proposals[0], config={**proposals[0].config, "clip": 99.0})
    records[1] = running(spec, proposals[1])
    records[2] = finished(spec, proposals[2], guarantee=guarantee(1.0, delta=1e-3))
    records[3] = finished(spec, proposals[3], guarantee=guarantee(1.0, adjacency=Adjacency.REPLACE_ONE))
    warm = Proposer(spec, records)
    assert (warm.warm_start.offered, warm.warm_start.fitting) == (30, 26)
    assert set(warm.warm_start.reasons) == {
        "clip=99.0 is outside uniform 0.1 .. 5",
        "not finished",
        "delta was 0.001",
        "adjacency was replace-one",
    }
    assert str(warm.warm_start).startswith("26 of 30 earlier trials fit (left out: 1: ")
    first = warm.propose()
    cold = Proposer(spec).propose()
    assert first is not None
    assert cold is not None
    assert first.number == 0
    assert first.config != cold.config
    again = Proposer(spec, records)
    again.rebuild([])
    assert again.propose() == first
