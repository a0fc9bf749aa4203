"""A metric of one's own, `module:function`: named in a spec, measured on public records alone, and asserted."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from dpcore.guarantee import Status
from sweeps.planning.plan import plan_proposal
from sweeps.planning.spec_code import code_of
from sweeps.privacy.release import Release
from sweeps.search.space import Space
from sweeps.spec import load_spec, public_facts
from tests.sweeps.private_people import people
from tests.sweeps.test_asked_metrics import errors, of
from tests.trainables.registry_cases import CANDIDATES, data_of
from tests.trainables.test_measures import member
from trainables import plugins
from trainables.publishing import Undeclared, declared
from trainables.registry import SYSTEMS
from trainables.system import Launch, PrivacyPlan
from trainables.worker.files import Folder
from trainables.worker.trial import run_launch

__all__ = ["people"]
LAB = """
import numpy as np

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

NUMBER = 3
"""
OWN = [{"metric": "own_gain:hits", "goal": "maximize"}]


@pytest.fixture(autouse=True)
def lab(tmp_path, monkeypatch):
    (tmp_path / "own_gain.py").write_text(LAB)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "own_gain.py"
    sys.modules.pop("own_gain", None)
    plugins._announce.cache_clear()


def test_a_spec_names_it_and_its_source_decides_what_the_sweep_is(people, lab) -> None:
    spec = load_spec(of(people, objectives=OWN, report=["own_gain:rows"], front={"reference": {"own_gain:hits": 0}}))
    assert load_spec(spec.canonical()) == spec
    assert spec.user_functions() == ("own_gain:hits", "own_gain:rows")
    assert spec.front.reference["own_gain:hits"].value == 0
    before = code_of(spec)
    lab.write_text(f"{LAB}\n# other code\n")
    assert code_of(spec) != before


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"objectives": [{"metric": "own_gain:hits"}]}, "objectives.0.goal", "maximize or minimize"),
        ({"report": ["own_gain:NUMBER"]}, "report.0", "a function"),
        ({"report": ["own_gain:nowhere"]}, "report.0", "nowhere in own_gain"),
        ({"report": ["nowhere_at_all:f"]}, "report.0", "was not found"),
        ({"report": ["own_gain:hits", "own_gain:hits"]}, "report.1", "each metric once"),
        ({"front": {"reference": {"own_gain:hits": 0}}}, "front.reference.own_gain:hits", "a metric that"),
        ({"report": ["own_gain:hits"], "public": False}, "report.0", "the plan counts no look of it"),
        ({"objectives": OWN, "public": False}, "objectives.0.metric", "the plan counts no look of it"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_name(people, changes: dict[str, Any], path: str, words: str) -> None:
    assert words in errors(of(people, **changes))[path]


def test_an_operator_may_refuse_it_before_it_is_imported(people, monkeypatch) -> None:
    monkeypatch.setenv("SWEEPS_PLUGINS", "deny")
    assert "SWEEPS_PLUGINS=deny" in errors(of(people, report=["own_gain:hits"]))["report.0"]
    assert "own_gain" not in sys.modules


def result_of(tmp_path, *measures: str) -> dict[str, Any]:
    group = Launch(members=(member(CANDIDATES["noisy-sgd"].plan),), measures=measures)
    [result] = run_launch(group, data_of("noisy-sgd"), Folder(str(tmp_path)), bytes(32))
    return result


def test_a_trial_reports_it_and_no_other_number_is_moved_by_it(tmp_path) -> None:
    """The function writes over what it is given: nobody else sees that."""
    before = data_of("noisy-sgd").validation.targets.copy()
    metrics = result_of(tmp_path, "own_gain:hits", "f1", "balanced_accuracy")["metrics"]
    assert metrics["own_gain:hits"] == metrics["accuracy"]
    assert (data_of("noisy-sgd").validation.targets == before).all()


@pytest.mark.parametrize(
    ("name", "words"),
    [("rows", "returned a ndarray of shape"), ("missing", "returned nan: expected a finite"), ("broken", "KeyError (")],
)
def test_what_is_no_finite_number_ends_the_trial_with_a_sentence(tmp_path, name: str, words: str) -> None:
    assert words in result_of(tmp_path, f"own_gain:{name}")["error"]


def test_the_door_lets_out_what_the_spec_asked_for_and_no_other_function(people) -> None:
    spec = load_spec(of(people, objectives=OWN))
    release, told = Release.of(spec), {"own_gain:hits": 0.5}
    assert release.metrics(told, "noisy-sgd", {}) == told
    with pytest.raises(Undeclared):
        release.metrics({"own_gain:rows": 0.5}, "noisy-sgd", {})
    metric = declared(SYSTEMS["noisy-sgd"], spec.asked)["own_gain:hits"]
    assert metric.doc.endswith("asserted by own_gain: nobody read it here")


def test_claims_of_a_sweep_that_asks_for_one_say_that_it_looks_at_nothing_else(people) -> None:
    """It might score models on private records: what it returned led the search and left, and nobody counted it."""
    claims = {}
    for name in ("own_gain:hits", "accuracy"):
        spec = load_spec(of(people, objectives=[{"metric": name, "goal": "maximize"}]))
        branch = Space.of(spec).branches[0]
        config = Space.of(spec).config(branch, spec.privacy.epsilon[0], branch.drawn(lambda: 0.5))
        plan = plan_proposal(spec, config, public_facts(spec), {})
        assert isinstance(plan, PrivacyPlan)
        claims[name] = plan.guarantee
    own, ours = claims.values()
    (line,) = set(own.assumptions) - set(ours.assumptions)
    assert line.startswith("own_gain:hits looks at nothing but what it is given")
    assert own.epsilon == ours.epsilon
    assert own.status is Status.PROVED_UNDER_ASSUMPTIONS
