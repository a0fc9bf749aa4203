"""Many files asked about at once: in their order, and whose each row is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import sweeps
from dpcore.checks import InvalidValue
from trainables.data.table_declaration import Column
from trainables.export.files import files_of
from trainables.export.model import ReleasedModel
from trainables.export.preprocessing import Preprocessing
from trainables.system import InputSpec, Task


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


def test_a_missing_number_is_refused_by_its_row(place):
    pq.write_table(pa.table({"x": [1.0, float("nan")]}), place / "gap.parquet")
    with pytest.raises(InvalidValue, match="row 1 has none"):
        sweeps.predict(place / "model", place / "gap.parquet")
    pq.write_table(pa.table({"x": [1.0, None]}), place / "gap.parquet")
    with pytest.raises(InvalidValue, match="1 missing"):
        sweeps.predict(place / "model", place / "gap.parquet")
