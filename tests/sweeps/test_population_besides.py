"""Audits and readings of private test records are charged to the population before they begin, or do not begin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpcore.events import Adjacency
from dpcore.mechanisms.noisy_histogram import NoisyHistogram
from dpcore.selection.filters import DPCharge, GDPCharge
from sweeps.audit import attack_trial, audit_trial, audits_of
from sweeps.execution import session
from sweeps.heldout import DeclaredTest
from sweeps.planning.plan import plan_proposal
from sweeps.privacy.population import Population, RowKind
from sweeps.privacy.population_ledger import charge_audit, charge_reading
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.spec import load_spec
from sweeps.store.errors import PopulationSpent
from sweeps.store.records import Proposal, Settlement
from sweeps.store.store import open_store
from sweeps.util import fingerprint
from sweeps.util.workspace import Workspace
from tests.sweeps.private_people import people, spec_of  # noqa: F401  the fixture
from tests.sweeps.stores import of_population, plan, record
from trainables.data import SOURCES, splits

PEOPLE = Population.of("people", "linear", 3.0, 1e-2)
SGD = {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 100, "epochs": 2.0}
PRIVATE = DeclaredTest(
    counted="records",
    held=splits.TestSplit(n=100, private=True, share=0.2, id="id", key="test"),
    histogram=NoisyHistogram(cells=4, noise_multiplier=5.0, adjacency=Adjacency.ADD_REMOVE, unit_records=1),
)


@pytest.fixture
def store(tmp_path):
    found = open_store(f"sqlite:///{tmp_path}/store.db")
    found.make_population(PEOPLE)
    found.make_population(Population.of("covered", "gdp", 3.0, 1e-2, tau=1e-7))
    return found


def over(name, population="people"):
    sweep = of_population(name, population)
    privacy = {**sweep.spec.canonical["privacy"], "delta": 1e-5}
    return replace(sweep, spec=RecordedSpec({**sweep.spec.canonical, "privacy": privacy}))


def test_each_twin_costs_what_its_steps_cost_the_trial(store):
    charge_audit(store, over("a"), "a-0 one-run 1", plan(), 100, 2)
    charge_audit(store, record("b"), "b-0 one-run 1", plan(), 100, 2)
    (row,) = store.charges("people")
    assert (row.kind, row.sweep, row.charge) == (RowKind.AUDIT, "a", DPCharge(2.0, 2e-4))
    with pytest.raises(PopulationSpent, match="audit a-0 multi-run"):
        charge_audit(store, over("a"), "a-0 multi-run 2", plan(), 100, 2)


def test_a_reading_of_private_test_records_costs_its_histogram(store):
    charge_reading(store, over("a", "covered"), "a-0 1", PRIVATE)
    charge_reading(store, over("a", "covered"), "a-0 2", PRIVATE)
    charge_reading(store, over("a", "covered"), "a-0 3", replace(PRIVATE, histogram=None))
    rows = store.charges("covered")
    assert [one.kind for one in rows] == [RowKind.READING] * 2
    for row in rows:
        assert isinstance(row.charge, GDPCharge)
        assert row.charge.mu == pytest.approx(0.2, rel=2e-3)
    charge_reading(store, over("b"), "b-0 1", PRIVATE)
    (row,) = store.charges("people")
    assert row.charge.epsilon == pytest.approx(0.7237, abs=1e-2)


def test_an_audit_that_the_budget_does_not_hold_trains_nothing(tmp_path, people):  # noqa: F811
    spec = load_spec(
        {
            "name": "audited",
            "data": {**spec_of(people)["data"], "population": "people"},
            "systems": {"noisy-sgd": SGD},
            "privacy": {"epsilon": 2.0, "delta": 1e-5},
            "objectives": [{"metric": "accuracy"}],
            "search": {"sampler": "random", "trials": 1, "seed": 0},
        }
    )
    workspace = Workspace.at(tmp_path)
    opened = workspace.open_store(create=True)
    opened.make_population(PEOPLE)
    name = session.create(spec, workspace)
    source, options = SOURCES["table"], spec.data.options()
    proposed = {"system": "noisy-sgd", "target_epsilon": 2.0, **SGD}
    planned = plan_proposal(spec, proposed, source.facts(options), {})
    lease = opened.acquire(name)
    data = opened.data_fingerprint(source.load(options).fingerprint)
    opened.set_fingerprints(lease, {"code": fingerprint.code_digest(), "data": data})
    claim = planned.guarantee
    charge = DPCharge(claim.epsilon, claim.delta)
    opened.launch(lease, Proposal(number=0, config=proposed, seed=0), planned, planned.steps, charge)
    came = Settlement(
        executed_to=planned.steps, step=planned.steps, metrics={"accuracy": 0.5}, guarantee=claim, seconds=1.0
    )
    opened.settle(lease, f"{name}-0", 1, came)
    lease.release()
    with pytest.raises(PopulationSpent, match="exceed what is left"):
        audit_trial(workspace, name, "0")
    with pytest.raises(PopulationSpent, match="exceed what is left"):
        attack_trial(workspace, name, "0", 4)
    assert audits_of(workspace.folder(name)) == []
    assert len(opened.charges("people")) == 1
