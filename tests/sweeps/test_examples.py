"""The packaged comparisons: all claims share one front, at every end of a knob, each under its status."""

from collections import defaultdict
from itertools import product

import numpy as np

from dpcore.guarantee import Status
from sweeps.examples import example_names, load
from sweeps.planning.plan import plan_proposal
from sweeps.planning.preview import preview
from sweeps.reporting.front import label_of
from sweeps.search.space import Space
from sweeps.spec.parse import public_facts
from trainables.data import SOURCES
from trainables.registry import SYSTEMS
from trainables.system import PrivacyPlan


def test_claims_of_the_example_share_one_front():
    """One notion, adjacency, delta and unit, whatever the system, the budget and the end of its ranges."""
    assert "which-method" in example_names()
    spec = load("which-method")
    assert len(spec.systems) == 6
    facts, labels, statuses = SOURCES["digits"].facts({}), set(), set()
    for (name, knobs), epsilon, at in product(spec.systems.items(), spec.privacy.epsilon, (0.0, 0.5, 1.0 - 1e-16)):
        config = {knob: value.draw(at) if hasattr(value, "draw") else value for knob, value in knobs.items()}
        plan = SYSTEMS[name].plan(config, facts, spec.privacy.target(epsilon), {})
        assert isinstance(plan, PrivacyPlan), plan
        assert plan.guarantee.epsilon <= epsilon
        labels.add(label_of(plan.guarantee))
        statuses.add(plan.guarantee.status)
    assert len(labels) == 1
    assert statuses == {Status.PROVED, Status.PROVED_UNDER_ASSUMPTIONS}


def test_no_recipe_is_in_the_claim():
    spec = load("which-recipe")
    space, rng, facts = Space.of(spec), np.random.default_rng(0), SOURCES["digits"].facts({})
    found = defaultdict(set)
    for _ in range(40):
        config = space.draw(rng)
        plan = plan_proposal(spec, config, facts, {})
        assert isinstance(plan, PrivacyPlan), plan
        found[config["target_epsilon"]].add((plan.guarantee, plan.config["noise_multiplier"]))
    assert {epsilon: len(claims) for epsilon, claims in found.items()} == {1.0: 1, 3.0: 1, 8.0: 1}


def test_every_part_of_the_tiny_bert_can_be_trained():
    assert preview(load("fine-tuning"), samples=20).feasible == 20


def test_the_total_of_releases_that_each_spend_all_of_delta_carries_their_sum():
    shown = preview(load("which-method"), samples=40)
    heading, first, *_ = shown.title()
    assert heading.startswith("DEMONSTRATION ON PUBLIC RECORDS: benchmarks of handwritten digits")
    assert first.startswith("which-method · 90 trials · tpe · digits")
    assert shown.total is not None
    assert 1e-5 < shown.total.delta < 1e-5 * (1 + shown.total.trials)
    assert 8 < shown.total.epsilon < 8 * shown.total.trials


# The packaged example that pays for its search: what it declares, and that its deadline covers its cap.


SECONDS, CORES = 30.0, 2
"""Of the longest trial on one core of a busy machine, features and scoring left out; of the machine."""


def test_what_is_said_of_the_records() -> None:
    facts = public_facts(load("mnist-record"))
    assert (facts.n, facts.n_validation, facts.features["features"].shape) == (54_000, 6_000, (81, 7, 7))
    assert facts.private_validation is not None
    assert facts.private_validation.parts


def test_the_deadline_covers_the_cap_on_two_cores() -> None:
    spec = load("mnist-record")
    assert spec.selection is not None
    assert spec.selection.mean == 27
    assert spec.search.trials * SECONDS / CORES < 0.9 * 60 * spec.selection.deadline_minutes
