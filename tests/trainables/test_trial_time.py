"""What a trial's seconds and memory hold when several are launched together, or one after the other."""

import time
from types import SimpleNamespace

import numpy as np

from trainables.system import Launch, RunSettings, TrialRun
from trainables.training.trained_model import METRICS
from trainables.worker import trial
from trainables.worker.files import Folder

SHARED, OWN, MEASURING = 0.3, 0.1, 0.2
SLACK = 0.15


def shared_training(runs, data, execution):
    time.sleep(SHARED)
    for run in runs:
        run.reserve_until(1)
        time.sleep(OWN)
        run.checkpoint(1, {"w": np.zeros(1)}, {"accuracy": 0.5})


def measured(*arguments):
    time.sleep(MEASURING)
    return {}


def test_a_shared_training_is_every_members_and_the_rest_is_ones_own(tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "SYSTEMS", {"shared": SimpleNamespace(fit=shared_training, metrics=METRICS)})
    monkeypatch.setattr(trial, "_measured", measured)
    plan = SimpleNamespace(system="shared", config={})
    members = tuple(
        TrialRun(key=f"timed-{number}", attempt=1, seed=number, plan=plan, from_step=0, to_step=1)
        for number in range(4)
    )
    group = Launch(members=members, measures=("queries",))
    found = trial.run_launch(group, None, Folder(str(tmp_path)), bytes(32))
    for result in found:
        assert SHARED + OWN <= result["seconds"] < SHARED + OWN + SLACK


def test_memory_is_that_of_the_launch_and_of_its_team(tmp_path, monkeypatch):
    def holding(runs, data, execution):
        held = np.ones(data << 17)
        runs[0].reserve_until(1)
        runs[0].checkpoint(1, {"w": held[:1]}, {})

    monkeypatch.setattr(trial, "SYSTEMS", {"holding": SimpleNamespace(fit=holding, metrics=())})
    plan, peaks = SimpleNamespace(system="holding", config={}), []
    team = SimpleNamespace(peak_memory_mb=lambda: 5000.0)
    for number, (megabytes, execution) in enumerate(
        ((400, RunSettings()), (1, RunSettings()), (1, RunSettings(team=team)))
    ):
        member = TrialRun(key=f"held-{number}", attempt=1, seed=0, plan=plan, from_step=0, to_step=1)
        group = Launch(members=(member,), execution=execution)
        peaks.append(trial.run_launch(group, megabytes, Folder(str(tmp_path)), bytes(32))[0]["peak_memory_mb"])
    assert peaks[0] > peaks[1] + 300
    assert 5000 < peaks[2] < 5000 + peaks[0]
