"""Every sampler of the registry sits one exam; an installed package's and a user's own come through the same door."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

import pytest

from dpcore.checks import InvalidValue
from sweeps.execution.resume import extended, without_extensions
from sweeps.planning.estimate import Resolution, resolution, resolved
from sweeps.planning.preview import before_launch
from sweeps.planning.rehearsal import WouldFail
from sweeps.privacy import totals
from sweeps.privacy.ledger import Assumptions
from sweeps.privacy.totals import choices_by_results
from sweeps.privacy.wording import total_text
from sweeps.search import optuna_sampler, samplers
from sweeps.search.proposer import Proposer, faults
from sweeps.search.samplers import SAMPLERS, Independent, Learning
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.problems import SpecErrors
from sweeps.spec.schema import spec_schema
from sweeps.spec.sections import FIXED_SAMPLERS, SweepSpec
from sweeps.store.records import Extension
from tests.sweeps import climber, specs
from tests.sweeps.specs import recorded
from tests.sweeps.test_ledger import entry, trial
from tests.sweeps.test_search import MIXED, ONE, TWO, exam
from tests.sweeps.toys import finished, spec_with
from trainables import plugins


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The climber, offered by an installed package."""
    climber.install(tmp_path / "packages")
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))


@pytest.fixture(autouse=True)
def unannounced():
    yield
    os.environ.pop(plugins.ANNOUNCED, None)


# -- the exam ---------------------------------------------------------------------------------------------


def test_a_newcomer_of_an_installed_package_passes_it(installed):
    """Two files of its own: the sampler, and the line that offers it."""
    assert "climber" in samplers.known()
    assert "climber" in str(spec_schema())
    assert faults(exam("climber", ONE, systems={"hill": MIXED["hill"]})) == []


# -- who looks at results ---------------------------------------------------------------------------------


def total_of(sampler: object) -> str:
    choices = totals.choices_by_results(recorded({"search": {"sampler": sampler}}))
    total = totals.summary([trial(0)], [entry()], choices).procedure
    assert total is not None
    return total_text(total, Assumptions.of([total.guarantee]))


def test_a_forgotten_sampler_lends_no_sweep_a_total(installed, monkeypatch):
    """Only the two that are told nothing make a total a guarantee; a list of those that learn would forget one."""
    strangers = ["climber", "lab.samplers:build", "optuna.samplers:QMCSampler", "one that is gone", None, ""]
    for name in (*samplers.names(lambda entry: isinstance(entry, Learning)), *strangers):
        assert "no guarantee, because" in total_of(name), name
    for name in FIXED_SAMPLERS:
        assert "no guarantee" not in total_of(name), name
    assert samplers.names(lambda entry: isinstance(entry, Independent)) == FIXED_SAMPLERS
    monkeypatch.setattr(totals, "learns", lambda name: name in ("tpe", "nsga2", "gp"))
    assert "no guarantee" not in total_of("climber"), "the mutant that this test is for"


def test_a_package_cannot_replace_a_sampler_nor_offer_one_that_counts_as_independent(tmp_path, monkeypatch):
    for name, value in (("random", "nowhere:AT_ALL"), ("still", "tests.sweeps.test_samplers:STILL")):
        climber.install(tmp_path / name, value, name)
        monkeypatch.syspath_prepend(str(tmp_path / name))
    assert samplers.sampler("random") is SAMPLERS["random"]
    with pytest.raises(SpecErrors, match="counts as one that learns"):
        spec_with(search={"sampler": "still", "trials": 3})
    climber.install(tmp_path / "again", "elsewhere:STILL", "still2")
    (tmp_path / "again" / "still2-1.dist-info" / "entry_points.txt").write_text(
        f"[{samplers.ENTRY_POINTS}]\nstill = elsewhere:STILL\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "again"))
    with pytest.raises(SpecErrors, match="not both"):
        spec_with(search={"sampler": "still", "trials": 3})


STILL = replace(SAMPLERS["random"], name="still")


# -- the user's own ---------------------------------------------------------------------------------------

OWN = "from optuna.samplers import TPESampler\ndef build(seed):\n    return TPESampler(seed=seed, n_startup_trials=4)\n"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """`mysamplers:build` beside a spec."""
    path = tmp_path / "mysamplers.py"
    path.write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield path
    sys.modules.pop("mysamplers", None)


def test_a_function_of_the_users_own_passes_the_exam(own):
    assert faults(exam("mysamplers:build", ONE, systems={"hill": MIXED["hill"]})) == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def build(seed):\n    return seed\n", "a function that returns a sampler"),
        ("other = 1\n", "a function build in mysamplers"),
        ("def build(seed):\n    raise RuntimeError('no model')\n", "RuntimeError: no model"),
        (OWN.replace("seed=seed", "seed=None"), "it proposes something else when it is run again"),
    ],
)
def test_run_tries_it_out_before_a_sweep_is_recorded(own, source, words):
    own.write_text(source)
    raw = specs.mean("own", search={"sampler": "mysamplers:build", "trials": 4, "seed": 0})
    with pytest.raises(WouldFail, match=r"search\.sampler") as caught:
        before_launch(load_spec(raw))
    assert words in str(caught.value)


# `sampler: auto`: which method by rule, budgets by schedule, and proposals of seed, number and tellings alone.


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


def test_the_sampler_that_a_sweep_began_with_stays():
    for asked, began in (("auto", "tpe"), (None, "random")):
        search = {"trials": 4} if asked is None else {"sampler": asked, "trials": 4}
        with pytest.raises(
            InvalidValue, match=rf"search\.sampler='auto': expected {began}, with which the sweep began"
        ):
            without_extensions(spec_with(search=search), spec_with(search={"sampler": began, "trials": 4}), [])


def test_an_unresolved_one_proposes_nothing():
    with pytest.raises(InvalidValue, match=r"search\.resolved=None"):
        Proposer(auto(None))
    assert choices_by_results(auto())


# -- proposals --------------------------------------------------------------------------------------------


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
