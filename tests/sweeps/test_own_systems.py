"""A system of one's own without packaging: its class from Python, `module:object` in a spec, never from a script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sweeps
from dpcore.checks import InvalidValue
from sweeps.planning.spec_code import code_of
from sweeps.spec import SpecErrors
from trainables import plugins
from trainables.registry import SYSTEMS

ROOT = Path(__file__).parents[2]
LAB = """
from dataclasses import replace
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

class Modest(NoisyMean):
    name = "modest"
    def plan(self, *asked):
        plan = super().plan(*asked)
        return replace(plan, guarantee=replace(plan.guarantee, epsilon=plan.guarantee.epsilon / 2))

SYSTEM = Demanding(1)
NOTHING = 3
"""


def spec(**systems):
    return {
        "name": "own",
        "data": {"source": "uniform", "n": 1000},
        "systems": systems,
        "privacy": {"epsilon": 1.0, "delta": 1e-5},
        "objectives": [{"metric": "expected_error"}],
        "search": {"sampler": "random", "trials": 1},
    }


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A module in the working folder, which is on the path of nobody."""
    (tmp_path / "own_lab.py").write_text(LAB)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    yield tmp_path
    sys.modules.pop("own_lab", None)
    plugins._announce.cache_clear()
    for name in [name for name in SYSTEMS if name.startswith("own_lab")]:
        del SYSTEMS[name]


def test_a_spec_names_an_object_of_the_working_folder(lab):
    found = sweeps.load(spec(**{"own_lab:LabMean": {"steps": 2}}))
    assert list(found.systems) == ["own_lab:LabMean"]
    assert found.user_modules() == ("own_lab",)
    assert found.user_functions() == ("own_lab:LabMean",)
    assert SYSTEMS["own_lab:LabMean"].name == "own_lab:LabMean"
    before = code_of(found)
    (lab / "own_lab.py").write_text(f"{LAB}\n# other code\n")
    assert code_of(found) != before


def test_an_object_and_a_class_are_called_by_their_own_names(lab):
    sweeps.load(spec(**{"own_lab:LabMean": {}}))
    own = sys.modules["own_lab"]
    for given in (own.LabMean, "own_lab:LabMean"):
        name = getattr(given, "name", "LabMean")
        assert list(sweeps.load(spec(**{name: {}}), systems=[given]).systems) == ["own_lab:LabMean"]
    assert list(sweeps.load(spec(**{"own_lab:SYSTEM": {}}), systems=[own.SYSTEM]).systems) == ["own_lab:SYSTEM"]
    for given, message in (
        (own.Demanding(2), "own_lab has a name for"),
        (own.Sgd, "a name of its own"),
        (own.Wish, "the spec's `systems:` names"),
        ("no colon", "module:object"),
    ):
        with pytest.raises(InvalidValue, match=message):
            sweeps.load(spec(sgd={}), systems=[given])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_lab:Nowhere", "a system Nowhere in own_lab"),
        ("nowhere_at_all:X", "was not found"),
        ("own_lab:NOTHING", "system"),
        ("own_lab:Demanding", "without arguments"),
        ("lab-mean", "the name of a system"),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(lab, name, message):
    with pytest.raises(SpecErrors, match=message):
        sweeps.load(spec(**{name: {}}))


def test_an_operator_may_refuse_it_before_it_is_imported(lab, monkeypatch):
    monkeypatch.setenv("SWEEPS_PLUGINS", "list:other")
    with pytest.raises(SpecErrors, match="SWEEPS_PLUGINS=list:other"):
        sweeps.load(spec(**{"own_lab:LabMean": {}}))
    assert "own_lab" not in sys.modules
    monkeypatch.setenv("SWEEPS_PLUGINS", "list:own_lab")
    sweeps.load(spec(**{"own_lab:LabMean": {}}))


def test_its_claim_is_its_own_word(lab):
    checked = sweeps.check(spec(**{"own_lab:Modest": {}}), rehearsal=False)
    assert "asserted by own_lab" in str(checked)


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


def test_what_a_script_defines_itself_is_refused_with_the_way_out(tmp_path):
    """A worker that imported the script would run it again."""
    (tmp_path / "script.py").write_text(SCRIPT % spec())
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.count("began") == 1
    assert "from my_systems import Mine" in done.stdout
    assert "name it my_systems:Mine" in done.stdout


def test_the_code_of_an_installed_system_decides_what_the_sweep_is(lab, monkeypatch):
    """A package that offers a system by an entry point counts as a file does."""
    distribution = lab / "lab-1.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1\n")
    (distribution / "entry_points.txt").write_text(f"[{plugins.ENTRY_POINTS}]\nlab-mean = own_offer:SYSTEM\n")
    (lab / "own_offer.py").write_text("from own_lab import LabMean\nSYSTEM = LabMean()\n")
    monkeypatch.syspath_prepend(str(lab))
    monkeypatch.setitem(SYSTEMS, "lab-mean", plugins.brought("system", "own_offer:SYSTEM"))
    found = sweeps.load(spec(**{"lab-mean": {}}))
    assert found.user_modules() == ()
    seen = {code_of(found)}
    for name in ("own_offer.py", "own_lab.py"):
        (lab / name).write_text(f"{(lab / name).read_text()}\n# other code\n")
        seen.add(code_of(found))
    assert len(seen) == 3
    del sys.modules["own_offer"]
