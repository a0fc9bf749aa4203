"""Whose code runs: named before it is imported, and refused where the operator says so, on workers too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpcore.checks import InvalidValue
from sweeps.cli import main as cli
from sweeps.ray.job_start import OPERATORS
from sweeps.ray.jobs import taken_from_here
from tests.sweeps import awkward
from tests.trainables.registry_cases import CANDIDATES
from trainables import plugins
from trainables.data import SOURCES
from trainables.models import registry
from trainables.system import PrivacyPlan

ROOT = Path(__file__).parents[2]
SPEC = """
name: own
data: {source: digits}
systems: {noisy-sgd: {model: "sneaky.inner:build", learning_rate: 0.1, clip_norm: 1.0, batch_size: 64, epochs: 1}}
privacy: {epsilon: 1.0, delta: 1.0e-5}
objectives: [{metric: accuracy}]
search: {sampler: random, trials: 1, seed: 0}
"""
SNEAKY = 'import pathlib; (pathlib.Path(__file__).parent / "imported").touch()\n'


@pytest.fixture
def sneaky(tmp_path, monkeypatch):
    """A package that tells when it was imported: the file that it then makes."""
    package = tmp_path / "sneaky"
    package.mkdir()
    (package / "__init__.py").write_text(SNEAKY)
    (package / "inner.py").write_text("from torch import nn\ndef build(facts):\n    return nn.Linear(64, 10)\n")
    (tmp_path / "own.yaml").write_text(SPEC)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield package / "imported"
    for name in [name for name in sys.modules if name.split(".")[0] == "sneaky"]:
        del sys.modules[name]
    os.environ.pop(plugins.ANNOUNCED, None)


@pytest.mark.parametrize(
    ("policy", "function", "permitted"),
    [
        ("allow", "os:system", True),
        ("deny", "os:system", False),
        ("deny", "trainables.models.networks:mlp", False),
        ("list:lab.models", "lab.models:build", True),
        ("list:lab.models", "lab.models.nets:build", True),
        ("list:lab.models", "lab.models2:build", False),
        ("list:lab.models", "lab:build", False),
        ("list: lab , nets:build", "nets:build", True),
        ("list:lab,nets:build", "nets:build2", False),
        ("list:lab,nets:build", "nets:other", False),
    ],
)
def test_what_a_policy_permits(policy, function, permitted, monkeypatch):
    monkeypatch.setenv("SWEEPS_PLUGINS", policy)
    assert plugins.Policy.of_environment().permits(function) is permitted


@pytest.mark.parametrize("policy", ["", "Deny", "no", "0", "list", "list:", "list:a,,b", "os"])
def test_a_policy_that_means_nothing_lets_nothing_run(policy, monkeypatch):
    monkeypatch.setenv("SWEEPS_PLUGINS", policy)
    with pytest.raises(InvalidValue, match="allow, deny, or list:"):
        registry.build("os:system", SOURCES["digits"].facts({}), hidden=1)


def test_a_worker_refuses_before_anything_is_imported(sneaky, monkeypatch):
    """`build` is what a worker calls; a dotted module's package would be imported to look for it."""
    facts = SOURCES["digits"].facts({})
    monkeypatch.setenv("SWEEPS_PLUGINS", "list:other")
    with pytest.raises(InvalidValue, match=r"sneaky.inner:build.*SWEEPS_PLUGINS=list:other"):
        registry.build("sneaky.inner:build", facts, hidden=1)
    assert not sneaky.exists()
    monkeypatch.setenv("SWEEPS_PLUGINS", "list:sneaky")
    registry.build("sneaky.inner:build", facts, hidden=1)
    assert sneaky.exists()


@pytest.mark.parametrize("options", [(), ("--no-rehearsal",)])
def test_check_under_deny_imports_nothing(sneaky, options, monkeypatch, capsys):
    monkeypatch.setenv("SWEEPS_PLUGINS", "deny")
    monkeypatch.setattr(sys, "argv", ["sweeps", "check", "own.yaml", *options])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "SWEEPS_PLUGINS=deny" in capsys.readouterr().err
    assert not sneaky.exists()


def test_it_is_named_before_the_import(sneaky, caplog, monkeypatch):
    """The line is there when the module's first statement runs."""
    (sneaky.parent / "__init__.py").write_text(f"{SNEAKY}import heard; heard.listen()\n")
    heard = []
    monkeypatch.setitem(sys.modules, "heard", type("Heard", (), {"listen": lambda: heard.append(caplog.text)}))
    monkeypatch.delenv("SWEEPS_PLUGINS", raising=False)
    registry.build("sneaky.inner:build", SOURCES["digits"].facts({}), hidden=1)
    assert "Importing sneaky.inner and calling sneaky.inner:build" in heard[0]
    assert "SWEEPS_PLUGINS=deny" in heard[0]


def test_systems_of_installed_packages_are_withheld_too(tmp_path):
    awkward.install(tmp_path / "packages")
    (tmp_path / "spec.yaml").write_text("name: x\nsystems: {awkward-mean: {steps: 1}}\n")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{tmp_path}/packages", "SWEEPS_PLUGINS": "deny"}
    done = subprocess.run(
        [sys.executable, "-m", "sweeps.cli", "check", str(tmp_path / "spec.yaml")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "awkward:AWKWARD_MEAN offers it, but SWEEPS_PLUGINS=deny" in done.stderr


LAB = """
import pathlib
from dataclasses import dataclass
from dpcore.events import Gaussian
from dpcore.mechanisms.protocol import mechanism, within

(pathlib.Path(__file__).parent / "imported").touch()

@mechanism("lab-noise")
@dataclass(frozen=True)
class LabNoise:
    noise_multiplier: float
    steps: int

    def event(self, from_step=0, to_step=None):
        start, stop = within(self.steps, from_step, to_step)
        return Gaussian(noise_multiplier=self.noise_multiplier / (stop - start) ** 0.5)

SYSTEM = object()
"""
READ = """
import json, sys
from trainables.system import PrivacyPlan
print(PrivacyPlan.from_dict(json.load(open(sys.argv[1]))).mechanism)
"""


@pytest.fixture
def lab(tmp_path):
    """An installed package with a system and a mechanism of its own, and a plan that the system wrote."""
    (tmp_path / "lab.py").write_text(LAB)
    distribution = tmp_path / "lab-1.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1\n")
    (distribution / "entry_points.txt").write_text("[private_sweeps.systems]\nlab-mean = lab:SYSTEM\n")
    plan = CANDIDATES["noisy-mean"].plan.to_dict()
    mechanism = {"kind": "lab-noise", "noise_multiplier": 2.0, "steps": 3}
    (tmp_path / "plan.json").write_text(json.dumps({**plan, "system": "lab-mean", "mechanism": mechanism}))
    return tmp_path


@pytest.mark.parametrize(
    ("policy", "read"), [("allow", True), ("list:lab", True), ("deny", False), ("list:other", False)]
)
def test_a_plan_of_an_installed_package_is_read_where_nobody_imported_it(lab, policy, read):
    """What its entry point names is imported, nothing that the plan itself says."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{lab}", "SWEEPS_PLUGINS": policy}
    command = [sys.executable, "-c", READ, str(lab / "plan.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (lab / "imported").exists() is read
    if read:
        assert "LabNoise(noise_multiplier=2.0, steps=3)" in done.stdout
    else:
        assert f"system='lab:SYSTEM': expected what SWEEPS_PLUGINS={policy} lets run" in done.stderr


def test_a_mechanism_that_nobody_offers_stays_unknown(lab):
    plan = json.loads((lab / "plan.json").read_text())
    with pytest.raises(InvalidValue, match="lab-noise"):
        PrivacyPlan.from_dict(plan)


def test_no_order_sets_the_policy_of_a_cluster(monkeypatch):
    monkeypatch.setenv("SWEEPS_PLUGINS", "allow")
    assert OPERATORS == plugins.VARIABLE
    with pytest.raises(InvalidValue, match="operator"):
        taken_from_here(["SWEEPS_PLUGINS"])
