"""Documents that a lying operator writes whole, with arithmetic that fits: each fails by what its rows say."""

import json

import pytest

from dpcore.events import Composed, Gaussian, Repeated
from sweeps.certificate.chain import Chain
from sweeps.certificate.modes import ComposedTrials
from sweeps.certificate.modes.composition import released_parts
from sweeps.certificate.modes.profile import Profile
from sweeps.certificate.verifying import verify
from tests.sweeps.certificate.documents import (
    ADD_REMOVE,
    DELTA,
    KEY,
    MADE,
    NOTHING,
    body,
    claimed,
    planned,
    resigned,
    row,
    signed_bytes,
    steps,
)

CHEAP = planned(1, 5.0)


def composed(plans, rows):
    """The honest arithmetic of whatever rows."""
    parts = released_parts(plans, rows, NOTHING, False)
    found, _ = parts.claim(DELTA, ADD_REMOVE, "record")
    profile = Profile.of(parts.together(ADD_REMOVE), ADD_REMOVE, found.epsilon, found.delta)
    mode = ComposedTrials(
        mode="composition", scope="trial", release="all", budget=None, delta=DELTA, trials=plans, tests=NOTHING,
        tests_apart=True, profile=profile,
    )  # fmt: skip
    return body(mode, claimed(found, mode), rows)


def wrong(made):
    """What fails in a document that its operator signed."""
    return [one.what for one in verify(signed_bytes(made), KEY.public_key()).checks if not one.held]


def scheduled(one, other, count=100, **changes):
    """A plan of two kinds of steps."""
    return planned(0, one).model_copy(
        update={"training": Composed(events=(steps(one, count), steps(other, count))), **changes}
    )


def test_a_plan_of_two_kinds_of_steps_is_cut_where_it_was():
    plan = scheduled(2.0, 3.0)
    head = row(plan, charged_to=150, training=Composed(events=(steps(2.0, 100), steps(3.0, 50))))
    tail = row(plan, attempt=2, from_step=150, training=steps(3.0, 50))
    assert wrong(composed((plan, CHEAP), (head, tail, row(CHEAP)))) == []
    cheaper = row(plan, charged_to=150, training=Composed(events=(steps(2.0, 50), steps(3.0, 100))))
    assert wrong(composed((plan, CHEAP), (cheaper, tail, row(CHEAP)))) == ["ledger rows against plans"]


TOTALS = [mode for mode in MADE if mode not in ("trial", "statement")]


@pytest.mark.parametrize(
    ("plan", "released"),
    [
        (scheduled(0.6, 0.7), NOTHING),
        (scheduled(0.6, 0.7), steps(0.7, 1)),
        # More than one release in a step, or fewer than steps: nobody can tell what a part of them is.
        (scheduled(0.6, 0.7, 200), steps(0.6, 199)),
        (planned(0, 0.6, 200).model_copy(update={"training": steps(0.6, 300)}), steps(0.6, 199)),
        (planned(0, 0.6, 200).model_copy(update={"training": Gaussian(noise_multiplier=1.0)}), NOTHING),
        (planned(0, 0.6, 200), steps(0.6, 198)),
    ],
)
def test_a_row_that_releases_less_than_it_ran_is_caught(plan, released):
    less = row(plan, charged_to=199, training=released)
    rest = row(plan, attempt=2, from_step=199, training=plan.trained(199, 200))
    assert wrong(composed((plan, CHEAP), (less, rest, row(CHEAP)))) == ["ledger rows against plans"]
    honest = row(plan, charged_to=199, training=plan.trained(0, 199))
    assert wrong(composed((plan, CHEAP), (honest, rest, row(CHEAP)))) == []


def test_reports_that_a_part_of_a_plan_drew_are_charged():
    plan = planned(0, 2.0, reports=Repeated(event=Gaussian(noise_multiplier=9.0), count=2)).model_copy(
        update={"reported_after": (100, 200)}
    )
    rest = row(plan, attempt=2, from_step=150, training=steps(2.0, 50), reports=Gaussian(noise_multiplier=9.0))
    for reports, failed in ((Gaussian(noise_multiplier=9.0), []), (NOTHING, ["ledger rows against plans"])):
        head = row(plan, charged_to=150, training=steps(2.0, 150), reports=reports)
        assert wrong(composed((plan, CHEAP), (head, rest, row(CHEAP)))) == failed


@pytest.mark.parametrize("after", [(), (200, 100), (100, 100), (100, 201)])
def test_reports_after_steps_that_there_are_not_are_caught(after):
    plan = planned(0, 2.0, reports=Gaussian(noise_multiplier=9.0)).model_copy(update={"reported_after": after})
    assert "ledger rows against plans" in wrong(composed((plan, CHEAP), (row(plan), row(CHEAP))))


def test_a_trial_that_is_charged_for_less_than_was_fixed_beforehand_is_caught():
    plan = planned(0, 0.6)
    one_step = row(plan, charged_to=1, training=steps(0.6, 1))
    assert wrong(composed((plan, CHEAP), (one_step, row(CHEAP)))) == ["plans are charged whole"]


def test_a_plan_without_a_launch_is_caught():
    assert wrong(composed((planned(0, 0.6), CHEAP), (row(CHEAP),))) == ["ledger rows against plans"]


@pytest.mark.parametrize("mode", MADE)
@pytest.mark.parametrize("change", [{"training": 0}, {"steps": 1}, {"training": None, "steps": None}, {"steps": None}])
def test_readings_of_records_are_those_of_the_ledger(mode, change):
    made = MADE[mode]()
    told = made.accesses.model_copy(update=change)
    if told != made.accesses:
        assert wrong(made.model_copy(update={"accesses": told})) == ["readings of training records"]


@pytest.mark.parametrize("mode", [mode for mode in TOTALS if MADE[mode]().mode.sealed])
@pytest.mark.parametrize("change", [{"reports": Gaussian(noise_multiplier=0.1)}, {"charged_to": 0}, {"to_step": 9}])
def test_the_row_of_a_sealed_search_holds_its_price_alone(mode, change):
    made = MADE[mode]()
    other = Chain.of(made.ledger.sweep, [made.ledger.rows[0].model_copy(update=change)])
    assert wrong(made.model_copy(update={"ledger": other})) == ["the ledger has one row for the sealed search"]


def rewritten(mode, **rows):
    """What fails in a document with other rows, signed anew."""
    document = json.loads(signed_bytes(MADE[mode]()))
    for row_name, changes in rows.items():
        document["body"][row_name].update(changes)
    return [one.what for one in verify(resigned(document), KEY.public_key()).checks if not one.held]


@pytest.mark.parametrize("mode", MADE)
@pytest.mark.parametrize("trial", [("hand-0", "noisy-sgd"), ("hand-1", "noisy-sgd"), ("hand-1", "other")])
def test_what_an_audit_refuted_does_not_stand(mode, trial):
    """Of another system it is none of the trial's business, and the total's it is."""
    made = MADE[mode]()
    key, system = trial
    audit = made.audits[0].model_copy(update={"trial": key, "system": system, "outcome": "refuted"})
    failed = wrong(made.model_copy(update={"audits": (*made.audits, audit)}))
    assert failed == ([] if system == "other" and mode not in TOTALS else ["verdicts of audits"])


@pytest.mark.parametrize("mode", TOTALS)
@pytest.mark.parametrize("state", ["running", "created", "deleted", "ended"])
def test_a_total_is_that_of_a_sweep_that_ended_as_of_a_date(mode, state):
    assert rewritten(mode, sweep={"state": state}) == ["what is covered", "state of the sweep"]
    assert rewritten(mode, approval={"at": "2027-01-01T00:00:00Z"}) == ["what is covered"]
    assert "As of 2026-01-02T03:04:05Z, finished" in MADE[mode]().claim.covers


@pytest.mark.parametrize("sampler", ["tpe", "a sampler of mine"])
def test_no_result_chose_what_composes_or_what_was_sealed(sampler):
    for mode in MADE:
        kind = mode.removeprefix("none of ")
        failed = ["no result chose the trials"] if kind in ("composition", "best", "first", "front") else []
        assert rewritten(mode, searched={"sampler": sampler}) == failed


@pytest.mark.parametrize("mode", MADE)
def test_what_is_not_covered_is_said(mode):
    document = json.loads(signed_bytes(MADE[mode]()))
    document["body"]["not_covered"] = document["body"]["not_covered"][1:]
    assert [one.what for one in verify(resigned(document), KEY.public_key()).checks if not one.held] == [
        "what is not covered"
    ]


@pytest.mark.parametrize("mode", ["filter", "renyi", "best", "first", "front"])
def test_what_a_budget_and_a_search_rest_on_is_stated(mode):
    made = MADE[mode]()
    for place in range(len(made.claim.assumptions)):
        left = made.claim.assumptions[:place] + made.claim.assumptions[place + 1 :]
        claim = made.claim.model_copy(update={"assumptions": left})
        (failed,) = wrong(made.model_copy(update={"claim": claim}))
        assert failed in ("what the arithmetic rests on", "how the prior was chosen")


def test_a_statement_is_of_another_notion_than_differential_privacy():
    assert rewritten("statement", claim={"notion": "differential-privacy"}) == ["notion is another"]
