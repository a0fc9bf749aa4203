"""Stores that earlier versions really wrote: they open and rank, claims are judged by today's rules, and what may not
go on is refused by name. What `show` and `pareto` say of them is a part of the corpus (`stores`).

    before-metrics-declared     commit f16277b: any metric left a trial, and might lead a search
    before-mechanisms-as-values commit f3a420d: the corpus's own

Each holds four sweeps: `toy` (stopped after four of six trials), `digits` and `answers` (finished), `attack` (stopped;
led by a metric that reads training records).
"""

from __future__ import annotations

import shutil

import pytest

from tests.corpus import doors
from tests.corpus.freeze import STORES

NAMES = sorted(path.stem for path in STORES.glob("*.db"))


@pytest.fixture(params=NAMES)
def root(request, tmp_path):
    return placed(request.param, tmp_path)


def placed(store, folder):
    """The folder with a copy of the store, and the folders of its sweeps as somebody would bring them along."""
    shutil.copy(STORES / f"{store}.db", folder / "sweeps.db")
    for sweep in doors.names(folder):
        (folder / sweep / "trials").mkdir(parents=True)
    return folder


def test_there_is_a_store_of_each_side_of_both_rebuilds():
    assert NAMES == ["before-mechanisms-as-values", "before-metrics-declared"]


def test_every_recorded_claim_is_what_its_recorded_events_cost_today(root):
    checked = 0
    for claim, recounted in doors.recorded_claims(root):
        assert claim == pytest.approx(recounted, rel=1e-12)
        checked += 1
    assert checked == 10


def test_a_search_that_raw_records_led_is_not_covered(root):
    panels = doors.views("attack", root)["front"]["panels"]
    assert [panel["label"]["status"] for panel in panels] == ["not-covered"]


def test_a_claim_that_was_refuted_since_or_before_is_shown_as_that(root):
    panels = doors.views("answers", root, "status")["front"]["panels"]
    assert {panel["label"]["status"] for panel in panels} == {"proved", "refuted"}


def test_what_todays_spec_refuses_is_not_resumed(tmp_path):
    root = placed("before-metrics-declared", tmp_path)
    code, text = doors.said("resume", "attack", "--root", str(root), "--accept", "code")
    assert code == 2
    assert "membership_auc" in text
    assert "records_are_public" in text


def test_other_code_is_named_and_accepted_by_name(root):
    code, text = doors.said("resume", "digits", "--root", str(root))
    assert code == 2
    assert "code" in text
    assert "--accept code" in text
    code, text = doors.said("resume", "digits", "--root", str(root), "--accept", "code")
    assert code == 0, text
