"""Specs are read whole: every mistake at once, one digest for every spelling of a sweep, and YAML as people mean it.

What a person gets wrong, mistake by mistake, is in `bad_inputs.yaml`.
"""

from __future__ import annotations

import json
import pickle
import time
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import sweeps
from dpcore.checks import InvalidValue
from sweeps.spec.domains import Domain
from sweeps.spec.parse import load_spec, read_document
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import SweepSpec, diff
from tests.sweeps.toys import SOURCES, SPEC, SYSTEMS, Points


def load(raw: Any) -> SweepSpec:
    return load_spec(raw, systems=SYSTEMS, sources=SOURCES)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The exam's spec with one value put in."""
    raw = deepcopy(SPEC)
    *parents, last = path.split("/")
    inner: Any = raw
    for parent in parents:
        inner = inner.setdefault(parent, {})
    inner[last] = value
    return raw


def errors_of(raw: Any) -> dict[str, object]:
    with pytest.raises(SpecErrors) as caught:
        load(raw)
    assert all(one.expected for one in caught.value.errors)
    return {error.path: error.value for error in caught.value.errors}


SEALED = {"epsilon": 1, "delta": 1e-5, "scope": "sweep", "release": "best"}
TOTAL = {"epsilon": [1, 2], "delta": 2, "scope": "sweep", "order": 0}
MIXED = {"hill": {"rate": 1.0}, "valley": {"rate": 1.0}}
VALLEY = {"systems": {"valley": {"rate": 1.0}}}
HUGE = {"hill": {"rate": {"int_uniform": [1, 1000]}, "clip": {"int_uniform": [1, 1000]}, "steps": {"choice": [1, 2]}}}
GRID, CONTINUOUS = {"sampler": "grid", "trials": 9}, {"systems.hill.rate.log_uniform", "systems.hill.clip.uniform"}
SOLVED = {"systems.valley", "systems.valley.noise_multiplier"}


@pytest.mark.parametrize(
    ("changes", "paths"),
    [
        ({"systems": MIXED, "search": {"sampler": "gp", "trials": 9}}, {"search.sampler"}),
        ({"systems": MIXED, "objectives": [{"metric": "loss"}]}, {"objectives.0.metric"}),
        ({"search": {**GRID, "stratified": True}}, {"search.stratified", *CONTINUOUS}),
        ({"systems": HUGE, "search": GRID}, {"search.sampler"}),
        ({**VALLEY, "privacy": {"epsilon": 1, "delta": 1e-5, "solve": "steps"}}, SOLVED),
        ({"privacy": {**SEALED, "spread": "equal"}}, {"privacy.spread", "selection"}),
        ({"privacy": TOTAL}, {"privacy.epsilon", "privacy.delta", "privacy.order"}),
        ({"privacy": {"epsilon": 1, "delta": 1e-5, "shares": 3}}, {"privacy.shares"}),
    ],
)
def test_sections_are_held_against_each_other(changes: dict[str, Any], paths: set[str]) -> None:
    """Each by itself is in `bad_inputs.yaml`."""
    assert set(errors_of({**SPEC, **changes})) == paths


def test_all_mistakes_come_at_once() -> None:
    raw = deepcopy(SPEC) | {"extra": 1, "search": {"sampler": "tpe"}, "resources": {"cpus": -1}}
    raw["systems"]["hill"]["clip"] = {"uniform": [2, 1]}
    raw["privacy"] = {**SEALED, "epsilon": -1, "delta": 0.5}
    raw["objectives"] = [{"metric": "auc"}]
    with pytest.raises(SpecErrors) as caught:
        load(raw)
    assert {error.path for error in caught.value.errors} == {
        "extra",
        "search.trials",
        "resources.cpus",
        "systems.hill.clip.uniform",
        "privacy.epsilon.0",
        "privacy.delta",
        "selection",
        "objectives.0.metric",
    }
    assert str(caught.value).startswith("8 errors in the spec:\n  extra=1: expected")
    assert pickle.loads(pickle.dumps(caught.value)).errors == caught.value.errors


def test_what_goes_together_is_taken() -> None:
    assert load({**SPEC, "systems": MIXED, "search": {"sampler": "gp", "trials": 9, "stratified": True}})
    systems = {"hill": {"rate": 1.0, "noise_multiplier": {"log_uniform": [0.5, 4]}}}
    spec = load({**SPEC, "systems": systems, "privacy": {"epsilon": 1, "delta": 1e-5, "solve": "steps"}})
    assert "steps" not in spec.systems["hill"]
    assert "noise_multiplier" in spec.systems["hill"]
    reason = "every record is public already"
    assert load(changed("privacy", {"epsilon": 1, "delta": 0.01, "allow_large_delta": reason})).privacy.delta == 0.01


def test_a_failing_source_is_an_error_of_its_own_option() -> None:
    class Gone(Points):
        def facts(self, options: Any) -> Any:
            raise FileNotFoundError(2, "No such file or directory", "images.gz")

    with pytest.raises(SpecErrors, match=r"No such file or directory: images.gz"):
        load_spec(SPEC, systems=SYSTEMS, sources={"points": Gone()})


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    path=st.sampled_from(
        [*SPEC, "early_stopping", "limits", "resources", "execution", "tracking", "store", "systems/hill/clip",
         "systems/hill/steps", "systems/hill/mode", "privacy/epsilon", "privacy/delta", "privacy/scope",
         "privacy/release", "search/trials", "data/n"]
    ),
    value=json_values,
)  # fmt: skip
def test_anything_either_loads_or_is_explained(path: str, value: Any) -> None:
    try:
        spec = load(changed(path, value))
    except SpecErrors as error:
        explained = bool(error.errors) and all(one.expected for one in error.errors)
    else:
        explained = load(spec.canonical()) == spec
    assert explained


# One digest for every spelling of a sweep; a change of the meaning is another sweep.


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("systems/hill/clip", {"uniform": [1, 2], "points": 3}),
        ("early_stopping", {"method": "asha"}),
        ("data/records_are_public", "a benchmark that anybody may download"),
        ("privacy/allow_raw_measures", "a benchmark that anybody may download"),
        ("privacy", {"epsilon": 1, "delta": 1e-5, "scope": "sweep", "spread": "front-loaded"}),
    ],
)
def test_canonical_form_is_the_same_spec_with_the_code_and_without_it(path: str, value: Any) -> None:
    spec = load(changed(path, value))
    recorded = json.loads(json.dumps(spec.canonical(), sort_keys=True))
    for again in (load(recorded), SweepSpec.model_validate(recorded), pickle.loads(pickle.dumps(spec))):
        assert again == spec
        assert again.digest == spec.digest
    assert spec.digest != load(SPEC).digest
    assert spec.data.options() == load(SPEC).data.options()
    with pytest.raises(ValidationError):
        spec.name = "other"  # type: ignore[misc]


def test_digest_is_of_the_meaning() -> None:
    spec = load(SPEC)
    same = [
        changed("name", "other"),
        changed("tracking/uri", "http://localhost:5000"),
        changed("store", "sqlite:///x.db"),
        changed("resources/cpus", 2),
        changed("execution/threads", 2),
        changed("front", {"reference": {"epsilon": 5.0}}),
        changed("systems/hill/steps", 27),  # the default, spelled out
        changed("objectives", [{"metric": "accuracy"}]),
        dict(reversed(SPEC.items())),
    ]
    for raw in same:
        assert load(raw).digest == spec.digest
    other = [
        changed("search/seed", 8),
        changed("search/trials", 21),
        changed("systems/hill/steps", 28),
        changed("systems/hill/clip", {"uniform": [0.1, 6]}),
        changed("privacy/delta", 2e-5),
        changed("privacy/noise_source", "secure"),
        changed("data/n", 1001),
        changed("early_stopping", {"method": "asha"}),
        changed("limits/work", 100),
    ]
    assert len({spec.digest, *(load(raw).digest for raw in other)}) == len(other) + 1


def test_diff_names_every_change_and_whether_it_matters() -> None:
    old = load(SPEC)
    raw = changed("systems/hill/clip", {"uniform": [0.1, 6]})
    raw |= {"name": "other", "resources": {"cpus": 2}}
    changes = diff(old, load(raw))
    assert {(change.path, change.meaning) for change in changes} == {
        ("name", False),
        ("resources.cpus", False),
        ("systems.hill.clip.uniform", True),
    }
    assert not diff(old, old)


# Files.

YAML = """
name: {name}
x-clip: &clip {{uniform: [1e-1, 5]}}
data: {{source: points}}
systems:
  hill: {{rate: {rate}, clip: *clip, model: {model}}}
privacy: {{epsilon: [4, 1], delta: 1e-5}}
objectives: [{{metric: accuracy}}]
search: {{sampler: random, trials: 3}}
"""


def test_yaml_is_read_as_people_mean_it(tmp_path: Path) -> None:
    text = YAML.format(name="no", rate="1e-5", model="on")
    assert yaml.safe_load(text)["name"] is False  # the trap: YAML 1.1 sees truth values and texts
    spec = load(text)
    assert (spec.name, spec.systems["hill"]["rate"], spec.systems["hill"]["model"]) == ("no", 1e-5, "on")
    assert spec.privacy.epsilon == (1.0, 4.0)
    assert "x-clip" not in json.dumps(spec.canonical())
    file = tmp_path / "sweep.yaml"
    file.write_text(text, encoding="utf-8-sig")
    assert load(file) == load(str(file)) == spec
    assert read_document("a: &a {x: 1}\nb: {<<: *a, y: 2}")["b"] == {"x": 1, "y": 2}


def test_empty_values_are_defaults_and_numbers_may_be_texts() -> None:
    text = YAML.format(name="a", rate="1_000", model="mlp")
    text += "store:\ntracking: ~\nlimits: {work: null}\nexecution: {}\n"
    spec = load(text)
    assert (spec.store, spec.tracking.uri, spec.limits.work, spec.execution.threads) == (None, None, None, 1)
    assert spec.systems["hill"]["rate"] == 1000.0
    raw = changed("systems/hill/clip", {"log_uniform": ["1e-3", "1e1"]})
    assert load(raw).systems["hill"]["clip"] == Domain(kind="log_uniform", low=1e-3, high=10.0)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (YAML.format(name="a", rate=1, model="mlp") + "name: b\nsearch: {trials: 4}\n", "line 10"),
        ("a: " + "[" * 5000 + "]" * 5000, "document"),
        ("a: &a [*a]", "document"),
        ("n: " + "9" * 5000, "document"),
        ("!!python/object/apply:os.system ['true']", "line 1"),
        (YAML.format(name="a", rate=1, model="x").replace("x-clip:", "xclip:"), "xclip"),
        (YAML.format(name="a", rate=1, model="x") + "x-store: postgresql://me:hunter22secret@host/db\n", "x-store"),
    ],
)
def test_a_broken_document_is_refused_at_once_with_its_file(text: str, path: str, tmp_path: Path) -> None:
    file, began = tmp_path / "mine.yaml", time.process_time()
    file.write_text(text)
    for read in (load, sweeps.load):
        with pytest.raises(SpecErrors) as caught:
            read(str(file))
        assert path in {error.path for error in caught.value.errors}
        assert str(caught.value).partition("\n")[0].endswith(f" in {file}:")
        assert "hunter22secret" not in str(caught.value)
        assert len(str(caught.value)) < 2000
    assert time.process_time() - began < 5


def test_what_is_no_text_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidValue, match="text in UTF-8"):
        load(tmp_path / "a.yaml")
    with pytest.raises(FileNotFoundError):
        load("no-such-file.yaml")
