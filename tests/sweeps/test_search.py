"""Proposals depend on the seed, the number and the records told, and on nothing that the process lived through."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.events import Adjacency
from sweeps.search import optuna_sampler
from sweeps.search.optuna_sampler import Lesson, fitting, lesson
from sweeps.search.proposer import Proposer
from sweeps.search.samplers import SAMPLERS
from sweeps.search.space import Space
from sweeps.spec.domains import Domain
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import Proposal, TrialRecord, TrialState
from tests.sweeps.toys import finished, infeasible, running, spec_with
from tests.sweeps.view_sweeps import guarantee

MIXED: dict[str, Any] = {
    "hill": {"rate": {"log_uniform": [0.01, 10]}, "clip": {"uniform": [0.1, 5]}, "steps": {"int_log_uniform": [1, 99]}},
    "valley": {"rate": {"log_uniform": [0.01, 10]}, "depth": {"int_uniform": [1, 9]}},
}

ONE, TWO = [{"metric": "accuracy"}], [{"metric": "accuracy"}, {"metric": "epsilon"}]


def exam(sampler: str, objectives: list[dict[str, str]] = ONE, **changes: Any) -> SweepSpec:
    """A sweep over two systems and three budgets, or over what the sampler can take."""
    systems: dict[str, Any] = {"hill": MIXED["hill"]} if sampler == "gp" else MIXED
    if sampler == "grid":
        systems = {"hill": {"rate": {"log_uniform": [0.01, 10], "points": 7}, "clip": {"choice": [0.5, 1, 2, 4]}}}
    return spec_with(
        **{
            "systems": systems,
            "objectives": objectives,
            "search": {"sampler": sampler, "trials": 40, "seed": 3},
            "privacy": {"epsilon": [1, 2, 4], "delta": 1e-5},
        }
        | changes
    )


def changed(patch: pytest.MonkeyPatch, sampler: str, **fields: Any) -> None:
    """Put a sampler with other fields into the registry under its name."""
    patch.setitem(cast(dict[str, Any], SAMPLERS), sampler, replace(SAMPLERS[sampler], **fields))


def sweep(
    spec: SweepSpec, proposals: int, *, concurrency: int = 4, rebuild_every: int = 0, shuffle: int = 5
) -> list[dict[str, Any]]:
    """Configurations of a sweep whose trials end in random order, a few refused, a few failed.

    rebuild_every  start over from the records before every so many proposals, as after a crash
    """
    order = random.Random(shuffle)
    proposer, records = Proposer(spec), {}
    open_trials: list[Proposal] = []
    out: list[dict[str, Any]] = []

    def tell(record: TrialRecord) -> None:
        records[record.number] = record
        proposer.tell(record)

    while len(out) < proposals:
        if rebuild_every and len(out) % rebuild_every == 0:
            proposer = Proposer(spec)
            stored = list(records.values())
            order_of_rows = random.Random(len(out))
            order_of_rows.shuffle(stored)
            proposer.rebuild(stored)
        proposal = proposer.propose()
        assert proposal is not None
        assert proposal.number == len(out)
        out.append(dict(proposal.config))
        if order.random() < 0.2:
            tell(infeasible(spec, proposal, order.random() + 0.1))
            continue
        tell(running(spec, proposal))
        open_trials.append(proposal)
        while len(open_trials) >= concurrency:
            ended = open_trials.pop(order.randrange(len(open_trials)))
            failed = order.random() < 0.1
            tell(finished(spec, ended, **({"state": TrialState.FAILED, "metrics": {}} if failed else {})))
    return out


@pytest.mark.parametrize("objectives", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("sampler", ["random", "grid", "tpe", "nsga2"])
def test_a_rebuilt_proposer_goes_on_as_if_nothing_had_happened(sampler: str, objectives: list[dict[str, str]]) -> None:
    """Three trials running at each rebuild; the same records give the same proposals, float for float."""
    spec = exam(sampler, objectives)
    unbroken = sweep(spec, 30)
    assert sweep(spec, 30, rebuild_every=3) == unbroken
    other = exam(sampler, objectives, search={"sampler": sampler, "trials": 40, "seed": 4})
    assert sweep(other, 30) != unbroken


@pytest.mark.parametrize("sampler", ["random", "grid"])
def test_independent_samplers_are_exact_at_any_concurrency(sampler: str) -> None:
    spec = exam(sampler)
    one = sweep(spec, 60, concurrency=1)
    assert sweep(spec, 60, concurrency=9, shuffle=6, rebuild_every=5) == one


def stratified(sampler: str, objectives: list[dict[str, str]] = TWO) -> SweepSpec:
    search = {"sampler": sampler, "trials": 40, "seed": 3, "stratified": True}
    return exam(sampler, objectives, systems=MIXED, search=search)


@pytest.mark.parametrize("sampler", ["random", "tpe", "nsga2"])
def test_strata_take_turns_whoever_is_ahead(sampler: str) -> None:
    """Two systems at three budgets: after any number of rounds each pair has had as many proposals."""
    spec = stratified(sampler)
    found = sweep(spec, 60)
    for start in range(0, 60, 6):
        pairs = {(config["system"], config["target_epsilon"]) for config in found[start : start + 6]}
        assert len(pairs) == 6
    orders = [[(one["system"], one["target_epsilon"]) for one in found[start : start + 6]] for start in (0, 6, 12)]
    assert orders[0] != orders[1] or orders[1] != orders[2]
    assert sweep(spec, 60, rebuild_every=5) == found
    assert sampler != "random" or sweep(spec, 60, concurrency=1, shuffle=9) == found


def test_a_stratum_does_not_learn_from_the_other_systems() -> None:
    """However well one system does, the other's proposals stay; without strata they do not."""

    def proposals(spec: SweepSpec, gain: float) -> list[dict[str, Any]]:
        proposer, out = Proposer(spec), []
        for _ in range(48):
            proposal = proposer.propose()
            assert proposal is not None
            out.append(dict(proposal.config))
            better = gain if proposal.config["system"] == "hill" else 0.0
            proposer.tell(finished(spec, proposal, metrics={"accuracy": 0.5 + better * float(proposal.config["rate"])}))
        return out

    def others(spec: SweepSpec, gain: float) -> list[dict[str, Any]]:
        return [one for one in proposals(spec, gain) if one["system"] == "valley"]

    assert others(stratified("tpe", ONE), 0.0) == others(stratified("tpe", ONE), 5.0)
    assert others(exam("tpe", ONE), 0.0) != others(exam("tpe", ONE), 5.0)
    assert proposals(stratified("tpe", ONE), 0.0) != proposals(stratified("tpe", ONE), 5.0)


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_the_window_forgets_the_same_way_live_and_rebuilt(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, sampler, window=30)
    monkeypatch.setattr(optuna_sampler, "WINDOW_STEP", 10)
    monkeypatch.setattr(optuna_sampler, "KEPT", 5)
    for objectives in (ONE, TWO):
        spec = exam(sampler, objectives)
        assert sweep(spec, 60, rebuild_every=4) == sweep(spec, 60)


def test_a_grid_is_walked_once_and_ends() -> None:
    spec = exam("grid")
    proposer = Proposer(spec)
    points = [json.dumps(proposal.config) for proposal in iter(proposer.propose, None)]
    assert len(points) == len(set(points)) == 3 * 7 * 4
    assert proposer.propose() is None
    proposer.rebuild([running(spec, Proposal(number=5, config={"target_epsilon": 1.0, "rate": 1.0}, seed=0))])
    rest = [json.dumps(proposal.config) for proposal in iter(proposer.propose, None)]
    assert rest == [*points[:5], *points[6:]]


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_violations_teach_where_the_feasible_points_are(sampler: str) -> None:
    """1 in 16 of the prior is feasible, and a quarter and more of the last 40 of 100 proposals."""
    spec = exam(
        sampler,
        systems={"hill": {"rate": {"uniform": [0, 8]}, "clip": {"uniform": [0, 4]}}},
        search={"sampler": sampler, "trials": 100, "seed": 0},
        privacy={"epsilon": 1, "delta": 1e-5},
    )
    proposer, hits = Proposer(spec), []
    for _ in range(100):
        proposal = proposer.propose()
        assert proposal is not None
        violation = max(float(proposal.config["rate"]) - 2, float(proposal.config["clip"]) - 1)
        proposer.tell(infeasible(spec, proposal, violation) if violation > 0 else finished(spec, proposal))
        hits.append(violation <= 0)
    assert sum(hits[-40:]) / 40 > 4 / 16


def test_random_needs_no_optuna() -> None:
    code = (
        "import sys; from sweeps.search.proposer import Proposer; from tests.sweeps.toys import spec_with;"
        "Proposer(spec_with()).propose(); assert 'optuna' not in sys.modules, 'optuna was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_outcomes() -> None:
    spec = exam("tpe")
    proposal = Proposer(spec).propose()
    assert proposal is not None
    done = finished(spec, proposal)
    for record, expected in [
        (running(spec, proposal), None),
        (replace(running(spec, proposal), state=TrialState.PLANNED), None),
        (done, Lesson((done.metrics["accuracy"],), -1.0)),
        (infeasible(spec, proposal, 0.25), Lesson((0.0,), 0.25)),
        (infeasible(spec, proposal, float("inf")), Lesson((0.0,), 1e6)),
        (infeasible(spec, proposal, float("nan")), Lesson((0.0,), 1e6)),
        (replace(done, state=TrialState.FAILED), Lesson((0.0,), 1.0)),
        (replace(done, metrics={"accuracy": float("nan")}), Lesson((0.0,), 1.0)),
        (replace(done, metrics={}), Lesson((0.0,), 1.0)),
    ]:
        assert lesson(spec, record) == expected
    # A claim cannot be replaced by a metric of its name.
    told = lesson(exam("tpe", TWO), replace(done, metrics={**done.metrics, "epsilon": 0.0}))
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
        # A proposal of a Gaussian process takes a third of a second, from the eleventh on.
        for number in range(15 if sampler == "gp" else 24):
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
    _, found = fitting(spec, Space.of(spec), records)
    assert (found.offered, found.fitting) == (30, 26)
    assert set(found.reasons) == {
        "point.clip=99.0: expected a value of the sweep's own: uniform 0.1 .. 5",
        "not finished",
        "delta was 0.001",
        "adjacency was replace-one",
    }
    assert str(found).startswith("26 of 30 earlier trials fit (left out: 1: ")
    first, cold, again = warm.propose(), Proposer(spec).propose(), Proposer(spec, records)
    again.rebuild([])
    assert first is not None
    assert cold is not None
    assert first.config != cold.config
    assert again.propose() == first


# Domains and spaces: draws stay inside, grids are complete, configurations go round unchanged.


ends = st.tuples(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6)).map(sorted)
whole_ends = st.tuples(st.integers(1, 10_000), st.integers(1, 10_000)).map(sorted)
scalars = st.one_of(st.integers(-99, 99), st.text(min_size=1, max_size=5), st.floats(-9.5, 9.5).filter(lambda x: x % 1))


def ranges(kinds: list[str], ends: st.SearchStrategy[list[Any]]) -> st.SearchStrategy[Domain]:
    return st.builds(
        lambda kind, pair, points: Domain(kind=kind, low=pair[0], high=pair[1], points=points),
        st.sampled_from(kinds),
        ends,
        st.none() | st.integers(1, 9),
    )


domains = st.one_of(
    ranges(["uniform", "log_uniform"], ends),
    ranges(["int_uniform", "int_log_uniform"], whole_ends),
    st.builds(
        lambda low, step, count: (
            Domain(kind="uniform", low=low / 8, high=round(low / 8 + step * count / 10, 6), step=step / 10)
            if low % 4 == 0
            else Domain(kind="int_uniform", low=low, high=low + step * count, step=step)
        ),
        st.integers(-100, 100),
        st.integers(1, 9),
        st.integers(0, 40),
    ),
    st.builds(
        lambda values: Domain(kind="choice", values=tuple(values)),
        st.lists(scalars, min_size=1, max_size=5, unique=True),
    ),
)


@given(domain=domains, u=st.floats(0, 1, exclude_max=True))
def test_draws_and_grids_are_inside_reach_the_ends_and_survive_json(domain: Domain, u: float) -> None:
    value = domain.draw(u)
    assert domain.contains(value)
    again = json.loads(json.dumps(value))
    assert (type(again), again) == (type(value), value)
    ends = (domain.values[0], domain.values[-1]) if domain.kind == "choice" else (domain.low, domain.high)
    drawn = (domain.draw(0.0), domain.draw(1 - 1e-16))
    assert drawn == (ends if domain.kind == "choice" else pytest.approx(ends, rel=1e-9))
    if domain.kind != "choice" and not domain.integer and domain.points is None and domain.step is None:
        with pytest.raises(ValueError, match="points"):
            domain.grid()
        return
    values = domain.grid()
    assert all(domain.contains(value) for value in values)
    assert len(set(values)) == len(values) <= (domain.points or len(values))
    assert len(values) == 1 or (values[0], values[-1]) == ends
