"""The CPU paths of `make gpu` in sizes of seconds; that its rows can fail; and what is skipped by name."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from dpcore.gradients import ClippedSum, PrivateGradients
from tests.gpu import __main__ as command
from tests.gpu import exactness
from tests.gpu.__main__ import CHECKS, Check
from tests.gpu.results import Result, Setting

SMALL = Setting(device="cpu", small=True)
ONLY_A_GPU = {"team of two over NCCL, a GPU each"}
PROCESSES = "packing: four trials on one GPU", "trial of two workers", "sweep of 64 trials", "team of two over Gloo"
"""Whole sweeps and teams of processes, of which the suite has others."""


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("check", [one for one in CHECKS if one.name not in PROCESSES], ids=lambda one: one.name)
@pytest.mark.timeout(600)
def test_every_row_runs_on_the_cpu_or_names_what_it_lacks(check):
    row = check.row(SMALL)
    if check.name in ONLY_A_GPU:
        assert row.result is Result.SKIPPED
        assert "GPU" in row.note
    else:
        assert row.result is Result.SHOWN, row.note
        assert row.figures


def test_sums_that_differ_are_seen(monkeypatch):
    right = PrivateGradients.clipped_sum

    def wrong(self, *args, **kwargs):
        found = right(self, *args, **kwargs)
        return ClippedSum(tensors={name: 1.002 * one for name, one in found.tensors.items()}, clip_norm=found.clip_norm)

    monkeypatch.setattr(PrivateGradients, "clipped_sum", wrong)
    for show, word in ((exactness.sums, "exact sum"), (exactness.norms, "clip norms")):
        row = Check("row", show).row(SMALL)
        assert row.result is Result.FAILED
        assert word in row.note


def test_without_a_gpu_everything_is_skipped_by_name_and_nothing_counts_as_shown(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    path = tmp_path / "new" / "gpu.json"
    monkeypatch.setattr(sys, "argv", ["tests.gpu", "--json", str(path)])
    assert command.main() == 1
    rows = json.loads(path.read_text())["rows"]
    assert [(row["name"], row["result"]) for row in rows] == [(one.name, "skipped") for one in CHECKS]
    assert all(torch.__version__ in row["note"] for row in rows)
    assert f"0 shown, 0 failed, {len(CHECKS)} skipped" in capsys.readouterr().out
