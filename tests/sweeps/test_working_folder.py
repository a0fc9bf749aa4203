"""`mymod.py` beside the spec: found by `module:function`, fingerprinted, and never before an installed package."""

from __future__ import annotations

import sys

import pytest
import yaml

from sweeps.cli import main as cli
from sweeps.util import fingerprint

SPEC = {
    "name": "mine",
    "data": {"source": "digits"},
    "systems": {
        "noisy-sgd": {
            "model": "beside_the_spec:build",
            "learning_rate": 0.1,
            "clip_norm": 1.0,
            "batch_size": 64,
            "epochs": 1,
        }
    },
    "privacy": {"epsilon": 1.0, "delta": 1e-4},
    "objectives": [{"metric": "accuracy"}],
    "search": {"trials": 1, "sampler": "random"},
}
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


def check(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["sweeps", "check", "mine.yaml"])
    try:
        cli.main()
    except SystemExit as end:
        return end.code
    return 0


def test_a_module_beside_the_spec_is_found_and_fingerprinted(here, monkeypatch, capsys):
    assert check(monkeypatch) == 0, capsys.readouterr().err
    assert sys.path[-1] == str(here)
    modules = ("beside_the_spec",)
    before = fingerprint.code_digest(modules)
    (here / "its_friend.py").write_text("WIDTH = 65\n")
    assert fingerprint.code_digest(modules) != before


def test_no_file_of_the_folder_stands_before_an_installed_package(here):
    (here / "torch.py").write_text("raise SystemExit('not this one')\n")
    fingerprint.working_folder_is_importable()
    fingerprint.working_folder_is_importable()
    assert sys.path.count(str(here)) == 1
    assert here / "torch.py" != fingerprint.packages(["torch"])["torch"]
