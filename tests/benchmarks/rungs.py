"""What early stopping with two objectives saves: curves of 64 trials of quickstart, replayed in other orders.

Recorded once  64 points of `quickstart`, drawn at random, each trained to its end, with its metrics at every rung;
               kept in .sweeps/rungs-curves.json, and gone on with where a run was ended.
Replayed       20 seeds: the points arrive in another order, on `--workers` workers of unlike speed, and
               `sweeps.search.asha` decides, as the controller asks it. A rung costs its steps once it is launched.
Judged         share of the full search's hypervolume that all reported models reach (a stopped one counts as it was
               reported, with the claim of its whole plan), and share of the full search's steps that were launched.

    two objectives   accuracy and epsilon: non-dominated sorting, ties by hypervolume contribution
    accuracy alone   the same rungs, ranked by accuracy, as for one objective
    random           the same rungs, ranked by chance

Run: python -m tests.benchmarks.rungs [--reduction 3] [--rungs 4] [--workers 4] [--seeds 20] [--curves FILE]
"""

from __future__ import annotations

import argparse
import heapq
import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sweeps.examples import load_example_or_file
from sweeps.planning.plan import plan_proposal
from sweeps.privacy.claims import compared_epsilon
from sweeps.privacy.release import was_published
from sweeps.reporting.front import hypervolume
from sweeps.search.asha import first_stop, next_rung, rung_ends
from sweeps.search.samplers import RandomPoints
from sweeps.search.turns import seed_of_trial
from sweeps.spec import SweepSpec, load_spec, public_facts
from sweeps.spec.sections import EarlyStopping
from sweeps.store.records import Proposal, TrialRecord, TrialState
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.registry import SYSTEMS
from trainables.system import Execution, PrivacyPlan

TRIALS = 64
ENDS = tuple(EarlyStopping(method="asha", reduction=r, rungs=k) for r, k in ((2, 4), (3, 3), (3, 4)))
"""Rungs whose ends are recorded."""
CORNER = (0.0, 8.8)
"""Worst accuracy, and a tenth beyond the largest budget: where `sweeps pareto quickstart` ends its volumes."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A trial that was trained to its end.

    reports  {step: metrics} at the ends of all rungs
    """

    number: int
    plan: PrivacyPlan
    reports: Mapping[int, Mapping[str, float]]

    @property
    def epsilon(self) -> float:
        """What its claim counts as where trials are compared."""
        return compared_epsilon(self.plan.guarantee)


def record(path: Path) -> list[Curve]:
    """The curves of `path`, the missing ones trained and written one by one."""
    spec = load_example_or_file("quickstart")
    facts, data, points = public_facts(spec), SOURCES["digits"].load({}), RandomPoints(spec)
    done = {one["number"]: one for one in (json.loads(path.read_text()) if path.exists() else [])}
    calibrations: dict[str, float] = {}
    for number in range(TRIALS):
        if number in done:
            continue
        config = points.point(number)
        assert config is not None
        plan = plan_proposal(spec, config, facts, calibrations)
        assert isinstance(plan, PrivacyPlan), plan
        reports: dict[str, dict[str, float]] = {}
        step, state, seed = 0, None, seed_of_trial(spec.search.seed, number)
        for attempt, end in enumerate(sorted({end for one in ENDS for end in rung_ends(one, plan.steps)}), start=1):
            run = memory_run(
                plan, from_step=step, to_step=end, state=state, attempt=attempt, seed=seed, key=f"curve-{number}"
            )
            SYSTEMS[plan.system].fit([run], data, Execution())
            step, state, metrics = run.final
            reports[str(step)] = {"accuracy": metrics["accuracy"]}
        done[number] = {"number": number, "plan": plan.to_dict(), "reports": reports}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([done[key] for key in sorted(done)]))
        print(f"recorded {len(done)} of {TRIALS}", flush=True)
    return [
        Curve(one["number"], PrivacyPlan.from_dict(one["plan"]), {int(k): v for k, v in one["reports"].items()})
        for one in done.values()
    ]


def volume(points: list[tuple[float, float]]) -> float:
    """Hypervolume of (accuracy, epsilon) points."""
    return hypervolume(np.array(points), [True, False], CORNER)


def replay(spec: SweepSpec, curves: list[Curve], seed: int, workers: int, chance: bool) -> tuple[float, float]:
    """(share of the hypervolume, share of the steps) of one asynchronous search over the curves.

    chance  the rungs are shown random numbers in place of accuracies
    """
    generator = np.random.default_rng(seed)
    order, speed = generator.permutation(len(curves)), generator.lognormal(0.0, 0.5, workers)
    shown = [
        {step: {"accuracy": float(generator.random())} if chance else dict(at) for step, at in curve.reports.items()}
        for curve in curves
    ]
    records: dict[str, TrialRecord] = {}
    by_key: dict[str, int] = {}
    flying: list[tuple[float, int, str, int]] = []
    idle, now, spent, arrived = list(range(workers)), 0.0, 0, 0
    while True:
        while idle:
            running = {key for _, _, key, _ in flying}
            promotion = next_rung(spec, [was_published(one) for one in records.values()], running)
            if promotion is not None:
                key, start, end = promotion.key, promotion.from_step, promotion.to_step
            elif arrived < len(order):
                place, curve = int(order[arrived]), curves[order[arrived]]
                proposal = Proposal(number=arrived, config=curve.plan.config, seed=0)
                one = TrialRecord.of("replay", proposal, TrialState.RUNNING, plan=curve.plan)
                key, start, end = one.key, 0, first_stop(spec, curve.plan.steps)
                records[key], by_key[key], arrived = one, place, arrived + 1
            else:
                break
            worker = idle.pop(0)
            spent += end - start
            records[key] = replace(records[key], state=TrialState.RUNNING)
            work = (end - start) * curves[by_key[key]].plan.work / curves[by_key[key]].plan.steps
            heapq.heappush(flying, (now + work / speed[worker], worker, key, end))
        if not flying:
            break
        now, worker, key, end = heapq.heappop(flying)
        idle.append(worker)
        metrics = shown[by_key[key]][end]
        records[key] = replace(
            records[key],
            state=TrialState.COMPLETE,
            metrics=metrics,
            guarantee=curves[by_key[key]].plan.guarantee,
            step=end,
            reports={**records[key].reports, end: metrics},
        )
    reached = volume(
        [
            (curves[by_key[key]].reports[one.step]["accuracy"], curves[by_key[key]].epsilon)
            for key, one in records.items()
        ]
    )
    full = volume([(curve.reports[curve.plan.steps]["accuracy"], curve.epsilon) for curve in curves])
    return reached / full, spent / sum(curve.plan.steps for curve in curves)


def stopping(objectives: list[dict[str, str]], options: argparse.Namespace) -> SweepSpec:
    """Quickstart with these objectives and rungs."""
    raw: dict[str, Any] = load_example_or_file("quickstart").canonical()
    rungs = {"method": "asha", "reduction": options.reduction, "rungs": options.rungs}
    return load_spec(raw | {"objectives": objectives, "early_stopping": rungs})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reduction", type=int, default=3)
    parser.add_argument("--rungs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--curves", type=Path, default=Path(".sweeps/rungs-curves.json"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    curves = record(options.curves)
    accuracy, epsilon = {"metric": "accuracy", "goal": "maximize"}, {"metric": "epsilon", "goal": "minimize"}
    ways = {
        "two objectives": (stopping([accuracy, epsilon], options), False),
        "accuracy alone": (stopping([accuracy], options), False),
        "random": (stopping([accuracy], options), True),
    }
    print(f"{TRIALS} trials, {options.seeds} orders, {options.workers} workers; shares of the full search")
    print(f"{'ranked by':16} {'hypervolume: mean':>18} {'least':>7} {'steps: mean':>12} {'most':>7} {'95% by 40%':>12}")
    for word, (spec, chance) in ways.items():
        runs = [replay(spec, curves, seed, options.workers, chance) for seed in range(options.seeds)]
        volumes, steps = [one[0] for one in runs], [one[1] for one in runs]
        enough = sum(filled >= 0.95 and step <= 0.4 for filled, step in runs)
        print(
            f"{word:16} {statistics.mean(volumes):18.4f} {min(volumes):7.4f} "
            f"{statistics.mean(steps):12.3f} {max(steps):7.3f} {enough:9}/{len(runs)}"
        )


if __name__ == "__main__":
    main()
