"""Golden numbers: what plans, accountants, calibrations, prices, trainings and ledgers said when 0.1.0 was frozen.

`golden.json` has one value a line: its kind (a function below), its setting, the value, by how much of itself it may
differ, and where it comes from. An epsilon that moves is a wrong epsilon here or there: a line changes in a commit that
says why.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import sweeps
from dpcore import calibrate, events
from dpcore.accounting import make
from dpcore.calibrate import Target
from dpcore.selection import counts
from dpcore.selection.front import FrontPoints
from dpcore.selection.ladder import Climbing
from dpcore.selection.profiles import EventProfile
from sweeps.examples import load
from sweeps.papers import PAPERS
from sweeps.planning.plan import plan_proposal
from sweeps.search.proposer import Proposer
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec.parse import public_facts
from tests.sweeps import published_sweeps
from tests.trainables.recording import blobs, memory_run
from trainables.data import SOURCES
from trainables.registry import SYSTEMS
from trainables.system import Dataset, PrivacyPlan, PrivacyTarget, Refusal, RunSettings

GOLDEN = [json.loads(line) for line in (Path(__file__).parent / "golden.json").read_text().splitlines()]
EXAMPLES = Path(__file__).parents[1] / "sweeps" / "examples"


def said(plan: PrivacyPlan | Refusal) -> dict[str, Any]:
    """A plan's steps, what was solved, its epsilon by each accountant, and where that cannot be less; or a refusal."""
    if isinstance(plan, Refusal):
        return {"refused": dict(plan.violations) or plan.reason}
    found: dict[str, Any] = {"steps": plan.steps, **{name: plan.config[name] for name in plan.solved}}
    for claim in (plan.guarantee, *plan.beside):
        found[claim.accountant] = claim.epsilon
    if plan.guarantee.epsilon_lower is not None:
        found["at least"] = plan.guarantee.epsilon_lower
    return found


def plan_of(setting: Mapping[str, Any]) -> tuple[PrivacyPlan | Refusal, Dataset | None]:
    """The plan of one configuration: of `blobs`, of the toy's numbers, or of 54,000 images."""
    options = {"uniform": {"n": 50}, "mnist": {"path": "."}}.get(setting["data"], {})
    source = SOURCES.known(setting["data"])
    data = blobs(60, 40) if source is None else source.load(options) if setting["data"] == "uniform" else None
    facts = data.facts if data is not None else SOURCES["mnist"].facts(options)
    wanted = {**setting["target"], "adjacency": events.Adjacency(setting["target"]["adjacency"])}
    system, target = SYSTEMS[setting["system"]], PrivacyTarget(**wanted)
    defaults = {one.name: one.default for one in system.hyperparameters if one.default is not None}
    return system.plan(defaults | setting["config"], facts, target, {}), data


def plan(setting: Mapping[str, Any]) -> dict[str, Any]:
    return said(plan_of(setting)[0])


def training(setting: Mapping[str, Any]) -> list[float]:
    """Of the arrays that a run ends with, under one secret and one seed: how large they are, and that twice with one
    signed sum, which alone may be near 0. Seeds, whole numbers of 64 bits, would hide all else."""
    found, data = plan_of(setting)
    assert isinstance(found, PrivacyPlan)
    assert data is not None
    run = memory_run(found, seed=5, key="golden-0", secret=b"the secret of the golden numbers")
    run.released = lambda **shown: None  # type: ignore[attr-defined]
    with threadpool_limits(limits=1):
        SYSTEMS[found.system].fit([run], data, RunSettings(threads=1))
    numbers = np.concatenate(
        [array.ravel().astype(float) for _, array in sorted(run.final[1].items()) if array.dtype.kind in "fib"]
    )
    size = float(np.abs(numbers).sum())
    return [size, 2 * size + float(numbers @ np.resize([1.0, -1.0, -1.0], numbers.size))]


def example(setting: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The first plans of a packaged example, or of another spec."""
    spec = load(setting["name"])
    facts, proposer, calibrations = public_facts(spec), Proposer(spec), dict[str, float]()
    proposals = (proposer.propose() for _ in range(setting["proposals"]))
    return [said(plan_proposal(spec, one.config, facts, calibrations)) for one in proposals if one is not None]


def event_of(setting: Mapping[str, Any]) -> events.Event:
    return calibrate.sampled_gaussian(setting["noise_multiplier"], setting["rate"], setting["steps"])


def bounds(setting: Mapping[str, Any]) -> list[float]:
    """Certified bounds of epsilon, of T steps of Poisson-sampled Gaussians."""
    accountant = make("pld", events.Adjacency(setting["adjacency"])).compose(event_of(setting))
    return [accountant.epsilon_lower(setting["delta"]), accountant.epsilon(setting["delta"])]


def epsilon(setting: Mapping[str, Any]) -> float:
    return make(setting["accountant"], events.Adjacency.ADD_REMOVE).compose(event_of(setting)).epsilon(setting["delta"])


def calibration(setting: Mapping[str, Any]) -> float:
    """The least noise or the most steps that meet a target."""
    solve = getattr(calibrate, setting["solve"])
    return float(solve(Target(**setting["target"]), **setting["given"]))


def price(setting: Mapping[str, Any]) -> list[float]:
    """What a front of a random number of trials leaves for each, or what a ladder's rungs cost."""
    law = getattr(counts, setting["law"])(setting["mean"])
    if "orders" in setting:
        found = FrontPoints.solved(law, setting["orders"], Target(**setting["target"]))
        return [found.of_orders(number) for number in range(1, setting["orders"] + 1)]
    # Each of J equally likely rungs has so much delta.
    count, prices = len(setting["rungs"]), list[float]()
    delta = setting["delta"] * count / law.mean * (1 + law.mean)
    climbing = Climbing(law=law, weights=(1 / count,) * count, delta=delta)
    for one in setting["rungs"]:
        trial = EventProfile(event_of(one))
        prices.append(climbing.price(trial))
        climbing = climbing.with_rung(trial)
    return prices


def search(setting: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What configurations of a sealed search are given under one price for the winner."""
    spec = load(setting["name"])
    prior = SealedPrior(spec, public_facts(spec))
    planner = SealedPlanner.of(prior)
    assert isinstance(planner, SealedPlanner)
    rng = np.random.default_rng(0)
    return [said(planner.plan(prior.space.draw(rng))) for _ in range(setting["draws"])]


def ledger(setting: Mapping[str, Any]) -> dict[str, Any]:
    """What a whole sweep in this process charged, claims in total, and has on its front."""
    with tempfile.TemporaryDirectory() as folder:
        raw = json.loads(json.dumps(setting["spec"]).replace("FOLDER", folder))
        (Path(folder) / "people.csv").write_text(people())
        published_sweeps.swept(Path(folder), {**raw, "name": published_sweeps.NAME}, views=False)
        sweep = sweeps.open(published_sweeps.NAME, root=folder)
        front, shown = sweep.front(), sweep.overview().to_dict()["ledger"]
        return {
            "steps": shown["steps_executed"],
            "epsilon": shown["procedure"]["epsilon"],
            "at least": shown["procedure"]["epsilon_lower"],
            "front": front.keys,
            "hypervolume": front.hypervolumes,
        }


def people() -> str:
    """A file of whole numbers, the same everywhere."""
    lines = ["person_id,age,hours,work,income"]
    for row in range(200):
        age, hours = (row * 37) % 101, (row * 53) % 97
        work = ("private", "public", "self")[row % 3]
        lines.append(f"p{row % 90},{age},{hours},{work},{'high' if age + hours > 100 else 'low'}")
    return "\n".join(lines) + "\n"


def differences(where: str, golden: Any, now: Any, tolerance: float) -> Iterator[str]:
    if isinstance(golden, dict) and isinstance(now, dict):
        for name in {**golden, **now}:
            yield from differences(f"{where} {name}", golden.get(name), now.get(name), tolerance)
    elif isinstance(golden, list) and isinstance(now, list) and len(golden) == len(now):
        for number, (one, other) in enumerate(zip(golden, now, strict=True)):
            yield from differences(f"{where} {number}", one, other, tolerance)
    elif isinstance(golden, int | float) and isinstance(now, int | float):
        if not math.isclose(golden, now, rel_tol=tolerance, abs_tol=1e-12):
            yield f"{where}: {golden} was frozen, {now} is computed"
    elif golden != now:
        yield f"{where}: {golden!r} was frozen, {now!r} is computed"


HERE = [one for one in GOLDEN if one["kind"] != "paper"]
"""Those of publications are compared where their reproductions run anyway (`tests/sweeps/test_papers.py`)."""


@pytest.mark.parametrize("golden", HERE, ids=lambda one: f"{one['kind']}-{one['name']}")
def test_numbers_do_not_move(golden: dict[str, Any]) -> None:
    now = json.loads(json.dumps(globals()[golden["kind"]](golden["setting"])))
    assert list(differences("", golden["value"], now, golden["tolerance"])) == [], golden["source"]


def test_every_system_example_and_paper_has_golden_numbers() -> None:
    named: dict[str, set[str]] = {}
    for one in GOLDEN:
        named.setdefault(one["kind"], set()).add(one["setting"].get("system", one["setting"].get("name")))
    assert named["plan"] == named["training"] == {name for name in SYSTEMS if ":" not in name}
    # Of the last, the models are those of an extra.
    assert named["example"] == {path.stem for path in EXAMPLES.glob("*.yaml")} - {"fine-tuning"}
    assert named["paper"] == set(PAPERS)
