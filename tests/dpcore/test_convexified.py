"""Lu et al. (2021): printed numbers, what refutes them, and the repaired variant against exact minimisers."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from dpcore.accounting import guarantee
from dpcore.audit.attacks import advantage_bound
from dpcore.calibrate import sampled_gaussian
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.gdp import mu_gdp
from dpcore.guarantee import Status
from dpcore.papers import lu2021 as convexified
from dpcore.papers.lu2021 import (
    Bound,
    Counting,
    NeuronNoise,
    accuracy_loss,
    baseline_noise,
    linear_objective,
    lu_convex,
    modulus,
    one_neuron_distinguisher,
    output_layer_gradient,
    plotted_leakage_bound,
    published_noise,
    record_weights,
    risk_averse_loss,
    risk_averse_minimiser,
    single_weight,
    weights_bound,
    xor_network,
)

# name: features, classes, records, rho, Dw, Dz, exp(2Dz)-1, OARO; recomputed from the formulas at H=128, lambda=0.0005.
TABLE = {
    "adult": (14, 2, 10000, 0.1654, 0.0015, 0.1871, 0.4538, 0.0109),
    "mnist": (784, 10, 10000, 2.2274, 0.0028, 0.3577, 1.0451, 1.9845),
    "location": (446, 30, 1200, 1.8044, 0.0244, 3.1190, 510.86, 10.8532),
    "purchase-2": (594, 2, 10000, 1.0771, 0.0016, 0.1997, 0.4908, 0.4641),
    "purchase-10": (594, 10, 10000, 1.9388, 0.0028, 0.3570, 1.0422, 1.5036),
    "purchase-20": (594, 20, 10000, 2.0465, 0.0029, 0.3738, 1.1118, 1.6753),
    "purchase-50": (594, 50, 10000, 2.1111, 0.0029, 0.3765, 1.1233, 1.7827),
    "purchase-100": (594, 100, 10000, 2.1327, 0.0029, 0.3664, 1.0807, 1.8193),
    "cifar-10": (3072, 10, 10000, 4.4091, 0.0028, 0.3594, 1.0520, 7.7760),
    "cifar-100": (3072, 100, 10000, 4.8500, 0.0030, 0.3897, 1.1802, 9.4090),
    "texas": (6169, 100, 10000, 6.8729, 0.0031, 0.3928, 1.1938, 18.8945),
}


@pytest.mark.parametrize("name", TABLE)
def test_tables_v_and_vi_by_formula(name):
    features, classes, records, *expected = TABLE[name]
    found = published_noise((features, 128), classes, records, 0.0005)
    values = (found.lipschitz, found.weight, found.logit, found.probability_raw, found.stability)
    for value, printed in zip(values, expected, strict=True):
        assert value == pytest.approx(printed, abs=0.0051 if printed > 100 else 0.000051)
    assert found.probability == min(1.0, found.probability_raw)


def test_the_purchase_rows_were_not_computed_with_the_stated_features():
    """Table III says 600 features; the printed 2.1327 and 1.0771 need 594."""
    assert published_noise((600, 128), 100, 10000, 0.0005).lipschitz == pytest.approx(2.1434, abs=5e-5)
    assert published_noise((600, 128), 2, 10000, 0.0005).lipschitz == pytest.approx(1.0825, abs=5e-5)


def test_table_i():
    def of(bound, **more):
        return weights_bound(bound, 1.5, 0.01, 1000, classes=10, **more)

    for bound in (Bound.CHAUDHURI_BINARY, Bound.WU_DECREASING, Bound.LU):
        assert of(bound) == lu_convex(1.5, 0.01, 1000) == pytest.approx(0.3)
    assert of(Bound.CHAUDHURI_GENERAL, input_norm=2.0) == pytest.approx(3.0)
    constant = of(Bound.WU_CONSTANT, learning_rate=0.1)
    assert constant == pytest.approx(2 * 0.1 * 1.5 / (1 - (1 - 0.001) ** 1000))
    # The smaller the step, the closer to 2 rho / (lambda n), from above.
    assert 0.3 < of(Bound.WU_CONSTANT, learning_rate=1e-4) < 0.3002
    with pytest.raises(InvalidValue, match="learning_rate"):
        of(Bound.WU_CONSTANT, learning_rate=100.0)


def test_metrics():
    assert accuracy_loss(0.4, 0.8) == pytest.approx(0.5)
    assert round(plotted_leakage_bound(0.5), 4) == 0.6487
    # Randomised response reaches the bound that holds.
    assert expit(0.5) - expit(-0.5) == pytest.approx(advantage_bound(0.5), rel=1e-12)


# The objective


def test_the_risk_averse_loss_lies_between_mean_and_maximum():
    losses = [0.1, 0.5, 3.0]
    assert risk_averse_loss(losses, 1e-9) == pytest.approx(np.mean(losses), abs=1e-6)
    assert risk_averse_loss(losses, 1e4) == pytest.approx(3.0, abs=1e-3)
    assert record_weights(losses, 5.0)[2] > 0.99
    assert risk_averse_loss([1000.0, 0.0], 10.0) == pytest.approx(1000 - math.log(2) / 10)


def test_the_gradient_is_the_gradient():
    rng = np.random.default_rng(0)
    features, labels, weights = rng.normal(size=(20, 4)), rng.integers(0, 3, 20), rng.normal(size=(4, 3))
    direction = rng.normal(size=(4, 3))

    def value(step):
        return linear_objective(weights + step * direction, features, labels, 2.0, 0.01)[0]

    _, gradient = linear_objective(weights, features, labels, 2.0, 0.01)
    assert (value(1e-5) - value(-1e-5)) / 2e-5 == pytest.approx(np.sum(gradient * direction), rel=1e-7)
    assert modulus(0.01) == 0.04


# Algorithm 1 as published


def test_the_published_split():
    assert convexified.neuron_budget(1.0, 10, NeuronNoise.LAPLACE) == pytest.approx(0.047619, abs=5e-7)
    assert convexified.neuron_budget(1.0, 10, NeuronNoise.GAUSSIAN) == pytest.approx(0.156174, abs=5e-7)


@pytest.mark.parametrize("noise", list(NeuronNoise))
def test_algorithm_1_samples_and_perturbs_as_written(noise):
    """One neuron moves; how often (four standard errors) and how far (Kolmogorov-Smirnov, wrong once in 10,000 seeds),
    over 200000 runs."""
    runs, budget, logits = 200_000, 3.0, np.array([1.0, 0.0, -2.0])
    answers = convexified.OneNeuronAnswers(
        logit_sensitivity=0.5,
        probability_sensitivity=0.8,
        noise=noise,
        noise_multiplier=1 / budget,
        split=1.0,
        steps=runs,
    )
    out = answers.release(np.tile(logits, (runs, 1)), np.random.default_rng(7).standard_normal)
    assert np.exp(out).sum(axis=1) == pytest.approx(1.0)
    share = convexified.neuron_budget(budget, 3, noise)
    p = np.exp(logits) / np.exp(logits).sum()
    chances = np.exp(share * p / 1.6)
    chances /= chances.sum()
    for v in range(3):
        a, b = (k for k in range(3) if k != v)
        chosen = np.abs(out[:, a] - out[:, b] - (logits[a] - logits[b])) < 1e-9
        assert chosen.mean() == pytest.approx(chances[v], abs=4 * 0.5 / math.sqrt(runs))
        shift = (out[chosen, v] - out[chosen, a] - (logits[v] - logits[a])) * share / 0.5
        assert stats.kstest(shift, "laplace" if noise is NeuronNoise.LAPLACE else "norm").pvalue > 1e-4


def test_the_published_claim_is_printed_as_refuted():
    laplace = convexified.published_guarantee(1.0, NeuronNoise.LAPLACE, 1e-5)
    gaussian = convexified.published_guarantee(1.0, NeuronNoise.GAUSSIAN, 1e-5)
    assert laplace.status is gaussian.status is Status.REFUTED
    assert laplace.epsilon == 1.0
    assert gaussian.epsilon == pytest.approx(4.377178, abs=1e-6)


# The counterexamples


@pytest.mark.parametrize("noise", list(NeuronNoise))
def test_one_output_tells_the_neighbours_apart(noise):
    found = one_neuron_distinguisher(noise=noise)
    assert found.measured == 1.0
    assert found.claimed == pytest.approx(0.5025 if noise is NeuronNoise.LAPLACE else 0.50199, abs=1e-5)


def test_all_change_can_sit_in_one_weight():
    found = single_weight()
    assert found.measured == pytest.approx(0.04878, abs=5e-6)
    assert found.claimed == pytest.approx(0.0020)
    assert found.factor == pytest.approx(24.4, abs=0.05)


@pytest.mark.parametrize(
    ("alpha", "records", "convexity", "moved"), [(5.0, 10_000, 0.001, 3.712), (1.0, 1000, 0.01, 0.390)]
)
def test_a_mislabelled_record_outweighs_its_share(alpha, records, convexity, moved):
    found = risk_averse_minimiser(alpha, records, convexity)
    assert found.measured == pytest.approx(moved, abs=5e-4)
    assert found.claimed == pytest.approx(0.2)


def test_for_the_mean_objective_the_theorem_holds():
    assert risk_averse_minimiser(1e-9, 1000, 0.01).factor < 1


@pytest.mark.parametrize("alpha", [0.5, 1.0, 5.0, 100.0, 1000.0])
def test_no_finite_alpha_makes_a_network_convex(alpha):
    found = xor_network(alpha)
    assert found.at_weights == found.at_opposite < 3.2e-5
    assert found.at_midpoint == pytest.approx(math.log(2))


def test_the_published_regulariser_does_not_help():
    found = xor_network(1.0, 0.0005)
    assert found.at_weights == pytest.approx(found.at_opposite)
    assert found.at_weights < 0.11 < 0.69 < found.at_midpoint


def test_the_lipschitz_constant_is_not_one():
    found = output_layer_gradient()
    assert found.measured == pytest.approx(16.0)
    assert found.claimed == pytest.approx(2.2274, abs=5e-5)


# The repaired variant

HEAD = convexified.Head(records=60, classes=3, alpha=0.5, regulariser=0.05, radius=0.5, tolerance=1e-6)


def problem(records, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(records, 4))
    features /= np.maximum(1, np.linalg.norm(features, axis=1, keepdims=True))
    return features, rng.integers(0, 3, records)


def test_the_weight_factor():
    assert convexified.largest_weight(5.0, 1.0, 10_000) == pytest.approx(0.014626, abs=5e-7)
    assert convexified.largest_weight(5.0, 1.0, 10_000) * 10_000 == pytest.approx(146, abs=0.5)
    small = convexified.Head(records=500, classes=3, alpha=1e-9, regulariser=0.05, radius=1.0, tolerance=1e-9)
    assert small.exact_sensitivity == pytest.approx(2 * math.sqrt(2) / (0.2 * 500), rel=1e-6)
    # At a finite alpha: (2 sqrt 2 / m) exp(alpha B) / (exp(alpha B) + n - 1), B the largest loss in the ball.
    large = convexified.Head(records=10_000, classes=3, alpha=0.5, regulariser=0.05, radius=0.5, tolerance=1e-6)
    largest = math.exp(0.5 * large.loss_bound)
    exact = 2 * math.sqrt(2) / large.modulus * largest / (largest + 9_999)
    assert large.exact_sensitivity == pytest.approx(exact, rel=1e-9)
    assert large.exact_sensitivity == pytest.approx(0.003179612414, rel=1e-9)


def test_the_loss_bound_is_reached_and_not_passed():
    weights = np.zeros((4, 3))
    weights[0] = np.array([-1, 1, 0]) * 0.5 / math.sqrt(2)
    x = np.array([[1.0, 0, 0, 0]])
    two = convexified.Head(records=60, classes=2, alpha=0.5, regulariser=0.05, radius=0.5, tolerance=1e-6)
    loss, _ = linear_objective(weights[:, :2], x, np.array([0]), 1.0, 1e-300)
    assert loss == pytest.approx(two.loss_bound)
    rng = np.random.default_rng(1)
    for _ in range(300):
        drawn = convexified.project(10 * rng.normal(size=(4, 3)), 0.5)
        assert linear_objective(drawn, x, np.array([rng.integers(3)]), 1.0, 1e-300)[0] <= HEAD.loss_bound


@pytest.mark.parametrize("radius", [0.05, 5.0])
def test_the_minimiser_is_certified_inside_and_on_the_ball(radius):
    features, labels = problem(60)
    head = convexified.Head(records=60, classes=3, alpha=0.5, regulariser=0.05, radius=radius, tolerance=1e-6)
    weights = convexified.minimise_head(head, features, labels)
    norm = np.linalg.norm(weights)
    assert norm == pytest.approx(0.05, rel=1e-9) if radius < 1 else norm < 1.0
    # An independent solver: many plain projected gradient steps from another start.
    other = convexified.project(np.ones((4, 3)), radius)
    for _ in range(2000):
        _, gradient = linear_objective(other, features, labels, 0.5, 0.05)
        other = convexified.project(other - gradient / head.smoothness, radius)
    assert np.linalg.norm(weights - other) <= head.tolerance / head.modulus
    _, gradient = linear_objective(weights, features, labels, 0.5, 0.05)
    if radius < 1:
        # The plain certificate is useless on the boundary.
        assert np.linalg.norm(gradient) / head.modulus > 1e3 * head.tolerance / head.modulus


def test_the_certificate_bounds_the_distance_of_unfinished_weights():
    features, labels = problem(60)
    best = convexified.minimise_head(HEAD, features, labels)
    rng = np.random.default_rng(2)
    for size in (1e-4, 1e-2, 1.0):
        weights = convexified.project(best + size * rng.normal(size=best.shape), 0.5)
        _, gradient = linear_objective(weights, features, labels, 0.5, 0.05)
        bound = convexified.certified_distance(weights, gradient, HEAD.modulus, 0.5)
        assert np.linalg.norm(weights - best) <= bound + 1e-6 / HEAD.modulus
    with pytest.raises(InvalidValue, match="radius"):
        convexified.certified_distance(np.ones((4, 3)), np.ones((4, 3)), 0.2, 0.5)


def test_no_replaced_record_moves_the_weights_further_than_the_sensitivity():
    """Random replacements of one record, features and label, against the certified bound."""
    features, labels = problem(60)
    best, moved = convexified.minimise_head(HEAD, features, labels), []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        changed, relabelled = features.copy(), labels.copy()
        x = rng.normal(size=4)
        changed[0], relabelled[0] = x / np.linalg.norm(x), rng.integers(3)
        moved.append(np.linalg.norm(convexified.minimise_head(HEAD, changed, relabelled) - best))
    assert 0 < max(moved) <= HEAD.sensitivity


def test_the_weight_factor_is_needed():
    """Mutant: with 1/n in its place, one flipped label moves the weights further than the sensitivity says."""
    head = convexified.Head(records=1000, classes=2, alpha=5.0, regulariser=0.0025, radius=2.0, tolerance=1e-5)
    features, labels = np.ones((1000, 1)), np.zeros(1000, dtype=np.intp)
    flipped = labels.copy()
    flipped[0] = 1
    moved = np.linalg.norm(
        convexified.minimise_head(head, features, labels) - convexified.minimise_head(head, features, flipped)
    )
    mutant = 2 * math.sqrt(2) / (head.modulus * head.records) + 2 * head.tolerance / head.modulus
    assert 3 * mutant < moved <= head.sensitivity


def test_the_claim_meets_its_target_for_all_queries_together():
    for queries in (1, 100):
        sigma = math.sqrt(queries) * HEAD.sensitivity / mu_gdp(1.0, 1e-5)
        claim = convexified.answers_guarantee(HEAD, sigma, queries, 1e-5)
        assert claim.status is Status.PROVED
        assert 0.999 < claim.epsilon <= 1.0 + 1e-3
        assert convexified.CERTIFIED in claim.assumptions
    assert convexified.answers_guarantee(HEAD, sigma, queries + 1, 1e-5).epsilon > claim.epsilon


def test_what_the_proof_does_not_cover_is_refused():
    features, labels = problem(60)
    with pytest.raises(InvalidValue, match="norm"):
        convexified.minimise_head(HEAD, 10 * features, labels)
    with pytest.raises(InvalidValue, match="60 rows"):
        convexified.minimise_head(HEAD, features[1:], labels[1:])
    with pytest.raises(InvalidValue, match="labels"):
        convexified.minimise_head(HEAD, features, labels + 1)
    for query in (np.array([[1.1, 0.0]]), np.array([[math.nan, 0.0]])):
        with pytest.raises(InvalidValue, match="queries"):
            convexified.head_logits(np.ones((2, 3)), query)
    impossible = convexified.Head(records=60, classes=3, alpha=0.5, regulariser=0.05, radius=0.05, tolerance=1e-19)
    with pytest.raises(convexified.Uncertified, match="tolerance"):
        convexified.minimise_head(impossible, features, labels)


# The noise of DP-SGD under four ways of counting, each against its own formula and against the accountants.

DELTA, STEPS, RATE = 1e-5, 1000, 0.01


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_each_meets_its_target_and_all_but_the_first_waste_noise(epsilon):
    noises = {one: baseline_noise(one, epsilon, DELTA, STEPS, RATE) for one in Counting}
    assert noises[Counting.RDP] < noises[Counting.ZCDP] < noises[Counting.ADVANCED] < noises[Counting.NAIVE]
    for counting, noise in noises.items():
        spent = guarantee("rdp", sampled_gaussian(noise, RATE, STEPS), DELTA, Adjacency.ADD_REMOVE).epsilon
        assert spent <= epsilon * (1 + 1e-9), counting


def test_zcdp_and_naive_are_the_closed_forms():
    noise = baseline_noise(Counting.ZCDP, 1.0, DELTA, STEPS, RATE)
    rho = STEPS / (2 * noise**2)
    assert rho + 2 * math.sqrt(rho * math.log(1 / DELTA)) == pytest.approx(1.0, rel=1e-12)
    naive = baseline_noise(Counting.NAIVE, 1.0, DELTA, STEPS, RATE)
    assert naive == pytest.approx(math.sqrt(2 * math.log(1.25 * STEPS / DELTA)) * STEPS, rel=1e-12)


def test_zcdp_meets_the_accountant_of_its_name():
    noise = baseline_noise(Counting.ZCDP, 2.0, DELTA, STEPS, RATE)
    spent = guarantee("zcdp", sampled_gaussian(noise, RATE, STEPS), DELTA, Adjacency.ADD_REMOVE).epsilon
    assert spent == pytest.approx(2.0, rel=1e-9)


def test_advanced_composition_of_its_steps_gives_the_target():
    """epsilon = T e^2/2 + e sqrt(2 T ln(2/delta)), the steps at (e, delta / 2T)."""
    noise = baseline_noise(Counting.ADVANCED, 1.0, DELTA, STEPS, RATE)
    each = math.sqrt(2 * math.log(1.25 * 2 * STEPS / DELTA)) / noise
    assert STEPS * each**2 / 2 + each * math.sqrt(2 * STEPS * math.log(2 / DELTA)) == pytest.approx(1.0, rel=1e-9)


def test_the_classical_noise_is_not_trusted_above_epsilon_one():
    """At epsilon 50 for one step the classical formula is too little; the exact noise is taken."""
    noise = baseline_noise(Counting.NAIVE, 50.0, DELTA, 1, 1.0)
    assert noise > math.sqrt(2 * math.log(1.25 / DELTA)) / 50
    spent = guarantee("gdp", sampled_gaussian(noise, 1.0, 1), DELTA, Adjacency.ADD_REMOVE).epsilon
    assert spent <= 50 * (1 + 1e-9)
