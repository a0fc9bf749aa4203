"""Specs are read whole: every mistake at once, one digest for every spelling of a sweep, and YAML as people mean it.

What a person gets wrong, mistake by mistake, is in `bad_inputs.yaml`.
"""

from __future__ import annotations

import json
import math
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

from sweeps.planning.plan import plan_proposal
from sweeps.search.space import Space
from sweeps.spec.domains import Domain
from sweeps.spec.parse import load_spec, public_facts, read_document
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import SweepSpec, diff
from tests.sweeps import specs
from tests.sweeps.published_sweeps import REASON, attacked
from tests.sweeps.specs import PUBLIC, people, spec_of
from tests.sweeps.toys import SPEC, Points, loaded
from trainables.measures.quality import QUALITY
from trainables.metrics import Task


def load(raw: Any) -> SweepSpec:
    return loaded(raw)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The exam's spec with one value put in."""
    raw = deepcopy(SPEC)
    *parents, last = path.split("/")
    inner: Any = raw
    for parent in parents:
        inner = inner.setdefault(parent, {})
    inner[last] = value
    return raw


SEALED = {"epsilon": 1, "delta": 1e-5, "scope": "sweep", "release": "best"}
MIXED = {"hill": {"rate": 1.0}, "valley": {"rate": 1.0}}


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


def test_a_failing_source_is_an_error_of_its_own_option() -> None:
    class Gone(Points):
        def facts(self, options: Any) -> Any:
            raise FileNotFoundError(2, "No such file or directory", "images.gz")

    with pytest.raises(SpecErrors, match=r"No such file or directory: images.gz"):
        loaded(SPEC, sources={"points": Gone()})


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


def test_a_list_of_layers_is_one_value_and_sets_of_them_are_a_choice() -> None:
    def read(targets: object) -> object:
        knobs = {**specs.LINEAR, "model": "mlp", "lora": {"rank": 2, "targets": targets}}
        return load_spec(specs.digits(systems={"noisy-sgd": knobs})).systems["noisy-sgd"]["lora.targets"]

    assert read(["query", "value"]) == read("query,value") == "query,value"
    assert read({"choice": ["query", ["query", "value"]]}) == Domain(kind="choice", values=("query", "query,value"))


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
    with pytest.raises(SpecErrors) as caught:
        load(str(file))
    assert path in {error.path for error in caught.value.errors}
    assert str(caught.value).partition("\n")[0].endswith(f" in {file}:")
    assert "hunter22secret" not in str(caught.value)
    assert len(str(caught.value)) < 2000
    assert time.process_time() - began < 5


# Metrics that a spec asks for beyond those of its objectives: what is refused, what is recorded, what is said.


__all__ = ["people"]
CLASSES = sorted(name for name, one in QUALITY.items() if one.tasks == {Task.CLASSIFICATION})


def of(people: Any, *, public: bool = True, **changes: Any) -> dict[str, Any]:
    raw = spec_of(people, **changes)
    return raw | {"data": raw["data"] | {"validation": PUBLIC}} if public else raw


def errors(raw: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(SpecErrors) as refused:
        load_spec(raw)
    found: dict[str, str] = {}
    for error in refused.value.errors:
        found[error.path] = found.get(error.path, "") + str(error)
    return found


@pytest.mark.parametrize("asked", [{"report": ["NAME"]}, {"objectives": [{"metric": "NAME"}]}], ids=["report", "goal"])
@pytest.mark.parametrize("name", QUALITY)
def test_on_private_records_each_is_refused_by_name(people, name: str, asked: dict[str, Any]) -> None:
    found = errors(of(people, public=False, **json.loads(json.dumps(asked).replace("NAME", name))))
    [(path, text)] = found.items()
    assert path in ("report.0", "objectives.0.metric")
    assert name in text
    assert "noised histogram" in text


@pytest.mark.parametrize("name", QUALITY)
def test_on_public_records_each_is_had_where_it_means_something(people, name: str) -> None:
    raw = of(people, objectives=[{"metric": name}], report=["auc"])
    if name in CLASSES:
        assert load_spec(raw).objectives[0].goal == QUALITY[name].goal
    else:
        assert "a metric of a classification, which table is" in errors(raw)["objectives.0.metric"]


def test_metrics_besides_are_recorded_and_nothing_else_moves(people) -> None:
    plain, spec = load_spec(of(people)), load_spec(of(people, report=["f1", "log_loss", "seconds"]))
    assert spec.asked == ("auc", "f1", "log_loss", "seconds")
    assert load_spec(spec.canonical()) == spec
    assert list(spec.report) == ["f1", "log_loss", "seconds"]
    assert "report" not in plain.canonical()
    assert plain.report == ()
    ends = spec.front.reference
    assert ends.keys() - plain.front.reference.keys() == {"f1", "log_loss"}
    assert ends["log_loss"].value == pytest.approx(math.log(2))
    without = {key: value for key, value in spec.canonical().items() if key not in ("report", "front")}
    assert without == {key: value for key, value in plain.canonical().items() if key != "front"}


def test_a_raw_metric_besides_needs_a_reason_and_steers_no_sampler() -> None:
    raw = attacked(objectives=[{"metric": "accuracy"}], search={"sampler": "tpe", "trials": 2})
    asked = raw | {"report": ["membership_auc"]}
    assert list(errors(asked)) == ["report.0"]
    assert load_spec(asked | {"privacy": {"epsilon": 1.0, "delta": 1e-5, "allow_raw_measures": REASON}})


def test_planning_refuses_a_unit_that_nobody_declared() -> None:
    """The door of every plan: a spec that was put together by hand passes no earlier one."""
    spec = load_spec(specs.digits())
    by_hand = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"unit": "patient"})})
    refusal = plan_proposal(by_hand, next(Space.of(by_hand).middles()), public_facts(spec), {})
    assert "privacy.unit='patient'" in refusal.reason
