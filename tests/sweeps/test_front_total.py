"""The total of the procedure stands under a front of the store in every form, and is the ledger's own number."""

from __future__ import annotations

import html
import json

import pytest

from dpcore.rounding import epsilon_text
from sweeps.privacy import totals as ledger
from sweeps.privacy.ledger import Procedure
from sweeps.privacy.published_store import PublishedStore
from sweeps.reporting.front import sweep_front
from sweeps.reporting.tables import FORMATS, render
from sweeps.store.store import Store
from tests.sweeps.view_sweeps import mixed_sweep


@pytest.fixture
def store(tmp_path):
    """Twelve finished trials, one failed after three steps, one lost and to be charged whole."""
    opened = mixed_sweep(tmp_path)
    yield opened
    opened.close()


def counted(store: Store) -> Procedure:
    return ledger.summary(store.trials("views"), store.ledger("views"), ()).procedure


def test_the_note_is_the_ledgers_total(store):
    found = sweep_front(PublishedStore(store), "views", total=True)
    assert found.procedure == counted(store)
    assert found.note == (
        f"All trials together: epsilon {epsilon_text(counted(store).guarantee.epsilon)} at delta 1e-05, "
        "differential-privacy, add-remove, per record, by pld, status: proved (3 assumptions). May be quoted. "
        "It covers all results of this sweep and the choice of the best, but no running times and memory. 1 trial that "
        "failed counts with all planned steps: results may have decided where that ended."
    )
    # Fourteen launches: more than what the best of them claims, and more than all those on the front.
    assert found.procedure.guarantee.epsilon > max(trial.guarantee.epsilon for trial in found.panels[0].records)
    assert sweep_front(PublishedStore(store), "views").note == ""


@pytest.mark.parametrize("form", ["table", "json", "html"])
def test_every_form_that_is_read_shows_it(store, form):
    found = sweep_front(PublishedStore(store), "views", total=True)
    content = render(found, form)
    assert form in FORMATS
    text = html.unescape(" ".join(content.split()))
    assert found.note in (json.loads(content)["note"] if form == "json" else text)
    assert found.note not in render(sweep_front(PublishedStore(store), "views"), form)
