"""`sampler: auto`: which method by rule, budgets by schedule, and proposals of seed, number and tellings alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpcore.checks import InvalidValue
from sweeps.execution.resume import extended, without_extensions
from sweeps.planning.estimate import Resolution, resolution, resolved
from sweeps.planning.preview import preview
from sweeps.privacy.totals import choices_by_results
from sweeps.search import optuna_sampler
from sweeps.search.proposer import Proposer
from sweeps.search.sampler_exam import faults
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import Extension
from tests.sweeps import specs
from tests.sweeps.test_search import MIXED, ONE, TWO, exam
from tests.sweeps.toys import finished, running, spec_with

HILL = {"systems": {"hill": MIXED["hill"]}}


def auto(method: str | None = "gp", objectives: list[dict[str, str]] = ONE, **search: Any) -> SweepSpec:
    given = {"sampler": "auto", "trials": 40, "seed": 3, **({"resolved": method} if method else {}), **search}
    return exam("auto", objectives, search=given, **HILL)


# -- the rule ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "work", "method"),
    [
        ({}, 1e5, "gp"),
        ({"objectives": TWO}, 1e5, "gp"),
        ({"objectives": [{"metric": "accuracy"}, {"metric": "loss"}]}, 1e5, "gp"),
        ({"search": {"trials": 301}}, 1e5, "tpe"),
        ({"search": {"trials": 301}, "objectives": TWO}, 1e5, "tpe"),
        ({"search": {"trials": 301}, "objectives": [{"metric": "accuracy"}, {"metric": "loss"}]}, 1e5, "nsga2"),
        ({}, 100.0, "tpe"),
        ({"systems": MIXED}, 1e5, "tpe"),
        ({"systems": MIXED, "search": {"trials": 40, "stratified": True}}, 1e5, "gp"),
    ],
)
def test_the_method_goes_by_trials_objectives_and_planned_seconds(changes, work, method):
    """Epsilon is an objective that plans decide, so it counts for none."""
    found = resolution(spec_with(**{**HILL, "search": {"trials": 40}, **changes}), work)
    assert found.method == method
    assert found.why


def test_a_model_of_ones_own_is_judged_by_the_seconds_of_its_rehearsal():
    spec = spec_with(**{**HILL, "search": {"trials": 40}})
    assert resolution(spec, 100.0, rehearsed=7.5) == Resolution("gp", "40 trials of 7.5 s each")
    assert resolution(spec, 1e5, rehearsed=0.01).method == "tpe"


def test_it_is_the_default_and_is_resolved_from_the_plans_once():
    raw = specs.digits("here", systems={
            "noisy-sgd": {
                "learning_rate": {"log_uniform": [0.1, 4]}, "clip_norm": 1.0, "batch_size": 64, "epochs": 20
            }
        }, privacy={"epsilon": [1.0, 2.0], "delta": 1e-4}, search={"trials": 40})  # fmt: skip
    spec = load_spec(raw)
    assert (spec.search.sampler, spec.search.resolved) == ("auto", None)
    began = resolved(spec, public_facts(spec))
    assert began.search.resolved == "gp"
    assert load_spec(began.canonical()) == began

    # More trials than the rule gives to a process, asked for later, or written into the file that is given again.
    more = extended(began, [Extension(trials=400, launched=40, at=0.0)])
    assert (more.search.trials, more.search.resolved) == (400, "gp")
    assert resolved(more, public_facts(spec)).search.resolved == "gp"
    again = load_spec({**raw, "search": {"trials": 400}})
    assert without_extensions(again, began, [Extension(trials=400, launched=40, at=0.0)]).digest == began.digest

    plan = preview(spec)
    assert plan.to_dict()["resolved"] == "gp"
    assert dict(plan.lines())["Sampler"].startswith("gp: 40 trials of work 28,800 each")
    assert (
        "It will be no guarantee, because the auto sampler chooses trials by the results" in dict(plan.lines())["Total"]
    )


def test_the_sampler_that_a_sweep_began_with_stays():
    for asked, began in (("auto", "tpe"), (None, "random")):
        search = {"trials": 4} if asked is None else {"sampler": asked, "trials": 4}
        with pytest.raises(
            InvalidValue, match=rf"search\.sampler='auto': expected {began}, with which the sweep began"
        ):
            without_extensions(spec_with(search=search), spec_with(search={"sampler": began, "trials": 4}), [])


def test_an_unresolved_one_proposes_nothing_and_others_have_no_method():
    with pytest.raises(InvalidValue, match=r"search\.resolved=None"):
        Proposer(auto(None))
    with pytest.raises(SpecErrors, match=r"search\.resolved='gp': expected nothing with random"):
        spec_with(search={"sampler": "random", "trials": 4, "resolved": "gp"})
    with pytest.raises(SpecErrors, match=r"search\.resolved='gp': expected tpe or nsga2 for several systems"):
        exam("auto", search={"sampler": "auto", "trials": 4, "resolved": "gp"})
    assert choices_by_results(auto())


# -- proposals --------------------------------------------------------------------------------------------


def test_the_process_passes_the_exam_of_every_sampler():
    """Its results alone count: not what the process lived through, nor how it was started over."""
    assert faults(auto()) == []


def _swept(spec: SweepSpec, accuracy: float | None) -> list[dict[str, Any]]:
    proposer, out = Proposer(spec), []
    for _ in range(12):
        proposal = proposer.propose()
        record = finished(spec, proposal)
        if accuracy is not None:
            best = float(proposal.config["target_epsilon"]) == accuracy
            record = replace(record, metrics={"accuracy": float(best), "loss": 1.0})
        proposer.tell(record)
        out.append(dict(proposal.config))
    return out


def _budgets(spec: SweepSpec, accuracy: float | None) -> list[Any]:
    return [config["target_epsilon"] for config in _swept(spec, accuracy)]


@pytest.mark.parametrize("method", ["gp", "tpe", "nsga2"])
def test_results_choose_points_and_never_budgets(method, monkeypatch):
    spec = auto(method)
    assert _budgets(spec, 1.0) == _budgets(spec, 4.0)
    assert sorted(_budgets(spec, 4.0)) == [1.0] * 4 + [2.0] * 4 + [4.0] * 4

    class Greedy(optuna_sampler.Learner):
        """The mutant: the budget of a good result, once there is one."""

        best = (0.0, 0.0)

        def tell(self, record):
            if (value := record.metrics.get("accuracy")) is not None:
                self.best = max(self.best, (value, record.config["target_epsilon"]))
            super().tell(record)

        def point(self, number, index):
            value, epsilon = self.best
            return self._studies[None].point(number, epsilon) if value == 1.0 else super().point(number, index)

    monkeypatch.setattr(optuna_sampler, "Learner", Greedy)
    assert _budgets(spec, 1.0) != _budgets(spec, 4.0)


def test_a_point_that_runs_is_not_proposed_again():
    spec = auto()
    proposer = Proposer(spec)
    for _ in range(9):
        proposer.tell(finished(spec, proposer.propose()))
    first = proposer.propose()
    proposer.tell(running(spec, first))
    assert proposer.propose().config["rate"] != first.config["rate"]
