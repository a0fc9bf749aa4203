"""The certificate of a filter: constants from the budget, every launch charged, every charge large enough."""

import pytest

from dpcore.gdp_dual import mu_gdp
from dpcore.selection import GDPFilter
from sweeps.certificate.chain import Chain
from sweeps.certificate.modes.filtered import ChargedLaunch
from sweeps.certificate.verifying import recomputed
from tests.sweeps.certificate.documents import filtered, renyi, row, steps


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
    less = first.model_copy(update={"amount": first.amount * 0.999})
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
    assert wrong(made.model_copy(update={"ledger": chain})) == ["every launch is charged, both"]
