"""A data source of one's own: named in a spec or given from Python, held to its facts, and asserted by its module."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sweeps
from dpcore.checks import InvalidValue, QuotesRecords
from dpcore.guarantee import Status
from sweeps.planning.plan import plan_proposal
from sweeps.planning.spec_code import code_of
from sweeps.privacy.wording import TREATED_AS_PUBLIC, recorded_text
from sweeps.spec import SpecErrors
from sweeps.spec.parse import public_facts
from trainables import plugins
from trainables.data import SOURCES
from trainables.system import PrivacyPlan, Split
from trainables.units import Unit, Units

LAB = """
import numpy as np
from trainables.data import records
from trainables.system import Dataset, DatasetSpec, InputSpec, Split, Task

class People:
    name = "lab-people"
    doc = "made up"
    options = ()
    def facts(self, options):
        return DatasetSpec(dataset="people", task=Task.CLASSIFICATION, n=int(options.get("n", 80)), n_validation=20,
                           features={"x": InputSpec(shape=(2,), low=-1.0, high=1.0)}, classes=2)
    def inspect(self, options):
        self.facts(options)
    def load(self, options):
        facts, rng = self.facts(options), np.random.default_rng(1)
        def part(n):
            x = rng.normal(size=(n, 2)) * 3
            return Split({"x": x}, (x[:, 0] > 0).astype(int))
        return Dataset(facts, part(80), part(20), "mine")

class Mnist(People):
    name = "mnist"

class Needs(People):
    def __init__(self, what):
        pass

class Broken(People):
    def facts(self, options):
        raise KeyError("n")

class OneClass(People):
    def facts(self, options):
        from dataclasses import replace
        return replace(super().facts(options), classes=1)

def build():
    return People()

NOTHING = 3
"""
PUBLIC, PRIVATE = {"records": "public"}, {"records": "private"}


def spec(source: str = "own_people:People", **data: Any) -> dict[str, Any]:
    knobs = {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 20, "epochs": 1}
    return {
        "name": "own",
        "data": {"source": source, "validation": PUBLIC, **data},
        "systems": {"noisy-sgd": knobs},
        "privacy": {"epsilon": 2.0, "delta": 1e-5},
        "objectives": [{"metric": "accuracy"}],
        "search": {"sampler": "random", "trials": 1},
    }


@pytest.fixture(autouse=True)
def lab(tmp_path, monkeypatch):
    (tmp_path / "own_people.py").write_text(LAB)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*(one for one in sys.path if one), str(tmp_path)])
    yield tmp_path
    sys.modules.pop("own_people", None)
    plugins._announce.cache_clear()
    for name in [name for name in SOURCES if ":" in name]:
        del SOURCES[name]


def test_a_spec_names_one_and_its_source_decides_what_the_sweep_is(lab) -> None:
    found = sweeps.load(spec("own_people:build"))
    assert found.user_modules() == ("own_people",)
    assert sweeps.load(found.canonical()) == found
    before = code_of(found)
    (lab / "own_people.py").write_text(f"{LAB}\n# other code\n")
    assert code_of(found) != before


def test_what_it_says_is_its_word_and_the_claim_rests_on_it() -> None:
    for validation, status in ((PUBLIC, Status.PROVED_UNDER_ASSUMPTIONS), (PRIVATE, Status.PROVED_UNDER_ASSUMPTIONS)):
        found = sweeps.load(spec(validation=validation))
        facts = public_facts(found)
        assert facts.asserted_by == "own_people"
        config = {**found.systems["noisy-sgd"], "system": "noisy-sgd", "target_epsilon": 2.0}
        plan = plan_proposal(found, config, facts, {})
        assert isinstance(plan, PrivacyPlan)
        assert plan.guarantee.status is status
        assert any("own_people declares facts" in line for line in plan.guarantee.assumptions)
        assert {one.status for one in plan.beside} <= {status, Status.ASYMPTOTIC}
        # What parts records is believed of our code alone.
        assert plan.validation is None or not plan.validation.parallel
        told = recorded_text(found)
        assert (told == TREATED_AS_PUBLIC) == (validation == PUBLIC)
    assert "asserted by own_people" in str(sweeps.check(spec(), rehearsal=False))


def test_python_gives_it_by_its_own_name() -> None:
    sweeps.load(spec())
    own = sys.modules["own_people"]
    assert sweeps.load(spec("lab-people"), sources=[own.People]).data.source == "own_people:People"
    for source, given, words in (
        ("mnist", own.Mnist, "a name of its own"),
        ("digits", own.People, "the spec's `data.source` names"),
        ("lab-people", own.People(), "has a name for"),
    ):
        with pytest.raises(InvalidValue, match=words):
            sweeps.load(spec(source), sources=[given])


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"source": "own_people:Nowhere"}, "data.source", "Nowhere in own_people"),
        ({"source": "nowhere_at_all:X"}, "data.source", "was not found"),
        ({"source": "own_people:NOTHING"}, "data.source", "facts, inspect, load"),
        ({"source": "own_people:Needs"}, "data.source", "without arguments"),
        ({"source": "own_people:Broken"}, "data.source", "KeyError"),
        ({"source": "own_people:OneClass"}, "data.source", "at least 2 classes"),
        ({"validation": None}, "data.validation.records", "public or private"),
        ({"validation": {**PRIVATE, "disjoint": True}}, "data.validation.disjoint", "one of the keys"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(changes: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(SpecErrors) as refused:
        sweeps.load(spec(**changes))
    [error] = refused.value.errors
    assert error.path == path
    assert words in str(error)


def test_an_operator_may_refuse_it_before_it_is_imported(monkeypatch) -> None:
    monkeypatch.setenv("SWEEPS_PLUGINS", "deny")
    with pytest.raises(SpecErrors, match="SWEEPS_PLUGINS=deny"):
        sweeps.load(spec())
    assert "own_people" not in sys.modules


def test_numbers_are_cut_to_the_declared_bounds() -> None:
    """Without the cut the largest of 80 normal draws of deviation 3 is far beyond 1."""
    data = SOURCES["own_people:build"].load({"validation": PUBLIC})
    for split in (data.train, data.validation):
        assert np.abs(split.inputs["x"]).max() == 1.0
    assert data.facts == SOURCES["own_people:build"].facts({"validation": PUBLIC})
    assert data.fingerprint != "mine"


def test_what_it_hands_out_is_held_to_its_facts(monkeypatch) -> None:
    source = SOURCES["own_people:build"]
    inner, options = source._source, {"validation": PUBLIC}  # type: ignore[attr-defined]
    good = inner.load({})
    units = Units(np.array([0, 60, 80]), np.array([1, 2], dtype=np.uint64))
    by_unit = replace(good.facts, n=2, unit=Unit(column="person", max_records=50))
    inputs = {"x": good.train.inputs["x"]}
    for found, words in (
        (replace(good, facts=replace(good.facts, n=81)), "other facts"),
        (3, "int"),
        (replace(good, train=Split({"y": inputs["x"]}, good.train.targets)), "inputs x"),
        (replace(good, train=Split(inputs, good.train.targets + 5)), "labels in 0..1"),
        (replace(good, train=Split({"x": inputs["x"] * np.nan}, good.train.targets)), "finite numbers"),
        (replace(good, train=Split({"x": inputs["x"][:60]}, good.train.targets[:60])), "within 10%"),
        (replace(good, facts=by_unit, units=units), "at most 50 records of one person"),
    ):
        facts = by_unit if getattr(found, "units", None) is not None else good.facts
        monkeypatch.setattr(inner, "facts", lambda options, facts=facts: facts, raising=False)
        monkeypatch.setattr(inner, "load", lambda options, found=found: found, raising=False)
        with pytest.raises(InvalidValue, match=words):
            source.load(options)


def test_what_it_says_of_records_is_kept_from_logs(monkeypatch) -> None:
    def load(options: Any) -> Any:
        raise InvalidValue("age", "Smith, 47", "a number")

    source = SOURCES["own_people:build"]
    monkeypatch.setattr(source._source, "load", load, raising=False)  # type: ignore[attr-defined]
    with pytest.raises(QuotesRecords, match="Smith, 47") as refused:
        source.load({"validation": PUBLIC})
    assert "Smith" not in refused.value.unquoted


@pytest.mark.parametrize(
    ("n_validation", "records", "each", "words"),
    [
        (0, 1, 1, "of which own_people:build loads some"),
        (0, 20, 2, "of which own_people:build loads some"),
        (9, 20, 1, "within 10%"),
        (8, 20, 2, "1 to 2 records each"),
        (22, 19, 2, "1 to 2 records each"),
        (0, 0, 2, ""),
        (10, 20, 2, ""),
        (20, 20, 2, ""),
    ],
)
def test_validation_records_are_those_that_were_declared(monkeypatch, n_validation, records, each, words) -> None:
    """The spec says whose they are only where some are declared: others would be reported on as if they were public."""
    source = SOURCES["own_people:build"]
    inner = source._source  # type: ignore[attr-defined]
    good, facts, units = inner.load({}), {"n_validation": n_validation}, None
    if each > 1:
        units = Units(np.arange(0, 80 + 1, each), np.arange(80 // each, dtype=np.uint64))
        facts |= {"n": len(units), "unit": Unit(column="person", max_records=each)}
    kept = Split({"x": good.validation.inputs["x"][:records]}, good.validation.targets[:records])
    found = replace(good, facts=replace(good.facts, **facts), validation=kept, units=units)
    monkeypatch.setattr(inner, "facts", lambda options: found.facts, raising=False)
    monkeypatch.setattr(inner, "load", lambda options: found, raising=False)
    options = {"validation": PUBLIC} if n_validation else {}
    if words:
        with pytest.raises(InvalidValue, match=words):
            source.load(options)
    else:
        assert len(source.load(options).validation) == records
