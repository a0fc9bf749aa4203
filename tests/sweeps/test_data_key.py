"""What a store keeps of private records confirms no guess of them: their digest is keyed with its own secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.execution import session
from sweeps.spec.parse import load_spec
from sweeps.store.store import Store, open_store
from sweeps.store.workspace import Workspace
from sweeps.util.fingerprint import Changed, keyed
from tests.sweeps import specs
from trainables.data import SOURCES

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
