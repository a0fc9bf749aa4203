"""Documents that a lying operator writes whole, with arithmetic that fits: each fails by what its rows say."""

import math
import re
from dataclasses import replace

import pytest

from dpcore.events import Adjacency, Composed, Gaussian, Repeated, phases
from dpcore.gdp import mu_gdp
from dpcore.guarantee import Notion, Status
from dpcore.selection.counts import geometric
from dpcore.selection.filters import GDPCharge, RenyiCharge
from sweeps.certificate.document import Signature
from sweeps.certificate.page import certificate_page, for_one
from sweeps.privacy import ledger
from tests.sweeps.certificate.documents import (
    MADE,
    NOTHING,
    SPLIT,
    TOTALS,
    claim,
    composed,
    filtered,
    first,
    holdout,
    planned,
    released_once,
    row,
    steps,
    verified,
    within,
    wrong,
)

CHEAP = planned(1, 5.0)


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


LOUD, MISSES = planned(0, 0.6), "a winner meets the points of the price"
ROWS, CHARGED, COVERS = "ledger rows against plans", "every launch is charged", "what covers a launch"
ADMITS = "the filter admits every charge"
WRONG_LEDGERS = {
    "no launch": (row(CHEAP),),
    "twice": (row(LOUD), row(LOUD), row(CHEAP)),
    "no plan": (row(LOUD), row(CHEAP), row(planned(9, 5.0))),
    "beyond": (row(LOUD, to_step=201), row(CHEAP)),
    "no step": (row(LOUD, from_step=200), row(CHEAP)),
    "backwards": (row(LOUD), row(LOUD, attempt=2, from_step=100, charged_to=99), row(CHEAP)),
    "no start": (row(LOUD, from_step=1), row(CHEAP)),
}


@pytest.mark.parametrize("ledger", WRONG_LEDGERS.values(), ids=WRONG_LEDGERS)
def test_a_ledger_that_does_not_fit_its_plans_is_caught(ledger):
    assert wrong(composed((LOUD, CHEAP), (row(LOUD), row(CHEAP)))) == []
    assert wrong(composed((LOUD, CHEAP), ledger))[0] == ROWS


@pytest.mark.parametrize("after", [(), (200, 100), (100, 201)])
def test_reports_after_steps_that_there_are_not_are_caught(after):
    plan = REPORTED.model_copy(update={"reported_after": after})
    assert ROWS in wrong(composed((plan, CHEAP), (row(plan), row(CHEAP))))


def test_a_trial_that_is_charged_for_less_than_was_fixed_beforehand_is_caught():
    assert wrong(composed((LOUD, CHEAP), (row(LOUD, charged_to=1), row(CHEAP)))) == ["plans are charged whole"]


def paying(**changes):
    """Something else in the charge of the first launch; `by` of its training."""

    def of(mode):
        first, *rest = mode.charges
        by = changes.get("by")
        return {"charges": (replace(first, **({"training": by(first.training)} if by else changes)), *rest)}

    return of


def quieter(noise, count=None):
    """Less noise in the first winner: in `count` sampled steps, or in one release."""
    event = Gaussian(noise_multiplier=noise) if count is None else steps(noise, count)
    return lambda mode: {"trials": (mode.trials[0].model_copy(update={"training": event}), *mode.trials[1:])}


def more_trials(mode):
    return {"law": geometric(100.0)}


def smaller_shift(mode):
    return {"shifts": (*mode.shifts[:2], mode.shifts[2] * 0.999, mode.shifts[3])}


def third_winner(mode):
    third = released_once(2, 9.0).model_copy(update={"status": Status.PROVED_UNDER_ASSUMPTIONS})
    return {"trials": (*mode.trials, third)}


FORGED = [
    # A charge is at most 2e-3 above the least that covers (`TOLERANCE`).
    ("filter", paying(by=lambda one: GDPCharge(one.mu * 0.9975, one.tau)), COVERS),
    ("filter", paying(by=lambda one: GDPCharge(one.mu)), COVERS),
    ("renyi", paying(by=lambda one: RenyiCharge(one.divergence * 0.9975)), COVERS),
    ("filter", paying(by=lambda one: GDPCharge(0.8, one.tau)), ADMITS),
    ("filter", paying(by=lambda one: RenyiCharge(0.01)), ADMITS),
    ("filter", lambda mode: {"charges": mode.charges[:1]}, CHARGED),
    ("renyi", paying(validation=None), "filters"),
    ("renyi", paying(parts="a hash of name"), "filters"),
    # A law of more trials, for the price of fewer; a first point that nothing meets; a winner of less noise.
    ("best", more_trials, "arithmetic"),
    ("best", lambda mode: {"d1": mode.d1 / 2}, MISSES),
    ("best", quieter(1.05, 1000), MISSES),
    ("first", more_trials, "d_hat"),
    ("first", quieter(1.9), MISSES),
    ("first", lambda mode: {"ended": 5}, "arithmetic"),
    # A penalty too small for what trials of its rungs may have; a Gaussian that the budget does not pay for.
    ("first", smaller_shift, "arithmetic"),
    ("front", lambda mode: {"mu": mode.mu * 1.01}, "arithmetic"),
    ("front", lambda mode: {"mu": mode.mu / 2}, "epsilon of all winners"),
    ("front", quieter(3.7), MISSES),
    ("front", third_winner, "each order has one winner"),
    ("front", lambda mode: {"trials": (mode.trials[0],) * 2}, "winners"),
]


@pytest.mark.parametrize(("mode", "change", "failed"), FORGED)
def test_what_costs_more_than_is_claimed_is_caught(mode, change, failed):
    made = MADE[mode]()
    assert failed in wrong(within(made, "mode", **change(made.mode)))


def test_rows_that_are_left_out_or_charged_for_a_part_are_caught():
    """The total is that of all rows. When a trial stops may depend on what it saw: a filter keeps what was reserved."""
    made, kept = MADE["composition"](), filtered()
    assert "epsilon of all trials together" in wrong(made.model_copy(update={"ledger": made.ledger[:-1]}))
    short = row(kept.mode.trials[0], charged_to=500)
    assert CHARGED in wrong(kept.model_copy(update={"ledger": (short, *kept.ledger[1:])}))
    assert wrong(within(MADE["statement"](), "claim", notion=Notion.DP)) == ["notion is another"]


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


@pytest.mark.parametrize("ended", [1, 2, 3, 4, None])
def test_every_end_of_a_ladder_has_its_own_price(ended):
    made = first(ended)
    assert wrong(made) == []
    assert made.title.startswith("Privacy" if ended is None else "Ex-post privacy")
    assert wrong(within(made, "claim", notion=Notion.EX_POST if ended is None else Notion.DP)) == ["notion"]
    for other in {1, 2, 3, 4} - {ended or 4}:
        assert wrong(within(made, "claim", epsilon=made.mode.epsilons[other - 1])) == ["epsilon of where it ended"]
    one = first(1, (2.0,))
    assert (wrong(one), one.claim.notion, one.title[:8]) == ([], Notion.DP, "Privacy ")


@pytest.mark.parametrize("kind", ["best", "first", "front"])
def test_of_a_search_the_ledger_has_no_rows_and_one_that_is_not_over_may_still_release_something(kind):
    made, silent = MADE[kind](), MADE[f"none of {kind}"]()
    for one in (made, silent):
        rows = one.model_copy(update={"ledger": (row(planned(0, 1.0)),)})
        assert wrong(rows) == ["the ledger of a sealed search has no rows"]
    assert wrong(within(made, "sweep", state="stopped")) == []
    assert wrong(within(silent, "sweep", state="stopped")) == ["state of the sweep"]
    assert silent.title.endswith("released nothing")


def test_constants_are_those_of_the_published_goldens():
    """private_search.md, section 1c, geometric K of mean 27: the winner's own epsilon at delta / mean, and twice the
    shift; section 2: a tenth of delta is kept for tau."""
    made, best = filtered(), MADE["best"]()
    assert made.mode.constants(made.claim)["limit"] == pytest.approx(mu_gdp(3.0, 0.9e-5))
    assert best.mode.e_hat == pytest.approx(3 - 2 * best.mode.e1, rel=1e-9)
    assert best.mode.d_hat == pytest.approx(1e-5 / 27, rel=1e-9)


@pytest.mark.parametrize("mode", [*MADE, "holdout"])
def test_the_page_has_every_number_of_the_document(mode):
    made = holdout() if mode == "holdout" else MADE[mode]()
    page = certificate_page(made, b"", Signature(key="0" * 64, value="0" * 128))
    assert "<script" not in page
    for line in (made.title, *made.claim.assumptions, *made.attested):
        assert line.replace("'", "&#x27;") in page
    for value in (made.claim.epsilon, made.claim.delta, *re.findall(r"\d\.\d{9,}(?:e-\d+)?", str(made.sweeps))):
        assert str(value) in page


@pytest.mark.parametrize(
    ("epsilon", "factor", "right"),
    [(0.0, "1 times", "50.1%"), (math.log(3), "3 times", "75.1%"), (5.0, "148.4", "99.4%")],
)
def test_what_it_means_for_one(epsilon, factor, right):
    """At even odds a guess is right (e^epsilon + delta) / (1 + e^epsilon) of the time, rounded up: delta is above 0."""
    said = for_one(claim(epsilon, "pld"))
    assert f"at most {factor}" in said
    assert f"at most {right}" in said


# The certificate of a holdout: two sweeps in one document, and the larger of what they cost.


KINDS = ("composition", "filter", "renyi", "best", "first", "front")
"""Of sweeps that may tune, among `MADE`."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tuning_stands_with_the_larger_of_both(kind):
    tuning = MADE[kind]()
    made = holdout(tuning)
    found = verified(made)
    assert found.stands, str(found)
    assert made.claim.epsilon == max(tuning.mode.promised(tuning.claim).epsilon, made.target.epsilon)
    assert set(found.to_dict()["attested"]) >= {*made.attested, *made.tuning.attested, *made.final.attested}
    for less in {made.tuning.claim.epsilon, made.final.claim.epsilon, made.target.epsilon} - {made.claim.epsilon}:
        assert wrong(within(made, "claim", epsilon=less)) == ["both: epsilon of both together"]


def test_a_rule_that_counts_the_point_alone_is_found_out(monkeypatch):
    """The mutants: what any point could have cost is left out, and launches that were made again."""
    plan = planned(7, 1.0, 1000)
    honest, twice = holdout(), holdout(None, row(plan, charged_to=10), row(plan, attempt=2))
    assert (honest.claim.epsilon, twice.claim.epsilon, twice.claim.delta) == (2.0, 4.0, 2e-5)
    assert wrong(honest) == wrong(twice) == []
    exact = ledger.both
    for mutant in (
        lambda tuned, final, launches: exact(tuned, final),
        lambda tuned, final, launches: exact(replace(tuned, target=0.0, delta=0.0), final, launches),
    ):
        monkeypatch.setattr("sweeps.certificate.verify.both", mutant)
        assert wrong(twice) != []


def test_a_final_run_beyond_the_target_that_every_point_was_held_to_is_caught():
    made = holdout()
    least = within(made, "target", epsilon=made.final.claim.epsilon / 2)
    assert any("the final run within its target" in one for one in wrong(least))


def moved(side, where, **changes):
    """An honest document, one side of which says something else in one of its rows."""
    made = holdout()
    return made.model_copy(update={side: within(getattr(made, side), where, **changes)})


def test_parts_that_are_not_the_two_of_one_split_are_caught():
    made = holdout()
    same = moved("final", "provenance", fingerprint=made.tuning.provenance.fingerprint)
    assert "both: the parts are not the same records" in wrong(same)
    for other in (None, SPLIT, *(SPLIT.model_copy(update={"use": "final", "share": 0.3, "id": None}),)):
        assert wrong(moved("final", "provenance", part=other)) == ["both: two parts of one split"]
    assert wrong(moved("final", "provenance", chosen=None)) == ["both: where the hyperparameters are from"]
    swapped = made.model_copy(update={"tuning": made.final, "final": made.tuning})
    assert {"both: a tuning", "both: the final run is one trial"} <= set(wrong(swapped))
    assert "both: two sweeps" in wrong(made.model_copy(update={"final": made.tuning}))


def test_what_both_differ_in_is_caught():
    assert "both: neighbours differ in one part" in wrong(within(holdout(), "claim", adjacency=Adjacency.REPLACE_ONE))
    assert "both: unit, tuning" in wrong(moved("tuning", "claim", unit="person"))
    assert "both: contributions" in wrong(moved("tuning", "provenance", contributions=3))
