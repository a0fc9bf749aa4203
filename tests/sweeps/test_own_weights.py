"""Weights that a model of one's own loads are part of what a sweep is: with others it does not go on."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace

import numpy as np
import pytest

from sweeps import audit
from sweeps.certificate.build import public_inputs
from sweeps.certificate.count import Subject
from sweeps.execution import session
from sweeps.execution.session import TuneRunner
from sweeps.planning.spec_code import WEIGHTS, weights_of
from sweeps.privacy.published_store import PublishedStore
from sweeps.spec.parse import load_spec
from sweeps.store.records import Accepted, SweepState
from sweeps.store.workspace import Workspace
from sweeps.util.fingerprint import Changed
from tests.sweeps import specs
from tests.trainables.test_pretrained import MODULE, another
from trainables.data import SOURCES
from trainables.features import declared

KNOBS = {"model": "lab_net:loaded", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 100, "epochs": 5}
SPEC = specs.digits("lab", systems={"noisy-sgd": KNOBS}, privacy={"epsilon": 1.0, "delta": 1e-5})


class Untold:
    """MLflow, which hears of nothing here."""

    uri, delivered = "", False

    def __init__(self, *any_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def start(self):
        pass


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
    """Whether a sweep may go on is decided before anything is launched."""
    monkeypatch.setattr(TuneRunner, "run", lambda *_: SweepState.EXHAUSTED)
    monkeypatch.setattr(session, "Drain", Untold)


def test_a_resume_beside_other_weights_is_refused_until_it_is_accepted_as_other_code(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "lab_net", raising=False)
    (tmp_path / "lab_net.py").write_text(MODULE)
    weights = tmp_path / "weights.npy"
    np.save(weights, np.random.default_rng(0).standard_normal((64, 4)).astype("f4"))
    workspace = Workspace.at(tmp_path / "root")
    name = session.create(load_spec(SPEC), workspace)
    assert session.resume(name, workspace).state == "exhausted"
    store = workspace.open_store()
    recorded = store.sweep(name).fingerprints
    session.resume(name, workspace)
    assert store.sweep(name).fingerprints == recorded
    another(weights)
    with pytest.raises(Changed, match=r"weights \w+ -> \w+\. .*--accept code\."):
        session.resume(name, workspace)
    session.resume(name, workspace, session.RunOptions(accept=["code"]))
    assert store.sweep(name).fingerprints[WEIGHTS] != recorded[WEIGHTS]
    [accepted] = [one.wanted for one in store.requests(name) if isinstance(one.wanted, Accepted)]
    assert accepted.what == WEIGHTS
    assert len(accepted.before) == len(accepted.now) == 64
    session.resume(name, workspace)
    # A certificate names what went in, as it is now.
    with closing(PublishedStore(store)) as publisher:
        said = list(public_inputs(Subject.of(publisher, name)))
    assert said[-1].endswith(f"fingerprint {accepted.now}")


def test_an_audit_does_not_judge_another_model(tmp_path, monkeypatch):
    """Weights that were fitted to the records since would have refuted what was trained without them."""
    spec = load_spec({**SPEC, "systems": {"noisy-sgd": {**KNOBS, "model": "linear"}}})
    recorded = SimpleNamespace(name="lab", fingerprints={"code": "as it was", WEIGHTS: "one"})
    monkeypatch.setattr(audit, "code_of", lambda spec: "as it was")
    store = SimpleNamespace(data_fingerprint=lambda digest: digest)
    asked = (store, recorded, spec, False)
    for weights, accept, refused in (("one", (), False), ("other", (), True), ("other", ("code",), False)):
        monkeypatch.setattr(audit, "weights_of", lambda *given, now=weights: {WEIGHTS: now})
        if refused:
            with pytest.raises(Changed, match=r"weights changed since it ran.*--accept code"):
                audit._data(*asked, accept, tmp_path)
        else:
            assert len(audit._data(*asked, accept, tmp_path).train) > 1000


def test_a_sweep_without_a_model_of_ones_own_has_no_such_fingerprint(tmp_path):
    spec = {**SPEC, "systems": {"noisy-sgd": {**KNOBS, "model": "linear"}}}
    workspace = Workspace.at(tmp_path)
    name = session.create(load_spec(spec), workspace)
    session.resume(name, workspace)
    assert workspace.open_store().sweep(name).fingerprints.keys() == {"code", "data"}


MAP = """
from pathlib import Path

import numpy as np
import torch
from torch import nn


def build(facts):
    made = nn.Linear(64, 4, bias=False)
    made.weight.data = torch.from_numpy(np.load(Path(__file__).parent / "map.npy"))
    return nn.Sequential(nn.Flatten(), made)
"""


def test_weights_of_a_feature_map_are_too(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "lab_map", raising=False)
    (tmp_path / "lab_map.py").write_text(MAP)
    np.save(tmp_path / "map.npy", np.random.default_rng(0).standard_normal((4, 64)).astype("f4"))
    given = {"features": "lab_map:build", "features_from": "drawn at random, for tests", "features_bounds": [-9, 9]}
    spec = load_spec(
        {**SPEC, "data": {"source": "digits", **given}, "systems": {"noisy-sgd": {**KNOBS, "model": "linear"}}}
    )
    source = SOURCES["digits"]
    before = weights_of(spec, source.facts(spec.data.options()))
    assert weights_of(spec, source.facts(spec.data.options())) == before
    another(tmp_path / "map.npy")
    # In a process of its own a map is written down once.
    declared._MADE.clear()
    assert weights_of(spec, source.facts(spec.data.options())) != before
