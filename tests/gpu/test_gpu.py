"""The CPU paths of `make gpu` in sizes of seconds; that its rows can fail; and what is skipped by name."""

from __future__ import annotations

import json
import sys

import pytest
import torch

from dpcore.gradients import ClippedSum, PrivateGradients
from dpcore.noise import PseudorandomNoise
from tests.gpu import __main__ as command
from tests.gpu import exactness, results
from tests.gpu.checks import CHECKS, Check
from tests.gpu.results import Figure, Lacking, Machine, Report, Result, Row, Setting

SMALL = Setting(device="cpu", small=True)
ONLY_A_GPU = {"team of two over NCCL, a GPU each", "team of two over NCCL, one GPU"}
SAME_PATH = {"trial of two workers", "sweep of 64 trials"}
"""Whole sweeps by the same function as `packing`; the suite has more of them elsewhere."""


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("check", [one for one in CHECKS if one.name not in SAME_PATH], ids=lambda one: one.name)
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


def test_noise_of_another_scale_is_seen(monkeypatch):
    right = PseudorandomNoise.fill_
    monkeypatch.setattr(PseudorandomNoise, "fill_", lambda self, tensor: right(self, tensor).mul_(0.97))
    row = Check("row", exactness.noise).row(SMALL)
    assert row.result is Result.FAILED
    assert "pseudorandom" in row.note


def test_a_report_survives_json_and_prints_every_row():
    rows = (
        Row(name="one", result=Result.SHOWN, figures=(Figure("a step", 1.5, "ms"), Figure("apart", 1e-7)), seconds=2.0),
        Row(name="another", result=Result.SKIPPED, note="needs 2 GPUs (1 here): NCCL takes one process per GPU"),
    )
    here = Machine(
        device="cuda", gpus=("H", "H"), memory_gb=139.0, cores=16, processor="x86_64", versions={"torch": "2"}
    )
    found = Report(machine=here, rows=rows, small=False)
    assert Report.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    text = found.table()
    for word in ("2 x H", "139 GB", "torch 2", "a step 1.5 ms", "skipped", "needs 2 GPUs (1 here)"):
        assert word in text


def test_without_a_gpu_everything_is_skipped_by_name_and_nothing_counts_as_shown(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    path = tmp_path / "new" / "gpu.json"
    monkeypatch.setattr(sys, "argv", ["tests.gpu", "--json", str(path)])
    assert command.main() == 1
    found = Report.from_dict(json.loads(path.read_text()))
    assert [row.name for row in found.rows] == [one.name for one in CHECKS]
    assert {row.result for row in found.rows} == {Result.SKIPPED}
    assert all(torch.__version__ in row.note for row in found.rows)
    assert f"0 shown, 0 failed, {len(CHECKS)} skipped" in capsys.readouterr().out


def test_a_failed_row_is_an_exit_code_and_leaves_the_others(monkeypatch, capsys):
    def broken(setting):
        yield Figure("before", 1.0)
        raise RuntimeError("no memory")

    def lacking(setting):
        raise Lacking("a second GPU")

    rows = (Check("a", broken), Check("b", lacking), Check("c", lambda setting: [Figure("x", 2.0)]))
    monkeypatch.setattr(command, "CHECKS", rows)
    monkeypatch.setattr(sys, "argv", ["tests.gpu", "--device", "cpu"])
    assert command.main() == 1
    said = capsys.readouterr().out
    assert "1 shown, 1 failed, 1 skipped" in said
    assert "RuntimeError: no memory" in said
    assert "needs a second GPU" in said


def test_the_machine_is_named():
    here = results.machine("cpu")
    assert here.versions["torch"] == torch.__version__
    assert here.memory_gb > 0.1
    assert here.cores >= 1
