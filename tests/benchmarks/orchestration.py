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

import argparse
import os
import statistics
import tempfile
import time
from dataclasses import replace
from typing import Any

from sweeps.execution import session
from sweeps.selection.run import opened
from sweeps.spec.parse import load_spec, public_facts
from sweeps.store.records import Settlement
from sweeps.store.workspace import Workspace
from trainables.data import SOURCES
from trainables.sealed.standing import best_of
from trainables.sealed.worker import run_slot

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


def ours(trials: int, sampler: str) -> float:
    """Seconds per trial, cluster start excluded: from the first decision to the end of the session."""
    with tempfile.TemporaryDirectory() as root:
        workspace = Workspace.at(root)
        spec = load_spec(SPEC + f"search: {{sampler: {sampler}, trials: {trials}, seed: 1}}\n")
        name = session.create(spec, workspace)
        first = FirstChange()
        session.resume(name, workspace, observer=first)
        return (time.monotonic() - first.at) / trials


def sealed(trials: int) -> float:
    """Seconds per trial, of one worker."""
    with tempfile.TemporaryDirectory() as root:
        workspace = Workspace.at(root)
        spec = load_spec(
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
        spec = load_spec(SPEC + f"search: {{sampler: random, trials: {finished + 1}, seed: 1}}\n")
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
        key = f"{name}-{proposal.number}"
        metrics = {"expected_error": 0.1, "estimate": 0.5, "epsilon": 1.0, "seconds": 0.1, "peak_memory_mb": 1.0}
        store.settle(
            lease,
            key,
            attempt,
            Settlement(
                executed_to=plan.steps,
                step=plan.steps,
                metrics=metrics,
                guarantee=plan.guarantee,
                seconds=0.1,
                finished=True,
            ),
        )
    # The view is drained beforehand: the question is what the history costs, not the backlog.
    while rows := store.outbox(name, 5000):
        store.delivered(lease, [row.id for row in rows])
    lease.release()


def main() -> None:
    """Measure, print a table, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--stock-trials", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--finished", type=int, default=10_000)
    options = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from sweeps.ray.cluster import cluster

    def measured(**row: object) -> None:
        text = (f"{key}={value:.4f}" if isinstance(value, float) else str(value) for key, value in row.items())
        print("  ".join(text), flush=True)

    with cluster(cpus=2):
        for sampler in ("random", "tpe"):
            mine, theirs, kept = [], [], []
            for _ in range(options.rounds):
                mine.append(ours(options.trials, sampler))
                theirs.append(stock(options.stock_trials, sampler))
                if sampler == "random":
                    kept.append(sealed(options.stock_trials))
            a, b = statistics.median(mine), statistics.median(theirs)
            measured(work=f"{sampler}, s a trial", ours=a, stock=b, ratio=b / a)
            if sampler == "random":
                c = statistics.median(kept)
                measured(work="sealed, s a trial", sealed=c, open=a, ratio=c / a)
        empty, full = first_launch(0), first_launch(options.finished)
        measured(work=f"first launch after {options.finished} trials", seconds=full, empty=empty, more=full - empty)


if __name__ == "__main__":
    main()
