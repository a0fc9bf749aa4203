"""What a proposal costs, sampler by sampler, beside the stock sampler on the same history.

Run as `python -m tests.benchmarks.proposals [--json FILE]`. Rounds are interleaved: in each, every contender asks
and tells once on a history of the same length; medians and ratios of medians are printed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna

from sweeps.privacy.release import was_published
from sweeps.search import Proposer
from sweeps.spec import SweepSpec
from tests.sweeps.toys import finished, running, spec_with

KNOBS: dict[str, Any] = {
    "rate": {"log_uniform": [0.01, 10]},
    "clip": {"uniform": [0.1, 5]},
    "steps": {"int_log_uniform": [1, 100]},
    "batch_size": {"choice": [16, 32, 64]},
}


def exam(sampler: str) -> SweepSpec:
    """Four knobs, one system, one objective."""
    return spec_with(systems={"hill": KNOBS}, search={"sampler": sampler, "trials": 1000, "seed": 1})


def ours(sampler: str, history: int) -> Callable[[], None]:
    """One propose, tell running, tell complete, after `history` trials."""
    spec, prior = exam(sampler), Proposer(exam("random"))
    proposals = [proposal for proposal in (prior.propose() for _ in range(history)) if proposal]
    proposer = Proposer(spec)
    proposer.rebuild([was_published(finished(spec, proposal)) for proposal in proposals])

    def once() -> None:
        proposal = proposer.propose()
        assert proposal is not None
        proposer.tell(was_published(running(spec, proposal)))
        proposer.tell(was_published(finished(spec, proposal)))

    once()
    return once


def stock(history: int) -> Callable[[], None]:
    """The same by study.ask and study.tell with a stock TPE sampler on the same space."""
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=1, multivariate=True))
    spec = exam("random")
    space: dict[str, Any] = {
        "rate": optuna.distributions.FloatDistribution(0.01, 10, log=True),
        "clip": optuna.distributions.FloatDistribution(0.1, 5),
        "steps": optuna.distributions.IntDistribution(1, 100, log=True),
        "batch_size": optuna.distributions.CategoricalDistribution([16, 32, 64]),
    }
    prior = Proposer(spec)
    for proposal in (prior.propose() for _ in range(history)):
        assert proposal is not None
        value = finished(spec, proposal).metrics["accuracy"]
        params = {name: proposal.config[name] for name in space}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=space, value=value))

    def once() -> None:
        trial = study.ask(space)
        trial.set_constraint("infeasible", -1.0)
        study.tell(trial, float(trial.params["rate"]))

    once()
    return once


def rebuild_seconds(sampler: str, history: int) -> float:
    """From records in memory to the first proposal."""
    spec, prior = exam(sampler), Proposer(exam("random"))
    proposals = [proposal for proposal in (prior.propose() for _ in range(history)) if proposal]
    records = [was_published(finished(spec, proposal)) for proposal in proposals]
    started = time.perf_counter()
    proposer = Proposer(spec)
    proposer.rebuild(records)
    proposer.propose()
    return time.perf_counter() - started


def measure(contenders: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each, round by round in turn."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, once in contenders.items():
            started = time.perf_counter()
            once()
            times[name].append(1000 * (time.perf_counter() - started))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    results: dict[str, Any] = {"optuna": optuna.__version__, "rounds": options.rounds}
    for history in (100, 1000, 10_000):
        contenders = {name: ours(name, history) for name in ("random", "tpe", "nsga2")}
        contenders["stock tpe"] = stock(history)
        results[f"milliseconds at {history}"] = measure(contenders, options.rounds)
    results["seconds to rebuild"] = {
        f"{sampler} {history}": rebuild_seconds(sampler, history)
        for sampler in ("random", "tpe", "nsga2")
        for history in (1000, 10_000, 30_000)
    }
    for title, table in results.items():
        print(title, table if not isinstance(table, dict) else "")
        for name, value in table.items() if isinstance(table, dict) else ():
            print(f"  {name:<14}{value:10.3f}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
