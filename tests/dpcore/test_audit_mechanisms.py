"""Audits of the mechanisms around the gradient step: a planted bug of each is refuted, the right one rarely.

Each audit looks at neighbours for which the mechanism's bound is reached or nearly reached, through the score of the
best attacker. A verdict is wrong on a true claim with probability at most LEVEL; the number of wrong ones allowed is
what a binomial with that rate exceeds with probability 1e-4. Seeds are fixed besides.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from dpcore import gdp
from dpcore.accountants.pld import PLDAccountant
from dpcore.accounting import headline
from dpcore.audit import (
    Audit,
    AuditOutcome,
    AuditVerdict,
    MultiRun,
    ThreatModel,
    choose_threshold_against,
    claimed,
    count_at,
)
from dpcore.erm import LogisticRisk, minimise, unit_inputs
from dpcore.events import Adjacency, Gaussian, PoissonSampled, Repeated
from dpcore.gdp import mu_gdp
from dpcore.guarantee import Guarantee
from dpcore.mechanisms import loss_perturbation, noisy_vote, output_perturbation
from dpcore.mechanisms.output_perturbation import MinimiserSensitivity
from dpcore.papers import convexified
from dpcore.papers.sgld import noise_multiplier
from dpcore.sampling import PoissonSampling

LEVEL, DELTA = 0.05, 1e-5
ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE
Scores = Callable[[bool, int, np.random.Generator], np.ndarray]


def verdicts(
    claim: Guarantee, scores: Scores, *, curve=None, runs: int = 400, audits: int = 1, seed: int = 0
) -> list[bool]:
    """Whether each of `audits` audits refutes `claim`; `scores(with it, runs, rng)` releases and scores."""
    rng = np.random.default_rng(seed)
    threshold = choose_threshold_against(
        scores(True, runs, rng), scores(False, runs, rng), claimed(claim, curve), claim.delta, LEVEL
    )
    found = []
    for _ in range(audits):
        evidence: MultiRun = count_at(scores(True, runs, rng), scores(False, runs, rng), threshold)
        audit = Audit(
            evidence=evidence,
            threat_model=ThreatModel.FINAL_MODEL,
            adjacency=claim.adjacency,
            delta=claim.delta,
        )
        found.append(AuditVerdict(audit=audit, guarantee=claim, curve=curve).outcome is AuditOutcome.REFUTED)
    return found


def refutes(claim: Guarantee, scores: Scores, **options) -> bool:
    return verdicts(claim, scores, **options) == [True]


def rarely(claim: Guarantee, scores: Scores, **options) -> bool:
    wrong = sum(verdicts(claim, scores, runs=150, audits=30, **options))
    return wrong <= stats.binom.isf(1e-4, 30, LEVEL)


def curve_of(event, adjacency: Adjacency = ADD_REMOVE):
    return gdp.enveloped(PLDAccountant(adjacency=adjacency).compose(event).epsilon)


# Noise on the logits of several queries.

QUERIES = 16
SENSITIVITY = MinimiserSensitivity(n=1000, modulus=0.01, adjacency=ADD_REMOVE, tau=0.0)


def logit_scores(sigma: float, queries: int = QUERIES) -> Scores:
    """The target moves every queried logit by the whole sensitivity; the average of the answers says it all."""

    def scores(with_it: bool, runs: int, rng: np.random.Generator) -> np.ndarray:
        answers = rng.normal(SENSITIVITY.value if with_it else 0.0, sigma, size=(runs, queries))
        return answers.mean(axis=1)

    return scores


JOINT = output_perturbation.answers_joint(1.0, DELTA, QUERIES, SENSITIVITY)
JOINT_CURVE = gdp.gaussian_tradeoff(math.sqrt(QUERIES) * SENSITIVITY.value / JOINT.noise.sigma)


def test_noise_on_queried_logits():
    assert rarely(JOINT.guarantee, logit_scores(JOINT.noise.sigma), curve=JOINT_CURVE)


def test_noise_for_one_query_on_sixteen_is_refuted():
    one = output_perturbation.answers_joint(1.0, DELTA, 1, SENSITIVITY)
    assert refutes(JOINT.guarantee, logit_scores(one.noise.sigma), curve=JOINT_CURVE)


def test_answers_beyond_the_budget_are_refuted():
    """Four times as many answers as the claim has."""
    assert refutes(JOINT.guarantee, logit_scores(JOINT.noise.sigma, 4 * QUERIES), curve=JOINT_CURVE, runs=1500)


# A loss with a random linear term: the attacker reads the term off the released minimiser.

RECORDS, CLASSES = 40, 2


def perturbed_scores(perturbed, scale: float = 1.0) -> Scores:
    inputs = np.zeros((RECORDS, 1))
    inputs[0] = 1.0
    labels = np.array([1] + [0] * (RECORDS - 1))
    modulus = perturbed.modulus

    def risk(with_it: bool, linear=None) -> LogisticRisk:
        start = 0 if with_it else 1
        return LogisticRisk(
            inputs=inputs[start:],
            labels=labels[start:],
            classes=CLASSES,
            divisor=RECORDS,
            modulus=modulus,
            linear=linear,
        )

    def scores(with_it: bool, runs: int, rng: np.random.Generator) -> np.ndarray:
        found = []
        for _ in range(runs):
            linear = scale * perturbed.noise.sample((1, CLASSES), rng.standard_normal) / RECORDS
            theta = minimise(risk(with_it, linear), 1e-10).theta
            lengths = [np.linalg.norm(risk(one).value_and_gradient(theta)[1]) for one in (True, False)]
            found.append(lengths[1] - lengths[0])
        return np.array(found)

    return scores


@pytest.mark.parametrize(
    "perturbed",
    [
        loss_perturbation.pure(1.0, RECORDS, CLASSES, ADD_REMOVE),
        loss_perturbation.gaussian(1.0, 0.01, RECORDS, CLASSES, ADD_REMOVE),
    ],
    ids=["pure", "gaussian"],
)
def test_a_perturbed_loss(perturbed):
    assert sum(verdicts(perturbed.guarantee, perturbed_scores(perturbed), runs=60, audits=4)) <= 2
    assert refutes(perturbed.guarantee, perturbed_scores(perturbed, scale=0.03), runs=100)


# A risk-averse head that noises all its logits, or one of them.

HEAD = convexified.Head(alpha=1.0, regulariser=0.05, radius=2.0, tolerance=1e-3, records=50, classes=3)


def head_scores(sigma: float, noisy: int) -> Scores:
    """One label of identical records is flipped; `noisy` of the three logits get noise."""
    features = np.tile([[1.0]], (HEAD.records, 1))
    labels = np.zeros(HEAD.records, dtype=np.intp)
    flipped = labels.copy()
    flipped[0] = 1
    inside, outside = (
        convexified.head_logits(convexified.minimise_head(HEAD, features, one), features[:1])[0]
        for one in (flipped, labels)
    )

    def scores(with_it: bool, runs: int, rng: np.random.Generator) -> np.ndarray:
        logits = inside if with_it else outside
        released = logits + rng.normal(0.0, sigma, size=(runs, 3)) * (np.arange(3) < noisy)
        misfits = [np.abs(released - one).min(axis=1) for one in (outside, inside)]
        return misfits[0] - misfits[1]

    return scores


HEAD_SIGMA = HEAD.sensitivity / mu_gdp(1.0, DELTA)
HEAD_CLAIM = convexified.answers_guarantee(HEAD, HEAD_SIGMA, 1, DELTA)


def test_a_head_with_noise_on_every_logit():
    curve = curve_of(convexified.answers_event(HEAD, HEAD_SIGMA, 1), REPLACE)
    assert rarely(HEAD_CLAIM, head_scores(HEAD_SIGMA, 3), curve=curve)


def test_a_head_with_noise_on_one_logit_is_refuted():
    assert refutes(HEAD_CLAIM, head_scores(HEAD_SIGMA, 1))


# Langevin steps: the noise is the sampler's own, the clip norm follows from it.

STEP, BATCH = 1e-4, 50.0
N = 50


def langevin_scores(factor: float) -> Scores:
    """One full-batch step in the target's direction: (e/2) (N/b) C and N(0, e); `factor` is a mistake in the drift."""
    clip = 2 * BATCH / (N * 1.0 * math.sqrt(STEP))
    shift = factor * STEP / 2 * N / BATCH * clip

    def scores(with_it: bool, runs: int, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(shift if with_it else 0.0, math.sqrt(STEP), size=runs)

    return scores


def langevin_claim() -> tuple[Guarantee, gdp.TradeOff]:
    clip = 2 * BATCH / (N * math.sqrt(STEP))
    event = Gaussian(noise_multiplier=noise_multiplier(STEP, N, BATCH, clip))
    return headline(event, DELTA, ADD_REMOVE), curve_of(event)


def test_a_langevin_step():
    claim, curve = langevin_claim()
    assert rarely(claim, langevin_scores(1.0), curve=curve)


def test_a_langevin_step_that_forgets_the_half_is_refuted():
    claim, curve = langevin_claim()
    assert refutes(claim, langevin_scores(2.0), curve=curve)


# Poisson batches that may be empty.

RATE, WIDE, STEPS = 0.3, 3.0, 6
SAMPLED = Repeated(event=PoissonSampled(rate=RATE, event=Gaussian(noise_multiplier=WIDE)), count=STEPS)


def batch_scores(noise_of_empty: bool) -> Scores:
    """The target alone in the data, or nobody: releases of its clipped gradient, 1, by Poisson batches."""
    sampling = PoissonSampling(rate=RATE)

    def one(with_it: bool, rng: np.random.Generator) -> float:
        exact = 0
        total = 0.0
        for _ in range(STEPS):
            drawn = len(sampling.indices(int(with_it), rng))
            release = drawn + (rng.normal(0, WIDE) if drawn or noise_of_empty else 0.0)
            exact += release == 0.0
            total += release
        # A release of exactly 0 is a batch without noise: nobody was in it.
        return total - 100.0 * exact

    def scores(with_it: bool, runs: int, rng: np.random.Generator) -> np.ndarray:
        return np.array([one(with_it, rng) for _ in range(runs)])

    return scores


def test_empty_batches_are_noised():
    claim = headline(SAMPLED, DELTA, ADD_REMOVE)
    assert rarely(claim, batch_scores(True), curve=curve_of(SAMPLED))
    assert refutes(claim, batch_scores(False), curve=curve_of(SAMPLED))


# Inputs that one record can rescale.


def own_maximum(records: np.ndarray) -> np.ndarray:
    """Planted: all records divided by the largest norm among them."""
    return records / np.linalg.norm(records, axis=1).max()


def minimiser_scores(scaling) -> tuple[Guarantee, Scores, gdp.TradeOff]:
    sensitivity = MinimiserSensitivity(n=RECORDS, modulus=0.1, adjacency=ADD_REMOVE, tau=1e-9)
    release = output_perturbation.model_gaussian(1.0, DELTA, sensitivity)
    ordinary = np.tile([[1.0, 0.0]], (RECORDS - 1, 1))
    labels = np.zeros(RECORDS, dtype=np.int64)
    thetas = []
    for records in (np.vstack([ordinary, [[0.0, 1000.0]]]), ordinary):
        risk = LogisticRisk(
            inputs=scaling(records),
            labels=labels[: len(records)],
            classes=CLASSES,
            divisor=RECORDS,
            modulus=0.1,
        )
        thetas.append(minimise(risk, 1e-9).theta)
    direction = thetas[0] - thetas[1]

    def scores(with_it: bool, runs: int, rng: np.random.Generator) -> np.ndarray:
        theta = thetas[0] if with_it else thetas[1]
        drawn = [theta + release.noise.sample(theta.shape, rng.standard_normal) for _ in range(runs)]
        return np.array([float(np.vdot(one, direction)) for one in drawn])

    return release.guarantee, scores, gdp.gaussian_tradeoff(sensitivity.value / release.noise.sigma)


def test_inputs_scaled_one_by_one():
    claim, scores, curve = minimiser_scores(unit_inputs)
    assert rarely(claim, scores, curve=curve)


def test_inputs_scaled_by_the_datas_own_maximum_are_refuted():
    claim, scores, curve = minimiser_scores(own_maximum)
    assert refutes(claim, scores, curve=curve)


# Replacing a record, paid for as if it left.


def test_add_remove_noise_for_replaced_records_is_refuted():
    """The target's gradient is C before and -C after: twice the clip norm."""

    def scores(with_it: bool, runs: int, rng: np.random.Generator) -> np.ndarray:
        return rng.normal(1.0 if with_it else -1.0, 1.0, size=runs)

    claim = headline(Gaussian(noise_multiplier=2.0, adjacency=REPLACE), DELTA, REPLACE)
    curve = curve_of(Gaussian(noise_multiplier=2.0, adjacency=REPLACE), REPLACE)
    assert refutes(claim, scores, curve=curve)


# Soft votes: the count that leaves and the count that grows.


def vote_scores(beta: float, queries: int) -> Scores:
    before, after = np.array([2, 1, 0]), np.array([1, 2, 0])
    weights = [np.exp(beta * votes) for votes in (after, before)]
    chances = [one / one.sum() for one in weights]
    ratio = np.log(chances[0] / chances[1])

    def scores(with_it: bool, runs: int, rng: np.random.Generator) -> np.ndarray:
        votes = after if with_it else before
        rows = [[noisy_vote.sample(beta, votes, rng.standard_normal) for _ in range(queries)] for _ in range(runs)]
        return ratio[np.array(rows)].sum(axis=1)

    return scores


def test_votes_composed_as_if_they_were_one_are_refuted():
    """The noise of one vote, answered ten times."""
    vote = noisy_vote.exact(1.0, queries=1, models=3, classes=3)
    assert rarely(vote.guarantee, vote_scores(vote.beta, 1))
    assert refutes(vote.guarantee, vote_scores(vote.beta, 10))
