"""What an epsilon counts as beside another: never less than the claim, an order, and the same wherever trials meet."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee, Status, epsilon_text
from sweeps.examples import load
from sweeps.planning.plan import plan_proposal
from sweeps.planning.preview import spread_lines
from sweeps.privacy.ledger import GRID_DIGITS, USED_UP, compared_epsilon, on_grid
from sweeps.reporting.front import FrontAxis, front, hypervolume, kinds
from sweeps.search.asha import objective_values
from sweeps.search.optuna_sampler import kept
from sweeps.search.space import Space
from sweeps.spec.parse import public_facts
from sweeps.spec.sections import Reference
from sweeps.spec.sweep_budget import budget_of
from sweeps.store.records import Proposal, TrialRecord, TrialState
from tests.sweeps import toys, view_sweeps
from tests.sweeps.budget.test_sweep_budget import spec
from trainables import planning
from trainables.registry import SYSTEMS
from trainables.system import PrivacyPlan

ACCURACY, EPSILON = FrontAxis("accuracy", "maximize"), FrontAxis("epsilon", "minimize")
TARGET = FrontAxis("target_epsilon", "minimize")

QUICK = """
name: quick
data: {source: digits}
systems:
  noisy-sgd: {model: linear, batch_size: 64, clip_norm: 1.0, learning_rate: 0.5, epochs: {int_uniform: [3, 9]}}
privacy: {epsilon: 1.0, delta: 1.0e-4}
objectives: [{metric: accuracy}, {metric: epsilon}]
search: {sampler: random, trials: 4}
"""


def claim(epsilon: float, aimed_at: float | None = None, **changes: Any) -> Guarantee:
    return view_sweeps.guarantee(epsilon, aimed_at=aimed_at, **changes)


def trial(number: int, guarantee: Guarantee, accuracy: float, budget: float = 1.0, system: str = "noisy-sgd"):
    begun = Proposal(number=number, config={"system": system, "target_epsilon": budget}, seed=number)
    planned = view_sweeps.plan({"system": system}, budget, steps=3)
    told = {"metrics": {"accuracy": accuracy}, "guarantee": guarantee, "plan": planned, "step": 3}
    return TrialRecord.of("s", begun, TrialState.COMPLETE, **told)


@pytest.fixture(scope="module")
def quickstart() -> list[TrialRecord]:
    """Four trials of one budget, planned as a sweep plans them, each a little more accurate than the one before."""
    spec = load(QUICK)
    space, facts = Space.of(spec), public_facts(spec)
    configs = [space.config(space.branches[0], 1.0, {"epochs": epochs}) for epochs in (3, 5, 7, 9)]
    plans = [plan_proposal(spec, config, facts, {}) for config in configs]
    assert all(isinstance(plan, PrivacyPlan) for plan in plans)
    return [
        trial(n, plan.guarantee, 0.8 + n / 100, system="noisy-sgd")  # type: ignore[union-attr]
        for n, plan in enumerate(plans)
    ]


def test_beaten_trials_are_not_on_the_front(quickstart):
    claims = [record.guarantee.epsilon for record in quickstart]
    # The very case: calibration leaves each its own hair below the budget.
    assert len(set(claims)) == 4
    assert all(0.99 < epsilon < 1 for epsilon in claims)
    found = front(
        quickstart, [ACCURACY, EPSILON], reference={"accuracy": Reference(value=0.0), "epsilon": Reference(value=2.0)}
    )
    (panel,) = found.panels
    assert found.keys() == ["s-3"]
    # What is printed is the claim; what is compared is the budget, in the volume too.
    assert panel.values[:, 1].tolist() == claims
    assert panel.compared[:, 1].tolist() == [1.0] * 4
    assert panel.hypervolume == pytest.approx(0.83, abs=1e-12)
    (kind,) = kinds(panel, [ACCURACY, EPSILON], across=1, up=0)
    assert kind.own.tolist() == [3]


def test_the_sampler_sees_what_the_front_sees(quickstart):
    spec = load(QUICK)
    assert [objective_values(spec, record)[1] for record in quickstart] == [1.0] * 4  # type: ignore[index]
    assert [record.key for record in kept(spec, quickstart)] == ["s-3"]


def oracle(epsilon: float) -> float:
    """The same grid by decimal arithmetic alone."""
    return float(Context(prec=GRID_DIGITS, rounding=ROUND_CEILING).create_decimal(Decimal(repr(epsilon))))


epsilons = st.floats(min_value=0.0, allow_nan=False) | st.integers(1, 99_999).map(lambda n: n / 1000)


@given(epsilons)
@example(1.1)
@example(math.nextafter(1.1, 2))
@example(0.999490)
@example(9.99)
@example(9.991)
@example(1000.0)
@example(5e-324)
@example(1.7976931348623157e308)
def test_it_is_the_next_decimal_number_of_three_digits_up(epsilon: float):
    assert on_grid(epsilon) == (oracle(epsilon) if epsilon and math.isfinite(epsilon) else epsilon)


@st.composite
def claims(draw: st.DrawFn) -> dict[str, Any]:
    budget = draw(st.sampled_from([0.5, 1.0, 1.0005, 3.0]))
    share = draw(st.sampled_from([0.3, 0.98, USED_UP, 0.995, 0.99949, 0.999493, 1.0]) | st.floats(0.5, 1.0))
    return claim(budget * share, draw(st.sampled_from([None, budget])))


@given(claims())
def test_nobody_gains_by_it(guarantee: Guarantee):
    epsilon = guarantee.epsilon
    assert epsilon <= compared_epsilon(guarantee) <= epsilon * 1.0102


@pytest.mark.parametrize(
    ("epsilon", "aimed_at", "counts_as"),
    [
        (0.99949, 1.0, 1.0),
        (0.9949, 1.0, 1.0),  # off the grid of the budget, still the budget
        (0.99949, None, 1.0),
        (0.9949, None, 0.995),
        (0.4001, 8.0, 0.401),  # the noise could not fall further: not a trial that spent eight
        (1.0, 1.0, 1.0),
        (1.0007, 1.0008, 1.0008),  # a budget off the grid
    ],
)
def test_used_up_it_is_the_budget_else_the_grid(epsilon, aimed_at, counts_as):
    assert compared_epsilon(claim(epsilon, aimed_at)) == counts_as


def test_a_claim_above_the_budget_it_names_cannot_be_made():
    with pytest.raises(InvalidValue, match="aimed_at"):
        claim(1.001, 1.0)
    with pytest.raises(InvalidValue, match="aimed_at"):
        claim(math.inf, math.inf)
    # Nor one that was written by others.
    with pytest.raises(InvalidValue, match="aimed_at"):
        Guarantee.from_dict(claim(1.001).to_dict() | {"aimed_at": 1.0})


@pytest.mark.parametrize(
    ("privacy", "knobs", "other", "aimed_at"),
    [
        ({}, {}, {}, 2.0),
        ({"solve": "none"}, {"noise_multiplier": math.sqrt(27) / 1.99}, {}, None),
        ({"solve": "steps"}, {"noise_multiplier": 2.0}, {}, None),
        ({}, {}, {"delta": 1e-6}, None),
        ({}, {}, {"unit": "user"}, None),
        ({}, {}, {"status": Status.ASYMPTOTIC}, None),
    ],
)
def test_only_where_the_noise_was_solved_for_a_claim_of_the_budgets_kind(privacy, knobs, other, aimed_at, monkeypatch):
    class Another(toys.Hill):
        def plan(self, *asked: Any):
            plan = super().plan(*asked)
            return replace(plan, guarantee=replace(plan.guarantee, **other))

    # Of a stranger's system the epsilon is its own word, and no budget that was reached.
    assert plan_of(Another(), privacy, knobs).guarantee.aimed_at is None
    monkeypatch.setattr(planning, "OURS", planning.OURS | {"tests"})
    assert plan_of(Another(), privacy, knobs).guarantee.aimed_at == aimed_at


def plan_of(system: toys.Hill, privacy: Mapping[str, Any] | None = None, knobs: Mapping[str, Any] | None = None):
    systems = {"hill": system}
    searched = {"hill": {"rate": 1.0, **(knobs or {})}}
    content = toys.SPEC | {"systems": searched, "privacy": {"epsilon": 2.0, "delta": 1e-5, **(privacy or {})}}
    spec = toys.loaded(content, systems)
    space = Space.of(spec)
    config = space.config(space.branches[0], 2.0, {})
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SYSTEMS, "hill", system)
        plan = plan_proposal(spec, config, toys.SOURCES["points"].facts({}), {})
    return plan


def test_it_is_the_budget_and_infinite_where_the_claim_exceeds_it():
    records = [
        trial(0, claim(0.9995), 0.8, budget=1.0),
        trial(1, claim(1.9), 0.9, budget=2.0),
        trial(2, claim(math.inf), 0.99, budget=1.0),
    ]
    (panel,) = front(records, [ACCURACY, TARGET]).panels
    assert panel.values[:, 1].tolist() == [1.0, 2.0, math.inf]
    # A baseline without protection beats nobody who has some.
    assert panel.on_front.all()
    assert hypervolume(panel.compared, [True, False], [0.0, 3.0]) == pytest.approx(0.8 * 1 + 0.9 * 1)


# Budgets and what they come to, as people read them: of no number that something is held to is a digit below it.


@pytest.mark.parametrize("epsilon", [2.5, 4.1])
@pytest.mark.parametrize("filter", [{}, {"filter": "renyi", "order": 12.0}])
def test_what_check_says_that_a_sweep_may_spend_is_no_less_than_that(epsilon, filter):
    one = spec({"epsilon": epsilon} | filter)
    said = float(re.search(r"(?:mu|divergence) ([\d.]+)", spread_lines(one)[0])[1])
    budget = budget_of(one)
    whole = budget.total if filter else budget.total**0.5
    assert whole <= said < 1.002 * whole


def test_a_claim_is_never_shown_smaller_than_it_is():
    assert [epsilon_text(value) for value in (1.0, 7.99201, 0.99991, 12345.6, 0.0)] == ["1", "7.993", "1", "12350", "0"]
    assert (epsilon_text(float("inf")), epsilon_text(7.9929, up=False)) == ("inf", "7.992")
