"""A released model is asked what its trial was trained on, by the same checks; its files say nothing of a machine."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import softmax
from torch import nn

from dpcore.checks import InvalidValue
from tests.sweeps.test_export import NETWORK, spec, trained
from tests.trainables.recording import facts_of
from trainables.data import SOURCES
from trainables.data.table_declaration import Column
from trainables.export.model import ReleasedModel, apart, predicted
from trainables.export.preprocessing import Preprocessing
from trainables.features import programs
from trainables.features.programs import NotExportable, program
from trainables.system import InputSpec, Split, Task
from trainables.validation.evaluate import judge

FILM = Preprocessing(
    task=Task.CLASSIFICATION,
    features={"x": InputSpec(shape=(3,)), "film": InputSpec(shape=(), cardinality=7)},
    columns=(Column("age", 0, 10), Column("zone", categories=("1", "2")), Column("film", codes=7)),
    classes=("no", "yes"),
)


class Rated(nn.Module):
    """A row for each film, and one linear layer."""

    def __init__(self):
        super().__init__()
        self.films, self.last = nn.Embedding(7, 2), nn.Linear(3, 2)

    def forward(self, x, film):
        return self.last(x) + self.films(film)


@pytest.fixture
def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ReleasedModel(Rated().eval(), FILM, {})


@pytest.fixture
def frame():
    return pd.DataFrame({"age": [-1.0, 5, 30], "zone": ["1", "2", "2"], "film": [0, 6, 3]})


def expected(model, frame):
    zones = (np.array(["1", "2"])[None] == frame["zone"].to_numpy()[:, None]).astype(np.float32)
    x = np.concatenate([np.clip(frame[["age"]] / 10, 0, 1).to_numpy(np.float32), zones], axis=1)
    with torch.no_grad():
        return model.module(torch.from_numpy(x), torch.tensor(frame["film"].to_list())).numpy()


def test_codes_and_texts_are_what_they_were_to_the_trial_whatever_the_file(model, frame, tmp_path):
    """Codes of a table were given to the model as floating-point numbers, and zones of a CSV file read as numbers."""
    said = model.predict(frame)
    np.testing.assert_allclose(said.probabilities, softmax(expected(model, frame), axis=1), rtol=1e-6)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.assign(film=frame["film"].astype(float)).to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        pd.testing.assert_frame_equal(predicted(model, tmp_path / name), said.table())
    frame[:0].to_csv(tmp_path / "none.csv", index=False)
    assert len(predicted(model, tmp_path / "none.csv")) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"film": 7}, "film codes in 0..6, found 7..7"),
        ({"film": -1}, r"film codes in 0..6, found -1..-1"),
        ({"film": 1.5}, "whole numbers as film"),
        ({"film": 1e30}, "film codes in 0..6"),
        ({"zone": "3"}, "which also has '3'"),
        ({"zone": 1}, "which also has 1"),
    ],
)
def test_what_was_not_declared_is_refused_with_its_file(model, frame, tmp_path, change, said):
    frame.assign(**change).to_parquet(tmp_path / "wrong.parquet")
    with pytest.raises(InvalidValue, match=f"wrong.parquet.*{said}"):
        predicted(model, tmp_path / "wrong.parquet")


def test_inputs_by_name_are_looked_at_as_well(model, frame):
    with pytest.raises(InvalidValue, match="a column 'zone' and a column 'film' too"):
        model.predict(frame[["age"]])
    x = np.zeros((2, 3))
    assert len(model.predict({"x": x, "film": [0, 6]})) == 2
    for wrong, said in (
        ({"x": x, "film": [0, 7]}, "found 0..7"),
        ({"x": x, "film": [0, 1, 2]}, "as many values of each input"),
        ({"x": x, "film": [0.5, 1]}, "whole numbers"),
        ({"x": x + np.inf, "film": [0, 1]}, "finite numbers in x"),
        ({"x": x + 1e300, "film": [0, 1]}, "finite numbers in x"),
        ({"x": x.astype(str), "film": [0, 1]}, "numbers in x"),
        ({"x": [[1, 2, 3], [1]], "film": [0, 1]}, "as many numbers in every row"),
        ({"x": x}, r"an input 'film' with shape \[n, \*\[\]\]"),
    ):
        with pytest.raises(InvalidValue, match=said):
            model.predict(wrong)


def test_no_folder_of_the_machine_and_no_line_of_code_leaves(model, tmp_path, monkeypatch):
    """torch.export keeps, of each operation, the file, the line and the text of the code that it is from."""

    def words():
        with zipfile.ZipFile(model.save(tmp_path / "model") / "program.pt2") as kept:
            found = b"".join(kept.read(name) for name in kept.namelist())
        assert ReleasedModel.load(tmp_path / "model").module is not None
        return found + b"".join(one.read_bytes() for one in (tmp_path / "model").iterdir())

    here, line = str(Path(__file__).parent).encode(), b"self.last(x)"
    found = words()
    assert here not in found
    assert line not in found
    (tmp_path / "model").rename(tmp_path / "clean")
    # The mutant: as torch writes it.
    monkeypatch.setattr(programs, "_TRACES", ())
    found = words()
    assert here in found
    assert line in found


@pytest.mark.parametrize("name", ["program.pt2", "weights.safetensors", "preprocessing.json", "card.json"])
def test_a_damaged_folder_is_said_to_be_one(model, tmp_path, name):
    file = model.save(tmp_path / "model") / name
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"[]", b"\xff", b"7"):
        file.write_bytes(damaged)
        with pytest.raises(InvalidValue, match=r"a folder as `sweeps export` wrote it"):
            ReleasedModel.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("classes", "worths"),
    [((1, 2, 3, 4, 5), (1, 2, 3, 4, 5)), ((0.5, 1, 4), (0.5, 1, 4)), (("bad", "so so", "good"), (0, 1, 2))],
)
def test_a_rating_is_predicted_as_it_was_declared(classes, worths):
    """Of stars from 1 to 5 the positions were told, from 0 to 4: one star too few."""
    feature = InputSpec(shape=(len(classes),), high=50.0)
    asked = Preprocessing(task=Task.RATING, features={"x": feature}, classes=classes)
    model = ReleasedModel(nn.Identity(), asked, {})
    certain = model.predict({"x": 50 * np.eye(len(classes))})
    assert certain.values == pytest.approx(np.array(worths, dtype=float))
    assert model.predict({"x": np.zeros((1, len(classes)))}).values == pytest.approx(np.mean(worths))
    assert list(certain.table())[1:] == [f"probability.{one}" for one in classes]


def test_what_is_declared_a_text_is_read_as_one(tmp_path):
    """Whether 1 is a text followed from the other records of a CSV file."""
    asked = {"path": str(tmp_path / "a.csv"), "n": 4, "label": "y", "classes": ["0", "1"]}
    asked["columns"] = {"zone": {"categories": ["01", "2", "b"]}}
    for last in ("b", "2"):
        (tmp_path / "a.csv").write_text(f"zone,y\n01,0\n2,1\n01,1\n{last},0\n")
        data = SOURCES["table"].load(asked)
        assert data.train.inputs["x"].argmax(axis=1).tolist() == [0, 1, 0, 2 if last == "b" else 1]
        assert data.train.targets.tolist() == [0, 1, 1, 0]


# Of two classes a threshold may part, and columns of the files are carried along.


class Rare(nn.Module):
    """The second class has probability x / 2."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        share = x[:, 0].double().clamp(0.001, 0.999) / 2
        return torch.stack([torch.log1p(-share), torch.log(share)], dim=1)


def test_a_threshold_finds_the_rare_class_and_an_id_is_carried_along(tmp_path):
    column = Column("age", 0.0, 10.0)
    asked = Preprocessing(
        task=Task.CLASSIFICATION, features={"x": InputSpec(shape=(1,))}, columns=(column,), classes=("no", "yes")
    )
    model, frame = ReleasedModel(Rare(), asked, {}), pd.DataFrame({"age": [1.0, 4, 9], "who": ["007", "8", "9"]})
    assert list(model.predict(frame).values) == ["no"] * 3
    assert list(model.predict(frame, threshold=0.2).values) == ["no", "yes", "yes"]
    frame.to_csv(tmp_path / "a.csv", index=False)
    table = predicted(model, tmp_path / "a.csv", threshold=0.2, keep=["who", "age"])
    assert list(table)[:3] == ["who", "age", "prediction"]
    assert list(table["who"]) == ["007", "8", "9"]
    with pytest.raises(InvalidValue, match="threshold"):
        model.predict(frame, threshold=2.0)
    with pytest.raises(InvalidValue, match="nobody"):
        predicted(model, tmp_path / "a.csv", keep=["nobody"])


# What leaves says of a record what it says of it alone: models that mix their batch are mapped, or do not leave.


NUMBERS, WORDS = {"x": InputSpec(shape=(6,))}, {"x": InputSpec(shape=(12,), cardinality=50)}


class Centred(nn.Module):
    """It takes the mean of its batch away."""

    def __init__(self):
        super().__init__()
        self.first, self.scale, self.last = nn.Linear(6, 8), nn.Parameter(torch.ones(8)), nn.Linear(8, 2)

    def forward(self, x):
        hidden = self.first(x) * self.scale
        return self.last(hidden - hidden.mean(0) / 2)


class Recurrent(nn.Module):
    def __init__(self, mixing):
        super().__init__()
        self.words, self.over, self.last = nn.Embedding(50, 4), nn.LSTM(4, 4, batch_first=True), nn.Linear(4, 2)
        self.mixing = mixing

    def forward(self, x):
        found = self.last(self.over(self.words(x))[0][:, -1])
        return found - found.mean(0) if self.mixing else found


class Trimmed(nn.Module):
    """It reads as far as the longest text of its batch."""

    def __init__(self):
        super().__init__()
        self.words, self.last = nn.Embedding(50, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.words(x[:, : max(1, int((x != 0).sum(1).max()))]).mean(1))


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def alone(model, x):
    with torch.no_grad():
        return torch.cat([model(one[None]) for one in x])


def test_a_model_that_mixes_is_written_down_for_each_record_apart():
    model, x = Centred().eval(), torch.rand(9, 6)
    written = program(apart(model, NUMBERS), NUMBERS).module()
    assert torch.allclose(written(x), alone(model, x), atol=1e-6)
    assert torch.allclose(written(x[:1]), model(x[:1]), atol=1e-6)
    assert written.state_dict().keys() == model.state_dict().keys()
    # The mutant: as it is, it says other things of records that stand together.
    assert not torch.allclose(program(model, NUMBERS).module()(x), alone(model, x), atol=1e-3)


def test_what_cannot_be_mapped_leaves_where_it_keeps_records_apart_alone():
    honest = Recurrent(mixing=False).eval()
    assert apart(honest, WORDS) is honest
    for model in (Recurrent(mixing=True), Trimmed()):
        with pytest.raises(NotExportable, match="the records beside it"):
            apart(model.eval(), WORDS)


class Failing(nn.Module):
    """For some values it has no answer, and for others none that is finite."""

    def __init__(self, never=False):
        super().__init__()
        self.last, self.never = nn.Linear(6, 2), never

    def forward(self, x):
        if self.never:
            raise RuntimeError("never")
        torch.linalg.cholesky(torch.eye(2) - x[:, :1, None] * torch.ones(2, 2) / 1.9)
        return self.last(x.log())


def test_values_for_which_a_model_cannot_be_computed_decide_nothing():
    model, x = Failing().eval(), torch.rand(9, 6) / 4 + 0.1
    with pytest.raises(RuntimeError):
        model(torch.ones(1, 6))
    assert torch.allclose(apart(model, NUMBERS)(x), alone(model, x), atol=1e-6)
    with pytest.raises(NotExportable, match="each raises an error"):
        apart(Failing(never=True).eval(), NUMBERS)


def test_what_is_exported_says_what_was_validated_to_the_last_record(tmp_path):
    """Of a source of one's own, whose numbers are cut to their bounds in training."""
    source, public = "tests.trainables.user_sources:Beyond", {"records": "public"}
    knobs = {**NETWORK, "epochs": 1}
    data = {"source": source, "validation": public}
    sweep = trained(tmp_path, spec(data=data, systems={"noisy-sgd": knobs}))
    made = sweep.model(0)
    model = ReleasedModel.load(made.save(tmp_path / "model"))
    raw = SOURCES[source]._source.load({}).validation
    assert (np.abs(raw.inputs["x"]) > 1).any()
    for asked in (made, model):
        said = asked.predict(dict(raw.inputs)).values
        assert (said == raw.targets).mean() == asked.card["validation"]["accuracy"]
        one = [asked.predict({"x": raw.inputs["x"][[row]]}).probabilities[0] for row in range(10)]
        assert np.allclose(asked.predict(dict(raw.inputs)).probabilities[:10], one, atol=1e-6)


# How sure a test score is: of records that say nothing of how others differ, nothing is said.


FACTS = facts_of((1,), task=Task.REGRESSION, classes=None, target_high=9.0)


def scored(targets: list[float]):
    model = nn.Linear(1, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return judge(model, Split({"x": np.zeros((len(targets), 1), np.float32)}, np.array(targets, np.float32)), FACTS)


def test_the_error_of_a_mean_is_that_of_its_records():
    """Squared errors 1, 4, 9, 16 deviate by 6.557 (of one record less): 3.279 of the mean, .599 of its root."""
    found = scored([1, 2, 3, 4])
    assert found == pytest.approx({"loss": 7.5, "rmse": 7.5**0.5, "loss_se": 3.2787, "rmse_se": 0.59861}, abs=1e-4)


@pytest.mark.parametrize("targets", [[2], [2, 2, 2]])
def test_of_one_record_or_of_equal_ones_nobody_is_sure(targets):
    found = scored(targets)
    assert found == {"loss": 4, "rmse": 2}


def test_many_samples_differ_by_as_much_as_is_said():
    rng = np.random.default_rng(0)
    found = [scored(list(rng.exponential(1, 8).clip(0, 9))) for _ in range(400)]
    losses = [one["loss"] for one in found]
    squares = np.mean([one["loss_se"] ** 2 for one in found])
    assert np.std(losses) ** 2 == pytest.approx(squares, rel=0.2)
