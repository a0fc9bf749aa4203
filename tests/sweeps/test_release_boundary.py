"""Between the store and the world stands one publisher: no view reaches a result that the release policy holds back."""

from __future__ import annotations

import ast
import re
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path

from sweeps.privacy import release
from sweeps.privacy.release import NOTHING, OPEN, WINNERS_ALONE, PublishedStore, Release, ReleasePolicy
from sweeps.search.proposer import Proposer
from sweeps.spec.parse import load_spec
from sweeps.store.records import TrialRecord, TrialState
from sweeps.store.store import open_store
from sweeps.store.workspace import Workspace
from tests.sweeps import specs
from tests.sweeps.published_sweeps import NAME, publish, swept
from tests.sweeps.specs import recorded
from tests.sweeps.test_publishing import printed

ROOT = Path(__file__).parents[2]
VIEWS = ("reporting", "mlflow", "cli", "api.py", "sweep.py")
"""Rooms of which everything is a view, or serves views alone."""


BESIDE_RESULTS = tuple(f"sweeps.store.{one}." for one in ("errors", "records", "population", "workspace"))
"""What a view takes of the store's room: no table, and no result."""

# -- by imports -------------------------------------------------------------------------------------------


@cache
def modules():
    files = sorted((ROOT / "sweeps").rglob("*.py"))
    return [(str(path.relative_to(ROOT / "sweeps")), ast.parse(path.read_text(encoding="utf-8"))) for path in files]


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)


def test_no_view_imports_the_store():
    """Its errors and records alone: a view opens a store by the publisher."""
    for name, tree in modules():
        if name.split("/")[0] in VIEWS and name not in ("cli/submit.py", "cli/catalogue.py"):
            taken = {one for one in imported(tree) if one.startswith("sweeps.store")}
            assert all(f"{one}.".startswith(BESIDE_RESULTS) for one in taken), (name, taken)
            assert not any(isinstance(one, ast.Attribute) and one.attr == "open_store" for one in ast.walk(tree)), name


def test_only_the_publisher_makes_published_records():
    """Types hold the rest (mypy): views, samplers and early stopping take no other."""
    callers = {"execution/controller.py", "search/proposer.py"}
    # These ask whether a sweep may be extended or a point enqueued at all, and publish nothing.
    callers |= {"execution/requests.py", "execution/resume.py"}
    for name, tree in modules():
        if name == "privacy/release.py":
            continue
        for node in ast.walk(tree):
            assert not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Published"), name
            assert name in callers or getattr(node, "attr", "") not in ("published_alone", "policy"), name
        assert name == "mlflow/read.py" or "sweeps.privacy.release.was_published" not in imported(tree), name


# -- by trying --------------------------------------------------------------------------------------------

SPEC = specs.mean(
    NAME, data={"source": "uniform", "n": 100}, search={"sampler": "tpe", "trials": 12, "seed": 0}, curve=2
)
MEASURED = ("expected_error", "estimate", "seconds")


def swept_under(policy: ReleasePolicy, root: Path, monkeypatch, told: list[TrialRecord] | None = None) -> Workspace:
    """A whole sweep, of which `release: all` is given this sense."""
    monkeypatch.setitem(release._BY_WORD, "all", policy)
    return swept(root, SPEC, told, views=False)


def numbers(workspace: Workspace) -> dict[int, set[float]]:
    """{trial: what was measured of it}, by the store itself; without what rounds to a knob, as an estimate may."""
    store = open_store(workspace.store_url)
    records = store.trials(NAME)
    knobs = {f"{value:.4g}" for record in records for value in record.config.values() if isinstance(value, float)}
    told = {record.key: [record.metrics] for record in records}
    for one in store.curves(NAME):
        told[one.key].append(one.metrics)
    return {
        record.number: {
            value
            for metrics in told[record.key]
            for name, value in metrics.items()
            if name in MEASURED and f"{value:.4g}" not in knobs
        }
        for record in records
    }


def seen_by(said, workspace: Workspace) -> dict[str, bytes]:
    """Every view, as bytes, by its name."""
    publish(workspace)
    root = Path(workspace.root)
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.glob("mlflow.db*")}
    files[f"{NAME}/report.html"] = workspace.report(NAME).read_bytes()
    return {**files, **{name: text.encode() for name, text in printed(said, root).items()}}


def shown(value: float, view: bytes) -> bool:
    """As text, rounded to four digits or not, as NumPy keeps it, or as SQLite does."""
    rounded = rf"(?<![\d.]){re.escape(f'{value:.4g}')}(?!\d)" if 0.1 < value < 1 else r"(?!)"
    return (
        repr(value)[:10].encode() in view
        or re.search(rounded.encode(), view) is not None
        or any(struct.pack(order, value) in view for order in ("<d", ">d"))
    )


def test_no_view_shows_a_number_that_is_held_back(tmp_path, said, monkeypatch):
    told: list[TrialRecord] = []
    workspace = swept_under(NOTHING, tmp_path, monkeypatch, told)
    kept = numbers(workspace)
    assert len(kept) == 12
    assert sum(len(values) == len(MEASURED) + 2 for values in kept.values()) > 6
    assert {row.kind for row in open_store(workspace.store_url).outbox(NAME)} == {"state"}
    assert all(not one.metrics and not one.reports and one.guarantee is None for one in told)
    for name, view in seen_by(said, workspace).items():
        leaked = [value for values in kept.values() for value in values if shown(value, view)]
        assert not leaked, (name, leaked)


def test_only_the_winner_is_seen_and_only_when_the_sweep_is_over(tmp_path, monkeypatch):
    workspace = swept_under(WINNERS_ALONE, tmp_path, monkeypatch)
    store = open_store(workspace.store_url)
    best = min(store.trials(NAME), key=lambda one: one.metrics["expected_error"])
    seen = PublishedStore(store).trials(NAME)
    assert [one.number for one in seen if one.metrics] == [best.number]
    assert [(one.key, one.step) for one in PublishedStore(store).curves(NAME)] == [(best.key, 2), (best.key, 4)]
    assert next(one for one in seen if one.metrics) == best
    others = [one for one in seen if one.key != best.key]
    assert {(one.state, one.step, one.finished_at, one.guarantee) for one in others} == {("planned", 0, None, None)}
    counts = {name: count for name, count in PublishedStore(store).counts(NAME).items() if count}
    assert counts == {"complete": 1, "planned": 11}
    assert [one.number for one in PublishedStore(store).held_back(NAME)] == [one.number for one in seen]
    assert [one.key for one in PublishedStore(store).trials(NAME, states=[TrialState.COMPLETE])] == [best.key]
    lease = store.acquire(NAME)
    store.set_state(lease, "running")
    assert not any(one.metrics for one in PublishedStore(store).trials(NAME))
    assert not any(one.metrics for one in PublishedStore(store).trials_of(NAME, {best.key}))
    lease.release()


def test_what_is_held_back_steers_nothing(tmp_path, monkeypatch):
    """TPE proposes the same whatever comes of its trials; told results, it does not."""
    raw = {**SPEC, "search": {**SPEC["search"], "trials": 30}}
    spec = load_spec(raw)
    base = swept_under(NOTHING, tmp_path, monkeypatch)
    [record, *_] = open_store(base.store_url).trials(NAME)

    def proposals(policy: ReleasePolicy, sign: float) -> list[object]:
        proposer, out = Proposer(spec), []
        for _ in range(30):
            proposal = proposer.propose()
            out.append(proposal.config)
            value = {"expected_error": sign * float(proposal.config["clip"])}
            done = replace(record, number=proposal.number, config=proposal.config, metrics=value)
            proposer.tell(policy.published_alone(done))
        return out

    assert proposals(NOTHING, 1.0) == proposals(NOTHING, -1.0)
    assert proposals(OPEN, 1.0) != proposals(OPEN, -1.0)


def test_a_word_without_a_meaning_publishes_nothing():
    assert Release.of(recorded({})).policy == OPEN
    assert Release.of(recorded({"privacy": {"scope": "sweep", "release": "best"}})).policy == WINNERS_ALONE
    for word in ("everything", "", None, "ALL"):
        assert ReleasePolicy.called(word) == NOTHING
