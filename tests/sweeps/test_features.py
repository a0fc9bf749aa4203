"""A sweep over features: its claims, what it keeps, its model that leaves with the map, and its test records."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
import torch

import sweeps
from dpcore.checks import InvalidValue
from sweeps.planning.spec_code import code_of
from sweeps.spec.parse import load_spec
from tests.sweeps import specs
from tests.sweeps.published_sweeps import NAME, swept
from tests.trainables.source_cases import mnist_small, mnist_write
from trainables.data import SOURCES
from trainables.export.model import ReleasedModel
from trainables.units import share_of

LINEAR = {
    "model": "linear",
    "learning_rate": 0.5,
    "momentum": 0.5,
    "clip_norm": 1.0,
    "batch_size": 60,
    "epochs": 4,
}
DATA = {"source": "pooled", "of": "digits", "train": 120, "validation": 40}
SCATTERED = {**DATA, "features": "scattering", "features_groups": 9}


def raw(data, **sections):
    return specs.digits(
        NAME, **{"data": data, "systems": {"noisy-sgd": LINEAR}, "privacy": {"epsilon": 8.0, "delta": 1e-4}, **sections}
    )


@pytest.fixture(scope="module")
def scattered(tmp_path_factory):
    root = tmp_path_factory.mktemp("scattered")
    swept(root, raw(SCATTERED), views=False)
    return sweeps.open(NAME, root=root)


def test_every_claim_says_whose_map_it_is(scattered):
    said = [line for line in scattered.trial(0).guarantee.assumptions if "scattering" in line]
    assert len(said) == 1
    assert "Mallat 2012" in said[0]
    assert said[0] in scattered.model(0).page


def test_the_model_that_leaves_takes_records_and_scores_as_the_trial_did(scattered, tmp_path):
    records = SOURCES["pooled"].load({name: one for name, one in DATA.items() if name != "source"})
    images, labels = records.validation.inputs["image"], records.validation.targets
    model = scattered.model(0)
    assert float((model.predict({"image": images}).values == labels).mean()) == scattered.trial(0).metrics["accuracy"]
    model.save(tmp_path / "model")
    again = ReleasedModel.load(tmp_path / "model")
    assert np.array_equal(
        again.predict({"image": images}).probabilities, model.predict({"image": images}).probabilities
    )
    alone = torch.export.load(tmp_path / "model" / "program.pt2").module()
    assert alone(torch.from_numpy(images[:3].copy())).shape == (3, 10)
    with pytest.raises(InvalidValue, match="an input 'image'"):
        model.predict({"features": np.zeros((1, 81, 2, 2))})


def test_features_lie_inside_the_boundary_and_in_no_other_file(scattered, tmp_path):
    """Beside the secrets, their owner's alone; store, records of trials and an exported folder hold none of them."""
    folder = scattered.workspace.features
    found = SOURCES["pooled"].load({name: one for name, one in SCATTERED.items() if name != "source"}, folder)
    assert (folder.stat().st_mode & 0o777, len(list(folder.glob("*.npy")))) == (0o700, 2)
    row = found.train.inputs["features"][0].tobytes()[:64]
    scattered.model(0).save(tmp_path / "model")
    files = [*folder.parent.rglob("*"), *(tmp_path / "model").iterdir()]
    holding = {one.parent.name for one in files if one.is_file() and row in one.read_bytes()}
    assert holding == {".features"}


def test_a_table_with_two_inputs_leaves_with_its_map_too(tmp_path):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"id": range(200), "age": rng.uniform(0, 100, 200), "scan": list(rng.uniform(-1, 1, (200, 4)))})
    rows["label"] = np.where(np.stack(rows["scan"].to_list())[:, 0] ** 2 > 0.25, "out", "in")
    rows.to_parquet(tmp_path / "people.parquet")
    table = {
        "source": "table",
        "path": str(tmp_path / "people.parquet"),
        "n": 200,
        "label": "label",
        "classes": ["in", "out"],
        "columns": {"age": {"low": 0, "high": 100}, "scan": {"low": -1, "high": 1, "shape": [4]}},
        "validation": {"records": "public", "share": 0.3, "id": "id"},
        "features": "tests.trainables.feature_maps:Side",
        "features_from": "a formula, made for tests",
        "features_bounds": [0, 1],
    }
    swept(tmp_path, raw(table, privacy={"epsilon": 8.0, "delta": 1e-3}), views=False)
    sweep = sweeps.open(NAME, root=tmp_path)
    held = rows[[share_of("validation", one) < 0.3 for one in rows["id"]]]
    said = sweep.model(0).predict(held).values
    assert float((said == held["label"]).mean()) == pytest.approx(sweep.trial(0).metrics["accuracy"])
    assert any("no private record had a part in: a formula" in line for line in sweep.trial(0).guarantee.assumptions)


def test_another_map_is_another_sweep(tmp_path, monkeypatch):
    specs = [load_spec(raw(data)) for data in (DATA, SCATTERED, {**SCATTERED, "features_groups": 27})]
    assert len({one.digest for one in specs}) == 3
    monkeypatch.syspath_prepend(tmp_path)
    for module in ("lab_maps",):
        (tmp_path / f"{module}.py").write_text("import torch\n\ndef build(facts):\n    return torch.nn.Flatten()\n")
    given = {**DATA, "features": "lab_maps:build", "features_from": "of a formula alone", "features_bounds": [0, 1]}
    spec = load_spec(raw(given))
    assert spec.user_modules() == ("lab_maps",)
    before = code_of(spec)
    (tmp_path / "lab_maps.py").write_text("import torch\n\ndef build(facts):\n    return torch.nn.Flatten(0, 0)\n")
    assert code_of(spec) != before
    sys.modules.pop("lab_maps")


@pytest.mark.parametrize("records", ["public", "private"])
def test_published_test_records_are_opened_once_for_the_model_of_features(tmp_path, monkeypatch, records):
    """MNIST in small: a share of the training records validates by a noised histogram, the test file is read at the
    end."""
    mnist_small(monkeypatch)
    from trainables.data import mnist

    for name, value in {"TRAIN": 60, "TEST": 12, "TRAIN_OF": (20, 20, 20), "TEST_OF": (4, 4, 4)}.items():
        monkeypatch.setattr(mnist, name, value)
    monkeypatch.setattr("tests.trainables.source_cases.TRAINING", 60)
    mnist_write(tmp_path, [(one, one % 3) for one in range(72)])
    parts = {"validation": {"records": "private", "share": 0.3}, "test": {"records": records}}
    data = {"source": "mnist", "path": str(tmp_path), **parts, "features": "scattering", "features_groups": 27}
    small = {**LINEAR, "batch_size": 20, "epochs": 1}
    swept(tmp_path, raw(data, systems={"noisy-sgd": small}, privacy={"epsilon": 8.0, "delta": 1e-3}), views=False)
    sweep = sweeps.open(NAME, root=tmp_path)
    claim = sweep.trial(0).guarantee
    assert any("hash of their pixels" in line for line in claim.assumptions)
    assert not any("validation records are public" in line for line in claim.assumptions)
    reading = sweep.test(0)
    card = sweep.model(0).card["test"]
    if records == "public":
        assert reading.metrics["accuracy"] * 12 == pytest.approx(round(reading.metrics["accuracy"] * 12))
        assert card["claim_with_score"]["epsilon"] == claim.epsilon
    else:
        assert reading.metrics["accuracy_se"] > 0
        assert any("published split of MNIST" in line for line in card["claim_with_score"]["assumptions"])
    assert sweep.test(0) == reading
