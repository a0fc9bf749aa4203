"""Claim and ledger are two numbers: steps on the path once, steps executed as often as they were."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.accounting import headline
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, ApproximateDP, Composed, Gaussian, PoissonSampled, Repeated, phases
from dpcore.guarantee import Status
from dpcore.mechanisms.protocol import Scheduled
from sweeps.execution.limits import HOURS_OVER
from sweeps.privacy import charge as charges
from sweeps.privacy import ledger as steps
from sweeps.privacy import totals as ledger
from sweeps.privacy.release import PublishedStore
from sweeps.privacy.totals import procedure_guarantee
from sweeps.privacy.wording import Verdict, quote_of_total
from sweeps.store.records import LedgerEntry, Settlement, SweepState, TrialRecord, TrialState
from tests.sweeps import view_sweeps
from tests.sweeps.specs import recorded
from tests.sweeps.stores import guarantee, plan, proposal
from trainables.data import SOURCES
from trainables.system import PrivacyTarget
from trainables.systems.noisy_mean import NOISY_MEAN

ADD_REMOVE = Adjacency.ADD_REMOVE


def entry(key="a-0", attempt=1, start=0, stop=100, executed=None):
    return LedgerEntry(key=key, attempt=attempt, from_step=start, to_step=stop, executed_to=executed)


LOST_TWICE = [
    entry(executed=60),
    entry(attempt=2, start=40, executed=100),
    entry(key="a-1", executed=None),
    entry(key="a-2", stop=10, executed=0),
]


@st.composite
def histories(draw):
    """Attempts of one trial as the store allows them: each starts at or below the furthest executed step."""
    entries, reached = [], 0
    for attempt in range(1, draw(st.integers(1, 6)) + 1):
        start = draw(st.integers(0, reached))
        stop = draw(st.integers(start + 1, start + 40))
        executed = draw(st.integers(start, stop))
        reached = max(reached, executed)
        entries.append(entry(attempt=attempt, start=start, stop=stop, executed=executed))
    return entries


@given(histories())
@settings(max_examples=200)
def test_the_path_is_the_union_of_what_was_executed(entries):
    taken = [set(range(one.from_step, one.executed_to)) for one in entries]
    spent = steps.spending(entries)
    assert spent.executed == sum(map(len, taken))
    assert spent.path == len(set().union(*taken)) == max(one.executed_to for one in entries)
    assert spent.excess >= 0


def test_the_event_counts_overlapping_steps_again():
    plans = {key: plan() for key in ("a-0", "a-1", "a-2")}
    step = plan().event().event
    assert phases(ledger.released(plans, LOST_TWICE).training) == {step: 220}
    with pytest.raises(InvalidValue, match="a-2"):
        ledger.released({key: plans[key] for key in ("a-0", "a-1")}, [*LOST_TWICE, entry("a-2", executed=5)])


def test_deltas_that_approximate_releases_have_fixed_come_on_top():
    """Three releases at (1, 1e-4) have no epsilon at delta 1e-4; together with 1e-4 for the Gaussian they have one."""
    release = ApproximateDP(epsilon=1.0, delta=1e-4, adjacency=ADD_REMOVE)
    mixed = replace(plan(), mechanism=Scheduled(schedule=((release, 3), (Gaussian(noise_multiplier=5.0), 97))))
    assert headline(mixed.event(), 1e-4, ADD_REMOVE).epsilon == math.inf
    counted = ledger.procedure_guarantee({"a-0": mixed}, [entry()], delta=1e-4, adaptive=False)
    assert counted.delta == pytest.approx(1e-4 + 1 - (1 - 1e-4) ** 3, rel=1e-9)
    assert counted.delta > 1e-4 + 1 - (1 - 1e-4) ** 3 - 1e-18
    alone = headline(Repeated(event=Gaussian(noise_multiplier=5.0), count=97), 1e-4, ADD_REMOVE).epsilon
    assert alone < counted.epsilon < alone + 3.0
    assert headline(mixed.event(), counted.delta, ADD_REMOVE).epsilon == pytest.approx(counted.epsilon, rel=1e-3)


@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        ({"search": {"sampler": "one that nobody listed"}}, ["nobody listed"]),
        ({"search": {"sampler": "random"}, "early_stopping": {"method": "asha"}}, ["early stopping"]),
        ({"search": {"sampler": "gp"}, "early_stopping": {"method": "asha"}}, ["gp", "early stopping"]),
    ],
)
def test_what_chooses_by_results_is_named_and_a_stranger_counts_as_choosing(spec, chosen):
    """A sampler that somebody forgets to list must not make a total print as a claim."""
    found = ledger.choices_by_results(recorded(spec))
    assert len(found) == len(chosen)
    assert all(word in choice.what and word in choice.will for word, choice in zip(chosen, found, strict=True))


@given(st.lists(st.tuples(st.floats(0.5, 50), st.integers(1, 100)), min_size=2, max_size=8))
@settings(max_examples=50)
def test_unsampled_gaussians_become_one_exactly(parts):
    event = Composed(events=tuple(Repeated(event=Gaussian(noise_multiplier=s), count=n) for s, n in parts))
    one = charges.collapsed(event)
    ((gaussian, count),) = phases(one).items()
    # In exact arithmetic: never less than what the parts spend, and hardly more.
    spent = sum(Fraction(n) / Fraction(s) ** 2 for s, n in parts)
    assert spent <= Fraction(count) / Fraction(gaussian.noise_multiplier) ** 2 <= spent * (1 + Fraction(1, 10**10))


def many_phases(number):
    return Composed(
        events=tuple(
            Repeated(
                event=PoissonSampled(rate=0.01 + 0.0001 * index, event=Gaussian(noise_multiplier=1.0 + 0.003 * index)),
                count=10 + index,
            )
            for index in range(number)
        )
    )


def test_coarser_phases_spend_more_but_not_much():
    event = many_phases(60)
    rounded, ratio = charges.coarsened(event, max_phases=16)
    assert len(phases(rounded)) <= 16
    assert sum(phases(rounded).values()) == sum(phases(event).values())
    exact = headline(event, 1e-5, ADD_REMOVE)
    bound = headline(rounded, 1e-5, ADD_REMOVE)
    assert exact.epsilon_lower <= bound.epsilon <= exact.epsilon * ratio**3
    assert charges.coarsened(event, max_phases=60) == (event, 1.0)


@given(st.floats(0.3, 100), st.floats(1e-5, 1), st.floats(1.001, 1.5))
@settings(max_examples=300)
def test_rounding_is_always_to_the_safe_side(noise, rate, ratio):
    rounded = charges._rounded(PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise)), ratio)
    assert noise / ratio * (1 - 1e-9) <= rounded.event.noise_multiplier <= noise
    assert rate <= rounded.rate <= min(1.0, rate * ratio * (1 + 1e-9))


def trial(number, epsilon=1.0):
    return TrialRecord.of("a", proposal(number), TrialState.COMPLETE, plan=plan(), guarantee=guarantee(epsilon))


CHOSEN = ledger.choices_by_results(recorded({"search": {"sampler": "tpe"}}))


def test_claims_that_rest_on_different_assumptions_share_no_number():
    other = replace(trial(1, 3.0), guarantee=replace(guarantee(3.0), assumptions=("Something else.",)))
    found = steps.largest_claims([trial(0, 1.0), other, trial(2, 2.0)])
    assert sorted((one.guarantee.epsilon, one.trial, one.trials) for one in found) == [(2.0, "a-2", 2), (3.0, "a-1", 1)]


def test_the_summary_keeps_claim_and_ledger_apart():
    trials = [trial(0, 1.0), trial(1, math.inf), trial(2, 3.0)]
    out = ledger.summary(trials, LOST_TWICE).to_dict()
    assert (out["steps_executed"], out["steps_on_paths"], out["steps_in_excess"]) == (220, 200, 20)
    assert (out["steps_reserved_unsettled"], out["attempts"], out["largest_claim"]) == (100, 4, "inf")
    assert "procedure" not in out
    fixed = ledger.summary(trials, LOST_TWICE, ()).to_dict()["procedure"]
    assert (fixed["is_claim"], fixed["accountant"], fixed["status"]) == (True, "pld", "proved")
    assert ledger.summary(trials, LOST_TWICE, CHOSEN).procedure.is_claim is False
    assert ledger.summary([], [], ()).to_dict()["largest_claim"] is None


@pytest.mark.parametrize(
    ("state", "rests"),
    [("running", True), ("stopped", True), ("deleted", True), ("out of hours", True), ("finished", False)],
)
def test_a_total_of_fewer_trials_than_were_fixed_rests_on_who_ended_them(tmp_path, state, rests):
    store = view_sweeps.new_sweep(tmp_path)
    lease = store.acquire("views")
    store.set_state(lease, "running")
    view_sweeps.complete(store, lease, 0)
    record = replace(store.sweep("views"), state=SweepState(state))
    canonical = {**record.spec.canonical(), "search": {"sampler": "random", "trials": 3}}
    record = replace(record, spec=recorded(canonical))
    sentence = "That only 1 of its 3 trials have ended was not decided by results."
    if state == "out of hours":
        sentence = "That only 1 of its 3 trials ended within limits.hours was not decided by records."
    assert ledger.cut_short(record, store.trials("views")) == ((sentence,) if rests else ())
    found = ledger.summary_of(PublishedStore(store), record, store.trials("views"))
    assert (sentence in found.procedure.guarantee.assumptions) == rests
    view_sweeps.complete(store, lease, 1)
    view_sweeps.complete(store, lease, 2)
    assert ledger.cut_short(record, store.trials("views")) == ()


def test_a_trial_that_the_hours_left_on_its_way_counts_with_its_whole_plan(tmp_path):
    """Known gap: how far the clock lets a trial come may depend on records, and the total took what ran."""
    totals = []
    for horizon in (3, 10):
        store = view_sweeps.new_sweep(tmp_path / str(horizon))
        lease = store.acquire("views")
        key = view_sweeps.launch(store, lease, 0)
        store.lose(lease, key, 1, horizon, HOURS_OVER)
        store.set_state(lease, "out of hours")
        record, trials, entries = store.sweep("views"), store.trials("views"), store.ledger("views")
        assert steps.spending(entries).executed == horizon, "the ledger says what ran"
        totals.append(ledger.summary_of(PublishedStore(store), record, trials).procedure)
        store.close()
    assert totals[0].guarantee == totals[1].guarantee
    assert [one.whole for one in totals] == [1, 0]


def test_a_total_with_lost_launches_rests_on_why_they_were_lost(tmp_path):
    """Known gap: a worker that died of its records was launched again, and the total said no word of it."""
    store = view_sweeps.new_sweep(tmp_path, search={"sampler": "random", "trials": 1})
    lease = store.acquire("views")
    key = view_sweeps.launch(store, lease, 0)
    store.lose(lease, key, 1, 3, "the worker died")
    store.relaunch(lease, key, 3, 10)
    came = Settlement(executed_to=10, step=10, metrics={"accuracy": 0.5}, guarantee=guarantee(), seconds=0.5)
    store.settle(lease, key, 2, came)
    store.set_state(lease, "finished")
    record, trials = store.sweep("views"), store.trials("views")
    found = ledger.summary_of(PublishedStore(store), record, trials).procedure
    sentence = "That 1 launch was lost and made again was not decided by records or results."
    assert found.rests_on == (sentence,)
    assert sentence in found.guarantee.assumptions
    assert quote_of_total(found).verdict is Verdict.WITH
    stopping = recorded({**record.spec.canonical(), "early_stopping": {"method": "asha"}})
    assert ledger.cut_short(replace(record, spec=stopping), trials) == ()


# Claims of sums: one stands no firmer than its weakest part.

CONFIG = {"clip": 0.8, "steps": 10, "shrinkage": 0.9, "prior": 0.4, "step_seconds": 0.0}


def plan_with(status=Status.PROVED, **changes):
    plan = NOISY_MEAN.plan(CONFIG, SOURCES["uniform"].facts({}), PrivacyTarget(epsilon=1.0, delta=1e-5), {})
    return replace(plan, guarantee=replace(plan.guarantee, status=status), **changes)


@pytest.mark.parametrize("status", [Status.PROVED_UNDER_ASSUMPTIONS, Status.REFUTED])
def test_a_procedure_stands_no_firmer_than_its_weakest_plan(status):
    plans = {"s-0": plan_with(), "s-1": plan_with(status)}
    entries = [LedgerEntry(key=key, attempt=1, from_step=0, to_step=10, executed_to=10) for key in plans]
    assert procedure_guarantee(plans, entries, 1e-5, adaptive=False).status is status
    assert procedure_guarantee(plans, entries, 1e-5, adaptive=True).status is Status.NO_CLAIM
