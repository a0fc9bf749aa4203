"""Models that leave: folder, card, raw rows, trials that are refused. Every system sits in `test_export_systems`."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

import sweeps
from dpcore.checks import InvalidValue
from sweeps import export
from sweeps.privacy import release
from sweeps.store.records import Refutation
from sweeps.util.fingerprint import Changed
from tests.sweeps import specs
from tests.sweeps.published_sweeps import NAME, swept
from tests.sweeps.test_export_systems import table
from tests.trainables.source_cases import mnist_write
from trainables.data import SOURCES
from trainables.data.table_declaration import Column
from trainables.export.model import ReleasedModel, files_of
from trainables.export.preprocessing import Preprocessing
from trainables.features.programs import NotExportable, program
from trainables.models.registry import MODELS, build
from trainables.system import DatasetSpec, InputSpec, Task

DIGITS = {"source": "digits", "limit": 600}
NETWORK = {**specs.LINEAR, "model": "mlp", "hidden": 8, "epochs": 2}


def spec(data=DIGITS, model=NETWORK, **sections):
    own = {"systems": {"noisy-sgd": model}, "privacy": {"epsilon": 8.0, "delta": 1e-4}}
    return specs.digits(NAME, **{"data": data, **own, **sections})


def trained(root, raw):
    swept(root, raw, views=False)
    return sweeps.open(NAME, root=root)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A sweep on a table of one's own, and its validation file."""
    root = tmp_path_factory.mktemp("own")
    return trained(root, spec(data=table(root), search={"sampler": "random", "trials": 2})), root


def test_raw_rows_of_a_table_are_asked_about(own):
    sweep, root = own
    frame = pd.read_parquet(root / "held.parquet")
    model = sweep.model(f"{NAME}-1")
    said = model.predict(frame)
    assert (said.values == frame["label"]).mean() == pytest.approx(sweep.trial(1).metrics["accuracy"], abs=1e-12)
    table = said.table()
    assert np.allclose(table[["probability.no", "probability.yes"]].sum(axis=1), 1)
    assert len(model.predict(frame[:0])) == 0
    # The label is not asked for, and what stands in no declared column is not looked at.
    assert (model.predict(frame.drop(columns="label").assign(more=1)).values == said.values).all()
    with pytest.raises(InvalidValue, match="unemployed"):
        model.predict(frame.assign(sort="unemployed"))
    with pytest.raises(InvalidValue, match="1 missing"):
        model.predict(frame.assign(x=frame["x"].where(frame.index != 3)))


def test_the_commands_write_a_folder_and_predictions(own, tmp_path, command):
    sweep, root = own
    place = tmp_path / "model"
    code, out, _ = command("export", NAME, "0", "-o", place, "--root", root)
    assert (code, out.splitlines()[-1]) == (0, str(place))
    assert command("export", NAME, "0", "-o", place, "--root", root)[0] == 2
    code, out, _ = command("predict", place, root / "held.parquet", "-o", tmp_path / "said.csv")
    said, expected = pd.read_csv(tmp_path / "said.csv"), sweep.model(0).predict(pd.read_parquet(root / "held.parquet"))
    assert (code, list(said["prediction"])) == (0, list(expected.values))
    for model, rows, output, word in (
        (place, "held", "said.xlsx", ".csv or .parquet"),
        (tmp_path, "held", "said.csv", "weights.safetensors"),
        (place, "none*", "said.csv", "that is there"),
    ):
        code, _, err = command("predict", model, root / f"{rows}.parquet", "-o", tmp_path / output)
        assert (code, word in err) == (2, True)


def test_the_card_says_what_it_was_chosen_among_and_how_sure_the_score_is(own):
    sweep, _ = own
    card = sweep.model(0).card
    accuracy = sweep.trial(0).metrics["accuracy"]
    assert card["best_of"] == 2
    assert card["validation"]["accuracy_se"] == pytest.approx((accuracy * (1 - accuracy) / 100) ** 0.5, rel=0.03)
    assert card["steps_charged"] == sweep.trial(0).planned_steps
    assert any("all trials together" in line for line in card["total"])
    json.dumps(dict(card))


def test_a_trial_that_is_not_there_not_finished_or_without_its_checkpoint(own, monkeypatch):
    sweep, root = own
    with pytest.raises(InvalidValue, match="0 to 1, or a key"):
        sweep.model(7)
    [kept] = (root / NAME / "trials" / f"{NAME}-0").glob("*/checkpoint.*.npz")
    kept.rename(kept.with_suffix(".away"))
    try:
        with pytest.raises(InvalidValue, match="last checkpoint"):
            sweep.model(0)
    finally:
        kept.with_suffix(".away").rename(kept)


def test_a_refuted_one_leaves_under_that_heading_alone(own, monkeypatch):
    sweep, _ = own
    by = Refutation(trial=f"{NAME}-0", system="noisy-sgd", audit=1)
    monkeypatch.setattr(release, "refutations", lambda requests, folder: {"noisy-sgd": by})
    with pytest.raises(InvalidValue, match="--as-refuted"):
        sweep.model(0)
    model = sweep.model(0, as_refuted=True)
    assert "REFUTED" in model.page.splitlines()[2]
    assert model.card["heading"].startswith("REFUTED")


def test_code_that_changed_since_is_named_and_accepted_by_name(own, monkeypatch):
    """Else the weights would stand in another model than the one whose score the card prints."""
    monkeypatch.setattr(export, "code_of", lambda spec: "other")
    with pytest.raises(Changed, match="--accept code"):
        own[0].model(0)
    assert len(own[0].model(0, accept=["code"]).card) > 5
    with pytest.raises(InvalidValue, match="cod"):
        own[0].model(0, accept=["cod"])


class Awkward(torch.nn.Module):
    """Its way depends on a value: no program can be written down."""

    def forward(self, x):
        return x if x.sum().item() > 0 else -x


def test_a_model_that_is_no_program_is_refused_and_nothing_is_left(tmp_path):
    asked = Preprocessing(task=Task.CLASSIFICATION, features={"x": InputSpec(shape=(2,))}, classes=(0, 1))
    with pytest.raises(NotExportable):
        ReleasedModel(Awkward(), asked, {}).save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_other_weights_beside_the_program_are_seen(own, tmp_path):
    place = own[0].model(0).save(tmp_path / "model")
    weights = load_file(place / "weights.safetensors")
    save_file({name: one + 1 for name, one in weights.items()}, place / "weights.safetensors")
    with pytest.raises(InvalidValue, match="the same weights"):
        ReleasedModel.load(place)


IMAGE = DatasetSpec(
    dataset="made-up",
    task=Task.CLASSIFICATION,
    n=100,
    n_validation=10,
    features={"image": InputSpec(shape=(3, 32, 32))},
    classes=4,
)
CODES = replace(IMAGE, features={"text": InputSpec(shape=(12,), cardinality=50)})
PAIR = replace(IMAGE, features={"user": InputSpec(shape=(), cardinality=9), "item": InputSpec(shape=(), cardinality=7)})
ITEM = replace(IMAGE, features={"item": InputSpec(shape=(), cardinality=7)})


@pytest.mark.parametrize("name", MODELS)
def test_every_packaged_network_is_a_program_over_any_number_of_records(name):
    facts = next(one for one in (IMAGE, CODES, PAIR, ITEM) if not MODELS[name].refuses(one))
    model = build(name, facts, hidden=8).eval()
    written = program(model, facts.features).module()
    rng = np.random.default_rng(0)
    for n in (1, 5):
        asked = [
            torch.from_numpy(
                rng.integers(0, one.cardinality, (n, *one.shape))
                if one.cardinality is not None
                else rng.uniform(size=(n, *one.shape)).astype(np.float32)
            )
            for one in facts.features.values()
        ]
        assert torch.allclose(written(*asked), model(*asked), atol=1e-5)


# Many files asked about at once: in their order, and whose each row is.


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model of one column, and files to ask it about: two in a folder, one beside."""
    root = tmp_path_factory.mktemp("predicting")
    asked = Preprocessing(
        task=Task.CLASSIFICATION,
        features={"x": InputSpec(shape=(1,))},
        columns=(Column("x", 0, 10),),
        classes=("low", "high"),
    )
    module = torch.nn.Linear(1, 2)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[-1.0], [1.0]]))
        module.bias.copy_(torch.tensor([0.5, -0.5]))
    ReleasedModel(module.eval(), asked, {}).save(root / "model")
    (root / "new" / "deep").mkdir(parents=True)
    pd.DataFrame({"x": np.arange(11.0)}).to_parquet(root / "new" / "b.parquet")
    pd.DataFrame({"x": [9.0, 1.0]}).to_csv(root / "new" / "deep" / "a.csv", index=False)
    pd.DataFrame({"x": [0.0]}).to_parquet(root / "one.parquet")
    (root / "new" / "notes.txt").write_text("no table")
    (root / "new" / "_SUCCESS").write_text("")
    return root


def test_files_are_found_in_the_order_of_names_each_once(place):
    b, a, one = (str(place / name) for name in ("new/b.parquet", "new/deep/a.csv", "one.parquet"))
    assert files_of(place / "new") == (b, a)
    assert files_of([one, place / "new", b]) == (one, b, a)
    assert files_of(str(place / "*.parquet")) == (one,)
    assert files_of(str(place / "**" / "*.parquet")) == (b, one)
    assert files_of("s3://bucket/x") == ("s3://bucket/x",)
    for nothing in (place / "model", place / "none.parquet", str(place / "x*"), []):
        with pytest.raises(InvalidValue):
            files_of(nothing)


def test_the_rows_of_several_files_say_whose_they_are(place):
    said = sweeps.predict(place / "model", [place / "one.parquet", place / "new"])
    assert list(said.columns) == ["file", "prediction", "probability.low", "probability.high"]
    assert said["file"].value_counts(sort=False).tolist() == [1, 11, 2]
    assert said["prediction"].tolist() == ["low"] + ["low"] * 6 + ["high"] * 5 + ["high", "low"]
    assert "file" not in sweeps.predict(place / "model", place / "one.parquet")


def test_a_missing_number_is_refused(place):
    pq.write_table(pa.table({"x": [1.0, float("nan")]}), place / "gap.parquet")
    with pytest.raises(InvalidValue, match="found 1 NaN"):
        sweeps.predict(place / "model", place / "gap.parquet")
    pq.write_table(pa.table({"x": [1.0, None]}), place / "gap.parquet")
    with pytest.raises(InvalidValue, match="1 missing"):
        sweeps.predict(place / "model", place / "gap.parquet")


# A sweep over features: its claims, what it keeps, its model that leaves with the map, and its test records.


LINEAR = {**specs.LINEAR, "momentum": 0.5, "batch_size": 60, "epochs": 4}
DATA = {"source": "pooled", "of": "digits", "train": 120, "validation": 40}
SCATTERED = {**DATA, "features": "scattering", "features_groups": 9}


@pytest.fixture(scope="module")
def scattered(tmp_path_factory):
    root = tmp_path_factory.mktemp("scattered")
    return trained(root, spec(SCATTERED, LINEAR))


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
    assert (folder.stat().st_mode & 0o777, len(list(folder.glob("*/*.npy")))) == (0o700, 2)
    row = found.train.inputs["features"][0].tobytes()[:64]
    scattered.model(0).save(tmp_path / "model")
    files = [*folder.parent.rglob("*"), *(tmp_path / "model").iterdir()]
    holding = {one.parents[1].name for one in files if one.is_file() and row in one.read_bytes()}
    assert holding == {".features"}


@pytest.mark.parametrize("records", ["public", "private"])
def test_published_test_records_are_opened_once_for_the_model_of_features(tmp_path, monkeypatch, records):
    """MNIST in small: a share of the training records validates by a noised histogram, the test file is read at the
    end."""
    from trainables.data import images

    for name, value in {"TRAIN": 60, "TEST": 12, "TRAIN_OF": (20, 20, 20), "TEST_OF": (4, 4, 4)}.items():
        monkeypatch.setattr(images, f"MNIST_{name}", value)
    monkeypatch.setattr("tests.trainables.source_cases.TRAINING", 60)
    mnist_write(tmp_path, [(one, one % 3) for one in range(72)])
    parts = {"validation": {"records": "private", "share": 0.3}, "test": {"records": records}}
    data = {"source": "mnist", "path": str(tmp_path), **parts, "features": "scattering", "features_groups": 27}
    small = {**LINEAR, "batch_size": 20, "epochs": 1}
    sweep = trained(tmp_path, spec(data, small, privacy={"epsilon": 8.0, "delta": 1e-3}))
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
