"""The table of bad inputs: each answer names what is wrong, its value, what was expected and what to do.

Exit code 2, no traceback, nothing written.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from sweeps.util.exits import ExitCode
from tests.sweeps import specs, toys
from tests.sweeps.test_builder_arguments import nets  # noqa: F401  models of one's own, in the working folder
from tests.sweeps.test_own import lab  # noqa: F401  a module of one's own, likewise
from tests.sweeps.view_sweeps import mixed_sweep
from trainables.data import SOURCES
from trainables.registry import SYSTEMS

TABLE = yaml.safe_load((Path(__file__).parent / "bad_inputs.yaml").read_text())

SIMPLE = specs.mean("mine", trials=3, systems={"noisy-mean": {"clip": {"uniform": [0.2, 1.0]}}})
OWN_TABLE = {
    **SIMPLE,
    "data": {
        "source": "table",
        "path": "people.csv",
        "n": 100,
        "label": "y",
        "classes": 2,
        "columns": {"x": {"low": 0, "high": 1}},
        "validation": {"records": "public", "share": 0.2, "id": "id"},
    },
    "systems": {
        "noisy-sgd": {"model": "linear", "learning_rate": 0.1, "clip_norm": 1.0, "batch_size": 10, "epochs": 2}
    },
    "objectives": [{"metric": "accuracy"}],
}
DIGITS = {
    **OWN_TABLE,
    "data": {"source": "digits"},
    "privacy": {"epsilon": 2.0, "delta": 1e-4},
    "search": {"sampler": "random", "trials": 1, "seed": 0},
}
TOYS = {
    **toys.SPEC,
    "systems": {
        "hill": {"rate": {"log_uniform": [0.1, 5]}, "mode": {"choice": ["plain", "adaptive"]}},
        "valley": {"rate": 1.0, "depth": 2, "batch_size": {"same_as": "depth"}},
    },
}
BASES = {"simple": SIMPLE, "table": OWN_TABLE, "digits": DIGITS, "toys": TOYS}


def text_of(row):
    if "text" in row:
        return row["text"]
    spec = {**BASES[row.get("base", "simple")], **row.get("change", {})}
    if "knobs" in row:
        spec["systems"] = {**spec["systems"], "hill": {**spec["systems"]["hill"], **row["knobs"]}}
    return yaml.safe_dump({key: value for key, value in spec.items() if key not in row.get("without", ())})


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Of a sweep `views` of 24 finished trials."""
    place = tmp_path_factory.mktemp("recorded")
    mixed_sweep(place, trials=24).close()
    return place


@pytest.fixture
def answer(tmp_path, monkeypatch, command, root):
    """What a row is answered: (exit code, words, files that were written)."""
    for name in [name for name in os.environ if name.startswith(("SWEEPS_", "RAY_ADDRESS", "RAY_API"))]:
        monkeypatch.delenv(name)

    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for known, more in ((SYSTEMS, toys.SYSTEMS), (SOURCES, toys.SOURCES)):
        for name in more:
            monkeypatch.setitem(known, name, more[name])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text("id,x,y,day\n" + "".join(f"{i},{i % 7 / 7},{i % 2},x\n" for i in range(100)))

    def run(row):
        (tmp_path / "mine.yaml").write_text(text_of(row))
        before = set(tmp_path.rglob("*"))
        call = row.get("call", ["check", "mine.yaml"])
        code, out, err = command(*call, *(["--root", root] if "views" in call else []))
        assert not (code and out), "a program reads what is printed there"
        words = " ".join(re.sub("[│╭╮╰╯─]", " ", out + err).split())
        return code, words, sorted(set(tmp_path.rglob("*")) - before)

    return run


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["id"])
def test_a_bad_input_is_named_and_nothing_is_written(answer, row):
    code, words, written = answer(row)
    assert code == ExitCode.BAD_INPUT, words
    assert written == []
    assert "hidden-word" not in words
    for part in row["says"]:
        assert part in words


@pytest.mark.parametrize("base", BASES)
def test_what_is_changed_is_good_by_itself(answer, base):
    """A row that was refused for another reason would show nothing."""
    code, words, written = answer({"base": base, "call": ["check", "mine.yaml", "--no-rehearsal"]})
    assert (code, written) == (ExitCode.OK, []), words
