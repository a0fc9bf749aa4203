"""Seconds per trial of the whole road (store written, MLflow drained) against the stock stack.

    python -m tests.benchmarks.orchestration [--trials 1000] [--stock-trials 300] [--rounds 1]

Ours     noisy-mean with four knobs: plan, reservation, Ray Tune, result, MLflow in its own process; from the
         first decision to the drained outbox. Stock: Ray Tune with OptunaSearch and MLflowLoggerCallback on a
         function with the same four knobs; no privacy plan, no crash safety.
Sealed   the same trials by the workers of a sealed search, one after the other: draw, plan, train, and what it
         stands at written after each; without the wait for the announced end. All slots up to the cap are run.
Resume   seconds from `resume` to the first launch, with 10,000 finished trials and with none.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import replace
from typing import Any

import typer

from sweeps.examples import load
from sweeps.execution import session
from sweeps.selection.run import opened
from sweeps.spec.parse import public_facts
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import Settlement
from sweeps.store.workspace import Workspace
from trainables.data import SOURCES
from trainables.sealed import best_of, run_slot

SPEC = """
name: bench
data: {source: uniform, n: 1000}
systems:
  noisy-mean:
    clip: {uniform: [0.2, 1.0]}
    steps: {int_uniform: [1, 20]}
    shrinkage: {uniform: [0.0, 1.0]}
    prior: {uniform: [0.0, 1.0]}
privacy: {epsilon: 1.0, delta: 1.0e-5}
objectives: [{metric: expected_error, goal: minimize}]
"""


class FirstChange(session.Observer):
    """When the first trial changed."""

    at = float("inf")

    def on_change(self, controller: Any, trial: Any) -> None:
        self.at = min(self.at, time.monotonic())


def _spec(trials: int, sampler: str = "random") -> SweepSpec:
    return load(SPEC + f"search: {{sampler: {sampler}, trials: {trials}, seed: 1}}\n")


def ours(trials: int, sampler: str) -> float:
    """Seconds per trial, cluster start excluded: from the first decision to the end of the session."""
    with tempfile.TemporaryDirectory() as root:
        workspace = Workspace.at(root)
        name = session.create(_spec(trials, sampler), workspace)
        first = FirstChange()
        session.resume(name, workspace, observer=first)
        return (time.monotonic() - first.at) / trials


def sealed(trials: int) -> float:
    """Seconds per trial, of one worker."""
    with tempfile.TemporaryDirectory() as root:
        workspace = Workspace.at(root)
        spec = load(
            SPEC.replace("1.0e-5}", "1.0e-5, scope: sweep, release: best}")
            + f"search: {{sampler: random, trials: {trials}, seed: 1}}\nresources: {{concurrency: 1}}\n"
            + f"selection: {{mean: {trials / 3}, deadline_minutes: 600, megabytes: 0.1}}\n"
        )
        name = session.create(spec, workspace)
        store, data = workspace.open_store(), SOURCES[spec.data.source].load(spec.data.options())
        started = time.monotonic()
        work = opened(store.sweep(name), spec, public_facts(spec), workspace, {})
        assert work is not None
        drawn, standing = work.drawn(), work.standing(0)
        for number in range(trials):
            found = run_slot(drawn, number, work.winner, work.group, data, work.ranking)
            best = best_of(*standing.best, *([] if found is None else [found]))
            standing = replace(standing, following=number + 1, written=number, best=best)
            work.keep(0, standing)
        return (time.monotonic() - started) / trials


def stock(trials: int, sampler: str) -> float:
    """Seconds per trial of Tuner.fit with OptunaSearch and the MLflow callback."""
    import optuna
    from ray import tune
    from ray.air.integrations.mlflow import MLflowLoggerCallback
    from ray.tune.search.optuna import OptunaSearch

    def objective(config: dict[str, float]) -> None:
        error = (
            config["shrinkage"] * (config["clip"] - config["clip"] ** 2 / 2)
            + (1 - config["shrinkage"]) * config["prior"]
        )
        tune.report({"expected_error": abs(error - 0.5)})

    samplers = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
    with tempfile.TemporaryDirectory() as root:
        tuner = tune.Tuner(
            tune.with_resources(objective, {"cpu": 1}),
            param_space={
                "clip": tune.uniform(0.2, 1.0),
                "steps": tune.randint(1, 21),
                "shrinkage": tune.uniform(0, 1),
                "prior": tune.uniform(0, 1),
            },
            tune_config=tune.TuneConfig(
                search_alg=OptunaSearch(sampler=samplers[sampler](seed=1)),
                metric="expected_error",
                mode="min",
                num_samples=trials,
                reuse_actors=True,
            ),
            run_config=tune.RunConfig(
                storage_path=root,
                verbose=0,
                callbacks=[MLflowLoggerCallback(tracking_uri=f"sqlite:///{root}/mlflow.db", experiment_name="stock")],
            ),
        )
        started = time.monotonic()
        tuner.fit()
        return (time.monotonic() - started) / trials


def first_launch(finished: int) -> float:
    """Seconds from `resume` to the first launch of a sweep with `finished` trials behind it."""
    with tempfile.TemporaryDirectory() as root:
        workspace = Workspace.at(root)
        spec = _spec(finished + 1)
        name = session.create(spec, workspace)
        if finished:
            _fill(workspace, name, spec, finished)
        first, started = FirstChange(), time.monotonic()
        session.resume(name, workspace, observer=first)
        return first.at - started


def _fill(workspace: Workspace, name: str, spec: Any, trials: int) -> None:
    from sweeps.planning.plan import plan_proposal
    from sweeps.search.proposer import Proposer
    from sweeps.store.store import open_store
    from trainables.system import PrivacyPlan

    store = open_store(workspace.store_url)
    lease = store.acquire(name)
    proposer, facts = Proposer(spec), SOURCES[spec.data.source].facts(spec.data.options())
    for _ in range(trials):
        proposal = proposer.propose()
        assert proposal is not None
        plan = plan_proposal(spec, proposal.config, facts, {})
        assert isinstance(plan, PrivacyPlan)
        attempt = store.launch(lease, proposal, plan, plan.steps).attempt
        metrics = {"expected_error": 0.1, "estimate": 0.5, "epsilon": 1.0, "seconds": 0.1, "peak_memory_mb": 1.0}
        ran: dict[str, Any] = {
            "executed_to": plan.steps,
            "step": plan.steps,
            "metrics": metrics,
            "guarantee": plan.guarantee,
        }
        store.settle(lease, f"{name}-{proposal.number}", attempt, Settlement(**ran, seconds=0.1, finished=True))
    # The view is drained beforehand: the question is what the history costs, not the backlog.
    while rows := store.outbox(name, 5000):
        store.delivered(lease, [row.id for row in rows])
    lease.release()


def main(trials: int = 1000, stock_trials: int = 300, rounds: int = 1, finished: int = 10_000) -> None:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from sweeps.ray.cluster import cluster

    with cluster(cpus=2):
        for sampler in ("random", "tpe"):
            pairs = [(ours(trials, sampler), stock(stock_trials, sampler)) for _ in range(rounds)]
            mine, other = (statistics.median(column) for column in zip(*pairs, strict=True))
            print(f"{sampler}, s a trial  ours={mine:.4f}  stock={other:.4f}  ratio={other / mine:.4f}", flush=True)
            if sampler == "random":
                kept = statistics.median(sealed(stock_trials) for _ in range(rounds))
                print(f"sealed, s a trial  sealed={kept:.4f}  open={mine:.4f}  ratio={kept / mine:.4f}", flush=True)
        empty, full = first_launch(0), first_launch(finished)
        print(f"first launch  after {finished} trials={full:.4f}  empty={empty:.4f}  more={full - empty:.4f}")


if __name__ == "__main__":
    typer.run(main)
