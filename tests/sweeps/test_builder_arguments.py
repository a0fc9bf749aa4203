"""`with`: arguments of a model of one's own are hyperparameters like any other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import sweeps
from sweeps.planning.plan import weights_of
from sweeps.planning.rehearsal import corners
from sweeps.search.space import Space
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.problems import SpecErrors
from sweeps.spec.schema import spec_schema
from tests.sweeps import specs
from trainables.models.registry import builder_of

NETS = """
from pathlib import Path
from typing import Literal
from torch import nn

def net(facts, *, width: int, rate: float = 0.5, act: Literal["relu", "tanh"] = "relu", bias=True, extra=None):
    assert Path("own_nets.py").is_file()
    layer = nn.ReLU() if act == "relu" else nn.Tanh()
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width, bias=bias), layer, nn.Linear(width, facts.classes))

def plain(facts):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, facts.classes))

def loads(facts, *, size: int):
    layer = nn.Linear(64, facts.classes)
    nn.init.constant_(layer.weight, float(open(f"start{size}.txt").read()))
    return nn.Sequential(nn.Flatten(), layer)

def anything(facts, **given):
    return net(facts, **given)
"""
SPEC: dict[str, Any] = specs.digits(
    "widths",
    systems={
        "noisy-sgd": {
            **specs.LINEAR,
            "model": "own_nets:net",
            "with": {"width": {"choice": [4, 8]}, "act": "tanh"},
            "learning_rate": {"log_uniform": [0.1, 4]},
        }
    },
    constraints=["with.width * learning_rate <= 100"],
    search={"trials": 2, "sampler": "random", "seed": 1},
)


@pytest.fixture(autouse=True)
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "own_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("own_nets", None)
    builder_of.cache_clear()


def spec_with(**knobs: Any) -> Any:
    document = deepcopy(SPEC)
    document["systems"]["noisy-sgd"] |= knobs
    return document


def test_they_are_knobs_of_the_space_and_of_a_canonical_spec():
    spec = load_spec(SPEC)
    assert load_spec(spec.canonical()) == spec
    assert spec.systems["noisy-sgd"]["with.act"] == "tanh"
    (branch,) = Space.of(spec).branches
    assert set(branch.searched) == {"learning_rate", "with.width"}
    assert spec.constraints == ("with.width * learning_rate <= 100",)
    jsonschema.Draft202012Validator(spec_schema()).validate(SPEC)
    jsonschema.Draft202012Validator(spec_schema()).validate(spec.canonical())


def test_weights_that_any_value_of_an_argument_loads_are_known_by_their_digest(tmp_path: Path):
    for size in (4, 8):
        (tmp_path / f"start{size}.txt").write_text("0.5")
    spec = load_spec(spec_with(model="own_nets:loads", **{"with": {"size": {"choice": [4, 8]}}}) | {"constraints": []})
    before = weights_of(spec, public_facts(spec))
    (tmp_path / "start8.txt").write_text("0.25")
    assert weights_of(spec, public_facts(spec)) != before


def test_both_ends_of_every_argument_are_rehearsed():
    spec = load_spec(spec_with(**{"with": {"width": 4, "rate": {"uniform": [0.0, 0.5]}}}) | {"constraints": []})
    rates = {float(one.knobs["with.rate"]) for one in corners(spec)}
    assert (min(rates), max(rates)) == (0.0, pytest.approx(0.5))


def test_one_builder_of_two_takes_an_argument_where_it_is_chosen():
    models = {"choice": ["own_nets:net", "own_nets:plain"]}
    width = {"choice": [4, 8], "when": {"model": "own_nets:net"}}
    spec = load_spec(spec_with(model=models, **{"with": {"width": width}}, learning_rate=1) | {"constraints": []})
    (branch,) = Space.of(spec).branches
    assert branch.is_there("with.width", {"model": "own_nets:net"})
    assert not branch.is_there("with.width", {"model": "own_nets:plain"})
    with pytest.raises(SpecErrors, match=r"with\.width=.*expected an argument of own_nets:plain.*Give it a `when"):
        load_spec(spec_with(model=models, **{"with": {"width": {"choice": [4, 8]}}}) | {"constraints": []})


def test_a_builder_of_keywords_takes_what_is_written():
    spec = load_spec(spec_with(model="own_nets:anything", **{"with": {"width": {"choice": [4, 8]}, "bias": False}}))
    assert spec.systems["noisy-sgd"]["with.bias"] is False
    assert str(spec.systems["noisy-sgd"]["with.width"]) == str(load_spec(SPEC).systems["noisy-sgd"]["with.width"])


def test_a_sweep_searches_a_width_resumes_and_exports_its_best(tmp_path: Path):
    """With a real Ray, whose workers find files by relative paths as this process does."""
    sweep = sweeps.run(SPEC, root=tmp_path / "sweeps", rehearsal=False, models="none")
    sweep = sweeps.resume("widths", trials=3, root=tmp_path / "sweeps")
    table = sweep.trials()
    assert list(table["state"]) == ["complete"] * 3
    assert set(table["knob.with.width"]) <= {4, 8}
    # On a front of one point too, where every hyperparameter has one value.
    assert "with.width" in str(sweep.front())
    best = sweep.best("accuracy")
    assert next(sweep.model(best.number).module.parameters()).shape == (best.config["with.width"], 64)
