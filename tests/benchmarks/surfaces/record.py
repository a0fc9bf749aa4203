"""The recorded sweeps, and what records them: noisy-sgd on three data sets, a linear model and one with a hidden layer.

Run: python -m tests.benchmarks.surfaces.record FOLDER [--data DIR] [--set digits] [--trials 2000]

A trial is small on purpose, so that thousands of them can be recorded on one core. Each is planned by the product,
trained to its end in this process, and reports at the ends of three rungs, as early stopping would have it. FOLDER gets
a file of rows for each data set, as the table beside this file has them. A trial is a function of its number: a run
that was ended goes on where it stood, and none is run again that the table holds.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from sweeps.planning.plan import plan_proposal
from sweeps.search.asha import stops
from sweeps.search.samplers import RandomPoints, seed_of_trial
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.sections import SweepSpec
from tests.benchmarks.surfaces.surface import rows
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.registry import SYSTEMS
from trainables.system import Dataset, PrivacyPlan, RunSettings

BUDGETS = (1.0, 2.0, 4.0, 8.0)
TRIALS = 2000
_RATES: dict[str, Any] = {
    "model": {"choice": ["linear", "mlp"]},
    "learning_rate": {"log_uniform": [0.02, 20.0]},
    "clip_norm": {"log_uniform": [0.05, 5.0]},
}
_OWN: dict[str, dict[str, Any]] = {
    "digits": {"hidden": 32, "batch_size": [32, 512], "epochs": [1.0, 16.0]},
    "adult": {"hidden": 16, "batch_size": [128, 2048], "epochs": [0.1, 2.0]},
    "mnist": {"hidden": 16, "batch_size": [128, 2048], "epochs": [0.1, 1.0]},
}
SETS = tuple(_OWN)


def sweep(data: str, folder: str, **sections: Any) -> SweepSpec:
    """The spec of a data set's recorded trials; `sections` replace those of the same name.

    folder  of the data files; digits needs none
    """
    own, files = _OWN[data], {} if data == "digits" else {"path": folder}
    batch, epochs = {"int_log_uniform": own["batch_size"]}, {"log_uniform": own["epochs"]}
    raw: dict[str, Any] = {
        "name": f"surface-{data}",
        "data": {"source": data, **({"split": "test"} if data == "adult" else {}), **files},
        "systems": {"noisy-sgd": {**_RATES, "hidden": own["hidden"], "batch_size": batch, "epochs": epochs}},
        "privacy": {"epsilon": list(BUDGETS), "delta": 1e-4 if data == "digits" else 1e-5},
        "objectives": [{"metric": "accuracy", "goal": "maximize"}, {"metric": "epsilon", "goal": "minimize"}],
        "search": {"sampler": "random", "trials": TRIALS, "seed": 0, "stratified": True},
        "early_stopping": {"method": "asha", "reduction": 3, "rungs": 3},
    }
    return load_spec(raw | sections)


def trial(spec: SweepSpec, data: Dataset, number: int) -> dict[str, Any] | None:
    """A row: knobs, solved noise, planned cost, accuracy at each rung, processor seconds; None without a plan."""
    config = RandomPoints(spec).point(number)
    assert config is not None
    plan = plan_proposal(spec, config, public_facts(spec), {})
    if not isinstance(plan, PrivacyPlan):
        return None
    start, step, state, reports = time.process_time(), 0, None, []
    key, seed = f"{spec.name}-{number}", seed_of_trial(spec.search.seed, number)
    for attempt, end in enumerate(stops(spec, plan.steps), start=1):
        run = memory_run(plan, from_step=step, to_step=end, state=state, attempt=attempt, seed=seed, key=key)
        SYSTEMS[plan.system].fit([run], data, RunSettings())
        step, state, metrics = run.final
        reports.append(metrics["accuracy"])
    return {
        **{name: value for name, value in config.items() if name not in ("system", "hidden")},
        "data": data.facts.dataset,
        "number": number,
        "noise_multiplier": plan.config["noise_multiplier"],
        "work": plan.work,
        "steps": plan.steps,
        # A short trial has the same report at two rungs.
        "rung_1": reports[0],
        "rung_2": reports[-2] if len(reports) > 1 else reports[-1],
        "accuracy": reports[-1],
        "seconds": round(time.process_time() - start, 4),
    }


def main(
    folder: Path,
    data: Annotated[str, typer.Option(help="folder of the data sets' files")] = "data",
    only: Annotated[list[str] | None, typer.Option("--set", help="one data set; all unless given")] = None,
    trials: int = TRIALS,
) -> None:
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    for name in only or SETS:
        spec, path = sweep(name, data), folder / f"{name}.jsonl"
        known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        done = {one["number"] for one in (*known, *rows(name))}
        records = SOURCES[name].load(spec.data.options())
        with path.open("a") as file:
            for number in sorted(set(range(trials)) - done):
                if (found := trial(spec, records, number)) is not None:
                    file.write(f"{json.dumps(found)}\n")
                    file.flush()


if __name__ == "__main__":
    typer.run(main)
