"""Every system of the registry: what one of its trials claims is recomputed from its plan, stated, or refused."""

from dataclasses import replace

import pytest

from dpcore.guarantee import STANDING
from sweeps.certificate.built import whole_row
from sweeps.certificate.built_trials import one_trial
from sweeps.certificate.claimed import Claimed
from sweeps.certificate.judging import CannotCertify, check_trial
from sweeps.certificate.modes import StatedTrial
from sweeps.privacy.release import Published
from sweeps.store.records import Proposal, TrialRecord, TrialState
from tests.trainables.registry_cases import CASES, data_of
from trainables.registry import SYSTEMS
from trainables.system import PrivacyPlan, PrivacyTarget

REFUSED = {"convexified-loss", "variational-draws", "sgd", "rmsprop", "dropout", "sgld", "psgld", "sghmc"}
"""Refuted, or with an epsilon that promises nothing."""
STATED = {"average-case-sgd"}
BY_ITS_OWN_THEOREM = {"loss-perturbation", "subsample-and-aggregate"}
"""Whose claims are of another accountant than the headline's."""


def planned(name):
    case = CASES[name]
    target = PrivacyTarget(epsilon=case.epsilon, delta=case.delta, adjacency=case.adjacency, solve=case.solve)
    plan = SYSTEMS[name].plan(case.config, data_of(name).facts, target, {})
    assert isinstance(plan, PrivacyPlan)
    return plan


@pytest.mark.parametrize("name", CASES)
def test_what_a_trial_claims_is_recomputed_stated_or_refused(name):
    plan = planned(name)
    begun = TrialRecord.of("all", Proposal(number=0, config=plan.config, seed=0), TrialState.COMPLETE, plan=plan)
    trial = Published(replace(begun, guarantee=plan.guarantee))
    if name in REFUSED:
        with pytest.raises(CannotCertify, match="may not be quoted"):
            check_trial(trial)
        return
    check_trial(trial)
    mode, claim = one_trial("all-0", plan, plan.guarantee), plan.guarantee
    assert isinstance(mode, StatedTrial) is (name in STATED) is (claim.status not in STANDING)
    shared = {field: getattr(claim, field) for field in Claimed.model_fields.keys() & set(claim.__slots__)}
    claimed = Claimed(covers="all of it", contributions=1, version="0.1.0", **shared)
    assert [str(one) for one in mode.checks(claimed, [whole_row("all-0", plan)]) if not one.held] == []
    if name not in STATED:
        assert mode.headline is (name not in BY_ITS_OWN_THEOREM)
