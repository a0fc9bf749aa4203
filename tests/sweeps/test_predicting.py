"""Many files asked about at once: in their order, and whose each row is."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import sweeps
from dpcore.checks import InvalidValue
from trainables.data.table_declaration import Column
from trainables.export import files as pieces
from trainables.export.files import files_of
from trainables.export.model import ReleasedModel
from trainables.export.preprocessing import Preprocessing
from trainables.system import Feature, Task
from trainables.worker.files import Folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A model of one column, and files to ask it about: two in a folder, one beside."""
    root = tmp_path_factory.mktemp("predicting")
    asked = Preprocessing(
        task=Task.CLASSIFICATION,
        features={"x": Feature(shape=(1,))},
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


def test_a_missing_number_is_refused_by_its_row(place):
    pq.write_table(pa.table({"x": [1.0, float("nan")]}), place / "gap.parquet")
    with pytest.raises(InvalidValue, match="row 1 has none"):
        sweeps.predict(place / "model", place / "gap.parquet")
    pq.write_table(pa.table({"x": [1.0, None]}), place / "gap.parquet")
    with pytest.raises(InvalidValue, match="1 missing"):
        sweeps.predict(place / "model", place / "gap.parquet")


@pytest.fixture
def many(place, tmp_path):
    """Files of several groups of rows, an empty one, a CSV file, and one named by a folder above."""
    rng, folder = np.random.default_rng(0), tmp_path / "files"
    folder.mkdir()
    for name, n in (("a", 5000), ("b", 0), ("c", 9001)):
        table = pa.table({"more": np.arange(n), "x": rng.uniform(-1, 12, n)})
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=1000)
    pd.DataFrame({"x": rng.uniform(0, 10, 4500)}).to_csv(folder / "d.csv", index=False)
    return [str(folder / "c.parquet"), str(folder)]


def equal_to_the_last_record(found, place, files):
    expected = sweeps.predict(place / "model", files)
    rows = expected.groupby("file", sort=False).cumcount()
    assert len(found) == len(expected) == 18501
    assert list(found.columns) == ["file", "row", *expected.columns[1:]]
    assert (found["file"].tolist(), found["row"].tolist()) == (expected["file"].tolist(), rows.tolist())
    assert found["prediction"].tolist() == expected["prediction"].tolist()
    # The same sums in batches of other sizes.
    assert np.allclose(found["probability.low"], expected["probability.low"], rtol=0, atol=1e-6)


def test_pieces_say_what_whole_files_say(place, many, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "ROWS", 2500)
    monkeypatch.setattr("trainables.export.model.BATCH", 500)
    model = ReleasedModel.load(place / "model")
    asked = pieces.pieces_of(model, files_of(many), None)
    assert [(one.fragment, one.groups, one.first) for _, one in asked[:3]] == [
        (0, (0, 1, 2), 0),
        (0, (3, 4, 5), 3000),
        (0, (6, 7, 8), 6000),
    ]
    tables = [table for file, piece in asked for table in pieces.said(model, piece, file)]
    assert max(map(len, tables)) <= 2500
    equal_to_the_last_record(pa.concat_tables(tables).to_pandas(), place, many)


def test_what_is_wrong_with_files_is_said_before_anything_is_asked(place, tmp_path, monkeypatch):
    monkeypatch.setattr("sweeps.ray.predicting.asked_in_pieces", None)
    pd.DataFrame({"y": [1.0]}).to_parquet(tmp_path / "y.parquet")
    pd.DataFrame({"x": ["much"]}).to_parquet(tmp_path / "words.parquet")
    for files, said in (("y.parquet", "'x'"), ("words.parquet", "numbers"), ("none.parquet", "that is there")):
        with pytest.raises(InvalidValue, match=said):
            sweeps.predict_files(place / "model", tmp_path / files, tmp_path / "said")
    with pytest.raises(InvalidValue, match="not there yet"):
        sweeps.predict_files(place / "model", place / "one.parquet", place / "new")
    assert not (tmp_path / "said").exists()
    assert (place / "new" / "b.parquet").is_file()


def test_what_was_not_declared_is_said_with_its_file(place, tmp_path):
    pq.write_table(pa.table({"x": [1.0, float("nan")]}), tmp_path / "gaps.parquet")
    output = Folder(str(tmp_path / "said"))
    pieces.send(place / "model", output)
    [(file, piece)] = pieces.pieces_of(ReleasedModel.load(place / "model"), [str(tmp_path / "gaps.parquet")], None)
    batch = {"number": np.array([0]), "file": np.array([file]), "piece": np.array([json.dumps(pieces.plain(piece))])}
    [error] = pieces.PieceWorker(output.url)(batch)["error"]
    assert "gaps.parquet" in error
    assert "row 1 has none" in error


@pytest.mark.parametrize("ends", [InvalidValue("file", "x", "y"), KeyboardInterrupt()])
def test_nothing_is_left_of_what_did_not_end_well(place, tmp_path, monkeypatch, ends):
    def fails(pieces, output, address):
        output.write("part-000000-000000.parquet", b"")
        raise ends

    monkeypatch.setattr("sweeps.ray.predicting.asked_in_pieces", fails)
    with pytest.raises(type(ends)):
        sweeps.predict_files(place / "model", place / "one.parquet", tmp_path / "said")
    assert not (tmp_path / "said").exists()


@pytest.mark.timeout(900)
def test_ray_data_says_what_one_process_says(place, many, tmp_path, monkeypatch):
    # Ray's workers give way to everybody else: beside a whole suite they would wait for minutes.
    monkeypatch.setenv("RAY_worker_niceness", "0")
    written = sweeps.predict_files(place / "model", many, tmp_path / "said")
    assert (written.rows, len(written.parts)) == (18501, 3)
    assert sorted(one.name for one in (tmp_path / "said").iterdir()) == ["_SUCCESS", *written.parts]
    equal_to_the_last_record(pd.read_parquet(tmp_path / "said"), place, many)
