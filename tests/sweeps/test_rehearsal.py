"""`sweeps check` on the mistakes of a new user: found before a record is read, said in words, exit code 2."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import sweeps.planning.rehearsal as rehearsal
from sweeps.execution.resume import without_extensions
from sweeps.planning.rehearsal import Child, ProcessEnded, Rehearsal, corners
from sweeps.spec.parse import load_spec
from tests.sweeps import specs
from trainables.rehearsal import rehearse

ROOT = Path(__file__).parent.parent.parent
BROKEN = "tests.trainables.broken_models"

KNOBS = {"model": "linear", "learning_rate": 0.1, "clip_norm": 1.0, "batch_size": 10, "epochs": 1}


def spec(knobs=None, **sections):
    return specs.digits("mine", trials=2, systems={"noisy-sgd": {**KNOBS, **(knobs or {})}}, **sections)


def found(raw) -> tuple[Rehearsal | None, dict[str, str]]:
    """What a rehearsal in this process sends: its end, and {corner: why it would fail}."""
    sent = []
    rehearsal._rehearse_all(sent.append, load_spec(raw))
    failed = {one.label: one.reason for one in sent if isinstance(one, rehearsal._Failed)}
    return next((one for one in sent if isinstance(one, Rehearsal)), None), failed


def test_what_is_right_is_told(capsys):
    end, failed = found(spec({"model": f"{BROKEN}:with_a_scale", "batch_size": {"choice": [8, 32]}}))
    assert not failed
    (_, ran), (_, system), (_, slow) = end.lines()
    assert ran.startswith("2 configurations ran on made-up records")
    assert system.startswith("noisy-sgd: ")
    assert system.endswith("reports accuracy, auc, loss")
    assert slow == "per record: scale"
    assert json.loads(json.dumps(end.to_dict()))["ran"][0]["step"]["planned"] in (8, 32)


def test_what_fits_in_memory_is_taken_and_a_size_that_does_not_is_refused(monkeypatch):
    monkeypatch.setattr(rehearse, "free_mb", lambda device: 150.0)
    knobs = {"model": f"{BROKEN}:large_in_between", "batch_size": 64}
    raw = spec(knobs)
    end, failed = found(raw)
    assert not failed
    began = end.fitted(load_spec(raw))
    assert 1 <= began.execution.microbatch < 8
    assert f"at most {began.execution.microbatch} records of a pass (execution.microbatch)" in [*end.lines()][-1][1]
    # A resume by the same spec goes on with it.
    assert without_extensions(load_spec(raw), began, []) == began
    _, failed = found(spec(knobs, execution={"microbatch": 60}))
    assert "Set execution.microbatch: " in "".join(failed.values())


def test_one_broken_corner_does_not_hide_the_others():
    end, failed = found(spec({"model": {"choice": [f"{BROKEN}:raises_when_called", "mlp", "linear"]}}))
    assert [one.label for one in end.ran] == ["noisy-sgd (model=mlp)", "noisy-sgd (model=linear)"]
    assert len(failed) == 1


def test_the_corners_are_where_shapes_change():
    raw = spec(
        {
            "model": {"choice": ["linear", "mlp"]},
            "hidden": {"int_log_uniform": [4, 64]},
            "learning_rate": {"log_uniform": [0.1, 1]},
        }
    )
    seen = [dict(one.knobs) for one in corners(load_spec(raw))]
    assert {"model": "linear", "hidden": 15} in seen
    assert {"model": "mlp", "hidden": 4} in seen
    assert {"model": "mlp", "hidden": 64} in seen
    assert all(set(one) == {"model", "hidden"} for one in seen)
    assert len(seen) == len({tuple(one.items()) for one in seen}) <= 12


# In a process of its own


def sends(send, what):
    for one in what:
        send(one)


def waits(send):
    send("before")
    time.sleep(600)


def starts_another_and_ends(send):
    helper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    helper.start()
    send(helper.pid)
    os._exit(7)


def gone(pid):
    for _ in range(100):
        if not _runs(pid):
            return True
        time.sleep(0.1)
    return False


def test_a_child_that_dies_is_seen_although_what_it_started_lives():
    with Child(starts_another_and_ends) as child:
        messages = child.messages(60)
        pid = next(messages)
        with pytest.raises(ProcessEnded, match="exit code 7"):
            next(messages)
    assert gone(pid)


ORPHANING = """
import os
from sweeps.execution.resume import without_extensions
from sweeps.planning.rehearsal import Child
from tests.sweeps.test_rehearsal import waits

child = Child(waits)
print(child._process.pid, flush=True)
next(child.messages(60))
os._exit(9)
"""


def test_no_child_outlives_a_parent_that_was_killed():
    done = subprocess.run([sys.executable, "-c", ORPHANING], cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=100)
    assert done.returncode == 9
    for _ in range(100):
        if not _runs(int(done.stdout)):
            return
        time.sleep(0.1)
    raise AssertionError("it is still there")


SCRIPT = """
import threading
from sweeps.execution.resume import without_extensions
from sweeps.planning.rehearsal import Child
from tests.sweeps.test_rehearsal import sends

print("a script that runs a sweep")
threading.Thread(target=threading.Event().wait, daemon=True).start()
with Child(sends, [1]) as child:
    print(list(child.messages(60)))
"""


def test_a_script_that_checks_is_not_run_once_more(tmp_path):
    """Nobody writes `if __name__ == "__main__"` there, and what stands above may be a sweep."""
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
    )
    assert (done.stdout, done.stderr) == ("a script that runs a sweep\n[1]\n", "")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


# At the command line


def check(folder, raw, *arguments, patience="60"):
    """(exit code, stdout, stderr) of `sweeps check` in `folder`."""
    (folder / "mine.yaml").write_text(yaml.safe_dump(raw))
    command = [sys.executable, "-m", "sweeps.cli", "check", "mine.yaml", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "SWEEPS_PATIENCE": patience},
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("builder", "patience", "words"),
    [
        ("ends_the_process", "60", "its process ended itself with exit code 0"),
        ("never_comes_back", "15", "did not come back within 15 s, and was stopped"),
    ],
)
def test_check_says_it_in_words_with_exit_code_2(tmp_path, builder, patience, words):
    code, out, err = check(tmp_path, spec({"model": f"{BROKEN}:{builder}"}), patience=patience)
    assert (code, out) == (2, "")
    assert "\nsweeps: trials of this spec would fail" in err
    assert f"systems.noisy-sgd (model={BROKEN}:{builder})" in err
    assert words in err
