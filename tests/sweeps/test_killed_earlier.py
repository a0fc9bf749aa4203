"""A sweep whose controller of an earlier release (commit f3a420d) was killed in the middle goes on with today's code.

`files/killed-before-mechanisms-as-values.db` is what it left: the toy, 15 of 60 trials complete, one running. By the
command line it is refused until `--accept code` (`tests.corpus.test_old_stores`); here it runs on without Ray.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sweeps.execution.controller import Controller
from sweeps.privacy.ledger import spending
from sweeps.search import Proposer
from sweeps.spec import load_spec
from sweeps.store.records import TrialState
from sweeps.store.store import Store
from sweeps.util.workspace import Workspace
from trainables.data import SOURCES
from trainables.system import TrialGroup
from trainables.worker.ray_trial import group_from_json, group_to_json
from trainables.worker.trial import run_group

LEFT = Path(__file__).parent / "files" / "killed-before-mechanisms-as-values.db"
TRIALS = 20
"""Of the sixty that its spec asks for."""


def gone_on(workspace: Workspace, store: Store) -> None:
    """Today's controller and worker, to the end."""
    recorded = store.sweep("old").spec.canonical
    spec = load_spec({**recorded, "search": {**recorded["search"], "trials": TRIALS}})
    data = SOURCES[spec.data.source].load(spec.data.options())
    controller = Controller(
        store=store,
        lease=store.acquire("old"),
        sweep="old",
        spec=spec,
        facts=data.facts,
        proposer=Proposer(spec),
        trials=workspace.trials("old"),
        calibrations={},
    )
    controller.recover()
    while isinstance(decision := controller.decide(), TrialGroup):
        group = group_from_json(group_to_json(decision))
        controller.outcomes.finished(group, run_group(group, data, controller.trials, bytes(32)))


@pytest.mark.parametrize("begun", [False, True])
def test_it_goes_on_and_charges_nothing_twice(tmp_path, begun):
    shutil.copy(LEFT, tmp_path / "sweeps.db")
    workspace = Workspace.at(tmp_path)
    store = workspace.open_store()
    before, entries = store.trials("old"), store.ledger("old")
    running = before[-1]
    assert [one.state for one in before] == [TrialState.COMPLETE] * 15 + [TrialState.RUNNING]
    if not begun:
        # The mark of a launch whose worker had not begun. Without it nothing is known, and all of it counts.
        folder = workspace.trials("old").child(running.key).child("1")
        folder.write("reserved", b"", durable=False)
    gone_on(workspace, store)
    after = store.trials("old")
    assert [one.state for one in after] == [TrialState.COMPLETE] * TRIALS
    assert after[:15] == before[:15]
    assert store.ledger("old")[:15] == entries[:15]
    spent = spending(store.ledger("old"))
    assert {key for key, own in spent.items() if own.excess} == ({running.key} if begun else set())
    assert all(spent[one.key].path == one.planned_steps for one in after)
    assert spent[running.key].executed == running.planned_steps * (2 if begun else 1)
    assert after[15].plan == running.plan
    assert after[15].guarantee == running.plan.guarantee
    store.close()
