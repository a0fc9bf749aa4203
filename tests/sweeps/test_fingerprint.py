"""A sweep is the same sweep while all that decides its trials is the same: the user's own code and files included."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dpcore.guarantee import Status
from sweeps import audit
from sweeps.certificate.build import Subject, public_inputs
from sweeps.execution import session
from sweeps.execution.session import TuneRunner
from sweeps.planning.plan import WEIGHTS, plan_proposal, weights_of
from sweeps.privacy.release import PublishedStore
from sweeps.search.space import Space
from sweeps.spec.parse import load_spec, public_facts
from sweeps.store.records import Accepted, SweepState
from sweeps.store.store import Store, open_store
from sweeps.store.workspace import Workspace
from sweeps.util.fingerprint import Changed, code_digest, keyed
from tests.sweeps import specs
from tests.sweeps.view_sweeps import NoViews
from tests.trainables.test_pretrained import another, lab
from trainables.data import SOURCES
from trainables.features import declared

__all__ = ["lab"]


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


def test_nothing_is_imported(home):
    (home / "nets/__init__.py").write_text("raise SystemExit('imported')\n")
    script = "from sweeps.util.fingerprint import code_digest; print(code_digest(['nets.small']))"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=home)
    assert told.stdout.strip() == code_digest(["nets.small"])


# A module beside the spec: found by its name, fingerprinted, and never before an installed package.


# Weights that a model of one's own loads are part of what a sweep is: with others it does not go on.


KNOBS = {"model": "lab_net:loaded", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 100, "epochs": 5}
LAB = specs.digits("lab", systems={"noisy-sgd": KNOBS}, privacy={"epsilon": 1.0, "delta": 1e-5})


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch):
    """Whether a sweep may go on is decided before anything is launched."""
    monkeypatch.setattr(TuneRunner, "run", lambda *_: SweepState.EXHAUSTED)
    monkeypatch.setattr(session, "Drain", NoViews)


def test_a_resume_beside_other_weights_is_refused_until_it_is_accepted_as_other_code(tmp_path, lab):
    workspace = Workspace.at(tmp_path / "root")
    name = session.create(load_spec(LAB), workspace)
    assert session.resume(name, workspace).state == "exhausted"
    store = workspace.open_store()
    recorded = store.sweep(name).fingerprints
    session.resume(name, workspace)
    assert store.sweep(name).fingerprints == recorded
    another(lab)
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


def test_the_files_that_models_start_from_are_known_and_so_is_what_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start = torch.nn.Linear(64, 10).state_dict()
    save_file({f"body.{name}": one for name, one in start.items()}, "start.safetensors")
    said = {"name": "a linear layer", "licence": "mit", "public_because": "drawn, of nobody's records"}
    knobs = {**KNOBS, "model": "linear", "weights": "start.safetensors"}
    spec = load_spec({**LAB, "systems": {"noisy-sgd": knobs}, "pretrained": {"start.safetensors": said}})
    assert load_spec(spec.canonical()) == spec
    plan = plan_proposal(spec, next(Space.of(spec).middles()), public_facts(spec), {})
    assert plan.guarantee.status is Status.PROVED_UNDER_ASSUMPTIONS
    line = (
        "The weights in start.safetensors are a linear layer, licence mit, declared public: drawn, of nobody's records"
    )
    assert line in plan.guarantee.assumptions
    before = weights_of(spec, public_facts(spec))
    save_file({f"body.{name}": one + 1 for name, one in start.items()}, "start.safetensors")
    assert weights_of(spec, public_facts(spec)) != before


def test_an_audit_does_not_judge_another_model(tmp_path, monkeypatch):
    """Weights that were fitted to the records since would have refuted what was trained without them."""
    spec = load_spec({**LAB, "systems": {"noisy-sgd": {**KNOBS, "model": "linear"}}})
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
        {**LAB, "data": {"source": "digits", **given}, "systems": {"noisy-sgd": {**KNOBS, "model": "linear"}}}
    )
    source = SOURCES["digits"]
    before = weights_of(spec, source.facts(spec.data.options()))
    assert weights_of(spec, source.facts(spec.data.options())) == before
    another(tmp_path / "map.npy")
    # In a process of its own a map is written down once.
    declared._MADE.clear()
    assert weights_of(spec, source.facts(spec.data.options())) != before


# What a store keeps of private records confirms no guess of them: their digest is keyed with its own secret.


PLAIN = SOURCES["uniform"].load({"n": 1000}).fingerprint


def store(folder: Path, name: str = "sweeps.db") -> Store:
    return open_store(f"sqlite:///{folder}/{name}")


def test_a_keyed_digest_is_hmac_sha256():
    """RFC 4231, test case 2."""
    expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert keyed("what do ya want for nothing?", b"Jefe") == expected


def test_one_key_serves_all_sweeps_of_a_store_and_no_other_store(tmp_path):
    one, other = store(tmp_path), store(tmp_path, "other.db")
    assert one.data_fingerprint(PLAIN) == store(tmp_path).data_fingerprint(PLAIN) != PLAIN
    assert one.data_fingerprint(PLAIN) != other.data_fingerprint(PLAIN)
    assert one.data_fingerprint(PLAIN) != one.data_fingerprint(PLAIN[::-1])


@pytest.fixture
def over(tmp_path):
    """A sweep of private values with nothing left to do, resumed once, so that its data were read and recorded."""
    spec = load_spec(
        specs.mean("over", systems={"noisy-mean": {"clip": {"uniform": [0.2, 1.0]}}}, limits={"noise_multiplier": 1e-3})
    )
    workspace = Workspace.at(tmp_path / ".sweeps")
    session.create(spec, workspace)
    return workspace


def test_no_file_of_a_sweep_holds_a_plain_digest_and_another_data_set_is_still_seen(over, monkeypatch):
    monkeypatch.setattr(session.Controller, "has_work", lambda self: False)
    session.resume("over", over)
    opened = open_store(over.store_url)
    assert opened.sweep("over").fingerprints["data"] == opened.data_fingerprint(PLAIN)
    files = [path for path in Path(over.root).rglob("*") if path.is_file()]
    assert files
    assert all(PLAIN.encode() not in path.read_bytes() for path in files)
    other = SOURCES["uniform"].load({"n": 999})
    monkeypatch.setattr(type(SOURCES["uniform"]), "load", lambda self, options, features=None: other)
    with pytest.raises(Changed, match=r"data [0-9a-f]{12} -> ") as refused:
        session.resume("over", over)
    assert PLAIN[:12] not in str(refused.value)
    assert other.fingerprint[:12] not in str(refused.value)


def test_the_source_of_noise_that_claims_name_cannot_be_changed_on_the_way(over):
    from dpcore.checks import InvalidValue

    recorded = open_store(over.store_url).sweep("over").spec.canonical()
    source = "secure" if recorded["privacy"]["noise_source"] == "pseudorandom" else "pseudorandom"
    changed = load_spec({**recorded, "privacy": {**recorded["privacy"], "noise_source": source}})
    with pytest.raises(InvalidValue, match=r"privacy\.noise_source"):
        session.resume("over", over, session.RunOptions(spec=changed, accept=["spec"]))
