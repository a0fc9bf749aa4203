"""Documents that a lying operator writes whole, with arithmetic that fits: each fails by what its rows say."""

import re
from dataclasses import replace

import pytest

from dpcore.events import Composed, Gaussian, Repeated, phases
from dpcore.gdp import mu_gdp
from dpcore.guarantee import Notion, Status
from dpcore.selection.counts import geometric
from dpcore.selection.filters import GDPCharge, GDPFilter, RenyiCharge
from sweeps.certificate.document import Signature
from sweeps.certificate.page import certificate_page
from tests.sweeps.certificate.documents import (
    MADE,
    NOTHING,
    TOTALS,
    composed,
    filtered,
    first,
    planned,
    released_once,
    renyi,
    row,
    statement,
    steps,
    within,
    wrong,
)

CHEAP = planned(1, 5.0)


# -- plans and the ledger ----------------------------------------------------------------------------------------


def scheduled(count=100):
    """A plan of two kinds of steps."""
    return planned(0, 2.0, training=Composed(events=(steps(2.0, count), steps(3.0, count))))


REPORTED = planned(0, 2.0, reports=Repeated(event=Gaussian(noise_multiplier=9.0), count=2), reported_after=(100, 200))


@pytest.mark.parametrize(
    ("plan", "start", "stop", "training", "reports"),
    [
        (planned(0, 0.6), 150, 200, steps(0.6, 50), NOTHING),
        (scheduled(), 50, 150, Composed(events=(steps(2.0, 50), steps(3.0, 50))), NOTHING),
        # More than one release in a step, or fewer than steps: nobody can tell what a part of them is.
        (scheduled(150), 0, 1, scheduled(150).training, NOTHING),
        (planned(0, 0.6, training=steps(0.6, 300)), 0, 1, steps(0.6, 300), NOTHING),
        (REPORTED, 0, 150, steps(2.0, 150), Gaussian(noise_multiplier=9.0)),
        (REPORTED, 100, 200, steps(2.0, 100), Gaussian(noise_multiplier=9.0)),
        (REPORTED, 0, 99, steps(2.0, 99), NOTHING),
    ],
)
def test_a_launch_releases_what_its_steps_do_or_all_of_a_plan_that_does_not_tell_them_apart(
    plan, start, stop, training, reports
):
    assert phases(plan.trained(start, stop)) == phases(training)
    assert phases(plan.reported(start, stop)) == phases(reports)


@pytest.mark.parametrize(
    "ledger",
    [
        lambda plan: (row(CHEAP),),
        lambda plan: (row(plan), row(plan), row(CHEAP)),
        lambda plan: (row(plan), row(CHEAP), row(planned(9, 5.0))),
        lambda plan: (row(plan, to_step=201), row(CHEAP)),
        lambda plan: (row(plan, from_step=200), row(CHEAP)),
        lambda plan: (row(plan), row(plan, attempt=2, from_step=100, charged_to=99), row(CHEAP)),
        lambda plan: (row(plan, from_step=1), row(CHEAP)),
    ],
    ids=["no launch", "twice", "no plan", "beyond", "no step", "backwards", "no start"],
)
def test_a_ledger_that_does_not_fit_its_plans_is_caught(ledger):
    plan = planned(0, 0.6)
    assert wrong(composed((plan, CHEAP), (row(plan), row(CHEAP)))) == []
    assert wrong(composed((plan, CHEAP), ledger(plan)))[0] == "ledger rows against plans"


@pytest.mark.parametrize("after", [(), (200, 100), (100, 100), (100, 201)])
def test_reports_after_steps_that_there_are_not_are_caught(after):
    plan = REPORTED.model_copy(update={"reported_after": after})
    assert "ledger rows against plans" in wrong(composed((plan, CHEAP), (row(plan), row(CHEAP))))


def test_a_trial_that_is_charged_for_less_than_was_fixed_beforehand_is_caught():
    plan = planned(0, 0.6)
    assert wrong(composed((plan, CHEAP), (row(plan, charged_to=1), row(CHEAP)))) == ["plans are charged whole"]


def test_a_ledger_row_that_is_left_out_is_caught():
    """The total is that of all rows."""
    made = MADE["composition"]()
    assert "epsilon of all trials together" in wrong(made.model_copy(update={"ledger": made.ledger[:-1]}))


@pytest.mark.parametrize("mode", MADE)
def test_what_the_rows_of_a_document_say_of_its_sweep_has_to_fit(mode):
    made = MADE[mode]()
    for change in ({"training": 0}, {"steps": 1}, {"training": None, "steps": None}, {"steps": None}):
        if made.accesses.model_copy(update=change) != made.accesses:
            assert wrong(within(made, "accesses", **change)) == ["readings of training records"]
    for state in ("created", "deleted", "ended", *(["running"] if mode in TOTALS else [])):
        assert wrong(within(made, "sweep", state=state)) == ["state of the sweep"]
    kind = mode.removeprefix("none of ")
    for sampler in ("tpe", "a sampler of mine"):
        failed = ["no result chose the trials"] if kind in ("composition", "best", "first", "front") else []
        assert wrong(within(made, "searched", sampler=sampler)) == failed
    # What an audit refuted of another system is none of the trial's business, and the total's it is.
    for trial, system in (("hand-0", "noisy-sgd"), ("hand-1", "noisy-sgd"), ("hand-1", "other")):
        audit = made.audits[0].model_copy(update={"trial": trial, "system": system, "outcome": "refuted"})
        failed = wrong(made.model_copy(update={"audits": (*made.audits, audit)}))
        assert failed == ([] if system == "other" and mode not in TOTALS else ["verdicts of audits"])


@pytest.mark.parametrize(
    ("status", "words"), [(Status.AVERAGE_CASE, "average-case"), (Status.MEMBERSHIP_ONLY, "membership only")]
)
def test_a_statement_says_that_it_is_no_certificate_and_is_of_another_notion(status, words):
    made = statement(status)
    assert made.title.startswith("Statement, and no privacy certificate")
    assert words in made.title
    assert wrong(within(made, "claim", notion=Notion.DP)) == ["notion is another"]


# -- filters -----------------------------------------------------------------------------------------------------


def charged(made, training):
    """The document with this charge of its first row."""
    first, *rest = made.mode.charges
    return within(made, "mode", charges=(replace(first, training=training), *rest))


def test_the_constants_of_a_filter_are_those_of_the_budget():
    """private_search.md, section 2: mu(3, 1e-5) = .71912; a tenth of delta is kept for tau."""
    made = filtered()
    assert mu_gdp(3.0, 1e-5) == pytest.approx(0.71912, abs=5e-6)
    assert made.mode.constants(made.claim)["limit"] == GDPFilter(epsilon=3.0, delta=1e-5).mu_total
    assert made.mode.constants(made.claim)["limit"] == pytest.approx(mu_gdp(3.0, 0.9e-5))


def test_charges_that_are_too_small_or_too_large_are_caught():
    made, other = filtered(), renyi()
    mu, divergence = made.mode.charges[0].training.mu, other.mode.charges[0].training.divergence
    # A charge is at most 2e-3 above the least that covers (`TOLERANCE`).
    for less in (GDPCharge(mu * 0.9975, 1e-7), GDPCharge(mu)):
        assert wrong(charged(made, less)) == ["what covers a launch"]
    assert wrong(charged(other, RenyiCharge(divergence * 0.9975))) == ["what covers a launch"]
    assert wrong(charged(made, GDPCharge(0.8, 1e-7))) == ["the filter admits every charge"]
    assert wrong(charged(made, RenyiCharge(0.01))) == ["the filter admits every charge"]


def test_every_launch_is_charged_for_all_steps_that_it_was_allowed():
    """When a trial stops may depend on what it saw: the filter keeps what was reserved."""
    made, other = filtered(), renyi()
    assert "every launch is charged" in wrong(within(made, "mode", charges=made.mode.charges[:1]))
    short = row(made.mode.trials[0], charged_to=500)
    assert "every launch is charged" in wrong(made.model_copy(update={"ledger": (short, *made.ledger[1:])}))
    # Reports that are in no filter.
    for change in ({"validation": None}, {"parts": "a hash of name"}):
        assert "filters" in wrong(within(other, "mode", charges=(replace(other.mode.charges[0], **change),)))


# -- sealed searches ---------------------------------------------------------------------------------------------


def test_the_price_is_that_of_the_published_golden():
    """Geometric K of mean 27, total (3, 1e-5): the winner's own epsilon at delta / mean, and twice the shift."""
    made = MADE["best"]()
    assert made.mode.e_hat == pytest.approx(3 - 2 * made.mode.e1, rel=1e-9)
    assert made.mode.d_hat == pytest.approx(1e-5 / 27, rel=1e-9)
    assert made.mode.drawn == geometric(27.0)


MISSES = "a winner meets the points of the price"


@pytest.mark.parametrize(
    ("made", "what", "change"),
    [
        # A law of more trials, for the price of fewer; a first point that nothing meets; a winner of less noise.
        ("best", "d_hat", lambda mode: {"law": geometric(100.0)}),
        ("best", MISSES, lambda mode: {"d1": mode.d1 / 2}),
        ("best", MISSES, lambda mode: {"trials": (mode.trials[0].model_copy(update={"training": steps(1.05, 1000)}),)}),
        ("first", "d_hat", lambda mode: {"law": geometric(100.0)}),
        ("first", MISSES, lambda mode: {"trials": (mode.trials[0].model_copy(update=_once(1.9)),)}),
        ("front", MISSES, lambda mode: {"trials": (mode.trials[0].model_copy(update=_once(3.7)), mode.trials[1])}),
        ("front", "epsilon of all winners", lambda mode: {"mu": mode.mu / 2}),
    ],
)
def test_a_price_that_is_too_low_is_caught(made, what, change):
    made = MADE[made]()
    assert what in wrong(within(made, "mode", **change(made.mode)))


def _once(noise):
    return {"training": Gaussian(noise_multiplier=noise)}


def test_constants_that_cost_more_than_is_claimed_are_caught():
    """A penalty too small for what trials of its rungs may have; a Gaussian that the budget does not pay for."""
    ladder, front = first(3), MADE["front"]()
    shifts = (*ladder.mode.shifts[:2], ladder.mode.shifts[2] * 0.999, ladder.mode.shifts[3])
    assert wrong(within(ladder, "mode", shifts=shifts)) == ["arithmetic"]
    assert wrong(within(front, "mode", mu=front.mode.mu * 1.01)) == ["arithmetic"]


@pytest.mark.parametrize("ended", [1, 2, 3, 4, None])
def test_every_end_of_a_ladder_has_its_own_price(ended):
    made = first(ended)
    assert wrong(made) == []
    assert made.title.startswith("Privacy" if ended is None else "Ex-post privacy")
    assert wrong(within(made, "claim", notion=Notion.EX_POST if ended is None else Notion.DP)) == ["notion"]
    for other in {1, 2, 3, 4} - {ended or 4}:
        assert wrong(within(made, "claim", epsilon=made.mode.epsilons[other - 1])) == ["epsilon of where it ended"]
    assert wrong(within(made, "mode", ended=5)) == ["arithmetic"]


def test_one_budget_is_promised_beforehand():
    made = first(1, (2.0,))
    assert (wrong(made), made.claim.notion, made.title[:8]) == ([], Notion.DP, "Privacy ")


@pytest.mark.parametrize("kind", ["best", "first", "front"])
def test_of_a_search_the_ledger_has_no_rows_and_one_that_is_not_over_may_still_release_something(kind):
    made, silent = MADE[kind](), MADE[f"none of {kind}"]()
    for one in (made, silent):
        launched = one.model_copy(update={"ledger": (row(planned(0, 1.0)),)})
        assert wrong(launched) == ["the ledger of a sealed search has no rows"]
    assert wrong(within(made, "sweep", state="stopped")) == []
    assert wrong(within(silent, "sweep", state="stopped")) == ["state of the sweep"]
    assert silent.title.endswith("released nothing")


def test_a_front_has_a_winner_for_each_order_at_most():
    made = MADE["front"]()
    third = released_once(2, 9.0).model_copy(update={"status": Status.PROVED_UNDER_ASSUMPTIONS})
    assert wrong(within(made, "mode", trials=(*made.mode.trials, third))) == ["each order has one winner"]
    assert wrong(within(made, "mode", trials=(made.mode.trials[0],) * 2)) == ["winners"]


# -- for people --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MADE)
def test_the_page_has_every_number_of_the_document(mode):
    made = MADE[mode]()
    page = certificate_page(made, b"", Signature(key="0" * 64, value="0" * 128))
    assert "<script" not in page
    assert made.title in page
    for line in (*made.claim.assumptions, *made.not_covered, *made.attested):
        assert line.replace("'", "&#x27;") in page
    for value in (made.claim.epsilon, made.claim.delta, *re.findall(r"\d\.\d{9,}(?:e-\d+)?", str(made.mode))):
        assert str(value) in page
