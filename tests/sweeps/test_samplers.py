"""Every sampler of the registry sits one exam; an installed package's and a user's own come through the same door."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

import pytest

from sweeps.planning.checking import before_launch
from sweeps.planning.rehearsal import WouldFail
from sweeps.planning.spec_code import code_of
from sweeps.privacy import totals
from sweeps.privacy.claims import Assumptions
from sweeps.privacy.wording import total_text
from sweeps.search import samplers
from sweeps.search.proposer import Proposer
from sweeps.search.sampler_exam import faults
from sweeps.search.samplers import SAMPLERS, Independent, Learning
from sweeps.spec.parse import load_spec
from sweeps.spec.problems import SpecErrors
from sweeps.spec.schema import spec_schema
from sweeps.spec.sections import FIXED_SAMPLERS
from tests.sweeps import climber, specs
from tests.sweeps.specs import recorded
from tests.sweeps.test_ledger import entry, trial
from tests.sweeps.test_search import MIXED, ONE, TWO, exam
from tests.sweeps.toys import spec_with
from trainables import plugins

RESOLVED = {"auto": {"resolved": "tpe"}}
"""Its own process sits the exam in test_automatic.py."""


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


def spec_for(name: str, objectives: list[dict[str, str]], seed: int = 3) -> Any:
    search = {"sampler": name, "trials": 40, "seed": seed, **RESOLVED.get(name, {})}
    mixes = name in samplers.names(lambda one: isinstance(one, Independent) or one.mixes_systems)
    systems = {} if samplers.walks_grid(name) or mixes else {"systems": {"hill": MIXED["hill"]}}
    return exam(name, objectives, search=search, **systems)


@pytest.mark.parametrize("name", samplers.known())
def test_every_sampler_passes_the_exam(name):
    """Twice the same, the same after a restart, points of the space; with conditional knobs where it takes them."""
    assert faults(spec_for(name, ONE)) == []
    # A proposal of a Gaussian process takes a third of a second: one space is enough for it.
    if name != "gp":
        entry = samplers.sampler(name)
        if isinstance(entry, Independent) or entry.several_objectives:
            assert faults(spec_for(name, TWO)) == []
        if not samplers.walks_grid(name):
            stratified = {"sampler": name, "trials": 40, "seed": 3, "stratified": True, **RESOLVED.get(name, {})}
            for privacy in ({"epsilon": [1, 2, 4], "delta": 1e-5}, {"epsilon": 2, "delta": 1e-5, "scope": "sweep"}):
                assert faults(exam(name, ONE, systems=MIXED, search=stratified, privacy=privacy)) == []
    first, other = (Proposer(spec_for(name, ONE, seed)).propose() for seed in (3, 4))
    assert first.config != other.config


def test_a_newcomer_of_an_installed_package_passes_it(installed):
    """Two files of its own: the sampler, and the line that offers it."""
    assert "climber" in samplers.known()
    assert "climber" in str(spec_schema())
    assert faults(spec_for("climber", ONE)) == []


def test_what_a_sampler_cannot_do_is_refused(installed):
    search = {"sampler": "climber", "trials": 9}
    two = {"systems": {"hill": MIXED["hill"], "valley": MIXED["valley"]}}
    with pytest.raises(SpecErrors) as caught:
        spec_with(**two, objectives=TWO, search=search)
    assert {error.path for error in caught.value.errors} == {"search.sampler"}
    assert {error.expected.partition(":")[0] for error in caught.value.errors} == {
        "one system",
        "one objective (there are 2)",
    }
    assert spec_with(**two, search={**search, "stratified": True})


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


def own_spec(name: str = "mysamplers:build", **changes: Any) -> Any:
    return exam(name, ONE, systems={"hill": MIXED["hill"]}, **changes)


def test_a_function_of_the_users_own_is_a_sampler(own, caplog):
    """Nothing is imported before it is named, nor for a look at the spec."""
    spec = own_spec()
    assert "mysamplers" not in sys.modules
    assert spec.user_modules() == ("mysamplers",)
    assert faults(spec) == []
    assert "Importing mysamplers and calling mysamplers:build" in caplog.text
    before = code_of(spec)
    own.write_text(OWN + "# changed\n")
    assert code_of(spec) != before
    assert code_of(exam("tpe")) == code_of(exam("random"))
    with pytest.raises(SpecErrors, match="one system"):
        exam("mysamplers:build", ONE, systems=MIXED)


def test_the_operator_decides(own, installed, monkeypatch):
    monkeypatch.setenv("SWEEPS_PLUGINS", "deny")
    for name in ("mysamplers:build", "climber"):
        with pytest.raises(SpecErrors, match="SWEEPS_PLUGINS=deny"):
            own_spec(name)
    assert "mysamplers" not in sys.modules
    monkeypatch.setenv("SWEEPS_PLUGINS", "list:mysamplers")
    assert Proposer(own_spec()).propose()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def build(seed):\n    return seed\n", "a function that returns a sampler"),
        ("other = 1\n", "a function that can be imported"),
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
