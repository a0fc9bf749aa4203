"""Systems, data sources and metrics of one's own: `module:object` in a spec, or objects from Python by their own names.

Each is imported where a worker can import it, is part of what the sweep is, and claims by the word of its module.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweeps
from dpcore.checks import InvalidValue, QuotesRecords
from dpcore.guarantee import Status
from sweeps.planning.plan import code_of, plan_proposal
from sweeps.privacy.release import Release
from sweeps.privacy.wording import TREATED_AS_PUBLIC, recorded_text
from sweeps.search.space import Space
from sweeps.spec.parse import public_facts
from sweeps.spec.problems import SpecErrors
from tests.trainables.registry_cases import CANDIDATES, data_of
from tests.trainables.test_measures import member
from trainables import plugins
from trainables.data import SOURCES
from trainables.data.own import OwnSource
from trainables.publishing import Undeclared, declared
from trainables.registry import SYSTEMS
from trainables.system import Launch, PrivacyPlan, Split
from trainables.units import Unit, Units
from trainables.worker.files import Folder
from trainables.worker.trial import run_launch

ROOT = Path(__file__).parents[2]
LAB = """
from dataclasses import replace

import numpy as np
from trainables.data import records
from trainables.system import Dataset, DatasetSpec, InputSpec, Split, Task
from trainables.units import Unit
from trainables.systems.noisy_mean import NoisyMean

class LabMean(NoisyMean):
    name = "lab-mean"

class Sgd(NoisyMean):
    name = "sgd"

class Wish(NoisyMean):
    name = "wish"
    def fit(self, runs, data, execution):
        super().fit(runs, data, execution)

class Demanding(NoisyMean):
    def __init__(self, what):
        self.what = what

class People:
    name = "lab-people"
    doc = "made up"
    options = ()
    deviation = 3
    def facts(self, options):
        return DatasetSpec(dataset="people", task=Task.CLASSIFICATION, n=int(options.get("n", 80)), n_validation=20,
                           features={"x": InputSpec(shape=(2,), low=-1.0, high=1.0)}, classes=2)
    def inspect(self, options):
        self.facts(options)
    def load(self, options):
        facts, rng = self.facts(options), np.random.default_rng(1)
        def part(n):
            x = rng.normal(size=(n, 2)) * self.deviation
            return Split({"x": x}, (x[:, 0] > 0).astype(int))
        return Dataset(facts, part(80), part(20), "mine")

class Near(People):
    deviation = 0.2

class Known(Near):
    ids = "person_id"
    def load(self, options):
        found = super().load(options)
        return replace(found, train=replace(found.train, ids=[f"p{i}" for i in range(80)]))

class Grouped(Near):
    unit = Unit(column="person", max_records=4)
    def facts(self, options):
        return replace(super().facts(options), n=20, unit=self.unit)
    def load(self, options):
        found = Near().load(options)
        train, units = records.by_unit(found.train, [f"p{i % 20}" for i in range(80)], self.unit)
        return replace(found, facts=self.facts(options), train=train, units=units)

class Needs(People):
    def __init__(self, what):
        pass

class Broken(People):
    def facts(self, options):
        raise KeyError("n")

class OneClass(People):
    def facts(self, options):
        return replace(super().facts(options), classes=1)

def build():
    return People()

def hits(targets, scores):
    found = float((scores.argmax(1) == targets).mean())
    targets[:], scores[:] = 0, 0
    return found

def rows(targets, scores):
    return scores[0]

def missing(targets, scores):
    return np.float64("nan")

def broken(targets, scores):
    raise KeyError(targets[0])

def sampler(seed):
    from optuna.samplers import TPESampler
    return TPESampler(seed=seed)

SYSTEM = Demanding(1)
NOTHING = 3
"""
PUBLIC, PRIVATE = {"records": "public"}, {"records": "private"}
MEAN = {
    "name": "own",
    "data": {"source": "uniform", "n": 1000},
    "privacy": {"epsilon": 1.0, "delta": 1e-5},
    "objectives": [{"metric": "expected_error"}],
    "search": {"sampler": "random", "trials": 1},
}
SGD = {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 20, "epochs": 1}
HITS = [{"metric": "own_lab:hits", "goal": "maximize"}]


def of_system(name: str, **knobs: Any) -> dict[str, Any]:
    return {**MEAN, "systems": {name: knobs}}


def of_source(source: str = "own_lab:People", validation: Any = PUBLIC, **sections: Any) -> dict[str, Any]:
    data = {"source": source, "validation": validation}
    accuracy = [{"metric": "accuracy"}]
    return {**MEAN, "data": data, "systems": {"noisy-sgd": SGD}, "objectives": accuracy, **sections}


def of_metric(**sections: Any) -> dict[str, Any]:
    return {**of_source(), "data": {"source": "digits"}, **sections}


@pytest.fixture(autouse=True)
def lab(tmp_path, monkeypatch):
    """A module in the working folder, which is on the path of nobody."""
    (tmp_path / "own_lab.py").write_text(LAB)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    yield tmp_path
    sys.modules.pop("own_lab", None)
    os.environ.pop(plugins.ANNOUNCED, None)
    for known in (SYSTEMS, SOURCES):
        for name in [name for name in known if name.startswith("own_lab")]:
            del known[name]


KINDS = {
    "system": (of_system("own_lab:LabMean", steps=2), ("own_lab:LabMean",)),
    "source": (of_source("own_lab:build"), ()),
    "sampler": ({**of_system("noisy-mean"), "search": {"sampler": "own_lab:sampler", "trials": 1}}, ()),
    "metric": (of_metric(objectives=HITS, report=["own_lab:rows"]), ("own_lab:hits", "own_lab:rows")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_spec_names_it_and_its_code_decides_what_the_sweep_is(lab, kind: str) -> None:
    raw, functions = KINDS[kind]
    found = sweeps.load(raw)
    assert sweeps.load(found.canonical()) == found
    assert (found.user_modules(), found.user_functions()) == (("own_lab",), functions)
    before = code_of(found)
    (lab / "own_lab.py").write_text(f"{LAB}\n# other code\n")
    assert code_of(found) != before


@pytest.mark.parametrize("kind", KINDS)
def test_an_operator_may_refuse_it_before_it_is_imported(monkeypatch, kind: str) -> None:
    monkeypatch.setenv("SWEEPS_PLUGINS", "list:other")
    with pytest.raises(SpecErrors, match="SWEEPS_PLUGINS=list:other"):
        sweeps.load(KINDS[kind][0])
    assert "own_lab" not in sys.modules
    monkeypatch.setenv("SWEEPS_PLUGINS", "list:own_lab")
    sweeps.load(KINDS[kind][0])


def test_python_gives_it_by_its_own_name() -> None:
    sweeps.load(of_system("own_lab:LabMean"))
    own = sys.modules["own_lab"]
    for given in (own.LabMean, "own_lab:LabMean"):
        name = getattr(given, "name", "LabMean")
        assert list(sweeps.load(of_system(name), systems=[given]).systems) == ["own_lab:LabMean"]
    assert list(sweeps.load(of_system("own_lab:SYSTEM"), systems=[own.SYSTEM]).systems) == ["own_lab:SYSTEM"]
    assert sweeps.load(of_source("lab-people"), sources=[own.People]).data.source == "own_lab:People"
    for given, words in (
        (own.Demanding(2), "own_lab has a name for"),
        (own.Sgd, "a name of its own"),
        (own.Wish, "the spec's `systems:` names"),
    ):
        with pytest.raises(InvalidValue, match=words):
            sweeps.load(of_system("sgd"), systems=[given])


SCRIPT = """
import sweeps
from trainables.systems.noisy_mean import NoisyMean

class Mine(NoisyMean):
    name = "mine"

SPEC = %r
print("began")
for systems, key in (([Mine], "mine"), ([], "script:Mine")):
    try:
        sweeps.load({**SPEC, "systems": {key: {}}}, systems=systems)
    except Exception as error:
        print(error)
"""


def test_what_a_script_defines_itself_is_refused_with_the_way_out(tmp_path) -> None:
    """A worker that imported the script would run it again."""
    (tmp_path / "script.py").write_text(SCRIPT % MEAN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("began") == 1
    assert "from my_systems import Mine" in done.stdout
    assert "name it my_systems:Mine" in done.stdout


def test_the_code_of_an_installed_system_decides_what_the_sweep_is(lab, monkeypatch) -> None:
    """A package that offers a system by an entry point counts as a file does."""
    distribution = lab / "lab-1.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1\n")
    (distribution / "entry_points.txt").write_text(f"[{plugins.ENTRY_POINTS}]\nlab-mean = own_offer:SYSTEM\n")
    (lab / "own_offer.py").write_text("from own_lab import LabMean\nSYSTEM = LabMean()\n")
    monkeypatch.syspath_prepend(str(lab))
    monkeypatch.setitem(SYSTEMS, "lab-mean", plugins.brought("system", "own_offer:SYSTEM"))
    found = sweeps.load(of_system("lab-mean"))
    assert found.user_modules() == ()
    seen = {code_of(found)}
    for name in ("own_offer.py", "own_lab.py"):
        (lab / name).write_text(f"{(lab / name).read_text()}\n# other code\n")
        seen.add(code_of(found))
    assert len(seen) == 3
    del sys.modules["own_offer"]


# -- claims ------------------------------------------------------------------------------------------------


def planned(raw: dict[str, Any]) -> PrivacyPlan:
    spec = sweeps.load(raw)
    space = Space.of(spec)
    config = space.config(space.branches[0], spec.privacy.epsilon[0], space.branches[0].drawn(lambda: 0.5))
    plan = plan_proposal(spec, config, public_facts(spec), {})
    assert isinstance(plan, PrivacyPlan)
    return plan


@pytest.mark.parametrize("validation", [PUBLIC, PRIVATE])
def test_what_a_source_says_is_its_word_and_the_claim_rests_on_it(validation: dict[str, str]) -> None:
    found = sweeps.load(of_source(validation=validation))
    assert public_facts(found).asserted_by == "own_lab"
    plan = planned(of_source(validation=validation))
    assert plan.guarantee.status is Status.PROVED_UNDER_ASSUMPTIONS
    assert any("own_lab declares facts" in line for line in plan.guarantee.assumptions)
    assert {one.status for one in plan.beside} <= {plan.guarantee.status, Status.ASYMPTOTIC}
    # What parts records is believed of our code alone.
    assert plan.validation is None or not plan.validation.parallel
    assert (recorded_text(found) == TREATED_AS_PUBLIC) == (validation == PUBLIC)


def test_a_claim_says_that_a_metric_looks_at_nothing_else() -> None:
    """It might score models on private records: what it returned led the search and left, and nobody counted it."""
    own, ours = planned(of_source(objectives=HITS)).guarantee, planned(of_source()).guarantee
    (line,) = set(own.assumptions) - set(ours.assumptions)
    assert line.startswith("own_lab:hits looks at nothing but what it is given")
    assert own.epsilon == ours.epsilon
    assert own.status is Status.PROVED_UNDER_ASSUMPTIONS


def test_the_spec_decides_which_function_is_released() -> None:
    spec = sweeps.load(of_source(objectives=HITS))
    release, told = Release.of(spec), {"own_lab:hits": 0.5}
    assert release.metrics(told, "noisy-sgd", {}) == told
    with pytest.raises(Undeclared):
        release.metrics({"own_lab:rows": 0.5}, "noisy-sgd", {})
    metric = declared(SYSTEMS["noisy-sgd"], spec.asked)["own_lab:hits"]
    assert metric.doc.endswith("asserted by own_lab: nobody read it here")


# -- metrics in a trial ------------------------------------------------------------------------------------


def result_of(tmp_path: Path, *measures: str) -> dict[str, Any]:
    group = Launch(members=(member(CANDIDATES["noisy-sgd"].plan),), measures=measures)
    [result] = run_launch(group, data_of("noisy-sgd"), Folder(str(tmp_path)), bytes(32))
    return result


def test_a_trial_reports_it_and_no_other_number_is_moved_by_it(tmp_path, monkeypatch) -> None:
    """The function writes over what it is given: nobody else sees that."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = data_of("noisy-sgd").validation.targets.copy()
    metrics = result_of(tmp_path, "own_lab:hits", "f1", "balanced_accuracy")["metrics"]
    assert metrics["own_lab:hits"] == metrics["accuracy"]
    assert (data_of("noisy-sgd").validation.targets == before).all()
    for name, words in (
        ("rows", "returned a ndarray of shape"),
        ("missing", "returned nan: expected a finite"),
        ("broken", "KeyError ("),
    ):
        assert words in result_of(tmp_path / name, f"own_lab:{name}")["error"]


# -- what a source hands out is held to its facts -----------------------------------------------------------


@pytest.fixture
def source(lab, monkeypatch):
    monkeypatch.syspath_prepend(str(lab))
    return SOURCES["own_lab:build"]


def test_numbers_are_cut_to_the_declared_bounds(source) -> None:
    """Without the cut the largest of 80 normal draws of deviation 3 is far beyond 1."""
    data = source.load({"validation": PUBLIC})
    for split in (data.train, data.validation):
        assert np.abs(split.inputs["x"]).max() == 1.0
    assert data.facts == source.facts({"validation": PUBLIC})
    assert data.fingerprint != "mine"


def test_what_it_hands_out_is_held_to_its_facts(source, monkeypatch) -> None:
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


def test_copies_of_training_records_validate_nothing(source, monkeypatch) -> None:
    inner = source._source  # type: ignore[attr-defined]
    good, order = inner.load({}), np.random.default_rng(0).permutation(80)[:20]
    copied = Split({"x": good.train.inputs["x"][order]}, good.train.targets[order])
    monkeypatch.setattr(inner, "load", lambda options: replace(good, validation=copied), raising=False)
    with pytest.raises(InvalidValue, match=r"data\.validation='20 records'.*most of them equal a training record"):
        source.load({"validation": PUBLIC})


def test_a_loss_is_of_the_same_package(source, monkeypatch) -> None:
    inner = source._source  # type: ignore[attr-defined]
    facts = replace(inner.facts({}), loss="elsewhere:loss")
    monkeypatch.setattr(inner, "facts", lambda options: facts, raising=False)
    with pytest.raises(InvalidValue, match="a loss of its own package"):
        source.facts({"validation": PUBLIC})


def test_masks_of_padded_inputs_follow() -> None:
    source = OwnSource("tests.trainables.user_sources:Sentences")
    data = source.load({})
    assert list(data.facts.features) == list(data.train.inputs) == ["words", "words_mask"]
    assert np.array_equal(data.train.inputs["words_mask"], data.train.inputs["words"] > 0)


def test_what_it_says_of_records_is_kept_from_logs(source, monkeypatch) -> None:
    def load(options: Any) -> Any:
        raise InvalidValue("age", "Smith, 47", "a number")

    monkeypatch.setattr(source._source, "load", load, raising=False)  # type: ignore[attr-defined]
    with pytest.raises(QuotesRecords, match="Smith, 47") as refused:
        source.load({"validation": PUBLIC})
    assert "Smith" not in refused.value.unquoted


@pytest.mark.parametrize(
    ("n_validation", "records", "each", "words"),
    [
        (0, 1, 1, "of which own_lab:build loads some"),
        (9, 20, 1, "within 10%"),
        (8, 20, 2, "1 to 2 records each"),
        (22, 19, 2, "1 to 2 records each"),
        (0, 0, 2, ""),
        (20, 20, 2, ""),
    ],
)
def test_validation_records_are_those_that_were_declared(
    source, monkeypatch, n_validation, records, each, words
) -> None:
    """The spec says whose they are only where some are declared: others would be reported on as if they were public."""
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
