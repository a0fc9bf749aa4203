"""Whose word a claim is: nothing of another package is called proved, and its module is named wherever it is shown."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest

from dpcore.events import Gaussian
from dpcore.guarantee import Guarantee, Status, weakest
from dpcore.mechanisms import protocol
from dpcore.mechanisms.noisy_sums import NoisySum, Sequence
from dpcore.mechanisms.protocol import mechanism
from sweeps.privacy.ledger import Procedure
from sweeps.privacy.totals import procedure_guarantee
from tests.trainables.registry_cases import CANDIDATES, data_of
from trainables import planning
from trainables.planning import attributed_plan, of_their_models
from trainables.registry import SYSTEMS
from trainables.reports import PUBLIC_VALIDATION
from trainables.system import PrivacyTarget, Refusal
from trainables.systems.noisy_mean import NoisyMean
from trainables.systems.noisy_sgd import NOISY_SGD

HERE = __name__
NAME = "noisy-mean"


class OwnTraining(NoisyMean):
    """Counted by our planner, by a mechanism of ours; what runs is somebody else's."""

    def train(self, fit):
        raise NotImplementedError


class OwnClaim(NoisyMean):
    """A wish."""

    def claims(self, case, released):
        (claim,) = super().claims(case, released)
        return [replace(claim, epsilon=0.01, epsilon_lower=None)]


class OwnPlan(NoisyMean):
    """The same by another door."""

    def plan(self, config, facts, target, calibrations):
        found = super().plan(config, facts, target, calibrations)
        claim = replace(found.guarantee, epsilon=0.01, epsilon_lower=None)
        return replace(found, guarantee=claim, beside=(claim,))


@mechanism("foreign-sum")
@dataclass(frozen=True)
class ForeignSum:
    """Counts as it likes."""

    steps: int

    def event(self, from_step=0, to_step=None):
        return Gaussian(noise_multiplier=100.0)


class OwnMechanism(NoisyMean):
    """Our planner counts what a mechanism of somebody else's says of itself."""

    def mechanism(self, case):
        return ForeignSum(case.params.steps)

    def describe(self, case, released):
        return "a sum"


ASSERTED = [OwnClaim, OwnPlan, OwnMechanism]


def planned(system):
    case = CANDIDATES[NAME]
    found = attributed_plan(system, case.config, case.records.facts, case.target, {})
    assert not isinstance(found, Refusal)
    return found


@pytest.mark.parametrize("name", SYSTEMS)
def test_our_own_stand_as_they_are_proved(name):
    assert planning.stranger(SYSTEMS[name]) is None


def test_the_plan_of_our_own_is_left_alone():
    assert planned(SYSTEMS[NAME]) == CANDIDATES[NAME].plan
    assert planned(SYSTEMS[NAME]).guarantee.status is Status.PROVED


def test_a_count_of_ours_rests_on_the_module_that_runs_it():
    ours, theirs = planned(SYSTEMS[NAME]).guarantee, planned(OwnTraining()).guarantee
    assert theirs.epsilon == ours.epsilon
    assert theirs.status is Status.PROVED_UNDER_ASSUMPTIONS
    assert set(ours.assumptions) < set(theirs.assumptions)
    assert any(HERE in line for line in theirs.assumptions)


@pytest.mark.parametrize("system", ASSERTED)
def test_whatever_else_claims_is_asserted_by_its_module(system):
    plan = planned(system())
    for claim in (plan.guarantee, *plan.beside):
        assert claim.standing == f"asserted by {HERE}"
        assert Guarantee.from_dict(claim.to_dict()) == claim
    assert planned(system()).guarantee.aimed_at is None


@pytest.mark.parametrize("system", [OwnTraining, *ASSERTED])
def test_it_is_the_module_that_decides(system, monkeypatch):
    """The mutant: with this module taken for ours, the same wishes are proved."""
    monkeypatch.setattr(planning, "OURS", {*planning.OURS, HERE.partition(".")[0]})
    assert planned(system()).guarantee.status is Status.PROVED


def test_what_data_rest_on_is_not_left_out():
    class Silent(type(NOISY_SGD)):
        def rests_on(self, case):
            return ()

    facts = replace(data_of("noisy-sgd").facts, assumptions=("the columns are as declared",))
    target = PrivacyTarget(epsilon=2.0, delta=1e-4)
    claim = attributed_plan(Silent(), CANDIDATES["noisy-sgd"].config, facts, target, {}).guarantee
    assert {PUBLIC_VALIDATION, "the columns are as declared"} < set(claim.assumptions)


def test_a_mechanism_is_ours_with_all_its_parts():
    assert protocol.is_ours(NoisySum(steps=1, clip=1.0, noise_multiplier=1.0))
    assert not protocol.is_ours(ForeignSum(1))
    ours = CANDIDATES["noisy-sgd"].plan.mechanism
    assert protocol.is_ours(ours)
    sequence = Sequence(parts=(ours, ours))
    object.__setattr__(sequence, "parts", (ours, ForeignSum(1)))
    assert not protocol.is_ours(sequence)


def test_a_total_with_one_of_them_is_no_guarantee():
    plans = {"a": planned(SYSTEMS[NAME]), "b": planned(OwnClaim())}
    total = procedure_guarantee(plans, [], 1e-5, adaptive=False)
    assert total.standing == f"asserted by {HERE}"
    assert math.isfinite(total.epsilon)
    assert not Procedure(trials=2, guarantee=total, choices=()).is_claim


WARM = "lab.nets:build"


def own_model(model, monkeypatch):
    """The claims of a plan with this model, of a module that need not be there."""
    monkeypatch.setattr("trainables.models.check", lambda *_: None)
    case = CANDIDATES["noisy-sgd"]
    plan = attributed_plan(NOISY_SGD, {**case.config, "model": model}, case.records.facts, case.target, {})
    assert not isinstance(plan, Refusal)
    return plan.guarantee, *plan.beside


def test_what_a_model_of_ones_own_begins_with_is_named_in_every_claim(monkeypatch):
    """Weights that were fitted to the same records without noise leave as they came, whatever the steps cost."""
    ours, theirs = (own_model(one, monkeypatch) for one in ("mlp", WARM))
    (line,) = of_their_models([WARM, "mlp", WARM])
    assert WARM in line
    for named, own in zip(ours, theirs, strict=True):
        assert own.epsilon == named.epsilon
        assert line in own.assumptions
        assert line not in named.assumptions
        assert own.status is weakest(named.status, Status.PROVED_UNDER_ASSUMPTIONS)


def test_functions_of_this_package_are_no_strangers():
    assert of_their_models(["trainables.systems.lu2021_network:tanh_128", "mlp", "a text: with a colon"]) == ()
