"""The certificate of a filter: constants from the budget, every launch charged, every charge large enough."""

import pytest

from dpcore.gdp import mu_gdp
from dpcore.selection import GDPFilter
from sweeps.certificate.building import certified
from sweeps.certificate.chain import Chain
from sweeps.certificate.modes import filtered as mode
from sweeps.certificate.modes.filtered import ChargedLaunch
from sweeps.certificate.verifying import recomputed, verify
from sweeps.privacy import charge
from sweeps.privacy import totals as ledger
from tests.sweeps.certificate.documents import KEY, filtered, renyi, row, steps
from tests.sweeps.certificate.test_judging import APPROVED, EIGHT, over
from tests.sweeps.fake_workers import ASHA, NAME


def with_charges(made, *charges):
    """The document with these charges, and sums that are theirs."""
    mode = made.mode
    sums = {"sum": sum(mode.rule.added(one) for one in charges), "taus": sum(one.tau for one in charges)}
    ledger = mode.ledgers[0].model_copy(update={"charges": charges, **sums})
    return made.model_copy(update={"mode": mode.model_copy(update={"ledgers": (ledger,)})})


def wrong(made):
    return [one.what for one in recomputed(made) if not one.held]


def test_the_constants_are_those_of_the_budget():
    """private_search.md, section 2: mu(3, 1e-5) = .71912; a tenth of delta is kept for tau."""
    made = filtered()
    assert mu_gdp(3.0, 1e-5) == pytest.approx(0.71912, abs=5e-6)
    assert made.mode.rule.mu_total == GDPFilter(epsilon=3.0, delta=1e-5).mu_total == pytest.approx(mu_gdp(3.0, 0.9e-5))
    assert wrong(made) == wrong(renyi()) == []


@pytest.mark.parametrize("made", [filtered(), renyi()], ids=["gdp", "renyi"])
def test_a_charge_that_is_too_small_is_caught(made):
    first, *rest = made.mode.ledgers[0].charges
    # A charge is at most 2e-3 above the least that covers (`TOLERANCE`).
    less = first.model_copy(update={"amount": first.amount * 0.9975})
    assert wrong(with_charges(made, less, *rest)) == ["what covers a launch, both"]


def test_a_gaussian_without_a_chance_beside_it_has_to_cover_exactly():
    made = filtered()
    first, second = made.mode.ledgers[0].charges
    bare = first.model_copy(update={"tau": 0.0})
    assert wrong(with_charges(made, bare, second)) == ["what covers a launch, both"]


def test_a_launch_that_is_not_charged_is_caught():
    made = filtered()
    assert wrong(with_charges(made, made.mode.ledgers[0].charges[0])) == ["every launch is charged, both"]


def test_charges_beyond_the_budget_are_caught():
    made = filtered()
    first, second = made.mode.ledgers[0].charges
    more = [ChargedLaunch(trial="hand-1", attempt=attempt, amount=0.2, tau=1e-7) for attempt in range(2, 20)]
    assert "the filter admits every charge, both" in wrong(with_charges(made, first, second, *more))


def test_a_launch_that_is_charged_for_fewer_steps_than_it_was_allowed_is_caught():
    """When a trial stops may depend on what it saw: the filter keeps what was reserved."""
    made = filtered()
    short = row(made.mode.trials[0], charged_to=500, training=steps(1.617, 500))
    chain = Chain.of(made.ledger.sweep, (short, *made.ledger.rows[1:]))
    assert "every launch is charged, both" in wrong(made.model_copy(update={"ledger": chain}))


@pytest.mark.parametrize(
    ("privacy", "kind"), [({}, "gdp"), ({"filter": "renyi", "order": 8.0}, "renyi")], ids=["gdp", "renyi"]
)
def test_a_sweep_whose_trials_results_chose_is_certified_with_its_budget(privacy, kind, tmp_path):
    whole = {"privacy": {"epsilon": 3.0, "delta": 1e-5, "scope": "sweep", **privacy}}
    sweep, store = over(tmp_path, early_stopping=ASHA, change={**EIGHT, **whole})
    made = certified(store, NAME, None, APPROVED, KEY)
    assert (made.body.claim.epsilon, made.body.claim.delta) == (3.0, 1e-5)
    assert made.body.mode.rule.kind == kind
    assert len(made.body.mode.ledgers[0].charges) == len(sweep.store.ledger(NAME)) > 5
    assert verify(made.data, KEY.public_key()).stands


def test_a_fixed_schedule_within_the_budget_of_its_sweep_is_composed(tmp_path):
    whole = {"privacy": {"epsilon": 3.0, "delta": 1e-5, "scope": "sweep"}}
    _, store = over(tmp_path, change=whole)
    made = certified(store, NAME, None, APPROVED, KEY)
    assert made.body.mode.budget == 3.0
    assert made.body.claim.epsilon < 3.0
    assert verify(made.data, KEY.public_key()).stands


def test_words_and_tolerance_are_those_of_the_filter_that_ran():
    assert (mode.THEOREMS, mode.TOLERANCE) == (ledger.THEOREMS, charge.TOLERANCE)
