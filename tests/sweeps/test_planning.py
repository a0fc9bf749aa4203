"""Plans before any record is read: limits refuse, senseless ends surface, previews add up."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, MutableMapping
from dataclasses import replace
from typing import Any

import pytest

from dpcore.checks import InvalidValue
from dpcore.events import NonPrivate
from dpcore.gdp import eps_gdp, mu_gdp
from dpcore.guarantee import Status
from dpcore.mechanisms.protocol import Scheduled
from sweeps.planning.estimate import next_sweep
from sweeps.planning.plan import check_corners, plan_proposal
from sweeps.planning.preview import preview, spread_lines
from sweeps.privacy.totals import procedure_guarantee
from sweeps.search.space import Space
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import SweepSpec
from sweeps.store.population import Population
from sweeps.store.records import LedgerEntry
from tests.sweeps import specs
from tests.sweeps.fake_workers import SPEC
from tests.sweeps.toys import SOURCES, Hill, spec_with
from trainables.registry import SYSTEMS
from trainables.system import Config, DatasetSpec, PrivacyPlan, PrivacyTarget, Refusal

pytestmark = pytest.mark.usefixtures("toys_known")
FACTS = SOURCES["points"].facts({})


def point(spec: SweepSpec, **knobs: Any) -> Config:
    """The first branch's defaults with these knobs."""
    space = Space.of(spec)
    middle = {name: domain.draw(0.5) for name, domain in space.branches[0].searched.items()}
    return space.config(space.branches[0], space.epsilons[0], middle | knobs)


@pytest.mark.parametrize(
    ("source", "words"), [("pseudorandom", "statistical, not cryptographic"), ("secure", "cryptographic (noise_source")]
)
def test_a_claim_names_the_generator_of_its_noise_and_so_does_the_total(source: str, words: str) -> None:
    spec = load_spec(specs.mean(privacy={"epsilon": 1.0, "delta": 1e-5, "noise_source": source}))
    plan = plan_proposal(spec, point(spec), public_facts(spec), {})
    assert isinstance(plan, PrivacyPlan)
    named = [line for line in plan.guarantee.assumptions if line.startswith("floating-point")]
    assert len(named) == 1
    assert words in named[0]
    entry = LedgerEntry(key="t-0", attempt=1, from_step=0, to_step=plan.steps, executed_to=plan.steps)
    total = procedure_guarantee({"t-0": plan}, [entry], 1e-5, adaptive=False)
    assert [line for line in total.assumptions if line.startswith("floating-point")] == named


def test_limits_refuse_with_the_logarithm_of_the_excess() -> None:
    spec = spec_with(limits={"work": 100, "noise_multiplier": 2.0})
    refusal = plan_proposal(spec, point(spec), FACTS, {})
    assert isinstance(refusal, Refusal)
    assert refusal.violations == pytest.approx({"work": math.log(2.7), "noise_multiplier": math.log(math.sqrt(27) / 2)})
    fits = spec_with(limits={"work": 270, "noise_multiplier": 5.2})
    assert isinstance(plan_proposal(fits, point(fits), FACTS, {}), PrivacyPlan)


class Changed(Hill):
    """The hill, whose plan is what `change` makes of a configuration, a target and the plan that is right."""

    def __init__(self, change: Callable[[Config, PrivacyTarget, PrivacyPlan], PrivacyPlan]) -> None:
        self._change = change

    def plan(
        self, config: Config, facts: DatasetSpec, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """The right one, changed."""
        plan = super().plan(config, facts, target, calibrations)
        assert isinstance(plan, PrivacyPlan)
        return self._change(config, target, plan)


def claiming(**fields: float) -> Changed:
    """A system with the known bug: these fields of its claims are so many times the target's."""

    def change(config: Config, target: PrivacyTarget, plan: PrivacyPlan) -> PrivacyPlan:
        claim = {name: times * getattr(target, name) for name, times in fields.items()}
        return replace(plan, guarantee=replace(plan.guarantee, **claim))

    return Changed(change)


@pytest.mark.parametrize("system", [claiming(epsilon=1.001), claiming(delta=2)])
def test_a_plan_above_its_target_is_never_launched(system: Hill, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_with()
    monkeypatch.setitem(SYSTEMS, "hill", system)
    with pytest.raises(InvalidValue, match=r"hill.plan=.*expected a claim within epsilon=1.0 and delta=1e-05"):
        plan_proposal(spec, point(spec), FACTS, {})


def fussy(config: Config, target: PrivacyTarget, plan: PrivacyPlan) -> PrivacyPlan:
    """Some ends of its own range are senseless: a rate above 5, and a model that it does not know."""
    if float(config["rate"]) > 5:
        raise InvalidValue("rate", config["rate"], "at most 5 for this model", "Lower it.")
    if config["model"] == "oak":
        raise InvalidValue("model", "oak", "mlp")
    return plan


def test_senseless_ends_of_domains_surface_before_the_first_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_with(
        systems={"hill": {"rate": {"log_uniform": [0.1, 10]}, "model": {"choice": ["mlp", "oak"]}, "clip": 1.0}}
    )
    check_corners(spec_with(), FACTS, {})
    monkeypatch.setitem(SYSTEMS, "hill", Changed(fussy))
    with pytest.raises(SpecErrors) as caught:
        check_corners(spec, FACTS, {})
    assert [(error.path, error.expected) for error in caught.value.errors] == [
        ("systems.hill.model", "mlp"),
        ("systems.hill.rate", "at most 5 for this model"),
    ]


def paired(config: Config, target: PrivacyTarget, plan: PrivacyPlan) -> PrivacyPlan:
    """Some combinations are senseless, though each value has its uses: oak goes above 1 only, mlp below."""
    if (config["model"] == "oak") != (float(config["rate"]) > 1):
        raise InvalidValue("model", config["model"], "the other one at this rate", "Change rate.")
    return plan


@pytest.mark.parametrize("models", [["mlp", "oak"], ["oak", "mlp"]])
def test_a_senseless_combination_is_refused_and_ends_nothing(
    models: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to end the sweep, and every resumption of it, with the system's error."""
    spec = spec_with(systems={"hill": {"rate": {"log_uniform": [0.1, 10]}, "model": {"choice": models}, "clip": 1.0}})
    monkeypatch.setitem(SYSTEMS, "hill", Changed(paired))
    check_corners(spec, FACTS, {})
    found = preview(spec)
    assert 60 < found.feasible < 140
    assert dict(found.reasons) == {"model": found.samples - found.feasible}
    assert any("expected the other one at this rate. Change rate." in note for note in found.notes)


RANDOM = {"search": {"sampler": "random", "trials": 3}}
RARE = RANDOM | {"systems": {"noisy-mean": {"steps": {"int_uniform": [1, 60]}}}}
TIMED = RANDOM | {"objectives": [{"metric": "expected_error"}, {"metric": "seconds"}]}
PUBLISHED = {"systems": {"convexified-loss": {}}, "objectives": [{"metric": "accuracy"}]}
DIGITS, PUBLIC = {"source": "digits"}, {"source": "digits", "records_are_public": "handwritten digits of a benchmark"}
UNCOVERED = "train_accuracy, baseline_leak of convexified-loss read records outside of every claim: they leave no trial"


@pytest.mark.parametrize(
    ("words", "noted", "silent"),
    [
        ("so few draws are feasible", RARE | {"limits": {"noise_multiplier": 3.8}}, RARE),
        ("seconds depend on the machine", TIMED, RANDOM),
        (UNCOVERED, PUBLISHED | {"data": DIGITS}, PUBLISHED | {"data": PUBLIC}),
    ],
    ids=["few", "timed", "uncovered"],
)
def test_a_note_says_what_would_surprise_the_author(words: str, noted: dict[str, Any], silent: dict[str, Any]) -> None:
    for sections, said in ((noted, True), (silent, False)):
        assert any(words in note for note in preview(load_spec(specs.mean(**sections))).notes) == said


def test_what_early_stopping_leaves_unspent_is_said_where_no_trial_has_it_as_less_noise() -> None:
    spread = {"equal": True, "front-loaded": True, "halving": False}
    for name, said in spread.items():
        privacy = {"epsilon": 1.0, "delta": 1e-5, "scope": "sweep", "spread": name}
        spec = load_spec(specs.mean(privacy=privacy, early_stopping={"method": "asha"}))
        assert any("leave their parts unspent" in line for line in spread_lines(spec)) == said


def bare(config: Config, target: PrivacyTarget, plan: PrivacyPlan) -> PrivacyPlan:
    """A baseline without noise, which says so."""
    claim = replace(plan.guarantee, epsilon=math.inf, status=Status.MEMBERSHIP_ONLY)
    return replace(plan, mechanism=Scheduled(schedule=((NonPrivate(), plan.steps),)), guarantee=claim)


def test_a_trial_that_claims_nothing_needs_a_reason_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "a baseline of the comparison"
    monkeypatch.setitem(SYSTEMS, "hill", Changed(bare))
    with pytest.raises(SpecErrors, match=r"privacy.allow_unprotected=None: expected the reason why hill may run"):
        check_corners(spec_with(), FACTS, {})
    allowed = spec_with(privacy={"epsilon": 1, "delta": 1e-5, "allow_unprotected": reason})
    seen = preview(allowed)
    assert seen.notes[0] == (f"hill claim NOTHING: epsilon is infinite, whatever the budget. Allowed because: {reason}")
    assert seen.feasible == seen.samples
    # A sweep with an unprotected trial in it has no finite total, and says so.
    assert seen.total is not None
    assert seen.total.epsilon == math.inf
    json.dumps(seen.to_dict(), allow_nan=False)
    # Others are held to the budget all the same.
    monkeypatch.setitem(SYSTEMS, "hill", claiming(epsilon=1.001))
    with pytest.raises(InvalidValue, match="calibration is wrong"):
        plan_proposal(allowed, point(allowed), FACTS, {})


# What a sweep is said to cost before it runs holds the points that are tried whatever is drawn.

DELTA = 1e-5
KNOBS = {"clip": {"choice": [0.5, 1.0]}, "steps": 4, "shrinkage": 0.5, "prior": 0.5}
DEAR = [{"clip": 0.5, "target_epsilon": 8.0}, {"clip": 1.0, "target_epsilon": 8.0}]


def certain_spec(**search: Any) -> SweepSpec:
    return load_spec(
        SPEC
        | {
            "data": {"source": "uniform", "n": 1000},
            "systems": {"noisy-mean": KNOBS},
            "privacy": {"epsilon": [0.1, 8.0], "delta": DELTA},
            "search": {"seed": 0} | search,
        }
    )


def together(*epsilons: float) -> float:
    """Of plain Gaussians: exact."""
    return eps_gdp(sum(mu_gdp(one, DELTA) ** 2 for one in epsilons) ** 0.5, DELTA)


@pytest.mark.parametrize(
    ("search", "spent"),
    [
        ({"sampler": "random", "trials": 2, "first": DEAR}, (8.0, 8.0)),
        ({"sampler": "grid", "trials": 4}, (0.1, 0.1, 8.0, 8.0)),
        ({"sampler": "grid", "trials": 10, "repeats": 2, "first": DEAR}, (0.1,) * 4 + (8.0,) * 6),
    ],
    ids=["known", "grid", "both"],
)
def test_the_estimate_holds_what_is_certain(search: dict, spent: tuple[float, ...]) -> None:
    one = certain_spec(**search)
    assert preview(one).total.epsilon == pytest.approx(together(*spent), rel=2e-2)
    ledger = Population.of("people", "linear", 1000.0, 1e-2)
    assert next_sweep(ledger, [], one, public_facts(one)).cost.epsilon == pytest.approx(sum(spent), rel=2e-2)


def test_what_is_left_to_draws_is_drawn() -> None:
    one = certain_spec(sampler="random", trials=40, first=DEAR)
    total = preview(one).total.epsilon
    assert together(8.0, 8.0, *[8.0] * 10) < total < together(*[8.0] * 40)
