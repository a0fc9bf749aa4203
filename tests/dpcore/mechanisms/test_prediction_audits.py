"""The mechanisms of private prediction under audit: claims that are known to be false are refuted, true ones rarely.

A verdict is wrong on a true claim with probability at most LEVEL; the number of wrong ones allowed is what a binomial
with that rate exceeds with probability 1e-4. Seeds are fixed besides.
"""

import numpy as np
import pytest
from scipy import stats

from dpcore.audit import Audit, AuditOutcome, AuditVerdict, MultiRun, ThreatModel, choose_threshold, count_at
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee
from dpcore.mechanisms import noisy_vote, output_perturbation
from dpcore.mechanisms.output_perturbation import MinimiserSensitivity

LEVEL = 0.05
REPLACE = Adjacency.REPLACE_ONE


def refuted(evidence: MultiRun, claim: Guarantee) -> bool:
    audit = Audit(evidence=evidence, threat_model=ThreatModel.BLACK_BOX, adjacency=REPLACE, delta=claim.delta)
    return AuditVerdict(audit=audit, guarantee=claim).outcome is AuditOutcome.REFUTED


def few_enough(wrong: int, audits: int) -> bool:
    return wrong <= stats.binom.isf(1e-4, audits, LEVEL)


# One soft vote of three models over two classes, before and after one of them changes its mind.

MODELS, BEFORE, AFTER = 3, np.array([3, 0]), np.array([2, 1])


def vote_evidence(vote: noisy_vote.CalibratedVote, runs: int, rng: np.random.Generator) -> MultiRun:
    """The attack says "replaced" when the vote names the class that only the replaced model votes for."""
    after, before = (sum(vote.sample(votes, rng.standard_normal) for _ in range(runs)) for votes in (AFTER, BEFORE))
    return MultiRun(true_positives=after, runs_in=runs, false_positives=before, runs_out=runs)


def test_the_published_soft_vote_is_refuted_from_its_labels():
    """beta = epsilon/B counts one of the two counts that a record moves: 1.73 here where 1 is claimed."""
    vote = noisy_vote.as_published(1.0, queries=1, models=MODELS, classes=2)
    evidence = vote_evidence(vote, 2500, np.random.default_rng(1))
    assert refuted(evidence, vote.guarantee)
    assert evidence.epsilon_lower(0.0, LEVEL) < noisy_vote.loss_per_query(vote.beta, MODELS, 2)


@pytest.mark.parametrize("calibrate", [noisy_vote.standard, noisy_vote.exact])
def test_the_repaired_soft_votes_are_not_refuted_more_often_than_stated(calibrate):
    vote, rng = calibrate(1.0, queries=1, models=MODELS, classes=2), np.random.default_rng(2)
    assert few_enough(sum(refuted(vote_evidence(vote, 250, rng), vote.guarantee) for _ in range(40)), 40)


# Noise on a minimiser of 25 coordinates that moves by its whole sensitivity, the same amount in each of them.

COORDINATES = 25
SENSITIVITY = MinimiserSensitivity(n=1000, modulus=0.01, adjacency=REPLACE, tau=0.0)
SHIFT = np.full(COORDINATES, SENSITIVITY.value / np.sqrt(COORDINATES))


def audit_noise(claim: Guarantee, draw, log_ratio, runs: int, audits: int, seed: int, calibration: int = 150) -> int:
    """How many audits refute; the score is the log ratio of the two densities, its threshold from other runs."""
    rng = np.random.default_rng(seed)

    def scores(centre, count: int) -> np.ndarray:
        return np.array([log_ratio(centre + draw(rng)) for _ in range(count)])

    threshold = choose_threshold(scores(SHIFT, calibration), scores(0.0, calibration), claim.delta, LEVEL)
    evidence = [count_at(scores(SHIFT, runs), scores(0.0, runs), threshold) for _ in range(audits)]
    return sum(refuted(one, claim) for one in evidence)


PURE = output_perturbation.model_pure(1.0, SENSITIVITY)
# At delta 0.1 few runs tell the claimed noise from half of it.
GAUSSIAN = output_perturbation.model_gaussian(1.0, 0.1, SENSITIVITY)


def laplace(rng: np.random.Generator) -> np.ndarray:
    """Planted: independent Laplace noise, whose scale asks for an L1 sensitivity, given the L2 one."""
    return rng.laplace(scale=1 / PURE.noise.beta, size=COORDINATES)


def laplace_ratio(x: np.ndarray) -> float:
    return float(PURE.noise.beta * (np.abs(x) - np.abs(x - SHIFT)).sum())


def radial_ratio(x: np.ndarray) -> float:
    return float(PURE.noise.beta * (np.linalg.norm(x) - np.linalg.norm(x - SHIFT)))


def test_laplace_noise_on_an_l2_sensitivity_is_caught():
    """Twenty-five shifts that add up to epsilon 5 show in the tails, which takes more runs."""
    assert audit_noise(PURE.guarantee, laplace, laplace_ratio, runs=4000, audits=1, seed=3, calibration=2000) == 1


def test_half_of_the_gaussian_noise_is_caught():
    def half(rng):
        return GAUSSIAN.noise.sample((COORDINATES,), rng.standard_normal) / 2

    assert audit_noise(GAUSSIAN.guarantee, half, lambda x: float(x @ SHIFT), runs=400, audits=1, seed=4) == 1


@pytest.mark.parametrize(
    ("release", "log_ratio"), [(PURE, radial_ratio), (GAUSSIAN, lambda x: float(x @ SHIFT))], ids=["pure", "gaussian"]
)
def test_the_right_noise_is_not_refuted_more_often_than_stated(release, log_ratio):
    def draw(rng):
        return release.noise.sample((COORDINATES,), rng.standard_normal)

    assert few_enough(audit_noise(release.guarantee, draw, log_ratio, runs=150, audits=40, seed=5), 40)
