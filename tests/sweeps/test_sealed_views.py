"""What reports, certificates, quotes and ledgers say of a sealed search that is over, and of what it spent."""

from __future__ import annotations

from contextlib import closing

import sweeps
from dpcore.selection.filters import DPCharge
from sweeps.execution.runners import SelectionRunner
from sweeps.privacy.population import Population, RowKind
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.quoting import quote_of_claim
from sweeps.reporting.html import write_report
from sweeps.reporting.summary import shown
from sweeps.selection.run import GONE, NOTHING_RELEASED
from sweeps.store.records import SweepState
from sweeps.util.workspace import Workspace
from tests.sweeps.sealed_searches import SPEC, Search


def test_views_say_that_the_price_covers_the_search(tmp_path):
    search = Search(tmp_path)
    work = search.begin()
    search.serve(work)
    search.release(work)
    text = repr(shown(search.name, search.workspace).to_dict())
    assert shown(search.name, search.workspace).ledger.procedure.is_claim
    assert "'accountant': 'private-selection'" in text
    page = write_report(PublishedStore(search.store), search.name, tmp_path / "report.html").read_text()
    assert "Claim: the whole search" in page
    assert "It leaves out the search" not in page
    assert "the whole search, of which one trial alone leaves" in page.lower()
    assert quote_of_claim(search.store.trials(search.name)[0].guarantee).words == "as the whole search's"
    assert "secret number of trials (geometric, mean 3 before its cap at 8)" in repr(
        PublishedStore(search.store).trials(search.name)[0].guarantee
    )
    assert "one trial by itself" not in page
    # The epsilon of this choice includes the choice, and one trial is no front.
    assert "does not include that" not in page
    assert "Pareto front" not in page
    assert "Which knobs matter" not in page
    assert "Progress" not in page
    won = search.store.trials(search.name)[0]
    left = page.split("What left", 1)[1].split("What is guaranteed", 1)[0]
    assert "the best trial of a secret number of them (geometric, mean 3 before its cap at 8)" in left.lower()
    assert f"{won.metrics['estimate']:.6g}" in left
    assert f"clip {won.config['clip']:.4g}" in left


def test_its_certificate_says_how_the_prior_was_chosen_as_the_spec_does(tmp_path):
    search = Search(tmp_path, selection={**SPEC["selection"], "chosen_by": "after two runs that nobody charged"})
    work = search.begin()
    search.serve(work)
    search.release(work)
    sweeps.new_key(tmp_path / "key.pem")
    answers = {"key": tmp_path / "key.pem", "approved_by": "Ada", "because": "no record of these is anybody's"}
    made = sweeps.open(search.name, root=search.workspace.root).certify(**answers)
    assert made.body.searched.how_chosen == "after two runs that nobody charged"


def test_the_page_of_a_search_without_a_release_says_so(tmp_path):
    search = Search(tmp_path)
    assert (
        "Nothing has left yet"
        in write_report(PublishedStore(search.store), search.name, tmp_path / "r.html").read_text()
    )
    search.release(search.begin())
    assert (
        "no trial was done in time"
        in write_report(PublishedStore(search.store), search.name, tmp_path / "r.html").read_text()
    )


def test_a_search_without_a_release_has_spent_its_price(tmp_path):
    search = Search(tmp_path)
    work = search.begin()
    assert not search.release(work)
    said = "\n".join(shown(search.name, search.workspace).lines())
    assert "its whole budget is spent" in said
    assert "0 steps charged in 0 launches of what left; what else ran is told nowhere" in said
    runner = SelectionRunner(search.store, search.store.acquire(search.name), search.spec, True, None)
    assert runner.reasons(SweepState.FINISHED) == (NOTHING_RELEASED,)
    runner.over = False
    assert runner.reasons(SweepState.FINISHED) == (GONE,)


def test_a_population_pays_for_the_whole_search_in_one_row(tmp_path):
    with closing(Workspace.at(tmp_path).open_store(create=True)) as store:
        store.make_population(Population.of("people", "linear", 5.0, 1e-4))
    search = Search(tmp_path, data={**SPEC["data"], "population": "people"})
    for _ in range(2):
        search.prepared()
    [row] = search.store.charges("people")
    assert (row.kind, row.charge) == (RowKind.SWEEP, DPCharge(3.0, 1e-5))
    work = search.begin()
    search.serve(work)
    assert search.release(work)
    assert len(search.store.charges("people")) == 1
