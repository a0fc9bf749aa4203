"""One small plan of every system in the registry, with data that it runs on in a second: for exams over all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from dpcore.adjacency import Adjacency
from tests.trainables.private_prediction_cases import small
from trainables.data.uniform import UNIFORM
from trainables.registry import SYSTEMS
from trainables.system import Config, Dataset, PrivacyPlan, PrivacyTarget

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


@dataclass(frozen=True, slots=True)
class Case:
    """What a system is asked to plan. `solve` is "none" where the noise follows from the target, or from nothing."""

    config: Config = field(default_factory=dict)
    adjacency: Adjacency = _ADD
    solve: str = "noise"
    epsilon: float = 2.0
    delta: float = 1e-4


_STEPS = {"model": "linear", "batch_size": 20, "epochs": 3, "learning_rate": 0.5, "clip_norm": 1.0}
_WATCHED = {"distance_records": 8, "bayesian_delta": 1e-3}
_WALK = {"model": "linear", "batch_size": 20, "epochs": 2, "halve_every": 1}
_ANSWERS = {"regularisation": 0.1}
_DRAWS = {name: value for name, value in _STEPS.items() if name != "model"}

CASES: dict[str, Case] = {
    "noisy-mean": Case({"clip": 1.0, "steps": 3, "shrinkage": 1.0, "prior": 0.5, "step_seconds": 0.0}),
    "noisy-sgd": Case(_STEPS),
    "noisy-adam": Case(_STEPS),
    "model-sensitivity": Case(_ANSWERS),
    "loss-perturbation": Case(_ANSWERS),
    "prediction-sensitivity": Case({**_ANSWERS, "queries": 20}),
    "subsample-and-aggregate": Case({**_ANSWERS, "models": 5, "queries": 20}, _REPLACE),
    "clipped-sgld": Case({**_WALK, "step_size": 1e-3}),
    "dp-sgld": Case({**_WALK, "step_size": 1e-3, "clip_norm": 1.0}, solve="none"),
    **{name: Case({**_WALK, "learning_rate": 0.1}) for name in ("sgd", "rmsprop")},
    "dropout": Case({**_WALK, "learning_rate": 0.1, "model": "mlp", "hidden": 8}),
    **{name: Case({**_WALK, "step_size": 1e-3}) for name in ("sgld", "psgld", "sghmc")},
    "convexified-loss": Case({"epochs": 2, "hidden": 8, "learning_rate": 0.01, "queries": 20, "batch_size": 20}),
    "convexified-head": Case({"alpha": 0.1, "regularisation": 0.05, "queries": 20}, _REPLACE),
    "bayesian-sgd": Case({**_STEPS, **_WATCHED}),
    "bayesian-variational": Case({**_DRAWS, **_WATCHED}),
    "variational-draws": Case({**_DRAWS, "distance_records": 8}, solve="none", epsilon=1e6),
    "average-case-sgd": Case({**_STEPS, "distance_records": 4, "noise_multiplier": 3.0}, solve="none", epsilon=1e4),
}
"""{name of the system: its case}; a system without one fails every exam."""


def data_of(name: str) -> Dataset:
    """Sixty records of two classes in four dimensions; for the toy, fifty values."""
    return UNIFORM.load({"n": 50}) if name == "noisy-mean" else small(n=60, n_validation=40, classes=2)


def plan_of(name: str, data: Dataset) -> PrivacyPlan:
    """The case's plan."""
    case = CASES[name]
    target = PrivacyTarget(epsilon=case.epsilon, delta=case.delta, adjacency=case.adjacency, solve=case.solve)  # type: ignore[arg-type]
    plan = SYSTEMS[name].plan(case.config, data.facts, target, {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan
