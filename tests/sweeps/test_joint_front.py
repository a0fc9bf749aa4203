"""Several sweeps on one front: what they must share, whose each point is, and the total over all their trials."""

from __future__ import annotations

import json
import time

import pytest

import sweeps as python
from dpcore.accounting import headline
from dpcore.events import Adjacency, Composed, Gaussian, Repeated
from dpcore.guarantee import Status, epsilon_text
from sweeps.privacy import totals as joint_totals
from sweeps.privacy.release import PublishedStore
from sweeps.reporting.front import MixedGuarantees, ShareNoAxes, sweep_front
from sweeps.reporting.html import render
from sweeps.store.records import Extension, sweep_of
from sweeps.store.workspace import Workspace
from tests.sweeps.view_sweeps import complete, new_sweep

DATA = {"data": "keyed digest"}
RANDOM = {"trials": 10, "sampler": "random"}


def recorded(root, name, *, trials=3, fingerprints=DATA, claim=None, **spec):
    """A sweep of `trials` finished trials on the records of that fingerprint."""
    store = new_sweep(root, name, **spec)
    lease = store.acquire(name)
    store.set_fingerprints(lease, fingerprints)
    for number in range(trials):
        complete(store, lease, number, **(claim or {}))
    lease.release()
    store.close()


@pytest.fixture
def store(tmp_path):
    recorded(tmp_path, "a", trials=4)
    recorded(tmp_path, "b", trials=3)
    opened = PublishedStore.open(Workspace.at(tmp_path))
    yield opened
    opened.close()


def test_the_points_are_those_of_all(store):
    found = sweep_front(store, "a", "b", total=True)
    alone = [sweep_front(store, name) for name in ("a", "b")]
    (panel,) = found.panels
    assert sorted(one.key for one in panel.records) == sorted(
        one.key for front in alone for one in front.panels[0].records
    )
    listed = found.keys()
    assert {sweep_of(key) for key in listed} == {"a", "b"}, "equal points stand together"
    assert panel.hypervolume == max(front.panels[0].hypervolume for front in alone)
    assert found.footer(panel).startswith("7 of 7 trials on the front (4 of a, 3 of b), hypervolume")


def test_the_total_is_that_of_one_ledger_with_the_steps_of_all(store):
    found = sweep_front(store, "a", "b", total=True)
    # Seven trials of ten steps with noise 4: one composition, not a sum of two epsilons.
    step = Gaussian(noise_multiplier=4.0, adjacency=Adjacency.ADD_REMOVE)
    whole = headline(Composed(events=(Repeated(event=step, count=70),)), delta=1e-5, adjacency=Adjacency.ADD_REMOVE)
    claim = found.procedure.guarantee
    assert claim.epsilon == pytest.approx(whole.epsilon, rel=1e-9)
    own = [sweep_front(store, name, total=True).procedure.guarantee.epsilon for name in ("a", "b")]
    assert max(own) < claim.epsilon < sum(own)
    assert (found.procedure.sweeps, found.procedure.trials) == (("a", "b"), 7)
    # That both were asked for before the first trial is what clocks say.
    assert claim.status is Status.PROVED_UNDER_ASSUMPTIONS
    assert joint_totals.ACROSS in claim.assumptions
    assert found.note.startswith(f"All trials of a and b together: epsilon {epsilon_text(claim.epsilon)} at delta")


def test_one_that_chose_by_results_leaves_none_a_guarantee(tmp_path, store):
    recorded(tmp_path, "c", search={"trials": 10, "sampler": "tpe"})
    found = sweep_front(store, "a", "c", total=True)
    assert (found.procedure.is_claim, found.procedure.guarantee.status) == (False, Status.NO_CLAIM)
    assert "no guarantee, because in c the tpe sampler chose trials by the results of earlier ones" in found.note


def test_a_sweep_that_started_from_another_ones_results_chose_by_them(tmp_path, store):
    recorded(tmp_path, "c", search={**RANDOM, "warm_start": "a"})
    recorded(tmp_path, "d", search={**RANDOM, "warm_start": "elsewhere"})
    inside, outside = sweep_front(store, "a", "c", total=True), sweep_front(store, "a", "d", total=True)
    assert "in c the search started from the results of a" in inside.note
    assert (inside.procedure.is_claim, len(inside.totals)) == (False, 1)
    assert "sweep 'elsewhere', which adds its own total" in outside.note
    assert not outside.procedure.is_claim


def test_who_asks_when_results_can_be_seen_chooses_by_them(tmp_path, store):
    """As for the extension of one sweep: whoever sees results and decides what else runs is a rule that chooses."""
    recorded(tmp_path, "c", created_at=time.time())
    found = sweep_front(store, "a", "c", total=True)
    assert (found.procedure.is_claim, found.procedure.guarantee.status) == (False, Status.NO_CLAIM)
    assert (
        "because in c trials were asked for when results of a could be seen. For one that you can quote" in found.note
    )
    # Each alone is a guarantee all the same.
    assert sweep_front(store, "c", total=True).procedure.is_claim
    # One that has launched nothing has shown nothing.
    recorded(tmp_path, "d", trials=0)
    recorded(tmp_path, "e", created_at=time.time())
    assert sweep_front(store, "d", "e", total=True).procedure.is_claim


def test_who_asks_for_more_when_results_of_another_can_be_seen_chooses_by_them(tmp_path, store):
    """Nothing of its own had been launched, so that alone it says nothing of it."""
    recorded(tmp_path, "c", trials=0)
    asked = Workspace.at(tmp_path).open_store()
    with asked.acquire("c") as lease:
        asked.extend(lease, Extension(trials=12, launched=0, at=time.time()))
        complete(asked, lease, 0)
    asked.close()
    found = sweep_front(store, "a", "c", total=True)
    assert not found.procedure.is_claim
    assert "in c trials were asked for when results of a could be seen" in found.note
    assert sweep_front(store, "c", total=True).procedure.is_claim


@pytest.mark.parametrize(
    ("other", "kind", "says"),
    [
        ({"fingerprints": {"data": "another"}}, ShareNoAxes, "on the same records, by their recorded fingerprints"),
        ({"fingerprints": {}}, ShareNoAxes, "sweeps='c': expected sweeps that have read their records"),
        ({"objectives": [{"metric": "accuracy", "goal": "maximize"}]}, ShareNoAxes, "the same objectives"),
        (
            {"objectives": [{"metric": "loss", "goal": "minimize"}]},
            ShareNoAxes,
            "report: --objective epsilon:minimize.",
        ),
        ({"data": {"validation": {"records": "private"}}}, ShareNoAxes, "declare their validation records alike"),
        ({"claim": {"delta": 1e-6}}, MixedGuarantees, "delta='a: 1e-05; c: 1e-06'"),
        ({"claim": {"adjacency": Adjacency.REPLACE_ONE}}, MixedGuarantees, "adjacency='a: add-remove; c: replace-one'"),
        ({"claim": {"unit": "person"}}, MixedGuarantees, "unit='a: record; c: person'"),
        ({"claim": {"status": Status.REFUTED}}, MixedGuarantees, "status='a: proved; c: refuted'"),
    ],
)
def test_sweeps_that_must_not_share_axes_are_refused(tmp_path, store, other, kind, says):
    recorded(tmp_path, "c", **other)
    with pytest.raises(kind) as refused:
        sweep_front(store, "a", "c", total=True, as_refuted=True)
    assert says in str(refused.value)
    assert "keyed digest" not in str(refused.value)


def test_claims_of_two_kinds_have_a_panel_each_and_no_total(tmp_path, store):
    recorded(tmp_path, "c", claim={"adjacency": Adjacency.REPLACE_ONE})
    found = sweep_front(store, "a", "c", total=True, mix=["adjacency"])
    assert [len(panel.records) for panel in found.panels] == [4, 3]
    assert found.procedure is None
    assert "not counted" in found.note


def test_command_and_python_are_the_same(tmp_path, store, said):
    found = python.pareto(["a", "b"], "accuracy:maximize", root=tmp_path)
    printed = said("pareto", "a", "b", "--json", "--objective", "accuracy:maximize")
    assert json.loads(printed) == json.loads(render(found.front, "json"))
    assert set(found.table()["sweep"]) <= {"a", "b"}
