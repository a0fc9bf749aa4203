"""A sweep is the same sweep while all that decides its trials is the same: the user's own code and files included."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from sweeps.util import fingerprint
from sweeps.util.fingerprint import code_digest
from tests.sweeps import specs


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A folder on the import path with a package `nets`, a package `parts` that it imports, a module `alone`."""
    for name, text in {
        "nets/__init__.py": "",
        "nets/small.py": "import torch\nfrom parts.blocks import block\n\ndef net(facts): ...\n",
        "nets/base.pt": "weights",
        "nets/deep/inside.py": "from ..small import net\n",
        "parts/__init__.py": "",
        "parts/blocks.py": "import helper_of_parts\n\ndef block(): ...\n",
        "helper_of_parts.py": "width = 3\n",
        "alone.py": "def net(facts): ...\n",
        "unrelated.py": "width = 3\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "seen"),
    [
        ("nets/small.py", True),  # the module that the spec names
        ("nets/deep/inside.py", True),  # another of its package
        ("nets/base.pt", True),  # no source, and part of the package
        ("parts/blocks.py", True),  # a package of the user's that it imports
        ("helper_of_parts.py", True),  # and what that one imports
        ("alone.py", False),
        ("unrelated.py", False),
    ],
)
def test_a_change_anywhere_in_the_user_s_own_code_is_seen(home, changed, seen):
    before = code_digest(["nets.small"])
    path = home / changed
    path.write_text(path.read_text() + "# changed\n")
    assert (code_digest(["nets.small"]) != before) == seen


def test_a_file_named_by_a_knob_counts_by_its_content(home):
    (home / "base.pt").write_text("one")
    (home / "bases").mkdir()
    (home / "bases/layer.pt").write_text("one")
    texts = ["mlp", "base.pt", "bases/", str(home / "base.pt"), "s3://bucket/base.pt", "x" * 5000]
    before = code_digest((), texts)
    assert code_digest((), texts) == before != code_digest()
    (home / "base.pt").write_text("two")
    second = code_digest((), texts)
    (home / "bases/layer.pt").write_text("two")
    third = code_digest((), texts)
    (home / "base.pt").unlink()
    assert len({before, second, third, code_digest((), texts)}) == 4


def test_packages_are_the_user_s_own_and_nobody_else_s(home):
    assert set(fingerprint.packages(["nets.small"], follow=True)) == {"nets", "parts", "helper_of_parts"}
    assert set(fingerprint.packages(["nets.small"])) == {"nets"}
    # Installed packages count where the spec names them, and lead no further than to the user's own.
    assert set(fingerprint.packages(["yaml"], follow=True)) == {"yaml"}


def test_nothing_is_imported(home):
    (home / "nets/__init__.py").write_text("raise SystemExit('imported')\n")
    script = "from sweeps.util.fingerprint import code_digest; print(code_digest(['nets.small']))"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=home)
    assert told.stdout.strip() == code_digest(["nets.small"])


# A module beside the spec: found by its name, fingerprinted, and never before an installed package.


SPEC = specs.digits(
    "mine",
    systems={
        "noisy-sgd": {
            "model": "beside_the_spec:build",
            "learning_rate": 0.1,
            "clip_norm": 1.0,
            "batch_size": 64,
            "epochs": 1,
        }
    },
    privacy={"epsilon": 1.0, "delta": 1e-4},
)
BUILD = """
import torch
import its_friend

def build(facts):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a model and a spec, and the path of an installed command: without the current folder."""
    (tmp_path / "beside_the_spec.py").write_text(BUILD)
    (tmp_path / "its_friend.py").write_text("WIDTH = 64\n")
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(SPEC))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one])
    yield tmp_path
    for name in ("beside_the_spec", "its_friend"):
        sys.modules.pop(name, None)


def test_a_module_beside_the_spec_is_found_and_fingerprinted(here, command):
    assert command("check", "mine.yaml")[0] == 0
    assert sys.path[-1] == str(here)
    modules = ("beside_the_spec",)
    before = fingerprint.code_digest(modules)
    (here / "its_friend.py").write_text("WIDTH = 65\n")
    assert fingerprint.code_digest(modules) != before
