"""A front as table, text, chart and picture: the same rows in each, and the claim in every row."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from dpcore.checks import InvalidValue
from sweeps.cli.main import pareto
from sweeps.reporting import tables
from sweeps.reporting.front import Front, front
from sweeps.reporting.html import render
from sweeps.reporting.tables import csv_text, front_table, table, trials_table
from tests.sweeps import view_sweeps
from tests.sweeps.view_sweeps import ACCURACY, EPSILON, record


def thirty() -> Front:
    rng = np.random.default_rng(0)
    records = [record(i, epsilon=float(rng.uniform(1, 8)), accuracy=float(rng.uniform())) for i in range(30)]
    return front([*records, record(30, epsilon=math.inf, accuracy=0.999)], [ACCURACY, EPSILON], sweep="s")


def test_every_format_holds_the_same_rows():
    result = thirty()
    expected = result.keys()
    as_csv = pd.read_csv(io.StringIO(str(render(result, "csv"))))
    as_parquet = pd.read_parquet(io.BytesIO(bytes(render(result, "parquet"))))  # type: ignore[arg-type]
    as_json = json.loads(render(result, "json"))
    assert as_csv["key"].tolist() == expected
    assert as_parquet["key"].tolist() == expected
    assert [point["key"] for point in as_json["panels"][0]["points"]] == expected
    assert as_parquet["epsilon"].tolist() == as_csv["epsilon"].tolist()
    assert as_parquet["knob.learning_rate"].tolist() == as_csv["knob.learning_rate"].tolist()
    assert math.isinf(as_parquet["epsilon"].max())
    assert "inf" in [point["epsilon"] for point in as_json["panels"][0]["points"]]


def test_numbers_and_words_of_one_column_are_words_in_a_table_and_in_its_file(tmp_path):
    config = record(0, epsilon=1.0, accuracy=0.5).config
    mixed = [
        replace(record(i, epsilon=1.0 + i, accuracy=0.5 + i / 10), config={**config, "clip_norm": clip})
        for i, clip in enumerate(("automatic", 0.5))
    ]
    trials_table(mixed).to_parquet(tmp_path / "trials.parquet")
    assert pd.read_parquet(tmp_path / "trials.parquet")["knob.clip_norm"].tolist() == ["automatic", "0.5"]
    result = front(mixed, [ACCURACY, EPSILON], sweep="s")
    whole = pd.read_parquet(io.BytesIO(bytes(render(result, "parquet"))))  # type: ignore[arg-type]
    assert set(whole["knob.clip_norm"]) == set(front_table(result)["knob.clip_norm"]) == {"automatic", "0.5"}


@pytest.mark.parametrize(("width", "lines"), [(140, False), (58, False), (30, True)])
def test_a_table_is_no_wider_than_the_terminal_and_leaves_no_hyperparameter_out(width, lines):
    """Where not all columns fit, each trial is told in a line."""
    knobs = {"system": "noisy-sgd", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 128, "model": "linear"}
    several = [
        replace(
            record(n, epsilon=0.25 * (n + 1), accuracy=0.3 + n / 10),
            config={"target_epsilon": 0.25 * (n + 1), **knobs, "learning_rate": n / 7},
        )
        for n in range(3)
    ]
    other = replace(record(3, epsilon=0.1, accuracy=0.2), config={"system": "noisy-adam", "learning_rate": 0.125})
    console = Console(record=True, width=width)
    console.print(table(front([*several, other], [ACCURACY, EPSILON])))
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= width
    assert "0.1429" in text
    assert "left out" not in text
    # What each system's trials have in common is no column.
    assert "batch" not in text
    assert ("accuracy ↑ 0.3" in " ".join(text.split())) == lines
    assert "noisy-adam" in text


@pytest.mark.parametrize("form", tables.FORMATS)
def test_the_name_of_the_file_says_the_format(form, tmp_path, capsys):
    view_sweeps.new_sweep(tmp_path).close()

    def written(name: str, said: str | None = None) -> bytes:
        pareto(["views"], format=said, output=tmp_path / name, root=tmp_path)
        return (tmp_path / name).read_bytes()

    by_name = written("front.txt" if form == "table" else f"front.{form.upper()}")
    assert len(by_name) == len(written("said", form))
    with pytest.raises(InvalidValue, match=r"front\.pdf.*\.png.*--format"):
        written("front.pdf")
    capsys.readouterr()


# No cell of a CSV is a formula, whatever a spec, a system or a metric is called; numbers stay numbers.


def read(text):
    return list(csv.reader(io.StringIO(text, newline="")))


@given(st.text(max_size=20))
@example("-cmd|' /C calc'!A0")
@example("\r=1")
@example(" =1")
@example("\uff1d1")
def test_whatever_stands_in_a_cell_or_a_header_no_spreadsheet_computes_it(text):
    text = text.replace("\0", "")
    for cell, *_ in read(csv_text([text, "b"], [{text: text, "b": "x"}])):
        if cell.lstrip(" ")[:1] in tuple("=+-@\uff1d\t\r\n"):
            assert not cell.strip() or float(cell) is not None
