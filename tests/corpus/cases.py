"""What is frozen: configurations of every system, options of every source, specs, and sweeps in small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ADJACENCIES = ("add-remove", "replace-one")
SOLVES = ("noise", "steps", "none")


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration of one system, asked under both adjacencies and every `solve`.

    noise    the noise that is given where it is not solved for
    epsilon  the budget
    """

    system: str
    config: Mapping[str, Any]
    noise: float | None = 6.0
    epsilon: float = 2.0
    delta: float = 1e-4


_STEPS = {"model": "linear", "batch_size": 20, "epochs": 3.0, "learning_rate": 0.5, "clip_norm": 1.0}
_WALK = {"model": "linear", "batch_size": 20, "epochs": 2, "halve_every": 1}
_DRAWS = {name: value for name, value in _STEPS.items() if name != "model"}
_WATCHED = {"distance_records": 8, "bayesian_delta": 1e-3}
_ANSWERS = {"regularisation": 0.1}
_LOGITS = {**_ANSWERS, "queries": 20}
_VOTES = {**_LOGITS, "models": 5}
_NETWORK = {"hidden": 8, "epochs": 4, "learning_rate": 0.3, "batch_size": 8}

CASES: dict[str, Case] = {
    "noisy-mean": Case("noisy-mean", {"clip": 0.8, "steps": 3, "shrinkage": 0.9, "prior": 0.4}),
    "noisy-sgd": Case("noisy-sgd", _STEPS),
    "noisy-sgd, two layers": Case("noisy-sgd", {**_STEPS, "model": "mlp", "hidden": 8, "batch_size": 7}),
    "noisy-adam": Case("noisy-adam", {**_STEPS, "learning_rate": 0.05}),
    "noisy-adam, corrected": Case("noisy-adam", {**_STEPS, "learning_rate": 0.05, "bias_correction": True}),
    "model-sensitivity": Case("model-sensitivity", _ANSWERS),
    "model-sensitivity, pure": Case("model-sensitivity", {**_ANSWERS, "noise": "pure"}),
    "loss-perturbation": Case("loss-perturbation", _ANSWERS),
    "loss-perturbation, rank": Case("loss-perturbation", {**_ANSWERS, "noise": "pure", "jacobian": "rank"}),
    "loss-perturbation, printed": Case("loss-perturbation", {**_ANSWERS, "noise": "gaussian-published"}),
    **{
        f"prediction-sensitivity, {noise} {how}": Case(
            "prediction-sensitivity", {**_LOGITS, "noise": noise, "composition": how}
        )
        for noise, how in [
            ("gaussian", "joint"),
            ("gaussian", "advanced"),
            ("gaussian", "standard"),
            ("pure", "joint"),
            ("pure", "standard"),
        ]
    },
    **{
        f"subsample-and-aggregate, {how}": Case("subsample-and-aggregate", {**_VOTES, "composition": how})
        for how in ("joint", "advanced", "standard", "published")
    },
    "subsample-and-aggregate, networks": Case("subsample-and-aggregate", {**_VOTES, **_NETWORK, "model": "mlp"}),
    "clipped-sgld": Case("clipped-sgld", {**_WALK, "step_size": 1e-3}),
    "clipped-sgld, three blocks": Case("clipped-sgld", {**_WALK, "step_size": 1e-3, "epochs": 3}),
    "dp-sgld": Case("dp-sgld", {**_WALK, "step_size": 1e-3, "clip_norm": 1.0}, noise=None),
    **{name: Case(name, {**_WALK, "learning_rate": 0.1}, noise=None) for name in ("sgd", "rmsprop")},
    "dropout": Case("dropout", {**_WALK, "learning_rate": 0.1, "model": "mlp", "hidden": 8}, noise=None),
    **{name: Case(name, {**_WALK, "step_size": 1e-3, "draws": 3}, noise=None) for name in ("sgld", "psgld", "sghmc")},
    "convexified-loss": Case(
        "convexified-loss", {"epochs": 2, "hidden": 8, "learning_rate": 0.01, "queries": 20, "batch_size": 20}
    ),
    "convexified-loss, laplace": Case(
        "convexified-loss",
        {
            "epochs": 2,
            "hidden": 8,
            "learning_rate": 0.01,
            "queries": 20,
            "batch_size": 20,
            "noise": "laplace",
            "reference": True,
        },
    ),
    "convexified-head": Case("convexified-head", {"alpha": 0.1, "regularisation": 0.05, "queries": 20}),
    "convexified-head, hidden": Case(
        "convexified-head",
        {"alpha": 0.1, "regularisation": 0.05, "queries": 20, "features": "random-tanh", "hidden": 8},
    ),
    "bayesian-sgd": Case("bayesian-sgd", {**_STEPS, **_WATCHED}),
    "bayesian-sgd, a tenth": Case("bayesian-sgd", {**_STEPS, **_WATCHED, "updated_share": 0.5}),
    "bayesian-variational": Case("bayesian-variational", {**_DRAWS, **_WATCHED}),
    "variational-draws": Case("variational-draws", {**_DRAWS, "distance_records": 8}, noise=None, epsilon=1e6),
    "average-case-sgd": Case(
        "average-case-sgd", {**_STEPS, "distance_records": 4, "noise_multiplier": 3.0}, noise=None, epsilon=1e4
    ),
}
"""{its name in the corpus: the case}; the first word is the system's."""

LARGE = {
    "noisy-sgd": {"model": "mlp", "batch_size": 256, "epochs": 15.0, "learning_rate": 0.25, "clip_norm": 1.5},
    "noisy-adam": {"model": "linear", "batch_size": 600, "epochs": 10.0, "learning_rate": 0.01, "clip_norm": 1.0},
    "clipped-sgld": {"model": "linear", "batch_size": 250, "epochs": 20, "halve_every": 5, "step_size": 1e-5},
    "bayesian-sgd": {"model": "linear", "batch_size": 500, "epochs": 10.0, "learning_rate": 0.5, "clip_norm": 1.0},
}
"""{system: knobs} at the size of MNIST, where a plan is solved in other ranges."""

BUDGETS = ((0.1, 1e-5), (1.0, 1e-5), (8.0, 1e-6))

SOURCES: dict[str, list[dict[str, Any]]] = {
    "digits": [{}, {"limit": 100}],
    "uniform": [{}, {"n": 50}],
    "mnist": [{}, {"limit": 2000}, {"classes": 2}],
    "adult": [{}, {"split": "test"}, {"form": "raw"}],
    "abalone": [{}],
    "german_credit": [{}, {"form": "raw", "scale": "standard", "split": 3}],
    "cifar10": [{}, {"limit": 100}],
    "idc": [{}],
    "imdb": [{}, {"vocabulary": "hashed"}],
    "movielens_1m": [{}, {"unit": {"column": "user", "max_records": 50}}],
    "movielens_100k": [{}, {"unit": {"column": "user", "max_records": 50}}],
    "location": [{"train": 1200}],
    "purchase": [{"train": 2000}],
    "texas": [{"train": 2000}],
    "pooled": [{"of": "digits", "train": 500}, {"of": "mnist", "train": 2000, "validation": 6000}],
    "frozen": [{"of": "digits", "filters": 4, "patch": 3}],
    "projected": [{"of": "digits", "dimension": 5}, {"of": "mnist", "dimension": 20}],
}
"""{source: options}; `table` has a spec of its own. `path` is added where a folder of data is known."""

LOADED_HERE = {"digits", "uniform", "pooled of digits", "frozen of digits", "projected of digits"}
"""Loaded without a folder of data."""

TABLE_ROWS = 200
TABLE: dict[str, Any] = {
    "name": "persons",
    "data": {
        "source": "table",
        "path": "people.csv",
        "n": 90,
        "label": "income",
        "classes": ["low", "high"],
        "columns": {
            "age": {"low": 0, "high": 100},
            "hours": {"low": 0, "high": 100},
            "work": {"categories": ["private", "public", "self"]},
        },
        "unit": {"column": "person_id", "max_records": 3},
        "validation": {"records": "private", "share": 0.2},
    },
    "systems": {
        "noisy-sgd": {
            "model": "linear", "learning_rate": {"log_uniform": [0.05, 2]}, "clip_norm": {"log_uniform": [0.3, 3]},
            "batch_size": 20, "epochs": {"int_uniform": [2, 4]},
        },
    },
    "privacy": {"epsilon": [1, 3], "delta": 1.0e-3, "unit": "person"},
    "objectives": [{"metric": "accuracy", "goal": "maximize"}, {"metric": "epsilon", "goal": "minimize"}],
    "search": {"sampler": "random", "trials": 4, "seed": 0},
}  # fmt: skip
"""Private validation records and persons, on a file that `table_rows` writes."""


def table_rows() -> str:
    """The file behind `TABLE`: made of whole numbers, so that it is the same everywhere."""
    lines = ["person_id,age,hours,work,income"]
    for row in range(TABLE_ROWS):
        age, hours = (row * 37) % 101, (row * 53) % 97
        work = ("private", "public", "self")[row % 3]
        lines.append(f"p{row % 90},{age},{hours},{work},{'high' if age + hours > 100 else 'low'}")
    return "\n".join(lines) + "\n"


SMALL: dict[str, dict[str, Any]] = {
    "toy": {"search": {"trials": 8}},
    "quickstart": {"search": {"trials": 4}},
    "which-method": {"search": {"trials": 12}, "data": {"limit": 600}},
}
"""{packaged example: sections that are changed for it to run in seconds}."""

SWEPT: dict[str, dict[str, Any]] = {
    "steps, nsga2, screened": {
        "data": {"source": "uniform", "n": 200},
        "systems": {"noisy-mean": {"clip": {"uniform": [0.2, 1.0]}, "steps": {"choice": [4, 8]}}},
        "privacy": {"epsilon": [0.5, 2.0], "delta": 1e-4},
        "objectives": [{"metric": "expected_error"}, {"metric": "epsilon"}],
        "search": {"sampler": "nsga2", "trials": 12, "seed": 3},
    },
    "early stopping, tpe": {
        "data": {"source": "digits", "limit": 200},
        "systems": {
            "noisy-sgd": {
                "model": "linear", "learning_rate": {"log_uniform": [0.1, 4.0]}, "clip_norm": 1.0, "batch_size": 50,
                "epochs": 4,
            }
        },
        "privacy": {"epsilon": 2.0, "delta": 1e-4},
        "objectives": [{"metric": "accuracy"}],
        "search": {"sampler": "tpe", "trials": 6, "seed": 1},
        "early_stopping": {"method": "asha", "reduction": 2, "rungs": 2},
    },
    "unprotected, grid": {
        "data": {"source": "digits", "limit": 100},
        "systems": {"sgd": {"model": "linear", "batch_size": 50, "epochs": 2, "halve_every": 1, "learning_rate": 0.1}},
        "privacy": {
            "epsilon": 1.0, "delta": 1e-4, "allow_unprotected": "a baseline of the frozen corpus, without any claim"
        },
        "objectives": [{"metric": "accuracy"}],
        "search": {"sampler": "grid", "trials": 2, "repeats": 2},
    },
}  # fmt: skip
"""Sweeps beside the packaged ones, for what those do not do: their `search`, early stopping, unprotected trials."""
