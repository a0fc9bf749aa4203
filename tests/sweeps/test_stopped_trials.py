"""What a stopped trial claims: the whole plan. A stop chosen from results breaks the prefix's own number, exactly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from scipy import integrate, stats

from dpcore.events import Adjacency, Gaussian
from dpcore.gdp import eps_gdp
from dpcore.guarantee import Notion
from dpcore.mechanisms.protocol import Scheduled
from sweeps.privacy.charge import ex_post
from sweeps.privacy.release import PublishedStore
from sweeps.privacy.wording import stopped_lines
from sweeps.reporting.html import report_page
from sweeps.reporting.summary import SweepSummary
from sweeps.store.records import Proposal, Settlement
from tests.sweeps.view_sweeps import config_of, new_sweep, plan
from trainables.system import PrivacyPlan

DELTA = 1e-5
MU, SHARE = 1.0, 0.25
"""The whole plan as one Gaussian, and the share of its steps that lie in the first of two rungs."""
FIRST, REST, WHOLE = MU * math.sqrt(SHARE), MU * math.sqrt(1 - SHARE), MU

Epsilons = tuple[float, float]
"""What is stated for a trial that stopped at the first rung, and for one that went on to the end."""


def beyond(epsilon: float, mu: float) -> float:
    """delta(epsilon) of a Gaussian release, of any sign of epsilon (Dong, Roth & Su 2022, corollary 2.13)."""
    shift = epsilon / mu
    return float(stats.norm.cdf(mu / 2 - shift) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - shift))


def excess(stated: Epsilons, stops: Callable[[float], bool], at: float) -> float:
    """What outcomes exceed their stated epsilon by: integral of (p - exp(stated) q)+ over the path and its stop.

    Two neighbouring sums one clip apart; p and q are the laws of the released path. Under p the loss of the first rung
    is normal with mean FIRST^2/2 and deviation FIRST, that of the second the same with REST, independent. A stated
    (epsilon, delta) claim, whichever epsilon came out, holds exactly when this is at most delta.

    stops  whether the trial stops at the first rung, by the loss there; it changes its mind at `at` alone
    """
    law = stats.norm(FIRST**2 / 2, FIRST)

    def stopped(loss: float) -> float:
        return law.pdf(loss) * max(0.0, -math.expm1(stated[0] - loss)) if stops(loss) else 0.0

    def gone_on(loss: float) -> float:
        return 0.0 if stops(loss) else law.pdf(loss) * beyond(stated[1] - loss, REST)

    ends = [FIRST**2 / 2 - 12 * FIRST, at, FIRST**2 / 2 + 12 * FIRST]
    return sum(
        integrate.quad(one, low, high, limit=400, epsabs=1e-16, epsrel=1e-9)[0]
        for one in (stopped, gone_on)
        for low, high in pairwise(ends)
    )


def prefixes(delta: float) -> Epsilons:
    """Each rung's own number at `delta`."""
    return eps_gdp(FIRST, delta), eps_gdp(WHOLE, delta)


def worst_stop(stated: Epsilons) -> tuple[Callable[[float], bool], float]:
    """Stop where more is revealed already than was stated for stopping there: a rule over what was released."""
    return (lambda loss: loss > stated[0]), stated[0]


def test_without_a_choice_the_stated_number_is_exact() -> None:
    """The oracle: a stop fixed beforehand spends exactly delta."""
    first, whole = prefixes(DELTA)
    assert excess((first, whole), lambda loss: True, 0.0) == pytest.approx(DELTA, rel=1e-4)
    assert excess((first, whole), lambda loss: False, 0.0) == pytest.approx(DELTA, rel=1e-4)


def test_a_stop_chosen_from_results_breaks_the_prefixs_own_number() -> None:
    """What was claimed before: the number of whichever prefix came out, at the plan's delta. Nearly twice delta."""
    stated = prefixes(DELTA)
    assert excess(stated, *worst_stop(stated)) > 1.5 * DELTA


def test_the_whole_plans_claim_holds_under_every_stop() -> None:
    whole = eps_gdp(WHOLE, DELTA)
    for at in (-1.0, 0.0, 0.5, 1.0, prefixes(DELTA)[0], whole):
        for stops in (lambda loss, at=at: loss > at, lambda loss, at=at: loss < at):
            assert excess((whole, whole), stops, at) <= DELTA * (1 + 1e-6)


def test_each_prefix_at_its_share_of_delta_holds_under_the_worst_stop() -> None:
    stated = prefixes(DELTA / 2)
    rule, at = worst_stop(stated)
    assert 0.75 * DELTA < excess(stated, rule, at) <= DELTA
    # Nor does any other threshold break it.
    for other in (0.0, 0.5, 1.0, 2.0, 3.0):
        assert excess(stated, lambda loss, at=other: loss > at, other) <= DELTA


def planned(steps: int = 8) -> PrivacyPlan:
    """Equal Gaussian steps that are MU together, the first quarter of them FIRST."""
    event = Gaussian(noise_multiplier=math.sqrt(steps) / MU, adjacency=Adjacency.ADD_REMOVE)
    config = config_of(0)
    return replace(plan(config, eps_gdp(MU, DELTA)), mechanism=Scheduled(schedule=((event, steps),)))


def test_what_is_shown_of_a_prefix_is_its_number_at_its_share_of_delta() -> None:
    beside = ex_post(planned(), 2, 2)
    assert beside is not None
    assert beside.epsilon == pytest.approx(eps_gdp(FIRST, DELTA / 2), rel=1e-3)
    assert beside.epsilon >= eps_gdp(FIRST, DELTA / 2) * (1 - 1e-9)
    assert (beside.notion, beside.delta, beside.epsilon_lower) == (Notion.EX_POST, DELTA, None)
    # More rungs, more places to stop at: more to pay for each.
    more = ex_post(planned(), 2, 5)
    assert more is not None
    assert more.epsilon > beside.epsilon


ASHA = {"method": "asha", "reduction": 4, "rungs": 2}


def test_nothing_is_known_of_a_prefix_while_a_trial_goes_on_or_where_it_failed_later(tmp_path) -> None:
    """That it failed at step 5, and what its curve told on the way, comes of steps that the prefix of 2 leaves out."""
    store = new_sweep(tmp_path, early_stopping=ASHA)
    lease = store.acquire("views")
    store.launch(lease, Proposal(number=0, config=config_of(0), seed=0), planned(), 2)
    settled = {"executed_to": 2, "step": 2, "metrics": {"accuracy": 0.5}, "seconds": 1.0}
    store.settle(lease, "views-0", 1, Settlement(guarantee=planned().guarantee, **settled))

    def said() -> list[bool]:
        page, (record,) = (
            report_page(SweepSummary(PublishedStore(store), "views", count_all=True)),
            store.trials("views"),
        )
        assert record.step == 2
        return ["ex-post-privacy" in page, "early, by results" in page, bool([*stopped_lines([record], True)])]

    assert said() == [True, True, True]
    store.relaunch(lease, "views-0", 2, 8)
    assert said() == [False, False, False]
    store.fail(lease, "views-0", 2, 5, "its loss is nan")
    assert said() == [False, False, False]
    lease.release()
    store.close()
