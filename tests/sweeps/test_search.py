"""Proposals depend on the seed, the number and the records told, and on nothing that the process lived through."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any, cast

import optuna
import pytest

from sweeps.search import Proposer, optuna_sampler, warm_start
from sweeps.search.samplers import SAMPLERS
from sweeps.search.warm_start import window_start
from sweeps.spec import SweepSpec
from sweeps.store.records import Proposal, TrialRecord, TrialState
from tests.sweeps.toys import finished, infeasible, running, spec_with

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
    unbroken = sweep(spec, 60)
    assert sweep(spec, 60, rebuild_every=3) == unbroken
    other = exam(sampler, objectives, search={"sampler": sampler, "trials": 40, "seed": 4})
    assert sweep(other, 60) != unbroken


@pytest.mark.parametrize("sampler", ["random", "grid"])
def test_independent_samplers_are_exact_at_any_concurrency(sampler: str) -> None:
    spec = exam(sampler)
    one = sweep(spec, 60, concurrency=1)
    assert sweep(spec, 60, concurrency=9, shuffle=6, rebuild_every=5) == one


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_learning_samplers_repeat_at_one_trial_at_a_time(sampler: str) -> None:
    spec = exam(sampler, TWO)
    assert sweep(spec, 40, concurrency=1, rebuild_every=1) == sweep(spec, 40, concurrency=1)


def stratified(sampler: str, objectives: list[dict[str, str]] = TWO) -> SweepSpec:
    search = {"sampler": sampler, "trials": 40, "seed": 3, "stratified": True}
    return exam(sampler, objectives, systems=MIXED, search=search)


@pytest.mark.parametrize("sampler", ["random", "tpe", "nsga2", "gp"])
def test_strata_take_turns_whoever_is_ahead(sampler: str) -> None:
    """Two systems at three budgets: after any number of rounds each pair has had as many proposals."""
    spec = stratified(sampler)
    # Enough for every system's sampler to have learned; the Gaussian process takes a third of a second a proposal.
    count = 24 if sampler == "gp" else 60
    found = sweep(spec, count)
    for start in range(0, count, 6):
        pairs = {(config["system"], config["target_epsilon"]) for config in found[start : start + 6]}
        assert len(pairs) == 6
    orders = [[(one["system"], one["target_epsilon"]) for one in found[start : start + 6]] for start in (0, 6, 12)]
    assert orders[0] != orders[1] or orders[1] != orders[2]
    assert sweep(spec, count, rebuild_every=5) == found
    assert sampler != "random" or sweep(spec, count, concurrency=1, shuffle=9) == found


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


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "kept"])
def test_a_stock_sampler_would_not_pass(fresh: bool) -> None:
    """The exam finds what it is for: stock grouped TPE proposes something else once the study is rebuilt.

    A fresh one too, though it is reseeded for every proposal: running trials of a live study carry the knobs of
    systems that were not chosen, and those of a rebuilt study cannot.
    """

    kept: list[Any] = []

    def stock(seed: int, trials: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            if fresh or not kept:
                kept[:] = [optuna.samplers.TPESampler(seed=seed, multivariate=True, group=True)]
        return kept[0]

    with pytest.MonkeyPatch.context() as patch:
        changed(patch, "tpe", build=stock)
        patch.setattr(optuna_sampler, "_Staged", lambda inner, codec, given: inner)
        assert sweep(exam("tpe"), 40, rebuild_every=3) != sweep(exam("tpe"), 40)


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_the_window_forgets_the_same_way_live_and_rebuilt(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changed(monkeypatch, sampler, window=30)
    monkeypatch.setattr(warm_start, "WINDOW_STEP", 10)
    monkeypatch.setattr(warm_start, "KEPT", 5)
    for objectives in (ONE, TWO):
        spec = exam(sampler, objectives)
        assert sweep(spec, 90, rebuild_every=4) == sweep(spec, 90)


def test_window_starts_depend_on_the_number_alone() -> None:
    assert [window_start(number, 2000) for number in (0, 2000, 2499, 2500, 3100)] == [0, 0, 0, 500, 1000]
    assert all(number - window_start(number, 2000) >= 2000 for number in range(2000, 9000, 7))


def test_a_grid_is_walked_once_and_ends() -> None:
    spec = exam("grid")
    proposer = Proposer(spec)
    points = [json.dumps(proposal.config) for proposal in iter(proposer.propose, None)]
    assert len(points) == len(set(points)) == 3 * 7 * 4
    assert proposer.propose() is None
    proposer.rebuild([running(spec, Proposal(number=5, config={"target_epsilon": 1.0, "rate": 1.0}, seed=0))])
    rest = [json.dumps(proposal.config) for proposal in iter(proposer.propose, None)]
    assert rest == [*points[:5], *points[6:]]


def test_seeds_of_trials_are_their_own() -> None:
    random_spec, tpe_spec = exam("random"), exam("tpe")
    first, second = Proposer(random_spec), Proposer(tpe_spec)
    seeds = [proposal.seed for proposal in (first.propose() for _ in range(200)) if proposal]
    assert len(set(seeds)) == 200
    assert all(0 <= seed < 2**31 for seed in seeds)
    other = second.propose()
    assert other is not None
    assert other.seed == seeds[0]


class TellsFailed(optuna_sampler.OptunaSampler):
    """The known mistake: an infeasible point told as a failed trial."""

    def tell(self, record: TrialRecord) -> None:
        if not record.violations:
            return super().tell(record)
        assert self._study is not None
        self._study.tell(self._asked[record.number], state=optuna.trial.TrialState.FAIL)
        return None


def feasible_share(seed: int, sampler: type[optuna_sampler.OptunaSampler]) -> float:
    """Share of feasible proposals among the last 40 of 100, where 1 in 16 of the prior is feasible."""
    spec = exam(
        "tpe",
        systems={"hill": {"rate": {"uniform": [0, 8]}, "clip": {"uniform": [0, 4]}}},
        search={"sampler": "tpe", "trials": 100, "seed": seed},
        privacy={"epsilon": 1, "delta": 1e-5},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optuna_sampler, "OptunaSampler", sampler)
        proposer, hits = Proposer(spec), []
        for _ in range(100):
            proposal = proposer.propose()
            assert proposal is not None
            violation = max(float(proposal.config["rate"]) - 2, float(proposal.config["clip"]) - 1)
            if violation > 0:
                proposer.tell(infeasible(spec, proposal, violation))
            else:
                proposer.tell(finished(spec, proposal))
            hits.append(violation <= 0)
    return sum(hits[-40:]) / 40


def test_violations_teach_where_the_feasible_points_are() -> None:
    """Four fixed seeds, no overlap: told as constraints, late proposals are feasible several times as often."""
    constrained = [feasible_share(seed, optuna_sampler.OptunaSampler) for seed in range(4)]
    as_failed = [feasible_share(seed, TellsFailed) for seed in range(4)]
    assert sum(constrained) > 2.5 * sum(as_failed)
    assert min(constrained) > max(as_failed)
    assert min(constrained) > 4 / 16


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_learning_beats_the_prior(sampler: str) -> None:
    """Best accuracy after 80 trials, median of five seeds, against random draws from the same seeds."""

    def best(name: str, seed: int) -> float:
        spec = exam(
            name,
            systems={"hill": MIXED["hill"]},
            search={"sampler": name, "trials": 40, "seed": seed},
            privacy={"epsilon": 1, "delta": 1e-5},
        )
        proposer, values = Proposer(spec), []
        for _ in range(80):
            proposal = proposer.propose()
            assert proposal is not None
            record = finished(spec, proposal)
            proposer.tell(record)
            values.append(record.metrics["accuracy"])
        return sorted(values)[-5]

    learned = sorted(best(sampler, seed) for seed in range(5))[2]
    assert learned > sorted(best("random", seed) for seed in range(5))[2]


def test_random_needs_no_optuna_and_no_sampler_warns() -> None:
    code = (
        "import sys; from sweeps.search import Proposer; from tests.sweeps.toys import spec_with;"
        "Proposer(spec_with()).propose(); assert 'optuna' not in sys.modules, 'optuna was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    for sampler in ("tpe", "nsga2"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            sweep(exam(sampler, TWO), 20)
