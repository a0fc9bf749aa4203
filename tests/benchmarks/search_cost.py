"""What a search that is paid for costs in accuracy, and what it gains: three ways to spend one epsilon over one space.

    untuned  one trial, drawn from the space: all of the budget is its own
    all      ten trials that all leave, in equal parts of the budget (`scope: sweep, release: all`)
    best     a secret number of trials, geometric of mean 27, of which the best leaves (`release: best`)

Run: python -m tests.benchmarks.search_cost FILE --record DIR [--set mnist]           appends the trials to FILE
     python -m tests.benchmarks.search_cost FILE... [--searches 4000]                 prints what searches publish

Trials are planned by the product, and a trial is a function of its number: a run that was ended goes on where it stood.
Each is scored on validation records as its sweep would score it (noised on MNIST, whose validation is private), and on
test records, which no choice reads. Every search is drawn anew from the recorded trials of its way, none twice in one
search; a search for more trials than were recorded has all of them. What is shown is the accuracy on test records of
the trial that would be published: the mean over searches, and between which values nine of ten of them lie. The spaces
are wide on purpose: who has tuned on such records before needs no search.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray

from sweeps.planning.plan import plan_proposal
from sweeps.search.space import Space
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.sections import SweepSpec
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.data.source import parted
from trainables.registry import SYSTEMS
from trainables.system import Config, Dataset, PrivacyPlan, Refusal, RunSettings, Split
from trainables.validation.evaluate import judge

EPSILONS = (0.5, 1.0, 3.0, 8.0)
DELTA = 1e-5
SHARED, MEAN, MOST = 10, 27, 140
WAYS = ("untuned", "all", "best")
SETS = ("mnist", "adult")

_DATA: dict[str, dict[str, Any]] = {
    "mnist": {
        "source": "mnist",
        "validation": {"records": "private", "share": 0.1},
        "test": {"records": "public"},
        "features": "scattering",
        "features_groups": 27,
    },
    "adult": {"source": "adult"},
}
_KNOBS: dict[str, dict[str, Any]] = {
    "mnist": {
        "model": "linear",
        "momentum": 0.9,
        "batch_size": {"int_log_uniform": [512, 4096]},
        "epochs": {"int_uniform": [4, 24]},
        "learning_rate": {"log_uniform": [0.1, 10]},
        "clip_norm": {"log_uniform": [0.01, 1]},
    },
    "adult": {
        "model": {"choice": ["linear", "mlp"]},
        "hidden": 16,
        "batch_size": {"int_log_uniform": [128, 2048]},
        "epochs": {"log_uniform": [1, 16]},
        "learning_rate": {"log_uniform": [0.02, 20]},
        "clip_norm": {"log_uniform": [0.05, 5]},
    },
}


def spec_of(data: str, epsilon: float, way: str, folder: str) -> SweepSpec:
    """The sweep that somebody would run."""
    scope: dict[str, Any] = {} if way == "untuned" else {"scope": "sweep", "release": way}
    trials = {"untuned": 1, "all": SHARED, "best": MOST}[way]
    raw: dict[str, Any] = {
        "name": f"cost-{data}-{way}",
        "data": {**_DATA[data], "path": folder},
        "systems": {"noisy-sgd": _KNOBS[data]},
        "privacy": {"epsilon": epsilon, "delta": DELTA, **scope},
        "objectives": [{"metric": "accuracy"}],
        "search": {"sampler": "random", "trials": trials, "seed": 0},
    }
    if way == "best":
        raw["selection"] = {"mean": MEAN, "deadline_minutes": 600, "megabytes": 1}
    return load_spec(raw)


def planner(spec: SweepSpec) -> Callable[[Config], PrivacyPlan | Refusal]:
    """How a drawn configuration is planned."""
    facts, solved = public_facts(spec), dict[str, float]()
    if spec.selection is None:
        return lambda config: plan_proposal(spec, config, facts, solved)
    found = SealedPlanner.of(SealedPrior(spec, facts, solved))
    assert isinstance(found, SealedPlanner), found
    return found.plan


ROUND, DRAWS = 8, 1000
POOL: Mapping[str, Mapping[str, int]] = {
    "mnist": {"untuned": 16, "all": 16, "best": 32},
    "adult": {"untuned": 64, "all": 64, "best": 128},
}


def records(spec: SweepSpec, folder: str, kept: Path) -> tuple[Dataset, Split]:
    """What is trained and validated on, and the test records."""
    own, features = parted(spec.data.options())
    source: Any = SOURCES[spec.data.source]
    if features is None:
        return source.load(own), source.load({**own, "split": "test"}).validation
    test = features.split(source.load_held_out(own), source.facts(own), kept)
    return features.dataset(source.load_records(own), kept), test


def trial(spec: SweepSpec, number: int, data: Dataset, test: Split) -> dict[str, Any]:
    """One trial, drawn from the space by its number alone."""
    space, plan_of = Space.of(spec), planner(spec)
    coins = np.random.default_rng((20201, number))
    for _ in range(DRAWS):
        config = space.draw(coins)
        if isinstance(plan := plan_of(config), PrivacyPlan):
            break
    else:
        raise RuntimeError(f"{DRAWS} draws without a plan: {plan}")
    start = time.process_time()
    run = memory_run(plan, seed=number, key=f"{spec.name}-{number}")
    system: Any = SYSTEMS[plan.system]
    system.fit([run], data, RunSettings())
    _, state, metrics = run.final
    model = system.released_model(plan, data.facts, state)
    return {
        "number": number,
        "config": plan.config,
        "validation": metrics["accuracy"],
        "test": judge(model, test, data.facts)["accuracy"],
        "seconds": round(time.process_time() - start, 2),
    }


def wanted(data: str, done: set[tuple[float, str, int]]) -> Iterator[tuple[float, str, int]]:
    """What is missing, some of every way in turn."""
    pools = POOL[data]
    for first in range(0, max(pools.values()), ROUND):
        for epsilon in EPSILONS:
            for way in WAYS:
                for number in range(first, min(first + ROUND, pools[way])):
                    if (epsilon, way, number) not in done:
                        yield epsilon, way, number


NINE_OF_TEN = (0.05, 0.95)


def published(trials: Sequence[dict[str, Any]], way: str, searches: int, seed: int = 0) -> NDArray[np.float64]:
    """Test accuracy of what each of so many searches publishes."""
    rng = np.random.default_rng(seed)
    secret = rng.geometric(1 / MEAN, size=20 * searches)
    counts: dict[str, Sequence[int]] = {
        "untuned": [1] * searches,
        "all": [SHARED] * searches,
        "best": secret[secret <= MOST][:searches].tolist(),
    }
    validation = np.array([one["validation"] for one in trials])
    test = np.array([one["test"] for one in trials])
    found = np.empty(searches)
    for number, count in enumerate(counts[way]):
        tried = rng.permutation(len(trials))[:count]
        found[number] = test[tried[np.argmax(validation[tried])]]
    return found


def record(file: Path, sets: Sequence[str], folder: str) -> None:
    """Append what is missing of every set."""
    torch.set_num_threads(1)
    known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for name in sets:
        done = {(one["epsilon"], one["way"], one["number"]) for one in known if one["data"] == name}
        specs = {(e, w): spec_of(name, e, w, folder) for e in EPSILONS for w in WAYS}
        data, test = records(specs[EPSILONS[0], WAYS[0]], folder, file.parent / "features")
        for epsilon, way, number in wanted(name, done):
            found = trial(specs[epsilon, way], number, data, test)
            with file.open("a") as appended:
                appended.write(f"{json.dumps({'data': name, 'epsilon': epsilon, 'way': way, **found})}\n")


def show(rows: Sequence[dict[str, Any]], searches: int) -> None:
    """Print the table."""
    print(f"{'':8}{'epsilon':>8}  " + "".join(f"{way:^34}" for way in WAYS))
    for data in SETS:
        for epsilon in EPSILONS:
            cells = []
            for way in WAYS:
                trials = [one for one in rows if (one["data"], one["epsilon"], one["way"]) == (data, epsilon, way)]
                if not trials:
                    cells.append(f"{'not recorded':^34}")
                    continue
                found = published(trials, way, searches)
                low, high = np.quantile(found, NINE_OF_TEN)
                cells.append(f"{found.mean():.4f} ({low:.4f} .. {high:.4f}) of {len(trials):3}".center(34))
            print(f"{data:8}{epsilon:8g}  " + "".join(cells))


def main(
    files: list[Path],
    record_in: Annotated[Path | None, typer.Option("--record", help="record from the data sets in this folder")] = None,
    only: Annotated[list[str] | None, typer.Option("--set")] = None,
    searches: int = 4000,
) -> None:
    if record_in is not None:
        record(files[0], only or SETS, str(record_in))
    else:
        show([json.loads(line) for file in files for line in file.read_text().splitlines()], searches)


if __name__ == "__main__":
    typer.run(main)
