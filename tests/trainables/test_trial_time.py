"""What a trial's seconds hold when several are launched together."""

import time
from types import SimpleNamespace

import numpy as np

from trainables import trial
from trainables.files import Folder
from trainables.system import Member, TrialGroup

SHARED, OWN, MEASURING = 0.3, 0.1, 0.2
SLACK = 0.15


def shared_training(runs, data, execution):
    time.sleep(SHARED)
    for run in runs:
        run.may_execute(1)
        time.sleep(OWN)
        run.checkpoint(1, {"w": np.zeros(1)}, {"accuracy": 0.5})


def measured(*arguments):
    time.sleep(MEASURING)
    return {}


def test_a_shared_training_is_every_members_and_the_rest_is_ones_own(tmp_path, monkeypatch):
    monkeypatch.setattr(trial, "SYSTEMS", {"shared": SimpleNamespace(fit=shared_training)})
    monkeypatch.setattr(trial, "_measured", measured)
    plan = SimpleNamespace(system="shared")
    members = tuple(
        Member(key=f"timed-{number}", attempt=1, seed=number, plan=plan, from_step=0, to_step=1) for number in range(4)
    )
    group = TrialGroup(members=members, measures=("queries",))
    found = trial.run_group(group, None, Folder(str(tmp_path)), bytes(32))
    for result in found:
        assert SHARED + OWN <= result["seconds"] < SHARED + OWN + SLACK
