"""One small plan of every system in the registry, with data that it runs on in a second: for exams over all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from dpcore.events import Adjacency
from tests.trainables.exam.candidate import Candidate
from tests.trainables.recipe_cases import JITTER, RECIPES
from tests.trainables.recording import blobs
from trainables.data import SOURCES
from trainables.registry import SYSTEMS
from trainables.system import Config, Dataset, Scalar

_REPLACE = Adjacency.REPLACE_ONE
_STEPS = {"model": "linear", "batch_size": 20, "epochs": 3, "learning_rate": 0.5, "clip_norm": 1.0}
_WATCHED = {"distance_records": 8, "bayesian_delta": 1e-3}
_WALK = {"model": "linear", "batch_size": 20, "epochs": 2, "halve_every": 1}
_ALL = {**_WALK, "batch_size": 60, "epochs": 4}
"""Every record in every batch, so that shuffles mean nothing."""
_ANSWERS = {"regularisation": 0.1}
_DRAWS = {name: value for name, value in _STEPS.items() if name != "model"}

_NOTHING_DRAWN = {"sgd", "rmsprop", "dropout"}
"""Systems that add no noise; their epsilon is infinite."""
_GRADIENTS = ("noisy-sgd", "noisy-adam", "clipped-sgld", "dp-sgld", "bayesian-sgd", "average-case-sgd")
_UNPROTECTED = ("sgd", "rmsprop", "sgld", "psgld", "sghmc")
_ONE_MODEL = {"models": 1, "queries": 39}
_NETWORK = {**_ONE_MODEL, "model": "mlp", "epochs": 5, "learning_rate": 0.5, "batch_size": 20}
_TWO_LAYERS: dict[str, Config] = {"hidden": {"model": "mlp"}}
_ORDERS: dict[str, Scalar] = {"bayesian_orders": "2,4,8"}
OTHERS: dict[str, dict[str, Scalar]] = {
    **{name: {"model": "mlp"} for name in _GRADIENTS},
    **{name: {"model": "mlp", "batch_size": 30} for name in _UNPROTECTED},
    "noisy-sgd": {"model": "mlp", "optimizer": "adam", "augmentation.of": JITTER},
    "dropout": {"model": "mlp3"},
    "prediction-sensitivity": {"clip_norm": 100.0},
    "subsample-and-aggregate": {
        "model": "mlp",
        "regularisation": 10.0,
        "clip_norm": 100.0,
        "learning_rate": 0.01,
        "hidden": 1,
        "batch_size": 2,
        "composition": "published",
    },
    "convexified-loss": {"bound": "chaudhuri-general"},
    "bayesian-sgd": {"model": "mlp", **_ORDERS},
    "average-case-sgd": {"model": "mlp", **_ORDERS},
    "bayesian-variational": _ORDERS,
    "variational-draws": _ORDERS,
}
BESIDE: dict[str, dict[str, Config]] = {
    **dict.fromkeys((*_GRADIENTS, *_UNPROTECTED), _TWO_LAYERS),
    "noisy-sgd": {
        **_TWO_LAYERS,
        "beta1": {"optimizer": "adam"},
        "beta2": {"optimizer": "adam"},
        "augmentation.multiplicity": {"augmentation.of": JITTER},
    },
    "noisy-mean": {"prior": {"shrinkage": 0.5}},
    "loss-perturbation": {"jacobian": {"regularisation": 1e-6}},
    "subsample-and-aggregate": {
        **dict.fromkeys(("hidden", "epochs", "learning_rate", "batch_size"), _NETWORK),
        **dict.fromkeys(("clip_norm", "bias"), _ONE_MODEL),
    },
    "convexified-loss": {"attack_epochs": {"shadows": 2}},
    "convexified-head": {"hidden": {"features": "random-tanh"}},
}
_ADAPTED: Config = {"model": "mlp3", "hidden": 4, "lora.rank": 2}
ADAPTED_OTHERS: dict[str, Scalar] = {"train": "head", "lora.targets": "0"}
ADAPTED_BESIDE: dict[str, Config] = {
    **{key: {"model": "mlp", "hidden": 4} for key in ("train", "lora.rank")},
    **dict.fromkeys(("lora.alpha", "lora.targets"), _ADAPTED),
}
"""Of every system that trains a model."""
_ALIKE = ("noisy-adam", "clipped-sgld", "dp-sgld", "average-case-sgd", "rmsprop", "dropout", "sgld", "psgld", "sghmc")
SILENT: dict[str, dict[str, str]] = {
    **dict.fromkeys(_ALIKE, dict.fromkeys(ADAPTED_BESIDE, "of models that noisy-sgd, sgd and bayesian-sgd build too")),
    "noisy-mean": {"step_seconds": "a pause, for practice"},
}
TELLING: dict[str, Config] = {
    **{key: {**_ADAPTED, "train": "last-1"} for key in ("noisy-sgd", "noisy-adam", "clipped-sgld", "dp-sgld")},
    "convexified-loss": {"reference": True, "shadows": 2, "attack_epochs": 2},
}
_LOOKED_AT = {"bayesian.": "each attempt draws anew whose distances are measured"}
CHANCE: dict[str, dict[str, str]] = {
    **dict.fromkeys(("bayesian-sgd", "bayesian-variational", "variational-draws", "average-case-sgd"), _LOOKED_AT),
    "dropout": {"": "each attempt draws its masks anew"},
}


_OVERLAPPING = ("prediction-sensitivity", "subsample-and-aggregate")
"""Systems whose answers are labels: on records that are well separated none turns on any knob."""


def data_of(name: str) -> Dataset:
    """Sixty records of two classes, or three, in four dimensions; for the toy, fifty values."""
    if name == "noisy-mean":
        return SOURCES["uniform"].load({"n": 50})
    # Of two classes both ways to count a Jacobian say the same.
    classes = 3 if name == "loss-perturbation" else 2
    return blobs(60, 40, classes, seed=0, spread=3.0 if name in _OVERLAPPING else 0.1)


def _of(config: Config, **asked: Any) -> Callable[[str], Candidate]:
    """The candidate of a system by its name."""
    return lambda name: Candidate(
        system=SYSTEMS[name],
        config=config,
        data=partial(data_of, name),
        noisy=name not in _NOTHING_DRAWN,
        others={**ADAPTED_OTHERS, **OTHERS.get(name, {})},
        beside={**ADAPTED_BESIDE, **BESIDE.get(name, {})},
        chance=CHANCE.get(name, {}),
        silent={"weights": "of files: test_adaptation.py", **SILENT.get(name, {})},
        telling=TELLING.get(name, {}),
        **asked,
    )


_SITTING = {
    "noisy-mean": _of({"clip": 1.0, "steps": 3, "shrinkage": 1.0, "prior": 0.5, "step_seconds": 0.0}),
    "noisy-sgd": _of(_STEPS),
    "noisy-adam": _of(_STEPS),
    "model-sensitivity": _of(_ANSWERS),
    "loss-perturbation": _of(_ANSWERS),
    "prediction-sensitivity": _of({**_ANSWERS, "queries": 20}),
    "subsample-and-aggregate": _of({**_ANSWERS, "models": 5, "queries": 6}, adjacency=_REPLACE, epsilon=20.0),
    "clipped-sgld": _of({**_WALK, "step_size": 1e-3}),
    "dp-sgld": _of({**_WALK, "step_size": 1e-3, "clip_norm": 1.0}, solve="none"),
    **{name: _of({**_ALL, "learning_rate": 0.1}) for name in ("sgd", "rmsprop")},
    "dropout": _of({**_WALK, "learning_rate": 0.1, "model": "mlp", "hidden": 8}),
    **{name: _of({**_ALL, "step_size": 1e-3, "draws": 3}) for name in ("sgld", "psgld", "sghmc")},
    "convexified-loss": _of({"epochs": 2, "hidden": 8, "learning_rate": 0.01, "queries": 20, "batch_size": 20}),
    "convexified-head": _of({"alpha": 0.1, "regularisation": 0.05, "queries": 20}, adjacency=_REPLACE),
    "bayesian-sgd": _of({**_STEPS, **_WATCHED}),
    "bayesian-variational": _of({**_DRAWS, **_WATCHED}),
    "variational-draws": _of({**_DRAWS, "distance_records": 8}, solve="none", epsilon=1e6),
    "average-case-sgd": _of({**_STEPS, "distance_records": 4, "noise_multiplier": 3.0}, solve="none", epsilon=1e4),
}
CANDIDATES = {name: made(name) for name, made in _SITTING.items()}
"""{name of the system: how it sits the exam}; a system without one fails every exam."""
WITH_RECIPES = {
    f"noisy-sgd {name}": replace(CANDIDATES["noisy-sgd"], config={**_STEPS, **recipe})
    for name, recipe in RECIPES.items()
}
"""The same of noisy-sgd with each recipe; what its knobs change, the system itself is asked."""
