"""A sealed search that released nothing has spent its price: every total and page that could leave it out says so."""

from __future__ import annotations

import html
from typing import Any

from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.totals import joint_totals
from sweeps.reporting.html import write_report
from tests.sweeps.sealed_searches import Search
from tests.sweeps.test_first_success import to_reach


def ended(root, **changes: Any) -> Search:
    search = Search(root, **changes)
    work = search.begin()
    search.serve(work)
    search.release(work)
    return search


def test_a_search_that_released_nothing_is_not_left_out_of_a_total_with_another(tmp_path):
    """Left out, two searches of epsilon 3 were said to cost 3 together."""
    silent, other = ended(tmp_path, **to_reach(1e6)), ended(tmp_path, name="other")
    store = PublishedStore(other.store)
    assert store.trials(silent.name) == []
    [found] = joint_totals(store, {name: store.trials(name) for name in (silent.name, other.name)})
    assert found.procedure is None
    assert "adds to others by sums alone" in found.uncounted


def test_its_page_does_not_say_that_nothing_was_launched(tmp_path):
    search = ended(tmp_path, **to_reach(1e6))
    page = html.unescape(write_report(PublishedStore(search.store), search.name, tmp_path / "r.html").read_text())
    assert "its whole budget is spent" in page
    assert "Nothing has been launched yet" not in page
