"""Every system of the registry: its model leaves, and answers as its trial reported; or it is refused, and why."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

import sweeps
from dpcore.checks import InvalidValue
from tests.sweeps import specs
from tests.sweeps.published_sweeps import NAME, swept
from tests.trainables.registry_cases import CANDIDATES
from trainables.data import SOURCES
from trainables.export.model import ReleasedModel
from trainables.features.programs import program
from trainables.models.networks import UnitNormRows
from trainables.registry import SYSTEMS
from trainables.system import DatasetSpec, InputSpec, Split, Task
from trainables.systems.linear import rows

ANSWERS, NO_MODEL, NO_NOISE = (
    "no model behind the answers",
    "is no model that its claim covers",
    "Weights without noise",
)
EXPORTED = {
    "noisy-sgd",
    "noisy-adam",
    "model-sensitivity",
    "loss-perturbation",
    "clipped-sgld",
    "dp-sgld",
    "bayesian-sgd",
    "bayesian-variational",
    "average-case-sgd",
}
REFUSED = {
    "noisy-mean": NO_MODEL,
    "variational-draws": NO_MODEL,
    **dict.fromkeys(
        ("prediction-sensitivity", "subsample-and-aggregate", "convexified-loss", "convexified-head"), ANSWERS
    ),
    **dict.fromkeys(("sgd", "rmsprop", "dropout", "sgld", "psgld", "sghmc"), NO_NOISE),
}
TWO_CLASSES = ("bayesian-variational", "variational-draws")
ALONE = """
import json, sys
import numpy as np, torch
from safetensors.torch import load_file
for line in sys.stdin:
    place = line.strip()
    module = torch.export.load(f"{place}/program.pt2").module()
    weights = load_file(f"{place}/weights.safetensors")
    assert all(torch.equal(weights[name], one) for name, one in module.state_dict().items())
    asked = np.load(f"{place}/asked.npz")
    inputs = [torch.from_numpy(asked[one["name"]]) for one in json.load(open(f"{place}/preprocessing.json"))["inputs"]]
    np.save(f"{place}/answered.npy", module(*inputs).detach().numpy())
    assert not [name for name in sys.modules if name.split(".")[0] in ("sweeps", "trainables", "dpcore")]
    print("answered", flush=True)
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A process with torch and safetensors alone: given the folder of a model, it answers what is asked there."""
    words = [sys.executable, "-I", "-c", ALONE]
    away = tmp_path_factory.mktemp("away")
    with subprocess.Popen(words, cwd=away, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def answer(place):
            process.stdin.write(f"{place}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "answered\n"

        yield answer
        process.stdin.close()
        assert process.wait(60) == 0


def table(folder):
    """Options of a data source of two classes, with a category and a list among its columns."""
    rng = np.random.default_rng(0)
    for name, n in (("train", 300), ("held", 100)):
        x, scan = rng.uniform(0, 1, n), rng.uniform(0, 1, (n, 3))
        sort = rng.choice(["a", "b", "c"], n)
        label = np.where(x + scan[:, 0] + (sort == "a") > 1.3, "yes", "no")
        frame = pd.DataFrame({"x": x, "sort": sort, "scan": list(scan), "label": label})
        frame.to_parquet(folder / f"{name}.parquet")
    return {
        "source": "table",
        "path": str(folder / "train.parquet"),
        "n": 300,
        "label": "label",
        "classes": ["no", "yes"],
        "columns": {
            "x": {"low": 0, "high": 1},
            "sort": {"categories": ["a", "b", "c"]},
            "scan": {"low": 0, "high": 1, "shape": [3]},
        },
        "validation": {"records": "public", "path": str(folder / "held.parquet"), "n": 100},
    }


def trained(name, root):
    """A sweep of one trial."""
    case = CANDIDATES[name]
    data = {"source": "digits", "limit": 600}
    if name in TWO_CLASSES:
        data = table(root)
    elif name == "noisy-mean":
        data = {"source": "uniform", "n": 100}
    unprotected = {"allow_unprotected": "baselines, in a test"} if REFUSED.get(name) == NO_NOISE else {}
    # As many records are looked at as the system itself would: a few are all clipped alike.
    known = {knob.name for knob in SYSTEMS[name].hyperparameters} - {"distance_records", "bayesian_delta"}
    config = {key: one for key, one in case.config.items() if key in known}
    raw = specs.mean(
        NAME,
        data=data,
        systems={name: config},
        privacy={
            "epsilon": max(case.epsilon, 8.0),
            "delta": case.delta,
            "adjacency": str(case.adjacency),
            "solve": case.solve,
            **unprotected,
        },
        objectives=[{"metric": "estimate" if name == "noisy-mean" else "accuracy", "goal": "maximize"}],
    )
    swept(root, raw, views=False)
    return sweeps.open(NAME, root=root), data


@pytest.mark.parametrize("name", SYSTEMS)
def test_it_answers_as_its_trial_reported_in_a_process_without_us_or_is_refused(name, tmp_path, alone):
    assert (name in EXPORTED) != (name in REFUSED), "a system whose model leaves, or which is refused: which?"
    sweep, data = trained(name, tmp_path)
    if name in REFUSED:
        with pytest.raises(InvalidValue, match=REFUSED[name]):
            sweep.model(0)
        with pytest.raises(InvalidValue, match=REFUSED[name]):
            sweep.model(0, as_refuted=True)
        return
    model = sweep.model(0)
    place = model.save(tmp_path / "out" / "model")
    held = SOURCES[data["source"]].load({key: one for key, one in data.items() if key != "source"}).validation
    np.savez(place / "asked.npz", **held.inputs)
    alone(place)
    answered = np.load(place / "answered.npy").argmax(axis=1)
    # To the last record.
    assert (answered == held.targets).sum() == round(sweep.trial(0).metrics["accuracy"] * len(held))
    assert len(set(answered)) > 1
    again = ReleasedModel.load(place)
    assert again.preprocessing == model.preprocessing
    classes = np.array(again.preprocessing.classes, dtype=object)
    assert (again.predict(held.inputs).values == classes[answered]).all()
    assert again.card["claim"] == sweep.trial(0).guarantee.to_dict()
    assert f"{sweep.trial(0).guarantee.status} (" in again.page


FACTS = DatasetSpec(
    dataset="made-up",
    task=Task.CLASSIFICATION,
    n=100,
    n_validation=10,
    features={
        "image": InputSpec(shape=(2, 3)),
        "one": InputSpec(shape=()),
        "sort": InputSpec(shape=(), cardinality=4),
        "codes": InputSpec(shape=(2,), cardinality=3),
    },
    classes=2,
)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("clip_norm", [1e-3, 1.0, 1e6])
def test_rows_as_tensors_are_the_rows_that_were_trained_on(clip_norm, bias):
    rng, n = np.random.default_rng(0), 200
    inputs = {
        "image": (rng.standard_normal((n, 2, 3)) * 10.0 ** rng.integers(-20, 18, (n, 1, 1))).astype(np.float32),
        "one": rng.standard_normal(n).astype(np.float32),
        "sort": rng.integers(0, 4, n),
        "codes": rng.integers(0, 3, (n, 2)),
    }
    inputs["image"][:4] = 0.0
    inputs["one"][4:8] = np.nan, np.inf, -np.inf, 3e38
    expected = rows(FACTS, Split(inputs=inputs, targets=np.zeros(n, dtype=np.int64)), clip_norm, bias)
    module = UnitNormRows(FACTS.features, clip_norm, bias)
    written = program(module, FACTS.features).module()
    for ask in (module, written):
        found = ask(*map(torch.from_numpy, inputs.values())).numpy()
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-300)
