"""Modes side by side: noise as the theorems print it, chances, what a spec refuses, and how long it takes."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import sweeps
from dpcore.calibrate import NOISE, boldest
from dpcore.events import Gaussian
from dpcore.gdp import mu_gdp
from dpcore.selection.best import least_shift
from dpcore.selection.counts import geometric, logarithmic
from dpcore.selection.profiles import EventProfile, epsilon_at
from sweeps.privacy.charge import NEAR
from sweeps.selection import compare
from sweeps.selection.compare import (
    KEPT,
    MEAN,
    TOP,
    BudgetFor,
    NotPlanned,
    ReferenceConfig,
    capped,
    compared,
    default_chance,
    laws_at,
)
from sweeps.spec.parse import public_facts
from tests.sweeps.test_sealed_planning import rehearsed

CLOSE = 2 * NEAR
"""Of a noise whose plan spends its budget to within NEAR."""


def middle(**changes: object) -> ReferenceConfig:
    """Of the teaching system: one Gaussian release, unless more steps are given."""
    changed = {"systems.noisy-mean.steps": 1, "privacy.epsilon": 3.0, "privacy.delta": 1e-5, **changes}
    spec = sweeps.load("toy", changes=changed)
    return ReferenceConfig.of(spec, public_facts(spec), {})


def sgd(epsilon: float = 3.0, delta: float = 1e-5) -> ReferenceConfig:
    """DP-SGD of rate .01 and 1000 steps."""
    spec = sweeps.load(
        "quickstart",
        changes={
            "privacy.epsilon": epsilon,
            "privacy.delta": delta,
            "systems.noisy-sgd.batch_size": 100,
            "systems.noisy-sgd.epochs": 10,
        },
    )
    return ReferenceConfig.of(spec, replace(public_facts(spec), n=10_000), {})


def noise(row: object) -> float:
    (found,) = row.noise  # type: ignore[attr-defined]
    return float(found)


def test_one_gaussian_release_needs_the_printed_noise() -> None:
    """private_search.md section 2: public and compose, for (3, 1e-5)."""
    assert noise(compare.one_run(middle())) == pytest.approx(1.391, abs=6e-4)
    for trials, printed in ((10, 4.397), (100, 13.906)):
        row = compare.composed(middle(**{"search.trials": trials}))
        assert printed * (1 - 1e-4) <= noise(row) <= printed * (1 + CLOSE)
        assert row.chance == pytest.approx(1 - 0.9**trials)
        assert 3.0 * (1 - CLOSE) <= row.epsilon <= 3.0


@pytest.mark.parametrize(
    ("at", "law", "printed"),
    [
        *((middle, logarithmic(10), 1.9612), (middle, geometric(10), 2.0915), (middle, geometric(27), 2.3867)),
        *((middle, geometric(100), 2.7587), (sgd, geometric(10), 0.9786), (sgd, geometric(27), 1.0526)),
        (sgd, geometric(100), 1.1501),
    ],
)
def test_the_best_needs_the_printed_noise(at, law, printed) -> None:
    """private_search.md section 1c, tight form, for (3, 1e-5); DP-SGD of q = .01, T = 1000."""
    assert printed * (1 - 2e-4) <= noise(compare.best(at(), "this", law)) <= printed * (1 + CLOSE)


def test_the_first_success_needs_what_the_threshold_needs() -> None:
    """For success at the whole of delta private_search.md prints 1.991220; here a 28th of it is for word of none."""

    def price(sigma: float) -> float:
        law, trial = geometric(MEAN), EventProfile(Gaussian(noise_multiplier=sigma))
        return epsilon_at(trial, 1e-5 / (1 + law.mean)) + least_shift(trial.delta, law.odds)

    least = boldest(NOISE, lambda sigma: price(sigma) - 3.0, 1.0)
    assert 1.991220 < least < 2.01
    row = compare.first(middle(), default_chance())
    assert least * (1 - 1e-4) <= noise(row) <= least * (1 + CLOSE)
    assert row.epsilon <= 3.0


def test_a_filter_costs_a_little_more_than_composition_and_lets_more_follow_from_results() -> None:
    at = middle(**{"search.trials": 10})
    exact, filtered = noise(compare.composed(at)), noise(compare.filtered(at))
    assert exact < filtered < 1.04 * exact
    first, last = compare.front_loaded(at).noise
    assert first < filtered < last


def test_halving_buys_noise_where_trials_have_steps() -> None:
    at = middle(**{"search.trials": 27, "systems.noisy-mean.steps": 54})
    halved = compare.halving(at)
    # 27, 9, 3 and 1 trials run 2, 4, 12 and 36 steps; mu^2 of a step is 1 / noise^2.
    exact = math.sqrt(27 * 2 + 9 * 4 + 3 * 12 + 36) / mu_gdp(3.0, 0.9e-5)
    assert exact < noise(halved) < 1.02 * exact
    assert noise(halved) < 0.7 * noise(compare.filtered(at))
    assert halved.work[1] < 0.3 * compare.filtered(at).work[1]


def test_holdout_spends_the_whole_budget_on_both_parts() -> None:
    at = sgd()
    row = compare.holdout(at, geometric(MEAN))
    assert 2.9 < row.epsilon <= 3.0
    assert row.noise[0] > noise(compare.one_run(at)), "fewer records, a larger rate"
    assert "data.part" in row.says
    assert row.work[0] < compare.best(at, "this", geometric(MEAN)).work[0]


def test_under_replace_one_no_price_is_told_of_parts_that_an_exchange_may_both_change() -> None:
    """A record of one part may give way to a record of the other: then what both cost adds, and is not the larger."""
    spec = sweeps.load("quickstart", changes={"privacy.adjacency": "replace-one"})
    with pytest.raises(NotPlanned, match="may change both parts"):
        compare.holdout(ReferenceConfig.of(spec, public_facts(spec), {}), geometric(MEAN))


def test_rows_keep_their_budget_and_say_what_it_is_for() -> None:
    found = compared(sweeps.load("toy"))
    for row in found.rows:
        assert row.epsilon <= found.epsilon or row.budget_for is BudgetFor.EACH_TRIAL
        assert row.expected <= row.most
    assert found.row("trial").epsilon > 5 * found.epsilon
    default = [found.row(f"best, {law}") for law in ("geometric", "logarithmic", "Poisson", "binomial")]
    assert max(row.chance for row in default) - min(row.chance for row in default) < 0.02


def test_the_law_of_a_spec_sets_the_chance_that_laws_are_compared_at() -> None:
    changes = {
        "privacy.scope": "sweep",
        "privacy.release": "best",
        "privacy.epsilon": 1.0,
        "objectives": [{"metric": "expected_error"}],
        "selection": {"mean": 81, "deadline_minutes": 5},
        "search.trials": 200,
    }
    found = compared(sweeps.load("toy", changes=changes))
    assert found.row("best, geometric").chance == pytest.approx(0.9, abs=0.01)
    (logarithmic,) = found.without
    assert logarithmic.mode == "best, logarithmic"


def test_both_faces_print_the_same(command) -> None:
    printed = json.loads(command("check", "toy", "--modes", "--json", "--no-rehearsal")[1])["modes"]
    found = sweeps.check("toy", modes=True, rehearsal=False)
    assert printed == json.loads(json.dumps(found.modes.to_dict()))
    assert compare.text(found.modes) in str(found)


def test_a_rehearsal_tells_the_time() -> None:
    """64 records in 0.032 s, and two trials at once."""
    at = middle()
    spec = at.spec.model_copy(update={"resources": at.spec.resources.model_copy(update={"concurrency": 2})})
    found = compared(spec, at.facts, rehearsed(spec, 0.032))
    row = found.row("best, geometric")
    assert found.hours(row) == pytest.approx(tuple(work * 0.0005 / 2 / 3600 for work in row.work))
    assert row.work[1] == 80 * found.row("one run").work[0]


def test_a_front_is_priced_by_the_orders_that_are_asked_for() -> None:
    two, three = (compare.front(middle(), geometric(MEAN), orders) for orders in (2, 3))
    assert (two.mode, three.mode) == ("front, 2 orders", "front, 3 orders")
    # private_search.md section 1g's rule for Gaussian trials, computed in tests/dpcore/selection/test_front.py.
    assert noise(two) == pytest.approx(3.8010905, rel=CLOSE)
    assert noise(three) == pytest.approx(5.2010820, rel=CLOSE)


# Laws of the number of trials at equal chances: the means of private_search.md section 1c, whose prices are those of
# tests/dpcore/selection/test_best.py.

MEANS = [
    (0.5, "geometric", 9.0),
    (0.75, "logarithmic", 1082),
    (0.75, "negative binomial, shape .5", 45),
    (0.75, "geometric", 27),
    (0.75, "Poisson", 13.9),
    (0.9, "geometric", 81),
]


@pytest.mark.parametrize(("chance", "name", "mean"), MEANS)
def test_laws_at_equal_chances(chance, name, mean):
    law = laws_at(chance)[name]
    assert law.reach(TOP) == pytest.approx(chance, abs=1e-9)
    assert law.mean == pytest.approx(mean, rel=0.012)


def test_a_cap_keeps_nearly_all_of_a_law_and_a_hundredth_less_of_its_chance():
    for law in laws_at(0.75).values():
        drawn = capped(law)
        assert law.pmf(np.arange(1, int(drawn.largest) + 1)).sum() >= KEPT - 1e-9
        assert (0.75 - (1 - KEPT)) / KEPT - 1e-9 <= drawn.reach(TOP) < 0.75
    assert int(capped(geometric(27)).largest) == 80
