"""Four systems: their noise against its stated scale, their counters, and what they release."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpcore.accountants.composition import eps_pure
from dpcore.accounting import headline
from dpcore.checks import InvalidValue
from dpcore.erm import LogisticRisk, minimise, unit_inputs
from dpcore.events import Adjacency, ApproximateDP, Gaussian, PureDP
from dpcore.gdp import eps_gdp
from dpcore.guarantee import Status
from dpcore.mechanisms import noisy_vote
from dpcore.mechanisms.loss_perturbation import least_modulus
from dpcore.mechanisms.output_perturbation import MinimiserSensitivity, RadialNoise
from tests.trainables.recording import blobs, counted, memory_run
from trainables.data import SOURCES
from trainables.hyperparameters import read
from trainables.registry import SYSTEMS
from trainables.system import InputSpec, PrivacyPlan, PrivacyTarget, Refusal, RunSettings, Split
from trainables.systems import vandermaaten2020 as minimiser
from trainables.systems import vandermaaten2020 as voters
from trainables.systems.answering import QueriesSpent
from trainables.systems.linear import rows, width_of
from trainables.systems.lu2021 import CONVEXIFIED_HEAD, CONVEXIFIED_LOSS
from trainables.systems.vandermaaten2020 import (
    LOSS_PERTURBATION,
    MODEL_SENSITIVITY,
    PREDICTION_SENSITIVITY,
    SUBSAMPLE_AND_AGGREGATE,
    MemberHyperparameters,
    ModelSensitivityHyperparameters,
    certificate,
    minimised,
)

DELTA = 1e-4
NETWORK = {"hidden": 8, "epochs": 60, "learning_rate": 0.3, "batch_size": 8}
REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
FACTS = SOURCES["digits"].facts({})

CASES = [
    (MODEL_SENSITIVITY, {"noise": "gaussian"}),
    (MODEL_SENSITIVITY, {"noise": "pure"}),
    *(
        (PREDICTION_SENSITIVITY, {"noise": noise, "composition": how, "queries": 50})
        for noise, how in [
            ("gaussian", "joint"),
            ("gaussian", "advanced"),
            ("gaussian", "standard"),
            ("pure", "joint"),
            ("pure", "standard"),
        ]
    ),
    (LOSS_PERTURBATION, {"noise": "pure", "jacobian": "rank"}),
    (LOSS_PERTURBATION, {"noise": "pure", "jacobian": "trace"}),
    (LOSS_PERTURBATION, {"noise": "gaussian"}),
    *((SUBSAMPLE_AND_AGGREGATE, {"composition": how, "models": 40}) for how in ("joint", "advanced", "standard")),
]
IDS = ["-".join([system.name, *map(str, knobs.values())]) for system, knobs in CASES]


def target(epsilon=2.0, adjacency=REPLACE, solve="noise"):
    return PrivacyTarget(epsilon=epsilon, delta=DELTA, adjacency=adjacency, solve=solve)


def planned(system, knobs, **settings):
    plan = system.plan({"regularisation": 0.02, **knobs}, FACTS, target(**settings), {})
    return plan


def small(n=40, n_validation=30, classes=3, seed=0, spread=0.1):
    return blobs(n, n_validation, classes, seed, spread)


def noise_only(data, plan, count):
    """Released models minus the certified minimiser, over independent attempts."""
    exact = minimised(read(ModelSensitivityHyperparameters, plan.config), data.facts, data.train, data.facts.n, 1e-12)
    runs = [memory_run(plan, key=f"t-{k}") for k in range(count)]
    SYSTEMS[plan.system].fit(runs, data, RunSettings())
    return np.stack([run.final[1]["theta"] for run in runs]) - exact


def test_the_released_model_has_the_planned_noise():
    """Gaussian: chi-square of 1,200 coordinates; pure: Gamma radii of 400 draws. Each wrong once in 10,000 seeds."""
    data = small()
    sensitivity = MinimiserSensitivity(n=40, modulus=0.5, adjacency=REPLACE, tau=certificate(40)).value
    for noise in ("gaussian", "pure"):
        plan = MODEL_SENSITIVITY.plan({"regularisation": 0.5, "noise": noise}, data.facts, target(), {})
        scale = plan.config["noise_multiplier"] * sensitivity
        found = noise_only(data, plan, 100 if noise == "gaussian" else 400)
        law, values = (
            (stats.norm(scale=scale), found.ravel())
            if noise == "gaussian"
            else (stats.gamma(12, scale=scale), np.linalg.norm(found.reshape(len(found), -1), axis=1))
        )
        assert stats.kstest(values, law.cdf).pvalue > 1e-4
        # The same test finds the sensitivity that forgets the factor 2 of replace-one.
        assert stats.kstest(2 * values, law.cdf).pvalue < 1e-6


def test_every_query_gets_noise_of_its_own_at_the_planned_scale(monkeypatch):
    """All logits of all queries are noised afresh; radii of the noise are Gamma (pure)."""
    data = small(n_validation=300)
    plan = PREDICTION_SENSITIVITY.plan(
        {"regularisation": 0.5, "noise": "pure", "queries": 300}, data.facts, target(), {}
    )
    seen = []
    true_sample = RadialNoise.sample

    def sample(self, shape, normals):
        seen.append(true_sample(self, shape, normals))
        return seen[-1]

    monkeypatch.setattr(RadialNoise, "sample", sample)
    PREDICTION_SENSITIVITY.fit([memory_run(plan)], data, RunSettings())
    assert len(seen) == 300
    assert all(one.shape == (3,) for one in seen)
    sensitivity = MinimiserSensitivity(n=40, modulus=0.5, adjacency=REPLACE, tau=certificate(40)).value
    scale = plan.config["noise_multiplier"] * sensitivity
    radii = [np.linalg.norm(one) for one in seen]
    assert stats.kstest(radii, stats.gamma(3, scale=scale).cdf).pvalue > 1e-4


def test_perturbed_minimisers_solve_the_perturbed_objective(monkeypatch):
    """Gradient zero at the planned modulus, with the divisor n and the noise that was drawn."""
    data = small()
    plan = LOSS_PERTURBATION.plan({"regularisation": 1e-6, "noise": "pure"}, data.facts, target(), {})
    drawn = []
    true_sample = RadialNoise.sample

    def sample(self, shape, normals):
        drawn.append((self.beta, true_sample(self, shape, normals)))
        return drawn[-1][1]

    monkeypatch.setattr(RadialNoise, "sample", sample)
    run = memory_run(plan)
    LOSS_PERTURBATION.fit([run], data, RunSettings())
    (beta, linear), (_, output) = drawn
    objective = 2.0 * 0.99
    modulus = least_modulus(objective, 40, 3, "trace")
    assert beta == pytest.approx(objective / (4 * math.sqrt(2)))
    risk = LogisticRisk(
        rows(data.facts, data.train, 1.0, False), data.train.targets, 3, 40, modulus * (1 + 1e-9), linear / 40
    )
    _, gradient = risk.value_and_gradient(run.final[1]["theta"] - output)
    assert np.linalg.norm(gradient) < 1e-7
    assert np.linalg.norm(output) < 1e-3


def test_parts_are_disjoint_complete_and_decided_by_n_alone():
    parts = voters.parts_of(101, 7, seed=0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(101))
    assert {len(part) for part in parts} == {14, 15}
    assert all(np.array_equal(a, b) for a, b in zip(parts, voters.parts_of(101, 7, seed=0), strict=True))


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_one_record_changes_one_vote(model):
    data = small()
    knobs = MemberHyperparameters(regularisation=0.01, clip_norm=1.0, bias=False, models=8, model=model, **NETWORK)
    targets = data.train.targets.copy()
    targets[11] = (targets[11] + 1) % 3
    changed = replace(data, train=replace(data.train, targets=targets))
    before, after = (voters.winners(knobs, one, RunSettings()) for one in (data, changed))
    assert before.shape == (8, len(data.validation))
    assert sum(not np.array_equal(a, b) for a, b in zip(before, after, strict=True)) == 1


# ---- counting queries


@pytest.mark.parametrize("system", [PREDICTION_SENSITIVITY, SUBSAMPLE_AND_AGGREGATE])
def test_no_query_is_answered_twice_and_none_beyond_the_claim(system):
    """Whatever a restart finds: a count that disagrees with the ledger, or query B+1, is refused before its noise."""
    data, asked = SOURCES["digits"].load({}), []
    plan = planned(system, {"queries": 90} | ({"models": 10} if system is SUBSAMPLE_AND_AGGREGATE else {}))

    def answered(**span):
        run = memory_run(plan, **span)
        run.released = lambda **shown: asked.extend(shown["asked"].tolist())
        system.fit([run], data, RunSettings())
        assert set(run.final[1]) == {"answered", "correct"}
        return run.final[1]

    first = answered(to_step=40)
    last = answered(from_step=40, state=first, attempt=2)
    assert len(asked) == len(set(asked)) == int(last["answered"]) == 90
    assert int(last["correct"]) >= int(first["correct"])
    again = memory_run(plan, from_step=90, to_step=91, state=last, attempt=3)
    with pytest.raises(QueriesSpent, match="90 of 90"):
        system.fit([again], data, RunSettings())
    disagreeing = memory_run(plan, from_step=45, state=first, attempt=4)
    with pytest.raises(ValueError, match="40 queries answered in its records, expected 45"):
        system.fit([disagreeing], data, RunSettings())
    assert again.horizons == disagreeing.horizons == []


# ---- groups and inputs


def test_one_training_serves_every_epsilon_of_a_group(monkeypatch):
    data, trainings = small(), []
    monkeypatch.setattr(minimiser, "minimise", lambda *args: trainings.append(args) or minimise(*args))
    plans = [
        MODEL_SENSITIVITY.plan({"regularisation": 0.1, "noise": noise}, data.facts, target(epsilon=epsilon), {})
        for noise in ("gaussian", "pure")
        for epsilon in (0.5, 1.0, 2.0)
    ]
    assert len({plan.group for plan in plans}) == 1
    MODEL_SENSITIVITY.fit([memory_run(plan, key=f"t-{k}") for k, plan in enumerate(plans)], data, RunSettings())
    assert len(trainings) == 1


def test_replace_one_refuses_another_number_of_records():
    data = small()
    plan = MODEL_SENSITIVITY.plan({"regularisation": 0.1}, data.facts, target(), {})
    shorter = replace(data, train=Split({"x": data.train.inputs["x"][1:]}, data.train.targets[1:]))
    with pytest.raises(InvalidValue, match="under replace-one"):
        MODEL_SENSITIVITY.fit([memory_run(plan)], shorter, RunSettings())


def test_categories_become_columns():
    facts = replace(
        FACTS, features={"real": InputSpec(shape=(2,)), "code": InputSpec(shape=(), cardinality=3)}, classes=2
    )
    split = Split(inputs={"real": np.array([[0.1, 0.2], [0.0, 0.0]]), "code": np.array([2, 0])}, targets=np.zeros(2))
    found = rows(facts, split, 2.0, bias=True)
    assert width_of(facts, bias=True) == found.shape[1] == 6
    plain = np.array([[0.1, 0.2, 0, 0, 1], [0, 0, 1, 0, 0]])
    assert np.allclose(found, np.hstack([unit_inputs(plain, 2.0), np.ones((2, 1))]) / math.sqrt(2))


# ---- two worlds, told apart from what is released


# ---- the rules that the paper prints


# Four systems: their plans against exact composition, and what no plan is made of.


@pytest.mark.parametrize(("system", "knobs"), CASES, ids=IDS)
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 20.0])
def test_plans_meet_their_budget_and_are_counted_independently(system, knobs, epsilon):
    plan = planned(system, knobs, epsilon=epsilon)
    claim = plan.guarantee
    assert (claim.delta, claim.adjacency) == (DELTA, REPLACE)
    assert claim.epsilon <= epsilon
    ((each, count),) = counted(plan)
    if isinstance(each, Gaussian):
        exact = eps_gdp(math.sqrt(count) / each.noise_multiplier, DELTA)
        # The closed form is rounded up too: which of the two lies higher is rounding.
        assert exact * (1 - 1e-12) <= claim.epsilon <= exact * (1 + 1e-6)
    elif isinstance(each, ApproximateDP):
        assert count == 1
        assert (claim.epsilon, claim.delta) == (each.epsilon, each.delta)
    else:
        assert isinstance(each, PureDP)
        exact = eps_pure(each.epsilon, count, DELTA)
        assert claim.epsilon <= exact
        assert claim.epsilon == exact or claim.accountant == "zcdp"
    if knobs.get("composition", "joint") == "joint":
        # Pure releases at one shot have nothing to trade for delta.
        assert claim.epsilon > epsilon * (1 - 1e-2)
    assert any("floating-point" in line for line in claim.assumptions)
    named = {LOSS_PERTURBATION: Status.PROVED_UNDER_ASSUMPTIONS}
    assert claim.status is named.get(system, Status.PROVED)


def test_the_papers_claim_stands_beside_the_exact_one():
    plan = planned(PREDICTION_SENSITIVITY, {"composition": "advanced"}, epsilon=1.0)
    (paper,) = plan.beside
    assert (paper.accountant, paper.epsilon, paper.delta) == ("advanced", 1.0, DELTA)
    assert plan.guarantee.epsilon < 0.5
    pure = planned(PREDICTION_SENSITIVITY, {"noise": "pure", "composition": "standard"}, epsilon=1.0).beside[0]
    assert (pure.accountant, pure.delta) == ("naive", 0.0)
    assert pure.epsilon == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(
    ("system", "knobs"),
    [
        (PREDICTION_SENSITIVITY, {"noise_multiplier": 20.0}),
        (PREDICTION_SENSITIVITY, {"noise_multiplier": 30.0, "noise": "pure"}),
        (SUBSAMPLE_AND_AGGREGATE, {"temperature": 30.0, "models": 40}),
        (CONVEXIFIED_LOSS, {"noise_multiplier": 8.0, "epochs": 3}),
        (CONVEXIFIED_HEAD, {"noise_multiplier": 8.0, "alpha": 0.1}),
    ],
)
def test_steps_are_the_largest_number_of_queries(system, knobs):
    adjacency = ADD if system is CONVEXIFIED_LOSS else REPLACE
    plan = planned(system, knobs, solve="steps", adjacency=adjacency)
    assert plan.solved == ("queries",)
    assert plan.steps == plan.config["queries"] < FACTS.n_validation
    one_more = {**plan.config, "queries": plan.steps + 1}
    given = target(solve="none", adjacency=adjacency)
    assert system.plan(one_more, FACTS, given, {}).violations["epsilon"] > 0
    assert isinstance(system.plan(plan.config, FACTS, given, {}), PrivacyPlan)


def test_add_remove_needs_half_the_noise_for_the_same_ratio():
    one, two = (planned(*CASES[0], adjacency=a).mechanism for a in (ADD, REPLACE))
    assert one.noise_multiplier == pytest.approx(two.noise_multiplier)
    # K/n and 2K/n, each with the same certificate on top.
    assert two.noise.sigma / one.noise.sigma == pytest.approx(2.02 / 1.02)


# ---- the rules that the paper prints: each says how firmly it stands, and is charged what is proved to be spent


@pytest.mark.parametrize(("models", "queries", "spent"), [(2, 1, 1.2), (3, 1, 1.474), (32, 1, 2.0), (256, 10, 2.0)])
def test_the_published_vote_claims_epsilon_and_is_charged_its_exact_loss(models, queries, spent):
    knobs = {"composition": "published", "models": models, "queries": queries}
    plan = planned(SUBSAMPLE_AND_AGGREGATE, knobs, epsilon=1.0)
    claim = plan.guarantee
    assert plan.config["temperature"] == pytest.approx(queries, rel=1e-8)
    assert (claim.status, claim.accountant, claim.delta) == (Status.REFUTED, "as-published", DELTA)
    assert 1.0 * (1 - 1e-8) < claim.epsilon <= 1.0
    ((each, count),) = counted(plan)
    assert isinstance(each, PureDP)
    assert each.epsilon == noisy_vote.loss_per_query(1 / plan.config["temperature"], models, 10)
    assert count * each.epsilon == pytest.approx(spent, abs=0.002)
    assert f"the true epsilon at delta 0 is {count * each.epsilon:.6g}" in claim.assumptions[0]
    assert {one.status for one in plan.beside} == {Status.PROVED}
    at_delta, at_zero = plan.beside[0], plan.beside[-1]
    assert at_delta.epsilon <= eps_pure(each.epsilon, count, DELTA)
    assert (at_delta.delta, at_zero.delta, at_zero.epsilon) == (DELTA, 0.0, count * each.epsilon)
    # The accountant of ledger and total counts the exact loss, whatever is claimed.
    assert headline(plan.event(), DELTA, REPLACE).epsilon > 0.5 * claim.epsilon


def test_the_published_rule_solves_queries_judges_a_temperature_and_holds_for_one_model():
    one = planned(SUBSAMPLE_AND_AGGREGATE, {"composition": "published", "models": 1, "queries": 1}, epsilon=1.0)
    assert one.guarantee.status is Status.PROVED
    assert counted(one)[0][0].epsilon == pytest.approx(1.0, rel=1e-8)
    knobs = {"composition": "published", "models": 3, "temperature": 30.5}
    solved = planned(SUBSAMPLE_AND_AGGREGATE, knobs, epsilon=1.0, solve="steps")
    assert solved.steps == 30
    given = planned(SUBSAMPLE_AND_AGGREGATE, dict(solved.config), epsilon=1.0, solve="none")
    assert given.guarantee == solved.guarantee
    over = {**solved.config, "queries": 31}
    assert isinstance(SUBSAMPLE_AND_AGGREGATE.plan(over, FACTS, target(1.0, solve="none"), {}), Refusal)


@pytest.mark.parametrize(
    ("epsilon", "classes", "status"),
    [
        (0.3, 10, Status.PROVED_UNDER_ASSUMPTIONS),
        (3.0, 10, Status.PROVED_UNDER_ASSUMPTIONS),
        (1.0, 100, Status.REFUTED),
    ],
)
def test_the_printed_perturbation_is_charged_what_the_repaired_proof_establishes(epsilon, classes, status):
    facts = replace(FACTS, classes=classes)
    knobs = {"regularisation": 0.01, "noise": "gaussian-published"}
    privacy = PrivacyTarget(epsilon=epsilon, delta=1e-5, adjacency=ADD)
    plan = LOSS_PERTURBATION.plan(knobs, facts, privacy, {})
    claim, (repaired,) = plan.guarantee, plan.beside
    assert epsilon * (1 - 1e-6) < claim.epsilon <= epsilon
    assert (claim.status, claim.accountant) == (status, "as-published")
    assert (repaired.status, repaired.accountant) == (Status.PROVED_UNDER_ASSUMPTIONS, "tail-bound")
    if status is Status.REFUTED:
        assert "proof is refuted: delta=2.97e-05 is established for c=100" in claim.theorem
        assert epsilon < repaired.epsilon < 1.1 * epsilon
    else:
        assert repaired.epsilon < claim.epsilon
    # Whatever is printed, the ledger counts what is proved to be spent.
    assert counted(plan) == ((ApproximateDP(epsilon=repaired.epsilon, delta=1e-5, adjacency=ADD), 1),)
