"""Budgets and what they come to, as people read them: of no number that something is held to is a digit below it."""

from __future__ import annotations

import re

import pytest

from dpcore.rounding import budget_text, epsilon_text
from sweeps.planning.preview import spread_lines
from sweeps.privacy.published_store import PublishedStore
from sweeps.reporting import trials
from sweeps.reporting.front import sweep_front
from sweeps.reporting.html import report_page
from sweeps.reporting.summary import SweepSummary
from sweeps.reporting.tables import columns
from sweeps.spec.sweep_budget import budget_of
from sweeps.store.records import Proposal, Settlement
from tests.sweeps.budget.test_sweep_budget import spec
from tests.sweeps.view_sweeps import config_of, guarantee, new_sweep, plan

TARGET = 1.0000004
"""To six digits, 1 is nearest, and too small."""


@pytest.mark.parametrize("epsilon", [2.0, 2.5, 3.0, 3.7, 4.1])
@pytest.mark.parametrize("filter", [{}, {"filter": "renyi", "order": 12.0}])
def test_what_check_says_that_a_sweep_may_spend_is_no_less_than_that(epsilon, filter):
    one = spec({"epsilon": epsilon} | filter)
    said = float(re.search(r"(?:mu|divergence) ([\d.]+)", spread_lines(one)[0])[1])
    budget = budget_of(one)
    whole = budget.total if filter else budget.total**0.5
    assert whole <= said < 1.002 * whole


def test_the_budget_of_a_trial_is_not_shown_below_it(tmp_path):
    store = new_sweep(tmp_path)
    lease = store.acquire("views")
    for number, target in enumerate((TARGET, 2.0)):
        config = config_of(number) | {"target_epsilon": target}
        store.launch(lease, Proposal(number=number, config=config, seed=0), plan(config, target), 10)
        metrics, claim = {"accuracy": 0.5 + number / 10, "epsilon": 0.9 * target}, guarantee(0.9 * target)
        came = Settlement(executed_to=10, step=10, metrics=metrics, guarantee=claim, seconds=1.0)
        store.settle(lease, f"views-{number}", 1, came)
    front = sweep_front(PublishedStore(store), "views")
    shown = {one.header: one.cells for one in columns(front, front.panels[0], 10)}
    assert "target_epsilon" not in shown
    assert '<td class="n">1.001</td>' in report_page(SweepSummary.load(PublishedStore(store), "views", count_all=True))
    assert trials._values({"epsilon": TARGET, "delta": 1.0000004e-6}) == "epsilon 1.00001, delta 1.00001e-06"
    lease.release()
    store.close()


def test_a_budget_is_named_by_all_of_its_digits():
    assert [*map(budget_text, (8.0, 0.1, 3.0000004))] == ["8", "0.1", "3.0000004"]


def test_a_claim_is_never_shown_smaller_than_it_is():
    assert [epsilon_text(value) for value in (1.0, 7.99201, 0.99991, 12345.6, 0.0)] == ["1", "7.993", "1", "12350", "0"]
    assert (epsilon_text(float("inf")), epsilon_text(7.9929, up=False)) == ("inf", "7.992")
