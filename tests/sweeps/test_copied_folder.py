"""A sweep's folder that was copied, or restored from a backup, and goes on in both places.

Each copy launches attempts of the same key and number. Under one secret their noise was the same, on other sums.
"""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sweeps
from sweeps.execution import session, tuner
from sweeps.execution.controller import Controller
from sweeps.ray import cluster, patches
from tests.sweeps import specs
from tests.sweeps.stores import run_here
from tests.sweeps.view_sweeps import NoViews
from trainables.data import SOURCES
from trainables.system import Dataset

SPEC = specs.mean("copied", privacy={"epsilon": [0.5], "delta": 1e-5}, tracking={"models": "none"})


def here(controller: Controller, loaded: list[Dataset], secret: bytes, *_: object, **__: object) -> str:
    """Every launch in this process, with the secret that the session was given."""
    run_here(controller, loaded[0], secret)
    return "finished"


@pytest.fixture(autouse=True)
def without_ray(monkeypatch):
    monkeypatch.setattr(session, "Drain", NoViews)
    monkeypatch.setattr(tuner, "execute", here)
    monkeypatch.setattr(cluster, "cluster", lambda *_, **__: nullcontext())
    monkeypatch.setattr(cluster, "check_records_visible", lambda trials: None)
    monkeypatch.setattr(patches, "tune_patches", nullcontext)


def recovered(root: Path) -> list[float]:
    """Relative errors of sums that are solved for from two releases of a trial, as if their noise was one."""
    begun = sweeps.run(SPEC, root=root / "one")
    shutil.copytree(root / "one", root / "two")
    told = [
        sweeps.resume("copied", root=root / place, trials=12, epsilon=[epsilon]).trials()
        for place, epsilon in (("one", 4.0), ("two", 8.0))
    ]
    assert len(begun.trials()) == 12
    values = SOURCES["uniform"].load({"n": 1000}).train.inputs["value"]
    found = []
    for (_, one), (_, two) in zip(told[0].iterrows(), told[1].iterrows(), strict=True):
        if one["target_epsilon"] == two["target_epsilon"]:
            continue
        assert one["knob.clip"] == two["knob.clip"]
        noises = one["solved.noise_multiplier"], two["solved.noise_multiplier"]
        solved = (noises[1] * total(one) - noises[0] * total(two)) / (noises[1] - noises[0])
        true = 4 * np.minimum(values, one["knob.clip"]).sum()
        found.append(abs(solved / true - 1))
    assert len(found) >= 2
    return found


def total(trial: pd.Series) -> float:
    """The sum of a trial's four releases, from its published estimate."""
    shrunk = trial["metric.estimate"] - (1 - trial["knob.shrinkage"]) * trial["knob.prior"]
    return shrunk / trial["knob.shrinkage"] * 4 * 1000


def test_copies_that_both_go_on_share_no_noise(tmp_path):
    assert min(recovered(tmp_path)) > 1e-6
