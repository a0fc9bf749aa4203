"""Failures look like failures: exit codes of sweeps that are over, and the text of the first failure."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from sweeps.execution import session
from sweeps.execution.session import Failure
from sweeps.store.store import open_store
from sweeps.store.workspace import Workspace
from sweeps.util.exits import ExitCode
from tests.sweeps import specs
from tests.sweeps.fake_workers import Worker
from tests.sweeps.published_sweeps import controlled
from tests.sweeps.view_sweeps import NoViews
from trainables.worker.attempt import Attempt

SPEC = specs.mean(
    "ends", trials=3, systems={"noisy-mean": {"clip": {"uniform": [0.2, 1.0]}}}, resources={"concurrency": 1}
)
RAISED = "ValueError: record 7 is odd\n\nTraceback (most recent call last): ..."
GOOD, SILENT, FAILED, LOST = "good", "silent", "failed", "lost"


def ended(root: Path, ends: list[str]) -> Workspace:
    """A sweep whose trials ended so, driven to its end by a real controller without workers."""
    search = {**SPEC["search"], "trials": len(ends)}
    begun = controlled(root, {**SPEC, "search": search, "execution": {"retries": 0}})
    controller = begun.controller
    for end in ends:
        group = controller.decide()
        (member,) = group.members
        if end == LOST:
            controller.lost(group, "its worker process ended")
        elif end == FAILED:
            Attempt.of(controller.trials, member.key, member.attempt).explain(RAISED)
            error = {"key": member.key, "attempt": member.attempt, "error": "ValueError (a.py, line 3, in fit)"}
            controller.finished(group, [error])
        else:
            worker = Worker(group, controller.trials, Counter())
            worker.finish()
            controller.finished(group, [worker.result | ({} if end == GOOD else {"metrics": {}})])
    begun.lease.release()
    begun.store.close()
    return begun.workspace


@pytest.fixture
def resumed(tmp_path, monkeypatch, command):
    """Resumes the sweep `ends`, which is over: (exit code, stdout, stderr)."""
    monkeypatch.setattr(session, "Drain", NoViews)
    monkeypatch.chdir(tmp_path)
    return partial(command, "resume", "ends", "--root", tmp_path)


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([GOOD, GOOD], ExitCode.OK),
        ([GOOD, FAILED, FAILED], ExitCode.SOME_FAILED),
        ([GOOD, SILENT], ExitCode.SOME_FAILED),
        ([FAILED, FAILED], ExitCode.NONE_RANKED),
        ([SILENT, SILENT], ExitCode.NONE_RANKED),
        ([SILENT, LOST], ExitCode.NONE_RANKED),
    ],
)
def test_a_sweep_that_is_over_says_how_by_its_exit_code(tmp_path, resumed, ends, code):
    ended(tmp_path, ends)
    found, out, _ = resumed()
    assert found == code
    assert (f"(exit code {code.value})" in out) == (code is not ExitCode.OK)
    assert (tmp_path / "ends" / "report.html").is_file()
    if FAILED in ends:
        number = ends.index(FAILED)
        assert (
            f"2 trials failed. The first:\nTrial {number} (ends-{number}) failed: ValueError: record 7 is odd\n" in out
        )
        assert str(tmp_path / "ends" / "trials" / f"ends-{number}") in out
    assert "mlflow" not in out.lower(), "MLflow has not everything: no way to look at it is shown"
    assert resumed("--json")[0] == code


def test_the_words_of_a_failure_are_in_no_store(tmp_path):
    """An exception's message may quote a record."""
    workspace = ended(tmp_path, [FAILED])
    (record,) = open_store(workspace.store_url).trials("ends")
    assert "odd" not in str(record)
    failure = Failure.of(record, workspace.trials("ends"), tmp_path / "ray.log")
    assert failure.what == "ValueError: record 7 is odd"
    assert failure.quotes
    assert any("quote a record" in line for line in failure.lines())
