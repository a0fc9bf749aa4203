"""How well scores separate members from non-members. "Member" is said where the score is at least a threshold.

What is computed over all thresholds (AUC, TPR at a fixed FPR) describes the scores that it was computed from. A
claim about new examples needs a threshold from other data: `threshold_at_fpr` on one half, `decide` on
the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks


def samples(name: str, scores: ArrayLike) -> NDArray[np.float64]:
    """Scores as float64 of shape [N], N at least 1; infinities are scores, NaN is not. Raises InvalidValue."""
    found = np.asarray(scores, dtype=np.float64)
    if found.ndim != 1 or not found.size or np.isnan(found).any():
        raise checks.InvalidValue(name, scores, "at least one number (no NaN), of shape [N]")
    return found


def auc(members: ArrayLike, non_members: ArrayLike) -> float:
    """P[member's score > non-member's] + P[equal] / 2: the area under the curve (Mann & Whitney 1947), in [0, 1]."""
    in_, out = samples("members", members), np.sort(samples("non_members", non_members))
    below, not_above = np.searchsorted(out, in_, side="left"), np.searchsorted(out, in_, side="right")
    return float((below + not_above).sum() / (2 * len(in_) * len(out)))


def tpr_at_fpr(members: ArrayLike, non_members: ArrayLike, fpr: float) -> float:
    """The largest TPR among thresholds with an FPR of at most `fpr` in [0, 1] (Carlini et al. 2022).

    With fewer than 1/fpr non-members this is the TPR at no false positive at all.
    """
    return float(np.mean(samples("members", members) >= threshold_at_fpr(non_members, fpr)))


def threshold_at_fpr(non_members: ArrayLike, fpr: float) -> float:
    """The smallest threshold that at most a share `fpr` of these non-members reaches; inf if +inf scores forbid any.

    Raises InvalidValue.
    """
    out = np.sort(samples("non_members", non_members))
    if not 0 <= fpr <= 1:
        raise checks.InvalidValue("fpr", fpr, "a rate in [0, 1]")
    # 0.001 * 3000 is 3 and must not become 2.
    allowed = math.floor(fpr * len(out) + 1e-9)
    return -math.inf if allowed == len(out) else float(np.nextafter(out[len(out) - allowed - 1], np.inf))


# An attack that decides: members and non-members at one threshold (Yeom, Giacomelli, Fredrikson & Jha 2018).


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """What one threshold said about examples whose membership is known.

    true_positives   members that were called members, of `members`
    false_positives  non-members that were called members, of `non_members`
    threshold        "member" is said at or above it; it must not have been chosen on these examples
    """

    true_positives: int
    members: int
    false_positives: int
    non_members: int
    threshold: float

    @property
    def tpr(self) -> float:
        """Share of the members that were called members."""
        return self.true_positives / self.members

    @property
    def fpr(self) -> float:
        """Share of the non-members that were called members."""
        return self.false_positives / self.non_members

    @property
    def advantage(self) -> float:
        """TPR - FPR, in [-1, 1] (Yeom et al. 2018, Definition 4); Lu et al. (2021) call it Priv_Leak."""
        return self.tpr - self.fpr

    @property
    def accuracy(self) -> float:
        """Share of right decisions over members and non-members together; it moves with their proportion."""
        right = self.true_positives + self.non_members - self.false_positives
        return right / (self.members + self.non_members)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and TPR; 0 where nobody was called a member."""
        return 2 * self.true_positives / (self.true_positives + self.false_positives + self.members)


def decide(members: ArrayLike, non_members: ArrayLike, threshold: float) -> Decisions:
    """Call everybody with a score of at least `threshold` a member. Scores are [N], higher for likelier members.

    Raises InvalidValue.
    """
    in_, out = samples("members", members), samples("non_members", non_members)
    if math.isnan(threshold):
        raise checks.InvalidValue("threshold", threshold, "a number")
    return Decisions(
        true_positives=int(np.count_nonzero(in_ >= threshold)),
        members=len(in_),
        false_positives=int(np.count_nonzero(out >= threshold)),
        non_members=len(out),
        threshold=float(threshold),
    )


def mean_training_loss_threshold(training_losses: ArrayLike) -> float:
    """Minus the mean training loss, for scores that are -loss: Yeom et al. (2018), Adversary 2; Wu et al. (2020).

    An attacker is given this number with the model; one who is not must use `threshold_at_fpr` on data of its own.
    """
    return -float(np.mean(samples("training_losses", training_losses)))


def advantage_bound(epsilon: float, delta: float = 0.0) -> float:
    """The largest TPR - FPR of any attack on an (epsilon, delta)-DP mechanism: (exp(eps)-1+2 delta)/(exp(eps)+1).

    epsilon at least 0, infinity included; delta in [0, 1). From Kairouz, Oh & Viswanath (2015): the error region of
    (epsilon, delta)-DP; at delta 0 it is tanh(epsilon/2), reached by randomised response. Raises InvalidValue.
    """
    checks.non_negative(epsilon=epsilon)
    checks.probability_below_one(delta=delta)
    # The rest divided by exp(epsilon), so that it does not overflow.
    return math.tanh(epsilon / 2) + 2 * delta * math.exp(-epsilon) / (1 + math.exp(-epsilon))


# The likelihood-ratio attack: is this example's confidence what models with it show, or what models without it show?
#
# Each example has its own two Gaussians, fitted to the logit-scaled confidence, log(p / (1 - p)) of the true class,
# that shadow models, trained with and without it, give it. Source: Carlini, Chien, Nasr, Song, Terzis & Tramer
# (2022), Algorithm 1.

_MORE = "Train more shadow models."

Variance = Literal["per-example", "shared"]


@dataclass(frozen=True, slots=True)
class Gaussians:
    """One Gaussian per example: mean and sd, each of shape [N], sd above 0."""

    mean: NDArray[np.float64]
    sd: NDArray[np.float64]

    def standardised(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values [N] in standard deviations from their means."""
        return (values - self.mean) / self.sd

    def log_density(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Up to the constant -log(2 pi)/2."""
        return -0.5 * self.standardised(values) ** 2 - np.log(self.sd)


def fit_gaussians(confidences: ArrayLike, selected: ArrayLike, variance: Variance = "per-example") -> Gaussians:
    """The Gaussian of every example over the shadow models that `selected` marks.

    confidences  [K, N] finite: what shadow model k gives example n, logit-scaled
    selected     [K, N] booleans: the shadows that count for it (those trained with it, or those without)
    variance     "per-example", or "shared": one for all examples, pooled around their own means. The paper shares it
                 when an example has fewer than about 64 shadows.

    Raises InvalidValue with too few selected shadows for some example (two, or one when the variance is shared), or
    where the variance is zero.
    """
    x, mask = np.asarray(confidences, dtype=np.float64), np.asarray(selected)
    counts = mask.sum(0)
    least, pairs = int(counts.min(initial=len(x))), int(counts.sum())
    if variance == "per-example" and least < 2:
        raise checks.InvalidValue("selected", least, "two shadow models or more for every example", _MORE)
    if least < 1 or pairs <= len(counts):
        raise checks.InvalidValue("selected", least, "one shadow model for every example, two for some", _MORE)
    mean = np.where(mask, x, 0.0).sum(0) / counts
    squares = np.where(mask, (x - mean) ** 2, 0.0)
    degrees = counts - 1 if variance == "per-example" else pairs - len(counts)
    spread = squares.sum(0) if variance == "per-example" else np.full(len(counts), squares.sum())
    sd = np.sqrt(spread / degrees)
    if not (sd > 0).all():
        raise checks.InvalidValue(
            "confidences", "constant", "shadow models that differ", 'Use more of them, or variance="shared".'
        )
    return Gaussians(mean, sd)


def lira_online(
    target: ArrayLike, confidences: ArrayLike, membership: ArrayLike, variance: Variance = "per-example"
) -> NDArray[np.float64]:
    """log of p(confidence | in) / p(confidence | out), shape [N]; higher means more likely a member.

    target       [N]: what the attacked model gives each example, logit-scaled
    confidences  [K, N], as in `fit`
    membership   [K, N]: True where shadow k was trained with example n; every example needs shadows of both kinds
    """
    mask = np.asarray(membership)
    with_it, without_it = fit_gaussians(confidences, mask, variance), fit_gaussians(confidences, ~mask, variance)
    value = np.asarray(target, dtype=np.float64)
    return with_it.log_density(value) - without_it.log_density(value)


def lira_offline(
    target: ArrayLike, confidences: ArrayLike, excluded: ArrayLike | None = None, variance: Variance = "per-example"
) -> NDArray[np.float64]:
    """(confidence - mean) / sd of the models without the example, shape [N]; higher means more likely a member.

    excluded  [K, N]: True where shadow k was trained without example n; by default all of them were

    The paper's score 1 - P[N(mean, sd) > confidence] is Phi of this one: the same order, and it does not round to 1.
    """
    x = np.asarray(confidences, dtype=np.float64)
    without_it = fit_gaussians(x, np.ones(x.shape, dtype=bool) if excluded is None else excluded, variance)
    return without_it.standardised(np.asarray(target, dtype=np.float64))


# The score of a canary in gradient space: what the strongest attacker reads from noisy sums of clipped gradients.
#
# Shapes: M canaries, T steps. Responses are inner products of a step's noisy sum with each canary's direction, in
# units of the clipping norm: 1 plus noise in a step whose batch held the canary, noise alone without it.


def sampled_log_likelihood_ratio(responses: ArrayLike, noise_multiplier: float, rate: float) -> NDArray[np.float64]:
    """Sum over steps of log(1 - q + q exp((2 x - 1) / (2 z^2))), from responses x of shape [T, M]; shape [M].

    The most powerful score of a canary under Poisson sampling at rate q with noise multiplier z (Neyman & Pearson
    1933, for the pair that dominates the sampled Gaussian: Zhu, Dong & Wang 2022). Raises InvalidValue.
    """
    checks.positive_finite(noise_multiplier=noise_multiplier)
    checks.rate(rate=rate)
    exponent = (2 * np.asarray(responses, dtype=np.float64) - 1) / (2 * noise_multiplier**2)
    present = np.log(rate) + exponent
    absent = np.log1p(-rate) if rate < 1 else -np.inf
    return np.asarray(np.logaddexp(absent, present).sum(0))


# The pieces of a shadow-model attack around the training: who trains on what, and what the attack model learns from.
#
# Source: Shokri, Stronati, Song & Shmatikov (2017); sorted features from Salem et al. (2019); balanced halves from
# Carlini et al. (2022). The shadow models and the attack model are trained elsewhere.


@dataclass(frozen=True, slots=True)
class ShadowSplits:
    """Which examples each shadow model trains on, and which it is tested on.

    inside   [K, N] booleans: shadow k trains on example n
    outside  [K, N] booleans: n is a non-member for shadow k. Disjoint from `inside`; an example in neither is unused.
    """

    inside: NDArray[np.bool_]
    outside: NDArray[np.bool_]


def disjoint_splits(examples: int, size: int, shadows: int, rng: np.random.Generator) -> ShadowSplits:
    """`shadows` draws of `size` members and `size` non-members out of `examples`, disjoint within each draw.

    Raises InvalidValue.
    """
    checks.count(minimum=1, examples=examples, size=size, shadows=shadows)
    if 2 * size > examples:
        raise checks.InvalidValue("size", size, f"at most {examples // 2}, half of the examples")
    inside, outside = np.zeros((2, shadows, examples), dtype=bool)
    for k in range(shadows):
        order = rng.permutation(examples)
        inside[k, order[:size]] = True
        outside[k, order[size : 2 * size]] = True
    return ShadowSplits(inside, outside)


def balanced_splits(examples: int, shadows: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """[K, N]: True where shadow k trains on example n, which exactly half of them do, as LiRA needs; `shadows` is even.

    The examples of one shadow are independent of each other: their number is Binomial(examples, 1/2), not fixed.
    Raises InvalidValue.
    """
    checks.count(minimum=1, examples=examples)
    checks.count(minimum=2, shadows=shadows)
    if shadows % 2:
        raise checks.InvalidValue("shadows", shadows, "an even number")
    return rng.permuted(np.arange(shadows)[:, None] < np.full(examples, shadows // 2), axis=0)


@dataclass(frozen=True, slots=True)
class AttackExamples:
    """What an attack model trains on: one row per (shadow, example) pair in which the example was used.

    features  [R, F] float64
    members   [R] booleans, the label
    """

    features: NDArray[np.float64]
    members: NDArray[np.bool_]


def prediction_features(probabilities: ArrayLike, labels: ArrayLike, top: int | None = None) -> NDArray[np.float64]:
    """Features of predictions: the probability vector, then the true class's cross-entropy loss.

    probabilities  [..., N, C], each row at least 0 with sum 1
    labels         [N] integers in 0..C-1
    top            None for the vector in the order of the classes (Shokri et al.); a number for its `top` largest
                   entries in decreasing order, which carry over between classes (Salem et al.)

    Returns [..., N, C + 1] or [..., N, top + 1]. A probability of 0 counts as the smallest positive number.
    """
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels)
    loss = -np.log(np.maximum(p[..., np.arange(len(y)), y], np.finfo(np.float64).tiny))
    if top is not None:
        p = np.sort(p, axis=-1)[..., ::-1][..., :top]
    return np.concatenate([p, loss[..., None]], axis=-1)


def attack_examples(
    probabilities: ArrayLike, labels: ArrayLike, splits: ShadowSplits, top: int | None = None
) -> AttackExamples:
    """The attack model's training set from every shadow's predictions, [K, N, C], on the examples of `splits`."""
    features = prediction_features(probabilities, labels, top)
    used = splits.inside | splits.outside
    return AttackExamples(features=features[used], members=splits.inside[used])
