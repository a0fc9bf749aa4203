"""Specs are read whole: every mistake at once, in words."""

from __future__ import annotations

import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sweeps.spec import SpecErrors, load_spec, spec_schema
from sweeps.spec.domains import Domain
from tests.sweeps.toy_specs import changed, load
from tests.sweeps.toys import SOURCES, SPEC, SYSTEMS, Points

# (where, value put there, the one error that comes of it)
BAD: list[tuple[str, Any, str]] = [
    ("sytems", {}, "sytems={}: expected a section of a spec. Did you mean `systems`?"),
    ("name", ..., "name=None: expected this section. Add `name:`."),
    (
        "name",
        "../up",
        "name='../up': expected letters, digits, dots, dashes or underscores, at most 100, a letter or digit first.",
    ),
    ("name", False, "name=False: expected a text. Quote it."),
    ("data/source", "point", "data.source='point': expected the name of a data source. Did you mean `points`?"),
    ("data/n", 0, "data.n=0: expected a whole number of at least 1."),
    ("systems/hil", {}, "systems.hil='hil': expected the name of a system. Did you mean `hill`?"),
    (
        "systems/hill/clip_norm",
        1.0,
        "systems.hill.clip_norm=1.0: expected a hyperparameter of hill. Did you mean `clip`?",
    ),
    (
        "systems/hill/rate",
        ...,
        "systems.hill.rate=None: expected a value or a domain (step size). Add `rate:`.",
    ),
    (
        "systems/hill/clip",
        {"uniform": [5, 0.1]},
        "systems.hill.clip.uniform=[5, 0.1]: expected low <= high. Swap them: [0.1, 5].",
    ),
    (
        "systems/hill/clip",
        {"log_uniform": [0, 1]},
        "systems.hill.clip.log_uniform=[0, 1]: expected low above 0, since the range is logarithmic. "
        "Raise low, or drop `log_`.",
    ),
    (
        "systems/hill/clip",
        {"uniform": [0.1, float("nan")]},
        "systems.hill.clip.uniform=[0.1, nan]: expected two finite numbers, [low, high].",
    ),
    ("systems/hill/clip", float("nan"), "systems.hill.clip=nan: expected a finite number or a domain."),
    ("systems/hill/clip", True, "systems.hill.clip=True: expected a finite number or a domain."),
    (
        "systems/hill/clip",
        [1, 2],
        "systems.hill.clip=[1, 2]: expected a finite number or a domain. Lists are written {choice: [...]}.",
    ),
    (
        "systems/hill/clip",
        {"log_unifrom": [0.1, 1]},
        "systems.hill.clip.log_unifrom=[0.1, 1]: expected a domain: uniform, log_uniform, int_uniform, "
        "int_log_uniform, choice, float, int, categorical. Did you mean `log_uniform`?",
    ),
    (
        "systems/hill/clip",
        {"uniform": [1, 2], "choice": [1]},
        "systems.hill.clip={'uniform': [1, 2], 'choice': [1]}: expected exactly one domain of uniform, log_uniform, "
        "int_uniform, int_log_uniform, choice.",
    ),
    (
        "systems/hill/clip",
        {"choice": [1, 1.0]},
        "systems.hill.clip.choice=[1, 1.0]: expected each value once. A repeated value would be drawn more often.",
    ),
    (
        "systems/hill/steps",
        {"uniform": [1, 9]},
        "systems.hill.steps.uniform=[1, 9]: expected an integer domain. Use `int_uniform`, or `choice`.",
    ),
    (
        "systems/hill/steps",
        {"int_uniform": [0, 9]},
        "systems.hill.steps.int_uniform=[0, 9]: expected steps of at least 1. Number of steps.",
    ),
    ("systems/hill/steps", 2.5, "systems.hill.steps=2.5: expected a whole number."),
    (
        "systems/hill/mode",
        "adaptve",
        "systems.hill.mode='adaptve': expected one of plain, adaptive. Did you mean `adaptive`?",
    ),
    (
        "systems/hill/batch_size",
        {"choice": [64, 2000]},
        "systems.hill.batch_size.choice.1=2000: expected batch_size of at most 1000 (the number of records, n). "
        "Expected batch size.",
    ),
    (
        "systems/hill/noise_multiplier",
        1.0,
        "systems.hill.noise_multiplier=1.0: expected no value, since privacy.solve is 'noise' and sets it. "
        "Remove it, or choose another `privacy.solve` to search it.",
    ),
    ("privacy/epsilon", 0, "privacy.epsilon.0=0: expected a number above 0."),
    ("privacy/epsilon", [1, -2], "privacy.epsilon.1=-2: expected a number above 0."),
    ("privacy/epsilon", float("inf"), "privacy.epsilon.0=inf: expected a finite number."),
    ("privacy/epsilon", True, "privacy.epsilon.0=True: expected a number, not a truth value."),
    ("privacy/epsilon", [1, 1], "privacy.epsilon=[1.0, 1.0]: expected each budget once."),
    ("privacy/epsilon", [], "privacy.epsilon=[]: expected at least one entry."),
    ("privacy/delta", 0, "privacy.delta=0: expected a number of at least 1e-300."),
    ("privacy/delta", 1, "privacy.delta=1: expected a number below 1."),
    ("privacy/delta", float("nan"), "privacy.delta=nan: expected a finite number."),
    (
        "privacy/delta",
        0.01,
        "privacy.delta=0.01: expected at most 1/n = 0.001 for n=1000 records. "
        "Lower it, or set `allow_large_delta` to the reason why a whole record may leak.",
    ),
    (
        "privacy/allow_raw_measures",
        "because",
        "privacy.allow_raw_measures='because': expected a reason of at least 10 characters.",
    ),
    (
        "data/records_are_public",
        "yes",
        "data.records_are_public='yes': expected a reason of at least 10 characters.",
    ),
    ("data/records_are_public", True, "data.records_are_public=True: expected a text. Quote it."),
    ("privacy/allow_large_delta", True, "privacy.allow_large_delta=True: expected a text. Quote it."),
    (
        "privacy/allow_large_delta",
        "because",
        "privacy.allow_large_delta='because': expected a reason of at least 10 characters.",
    ),
    (
        "privacy/adjacency",
        "add_remove",
        "privacy.adjacency='add_remove': expected one of 'add-remove' or 'replace-one'. Did you mean `add-remove`?",
    ),
    (
        "privacy/release",
        "best",
        "privacy.release='best': expected all, or `scope: sweep` beside it: which trial is best is a result of the "
        "whole search. Add `scope: sweep`.",
    ),
    ("privacy/delat", 1e-5, "privacy.delat=1e-05: expected a key of `privacy`. Did you mean `delta`?"),
    (
        "objectives",
        [{"metric": "acuracy"}],
        "objectives.0.metric='acuracy': expected a metric that hill reports. Did you mean `accuracy`?",
    ),
    (
        "objectives",
        [{"metric": "accuracy", "goal": "minimize"}],
        "objectives.0.goal='minimize': expected maximize: that is the better accuracy.",
    ),
    ("objectives", [{"metric": "loss"}] * 2, "objectives.1.metric='loss': expected each metric once."),
    ("objectives", [], "objectives=[]: expected at least one entry."),
    (
        "search/sampler",
        "tbe",
        "search.sampler='tbe': expected one of 'auto', 'random', 'tpe', 'nsga2', 'gp' or 'grid'. Did you mean `tpe`?",
    ),
    ("search/trials", 0, "search.trials=0: expected a number of at least 1."),
    ("search/trials", 2.5, "search.trials=2.5: expected a whole number."),
    ("search/seed", -1, "search.seed=-1: expected a number of at least 0."),
    (
        "search/warm_start",
        "earlier",
        "search.warm_start='earlier': expected a sampler that learns: random would ignore it. "
        "Use auto, tpe, nsga2 or gp, or drop `warm_start`.",
    ),
    ("early_stopping", {"method": "hyperband"}, "early_stopping.method='hyperband': expected one of 'asha'."),
    ("resources/cpus", 0, "resources.cpus=0: expected a number above 0."),
    ("execution/threds", 1, "execution.threds=1: expected a key of `execution`. Did you mean `threads`?"),
    ("execution/retries", -1, "execution.retries=-1: expected a number of at least 0."),
]


@pytest.mark.parametrize(("path", "value", "message"), BAD, ids=[f"{path}={value!r}"[:60] for path, value, _ in BAD])
def test_a_mistake_is_named_with_value_expectation_and_remedy(path: str, value: Any, message: str) -> None:
    with pytest.raises(SpecErrors) as caught:
        load(changed(path, value))
    assert [str(error) for error in caught.value.errors] == [message]


def test_all_mistakes_come_at_once() -> None:
    raw = deepcopy(SPEC) | {"extra": 1, "search": {"sampler": "tpe"}, "resources": {"cpus": -1}}
    raw["systems"]["hill"]["clip"] = {"uniform": [2, 1]}
    raw["privacy"] = {"epsilon": -1, "delta": 0.5, "scope": "sweep", "release": "best"}
    raw["objectives"] = [{"metric": "auc"}]
    with pytest.raises(SpecErrors) as caught:
        load(raw)
    paths = {error.path for error in caught.value.errors}
    assert paths == {
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


def test_samplers_and_early_stopping_are_held_against_the_space() -> None:
    mixed = {"hill": {"rate": 1.0}, "valley": {"rate": 1.0}}
    four = [{"metric": metric} for metric in ("accuracy", "loss", "epsilon", "work")]
    cases: list[tuple[dict[str, Any], str]] = [
        ({"systems": mixed, "search": {"sampler": "gp", "trials": 9}}, "search.sampler"),
        ({"search": {"sampler": "grid", "trials": 9, "stratified": True}}, "search.stratified"),
        ({"objectives": four, "early_stopping": {"method": "asha"}}, "early_stopping.method"),
        ({"search": {"sampler": "grid", "trials": 9}}, "systems.hill.clip.uniform"),
    ]
    for changes, path in cases:
        with pytest.raises(SpecErrors) as caught:
            load({**SPEC, **changes})
        assert path in {error.path for error in caught.value.errors}
    assert load({**SPEC, "systems": mixed, "search": {"sampler": "gp", "trials": 9, "stratified": True}})
    valley = {"valley": {"rate": 1.0}}
    privacy = {"epsilon": 1, "delta": 1e-5, "solve": "steps"}
    with pytest.raises(SpecErrors, match=r"expected a system that can solve 'steps'. Set `privacy.solve` to one of"):
        load({**SPEC, "systems": valley, "privacy": privacy})
    huge = {
        "hill": {"rate": {"int_uniform": [1, 1000]}, "clip": {"int_uniform": [1, 1000]}, "steps": {"choice": [1, 2]}}
    }
    with pytest.raises(SpecErrors, match="at most 1000000 grid points, not 2000000"):
        load({**SPEC, "systems": huge, "search": {"sampler": "grid", "trials": 9}})


def test_a_metric_must_come_from_every_system() -> None:
    mixed = {"hill": {"rate": 1.0}, "valley": {"rate": 1.0}}
    with pytest.raises(SpecErrors, match=r"objectives.0.metric='loss': expected a metric that valley reports"):
        load({**SPEC, "systems": mixed, "objectives": [{"metric": "loss"}]})


def test_steps_can_be_solved_with_the_noise_in_the_search() -> None:
    systems = {"hill": {"rate": 1.0, "noise_multiplier": {"log_uniform": [0.5, 4]}}}
    spec = load({**SPEC, "systems": systems, "privacy": {"epsilon": 1, "delta": 1e-5, "solve": "steps"}})
    assert "steps" not in spec.systems["hill"]
    assert "noise_multiplier" in spec.systems["hill"]


def test_a_reason_allows_a_large_delta() -> None:
    reason = "every record is public already"
    assert load(changed("privacy", {"epsilon": 1, "delta": 0.01, "allow_large_delta": reason})).privacy.delta == 0.01


YAML = """
name: {name}
data: {{source: points}}
systems:
  hill: {{rate: {rate}, clip: {{uniform: [1e-1, 5]}}, model: {model}}}
privacy: {{epsilon: [4, 1], delta: 1e-5}}
objectives: [{{metric: accuracy}}]
search: {{sampler: random, trials: 3}}
"""


def test_yaml_is_read_as_people_mean_it(tmp_path: Path) -> None:
    text = YAML.format(name="no", rate="1e-5", model="on")
    assert yaml.safe_load(text)["name"] is False  # the trap: YAML 1.1 sees truth values and texts
    assert yaml.safe_load(text)["systems"]["hill"]["rate"] == "1e-5"
    spec = load(text)
    assert (spec.name, spec.systems["hill"]["rate"], spec.systems["hill"]["model"]) == ("no", 1e-5, "on")
    assert spec.privacy.epsilon == (1.0, 4.0)
    file = tmp_path / "sweep.yaml"
    file.write_text(text)
    assert load(file) == load(str(file)) == spec


def test_empty_values_are_defaults() -> None:
    text = YAML.format(name="a", rate="1_000", model="mlp")
    text += "store:\ntracking: ~\nlimits: {work: null}\nexecution: {}\n"
    spec = load(text)
    assert (spec.store, spec.tracking.uri, spec.limits.work, spec.execution.threads) == (None, None, None, 1)
    assert spec.systems["hill"]["rate"] == 1000.0


def test_numbers_written_as_texts_are_numbers() -> None:
    raw = changed("systems/hill/clip", {"log_uniform": ["1e-3", "1e1"]})
    raw["privacy"]["delta"] = "1e-5"
    assert load(raw).systems["hill"]["clip"] == Domain(kind="log_uniform", low=1e-3, high=10.0)
    assert load(raw).privacy.delta == 1e-5


def test_repeated_keys_and_broken_yaml_are_refused() -> None:
    text = YAML.format(name="a", rate=1, model="mlp") + "name: b\nsearch: {trials: 4}\n"
    with pytest.raises(SpecErrors) as caught:
        load(text)
    assert [(error.path, error.value) for error in caught.value.errors] == [("line 9", "name"), ("line 10", "search")]
    with pytest.raises(SpecErrors, match="expected valid YAML"):
        load("name: [1\nsearch: 3")
    with pytest.raises(SpecErrors, match="expected a mapping with the keys"):
        load("- a\n- b")
    with pytest.raises(FileNotFoundError):
        load("no-such-file.yaml")


def test_a_failing_source_is_an_error_of_its_own_option() -> None:
    class Gone(Points):
        def facts(self, options: Any) -> Any:
            raise FileNotFoundError(2, "No such file or directory", "images.gz")

    with pytest.raises(SpecErrors, match=r"No such file or directory: images.gz"):
        load_spec(SPEC, systems=SYSTEMS, sources={"points": Gone()})


def test_schema_accepts_what_loads_and_refuses_slips() -> None:
    schema = spec_schema(SYSTEMS, SOURCES)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    assert not list(validator.iter_errors(SPEC))
    assert not list(validator.iter_errors(load(SPEC).canonical()))
    for path, value in [
        ("sytems", {}),
        ("privacy/delta", 0),
        ("search/sampler", "tbe"),
        ("systems/hill/clip", {"unifrom": [1, 2]}),
        ("systems/hill/clip", {"uniform": [1]}),
        ("privacy/allow_large_delta", True),
    ]:
        assert list(validator.iter_errors(changed(path, value))), path


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(
    path=st.sampled_from(
        [*SPEC, "early_stopping", "limits", "resources", "execution", "tracking", "store", "systems/hill/clip",
         "systems/hill/steps", "systems/hill/mode", "privacy/epsilon", "privacy/delta", "search/trials", "data/n"]
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
