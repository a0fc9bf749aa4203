"""Algorithm 1 of Lu et al. (2021): noise on one sampled output neuron. Refuted; kept to be reproduced and attacked.

With three classes or more two outputs stay without noise, and the ratio of their probabilities shows the difference of
their logits exactly: delta is 1 at every finite epsilon. With two classes the output depends on the difference of the
logits only, and a valid sensitivity, which the publication does not have, would make it 2 epsilon_neuron-DP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq, minimize
from scipy.special import expit, log_expit, log_softmax, logsumexp, ndtr, softmax

from dpcore import calibrate, checks
from dpcore.accounting import headline
from dpcore.events import Adjacency, Event, Gaussian, NonPrivate, Repeated
from dpcore.gdp import eps_gdp, sigma_gaussian
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.output_perturbation import Normals, advanced_epsilon
from dpcore.mechanisms.protocol import mechanism, repeated

Array = NDArray[np.float64]

REASON = (
    "Two classes without noise show their logits' difference exactly (three classes or more); "
    "the sensitivities do not bound one record's influence (any number of classes)."
)


class NeuronNoise(StrEnum):
    """Which law the sampled neuron's noise has."""

    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"


def neuron_budget(budget: float, classes: int, noise: NeuronNoise, split: float = 1.0) -> float:
    """epsilon_neuron of one query: eps/(2C + split) for Laplace, eps/sqrt(4C + split^2) for Gaussian noise.

    budget  epsilon per query; with Gaussian noise it is a mu of Gaussian differential privacy
    split   epsilon_sampling / epsilon_neuron, at least 0; 1 as published

    Raises InvalidValue.
    """
    checks.positive_finite(budget=budget)
    checks.count(2, classes=classes)
    checks.non_negative_finite(split=split)
    return (
        budget / (2 * classes + split) if noise is NeuronNoise.LAPLACE else budget / math.sqrt(4 * classes + split**2)
    )


@mechanism("one-neuron-answers")
@dataclass(frozen=True, slots=True, kw_only=True)
class OneNeuronAnswers:
    """`steps` answers of Algorithm 1, each a vector of log-probabilities. They are not private.

    logit_sensitivity, probability_sensitivity  Dz and Dp, as claimed
    noise                                       its law
    noise_multiplier                            one over the budget of an answer, above 0
    split                                       epsilon_sampling / epsilon_neuron

    Raises InvalidValue.
    """

    logit_sensitivity: float
    probability_sensitivity: float
    noise: NeuronNoise
    noise_multiplier: float
    split: float
    steps: int

    def __post_init__(self) -> None:
        checks.positive_finite(logit_sensitivity=self.logit_sensitivity, noise_multiplier=self.noise_multiplier)
        checks.rate(probability_sensitivity=self.probability_sensitivity)
        checks.non_negative_finite(split=self.split)
        checks.count(steps=self.steps)
        # Read from its written form, it is a plain word.
        object.__setattr__(self, "noise", NeuronNoise(self.noise))

    def event(self, from_step: int = 0, to_step: int | None = None) -> Event:
        """See `dpcore.mechanisms.protocol.Mechanism.event`: all but one output leave as they are."""
        return repeated(NonPrivate(), self.steps, from_step, to_step)

    def scale(self, classes: int) -> float:
        """Of the noise on the sampled logit."""
        return self.logit_sensitivity / neuron_budget(1 / self.noise_multiplier, classes, self.noise, self.split)

    def release(self, logits: ArrayLike, draw: Normals) -> Array:
        """Log-probabilities that Algorithm 1 releases, one independent run per row; shape (queries, classes).

        logits  shape (queries, classes)
        draw    standard normal draws, of which all others are made: a uniform one is a normal's own distribution
                function, a Laplace one the difference of two exponentials, each half a sum of two squared normals

        Neuron v is sampled with probability proportional to exp(e_s p_v / (2 Dp)) and gets noise of scale Dz / e_n.
        Logarithms carry the same information as the probabilities and do not underflow. Raises InvalidValue.
        """
        z = np.array(logits, dtype=np.float64)
        if z.ndim != 2:
            raise checks.InvalidValue("logits", z.shape, "shape (queries, classes)")
        share = neuron_budget(1 / self.noise_multiplier, z.shape[1], self.noise, self.split)
        chances = softmax(self.split * share * softmax(z, axis=1) / (2 * self.probability_sensitivity), axis=1)
        chosen = (ndtr(draw((len(z), 1))) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)
        if self.noise is NeuronNoise.LAPLACE:
            squares = np.square(draw((4, len(z))))
            unit = (squares[0] + squares[1] - squares[2] - squares[3]) / 2
        else:
            unit = draw((len(z),))
        z[np.arange(len(z)), chosen] += self.logit_sensitivity / share * unit
        out: Array = log_softmax(z, axis=1)
        return out


def published_guarantee(total: float, noise: NeuronNoise, delta: float) -> Guarantee:
    """The publication's claim for all queries together, marked refuted.

    total  epsilon (Laplace, Theorem 6) or mu (Gaussian), above 0
    delta  in (0, 1): mu = 1 reads epsilon 4.377 at delta 1e-5. A Laplace claim holds at every delta; stated at one,
           both share an axis

    Raises InvalidValue.
    """
    checks.positive_finite(total=total)
    return Guarantee(
        epsilon=eps_gdp(total, delta) if noise is NeuronNoise.GAUSSIAN else total,
        delta=delta,
        adjacency=Adjacency.ADD_REMOVE,
        accountant="one-neuron",
        status=Status.REFUTED,
        theorem="Lu et al. (2021), Theorem 6",
        assumptions=(REASON,),
    )


# Sensitivities as Lu et al. (2021) print them: to be reproduced, not relied on.
#
# Theorem 4 holds for convex losses, a mean objective, exact minimisers and public n. Proposition 1 and everything
# derived from an evenly divided weight change are refuted (`dpcore.papers.lu2021`).
#
# Symbols rho Lipschitz constant, lambda strong convexity, n records, C classes, eta step size, all above 0.


class Bound(StrEnum):
    """A row of Table I: the bound on the L2 sensitivity of the weights that the chain starts from; convex losses."""

    CHAUDHURI_BINARY = "chaudhuri-binary"
    """2 rho / (lambda n): Chaudhuri et al. (2011), two classes, inputs of norm at most 1."""

    CHAUDHURI_GENERAL = "chaudhuri-general"
    """C ||x|| rho / (lambda n): Chaudhuri et al. (2011), any number of classes."""

    WU_DECREASING = "wu-decreasing"
    """2 rho / (lambda n): Wu et al. (2017), smooth loss, decreasing step sizes."""

    WU_CONSTANT = "wu-constant"
    """2 eta rho / (1 - (1 - eta lambda)^n): Wu et al. (2017), smooth loss, eta lambda below 1."""

    LU = "lu"
    """2 rho / (lambda n): Lu et al. (2021), Theorem 4, mean objective."""


def lu_convex(lipschitz: float, convexity: float, records: int) -> float:
    """2 rho / (lambda n), three rows of Table I alike. Raises InvalidValue."""
    checks.positive_finite(lipschitz=lipschitz, convexity=convexity)
    checks.count(1, records=records)
    return 2 * lipschitz / (convexity * records)


def weights_bound(
    bound: Bound,
    lipschitz: float,
    convexity: float,
    records: int,
    *,
    classes: int,
    input_norm: float = 1.0,
    learning_rate: float | None = None,
) -> float:
    """The bound by name. `learning_rate` is needed for WU_CONSTANT alone. Raises InvalidValue."""
    same = lu_convex(lipschitz, convexity, records)
    match bound:
        case Bound.CHAUDHURI_GENERAL:
            checks.count(2, classes=classes)
            checks.positive_finite(input_norm=input_norm)
            return classes * input_norm * lipschitz / (convexity * records)
        case Bound.WU_CONSTANT:
            if learning_rate is None:
                raise checks.InvalidValue("learning_rate", None, "a number above 0 for a bound with constant steps")
            checks.positive_finite(learning_rate=learning_rate)
            if learning_rate * convexity >= 1:
                expected = f"a number below 1 / convexity = {1 / convexity:g}"
                remedy = "Lower learning_rate or regularisation, or choose another bound."
                raise checks.InvalidValue("learning_rate", learning_rate, expected, remedy)
            return 2 * learning_rate * lipschitz / -math.expm1(records * math.log1p(-learning_rate * convexity))
        case _:
            return same


@dataclass(frozen=True, slots=True)
class PublishedNoise:
    """The publication's way from a network's shape to its noise (Proposition 1, equation 18, Corollaries 1 and 2).

    lipschitz        rho
    weights          D2W, L2 sensitivity of all weights, by the chosen bound
    weight           Dw = D2W / sqrt(|W|), of one weight
    logit            Dz, of one output before the softmax
    probability_raw  exp(2 Dz) - 1
    stability        2 rho^2 / (lambda n), on-average-remove-one
    """

    lipschitz: float
    weights: float
    weight: float
    logit: float
    probability_raw: float
    stability: float

    @property
    def probability(self) -> float:
        """Dp = min(exp(2 Dz) - 1, 1), of one predicted probability."""
        return min(self.probability_raw, 1.0)


def lipschitz_constant(layers: tuple[int, ...], classes: int) -> float:
    """rho = (C-1)/(C |V_last|) * product of sqrt(|V_t|) x_t: Proposition 1.

    layers  sizes of the input and hidden layers, biases not counted

    x_t, the largest absolute value in each of these layers, is 1, as the printed numbers have it. Read off training
    data it is private, which the publication does not account for. Raises InvalidValue.
    """
    checks.count(2, classes=classes)
    if not layers:
        raise checks.InvalidValue("layers", layers, "at least the input layer")
    for size in layers:
        checks.count(1, layers=size)
    return (classes - 1) / (classes * layers[-1]) * math.prod(math.sqrt(size) for size in layers)


def published_noise(
    layers: tuple[int, ...],
    classes: int,
    records: int,
    regulariser: float,
    *,
    bound: Bound = Bound.LU,
    input_norm: float = 1.0,
    learning_rate: float | None = None,
) -> PublishedNoise:
    """Every sensitivity of a fully connected network, a_u of whose last hidden layer is 1, as for tanh.

    layers            sizes of the input and hidden layers, biases not counted
    regulariser       lambda, taken as the strong convexity of 2 lambda ||W||^2, as published
    bound             which row of Table I the chain starts from; two of them have further conditions, see there
    input_norm, learning_rate  what CHAUDHURI_GENERAL and WU_CONSTANT ask for

    Raises InvalidValue.
    """
    rho = lipschitz_constant(layers, classes)
    total = weights_bound(
        bound, rho, regulariser, records, classes=classes, input_norm=input_norm, learning_rate=learning_rate
    )
    sizes = (*layers, classes)
    weight = total / math.sqrt(sum(a * b for a, b in pairwise(sizes)))
    logit = layers[-1] * weight
    raw = math.expm1(2 * logit) if logit < 350 else math.inf
    return PublishedNoise(rho, total, weight, logit, raw, 2 * rho**2 / (regulariser * records))


# The risk-averse ("convexified") objective J(W) = (1/alpha) ln mean exp(alpha l_i(W)) + 2 lambda ||W||^2.
#
# Convex when every l_i is; a finite alpha does not make a network's loss convex. alpha towards 0 gives the mean loss,
# alpha towards infinity the largest. The log of a mini-batch's mean is a biased estimate of the log of the mean.
#
# Source Lu et al. (2021), equations 22-23.


def risk_averse_loss(losses: ArrayLike, alpha: float) -> float:
    """(1/alpha) ln mean exp(alpha l), losses of shape (n,), alpha above 0. Between their mean and their maximum.

    Raises InvalidValue.
    """
    checks.positive_finite(alpha=alpha)
    values = np.asarray(losses, dtype=np.float64)
    return (float(logsumexp(alpha * values)) - math.log(values.size)) / alpha


def record_weights(losses: ArrayLike, alpha: float) -> Array:
    """softmax(alpha l): each record's weight in the gradient, summing to 1; a badly fitted record may have it all.

    Raises InvalidValue.
    """
    checks.positive_finite(alpha=alpha)
    weights: Array = softmax(alpha * np.asarray(losses, dtype=np.float64))
    return weights


def modulus(regulariser: float) -> float:
    """Strong convexity of 2 lambda ||W||^2: 4 lambda. The publication says lambda, which errs on the safe side.

    Raises InvalidValue.
    """
    checks.positive_finite(regulariser=regulariser)
    return 4 * regulariser


def linear_objective(
    weights: Array, features: Array, labels: NDArray[np.intp], alpha: float, regulariser: float
) -> tuple[float, Array]:
    """Value and gradient of J for softmax regression with cross-entropy.

    weights   shape (d, classes)
    features  shape (n, d)
    labels    shape (n,), integers in [0, classes)
    """
    logs = log_softmax(features @ weights, axis=1)
    rows = np.arange(len(labels))
    losses = -logs[rows, labels]
    residuals = np.exp(logs)
    residuals[rows, labels] -= 1
    gradient = features.T @ (residuals * record_weights(losses, alpha)[:, None]) + 4 * regulariser * weights
    value = risk_averse_loss(losses, alpha) + 2 * regulariser * float(np.sum(weights**2))
    return value, gradient


# The repaired variant: a linear softmax head on public or frozen features, trained on the risk-averse loss in a ball.
#
# What makes a proof possible: features phi(x) of norm at most 1 that no private record shaped; weights W (d x
# classes) with Frobenius norm at most r, hence losses in [0, Bl]; strong convexity m = 4 lambda; and noise on all
# logits.
#
# Sensitivity under replace-one, n public: with w_i, w'_i the record's weight before and after, the gradient moves by
# at most sqrt(2) (w_i + w'_i + |w_i - w'_i|) = 2 sqrt(2) max(w_i, w'_i), a weight is at most exp(alpha Bl) /
# (exp(alpha Bl) + n - 1), and minimisers over one convex set obey the bound shift / m by their variational
# inequalities.

CERTIFIED = "The weights are within the certified distance of the exact minimiser over the ball."
FROZEN = "Features have norm at most 1 and were fixed without looking at private records; n is public."


def largest_weight(alpha: float, loss_bound: float, records: int) -> float:
    """exp(alpha Bl) / (exp(alpha Bl) + n - 1): the most of softmax(alpha l) for l in [0, Bl]; 1/n in the limit alpha 0.

    alpha, loss_bound above 0; records n at least 1. Raises InvalidValue.
    """
    checks.positive_finite(alpha=alpha, loss_bound=loss_bound)
    checks.count(1, records=records)
    return 1 / (1 + (records - 1) * math.exp(-alpha * loss_bound))


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Public facts about one training problem.

    records      n, at least 2
    classes      at least 2
    alpha        risk aversion, above 0
    regulariser  lambda of 2 lambda ||W||^2, above 0
    radius       r, largest Frobenius norm of the weights, above 0
    tolerance    tau, above 0: the minimiser is approached to within tau / (4 lambda)

    Raises InvalidValue.
    """

    records: int
    classes: int
    alpha: float
    regulariser: float
    radius: float
    tolerance: float

    def __post_init__(self) -> None:
        checks.count(2, records=self.records, classes=self.classes)
        checks.positive_finite(
            alpha=self.alpha, regulariser=self.regulariser, radius=self.radius, tolerance=self.tolerance
        )

    @property
    def modulus(self) -> float:
        """m = 4 lambda."""
        return modulus(self.regulariser)

    @property
    def loss_bound(self) -> float:
        """Bl = ln(1 + (C-1) exp(sqrt(2) r)): two columns of W differ by at most sqrt(2) r in norm."""
        return float(np.logaddexp(0.0, math.log(self.classes - 1) + math.sqrt(2) * self.radius))

    @property
    def largest_weight(self) -> float:
        """The most that one record can weigh in the gradient."""
        return largest_weight(self.alpha, self.loss_bound, self.records)

    @property
    def exact_sensitivity(self) -> float:
        """D of the exact minimiser, L2 (Frobenius), replace-one. Never more than the ball's diameter."""
        return min(2 * math.sqrt(2) * self.largest_weight / self.modulus, 2 * self.radius)

    @property
    def sensitivity(self) -> float:
        """D + 2 tau / m: of the certified weights. A query with ||phi|| <= 1 moves its logits by no more."""
        return self.exact_sensitivity + 2 * self.tolerance / self.modulus

    @property
    def smoothness(self) -> float:
        """1/2 + 2 alpha + 4 lambda: largest curvature of J.

        The logit Hessian has eigenvalues at most 1/2; weighting adds alpha times the covariance of gradients of norm
        at most sqrt(2).
        """
        return 0.5 + 2 * self.alpha + self.modulus

    @property
    def iterations(self) -> int:
        """Steps after which `minimise` is within tau / m for every data set: a function of public facts only.

        The gap falls like (1 - sqrt(m/L))^k from at most ln C + m r^2 / 2 (Beck 2017, Theorem 10.42), and the squared
        distance is at most 2/m of it.
        """
        start = math.log(self.classes) + self.modulus * self.radius**2 / 2
        goal = self.tolerance**2 / (2 * self.modulus)
        rate = -math.log1p(-math.sqrt(self.modulus / self.smoothness))
        return max(1, math.ceil(math.log(start / goal) / rate))


class Uncertified(RuntimeError):
    """The weights are not provably within the tolerance of the minimiser: nothing may be released from them."""


def minimise_head(head: Head, features: Array, labels: NDArray[np.intp]) -> Array:
    """The minimiser of J over the ball, to within `tolerance / modulus`; shape (d, classes).

    features  shape (n, d), each row of norm at most 1, n as declared
    labels    shape (n,), integers in [0, classes)
    Accelerated projected gradient in float64, always `head.iterations` steps, so that running time does not depend on
    the data. Raises InvalidValue for rows that are too long, and Uncertified where rounding spoiled the certificate;
    either is visible, so choose the tolerance well above float64's resolution and scale rows beforehand.
    """
    if features.shape != (head.records, features.shape[-1]) or labels.shape != (head.records,):
        raise checks.InvalidValue("features", features.shape, f"{head.records} rows, and as many labels")
    _check_norms("features", features)
    if labels.min() < 0 or labels.max() >= head.classes:
        raise checks.InvalidValue("labels", int(labels.max()), f"integers in [0, {head.classes})")
    root = math.sqrt(head.smoothness / head.modulus)
    momentum = (root - 1) / (root + 1)
    weights = ahead = np.zeros((features.shape[1], head.classes))
    for _ in range(head.iterations):
        _, gradient = linear_objective(ahead, features, labels, head.alpha, head.regulariser)
        after = project(ahead - gradient / head.smoothness, head.radius)
        ahead = after + momentum * (after - weights)
        weights = after
    _, gradient = linear_objective(weights, features, labels, head.alpha, head.regulariser)
    distance = certified_distance(weights, gradient, head.modulus, head.radius)
    if not distance <= head.tolerance / head.modulus:
        raise Uncertified(
            f"tolerance={head.tolerance!r}: certified only to within {distance:g} of the minimiser, "
            f"{head.tolerance / head.modulus:g} asked; a tolerance above float64's resolution would do."
        )
    return weights


def project(weights: Array, radius: float) -> Array:
    """The nearest point of the ball of `radius`, rounded into it."""
    norm = float(np.linalg.norm(weights))
    scaled = weights if norm <= radius else weights * (radius / norm)
    while np.linalg.norm(scaled) > radius:
        scaled = scaled * (1 - 1e-15)
    return scaled


def certified_distance(weights: Array, gradient: Array, modulus: float, radius: float) -> float:
    """Upper bound on the distance from `weights` (inside the ball) to the minimiser over the ball.

    gradient  of J at `weights`, same shape
    For any v >= 0, strong convexity and the minimiser's place in the ball give
    modulus d^2 <= ||gradient + v W|| d + v ||W|| (radius - ||W||). v = 0 is the plain certificate, useless on the
    boundary, where the gradient does not vanish; v = -<gradient, W> / ||W||^2 serves there. The smaller bound counts.
    Raises InvalidValue.
    """
    checks.positive_finite(modulus=modulus, radius=radius)
    norm = float(np.linalg.norm(weights))
    if norm > radius:
        raise checks.InvalidValue("weights", norm, f"a norm of at most radius={radius!r}", "Project them first.")
    bounds = [float(np.linalg.norm(gradient)) / modulus]
    inward = -float(np.sum(gradient * weights))
    if inward > 0 and norm > 0:
        v = inward / norm**2
        rest = float(np.linalg.norm(gradient + v * weights))
        slack = v * norm * (radius - norm)
        bounds.append((rest + math.sqrt(rest**2 + 4 * modulus * slack)) / (2 * modulus))
    return min(bounds)


def head_logits(weights: Array, queries: Array) -> Array:
    """queries @ weights, shape (queries, classes): what needs noise on every entry; softmax and argmax are free then.

    weights  shape (d, classes), as `minimise` returned them
    queries  shape (queries, d), each row of norm at most 1: a longer one would have a larger sensitivity
    Raises InvalidValue.
    """
    _check_norms("queries", queries)
    return queries @ weights


def answers_guarantee(head: Head, sigma: float, queries: int, delta: float) -> Guarantee:
    """The claim for all queries together: proved, for weights that `minimise` returned."""
    noise = Gaussian(noise_multiplier=sigma / head.sensitivity, adjacency=Adjacency.REPLACE_ONE)
    claim = headline(Repeated(event=noise, count=queries), delta, Adjacency.REPLACE_ONE)
    return replace(claim, assumptions=(CERTIFIED, FROZEN, *claim.assumptions))


def _check_norms(name: str, rows: Array) -> None:
    longest = float(np.max(np.linalg.norm(rows, axis=1)))
    # Written so that a row that is not a number is refused too.
    if not longest <= 1 + 1e-12:
        raise checks.InvalidValue(name, f"a row of norm {longest:g}", "norms of at most 1", "Divide by max(1, norm).")


# What Lu et al. (2021) plot: accuracy lost to the mechanism, and what a membership attack gains.


def accuracy_loss(accuracy: float, baseline: float) -> float:
    """Acc_Loss = 1 - accuracy / baseline; the baseline is trained on the same risk-averse loss without noise.

    Accuracies in [0, 1], the baseline above 0. Below 0 where the private model does better. Raises InvalidValue.
    """
    if not 0 <= accuracy <= 1:
        raise checks.InvalidValue("accuracy", accuracy, "a number in [0, 1]")
    checks.rate(baseline=baseline)
    return 1 - accuracy / baseline


def plotted_leakage_bound(epsilon: float) -> float:
    """exp(epsilon) - 1: the bound in the publication's figures, above 1 from epsilon 0.69.

    The most that an attack gains is `dpcore.audit.attacks.advantage_bound`. Raises InvalidValue.
    """
    checks.non_negative_finite(epsilon=epsilon)
    return math.expm1(epsilon) if epsilon < 700 else math.inf


# The noise that DP-SGD takes under four ways of counting: the baselines of Lu et al. (2021), after Jayaraman & Evans.
#
# rdp Poisson-sampled Gaussians in Renyi divergence (Mironov 2017): the one that counts the sampling zcdp rho = T / (2
# s^2), eps = rho + 2 sqrt(rho ln(1/delta)) (Bun & Steinke 2016) advanced T steps at the epsilon of advanced
# composition (Dwork, Rothblum & Vadhan 2010), classical Gaussian noise naive T steps at (eps/T, delta/T), classical
# Gaussian noise (Dwork et al. 2006)
#
# Each is a noise multiplier that satisfies the target; all but the first by far too much. What a run with it spends
# is counted by the usual accountant.


class Counting(StrEnum):
    """How the baselines count their steps."""

    RDP = "rdp"
    ZCDP = "zcdp"
    ADVANCED = "advanced"
    NAIVE = "naive"


def baseline_noise(counting: Counting, epsilon: float, delta: float, steps: int, rate: float) -> float:
    """Noise standard deviation over clip norm for `steps` steps on Poisson batches of `rate`, add-remove.

    Raises CannotCalibrate (rdp) when no noise meets the target, and InvalidValue.
    """
    checks.positive_finite(epsilon=epsilon)
    checks.probability_open(delta=delta)
    checks.count(minimum=1, steps=steps)
    checks.rate(rate=rate)
    match counting:
        case Counting.RDP:
            target = calibrate.Target(epsilon=epsilon, delta=delta, accountant="rdp")
            return calibrate.noise_multiplier(target, rate=rate, steps=steps)
        case Counting.ZCDP:
            tail = math.log(1 / delta)
            rho = (epsilon / (math.sqrt(tail + epsilon) + math.sqrt(tail))) ** 2
            return math.sqrt(steps / (2 * rho))
        case Counting.ADVANCED:
            # Half of delta for the slack, half for the steps.
            return _classical(advanced_epsilon(epsilon, delta / 2, steps), delta / 2 / steps)
        case Counting.NAIVE:
            return _classical(epsilon / steps, delta / steps)


def _classical(epsilon: float, delta: float) -> float:
    """sqrt(2 ln(1.25/delta)) / epsilon, which is enough up to epsilon 1 only; above it the exact noise where larger."""
    return max(math.sqrt(2 * math.log(1.25 / delta)) / epsilon, sigma_gaussian(epsilon, delta))


# Why Lu et al. (2021) is refuted: runs that anyone can repeat, each with what was measured and what was claimed.


@dataclass(frozen=True, slots=True)
class MeasuredSensitivity:
    """A quantity that a record moves, beside the bound that the publication puts on it."""

    measured: float
    claimed: float

    @property
    def factor(self) -> float:
        """How many times the claim is exceeded; above 1 it is refuted."""
        return self.measured / self.claimed


def one_neuron_distinguisher(
    trials: int = 20_000, epsilon: float = 0.01, noise: NeuronNoise = NeuronNoise.LAPLACE, seed: int = 0
) -> MeasuredSensitivity:
    """Share of right guesses of "was the record in?" from one output, beside what epsilon-DP allows.

    Softmax regression (n = 200, d = 5, C = 3), one record removed, one query, a fair coin per trial. The attacker knows
    both models and asks whose logit differences occur among the output's: one pair of classes has no noise. With
    Gaussian noise the claimed epsilon is a mu, which allows Phi(mu/2). Raises InvalidValue.
    """
    checks.count(1, trials=trials)
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(200, 5))
    features /= np.maximum(1, np.linalg.norm(features, axis=1, keepdims=True))
    labels = (features @ rng.normal(size=(5, 3)) + rng.gumbel(size=(200, 3))).argmax(axis=1)
    query = features[:1]
    head = Head(records=200, classes=3, alpha=1.0, regulariser=0.0005, radius=100.0, tolerance=1e-6)
    models = [
        query @ minimise_head(replace(head, records=200 - gone), features[gone:], labels[gone:]) for gone in (0, 1)
    ]
    bounds = published_noise((5,), 3, 200, 0.0005)
    answers = OneNeuronAnswers(
        logit_sensitivity=bounds.logit,
        probability_sensitivity=bounds.probability,
        noise=noise,
        noise_multiplier=1 / epsilon,
        split=1.0,
        steps=trials,
    )
    coins = rng.integers(0, 2, trials)
    out = np.empty((trials, 3))
    for which, logits in enumerate(models):
        rows = np.flatnonzero(coins == which)
        repeated = np.repeat(logits, len(rows), axis=0)
        out[rows] = answers.release(repeated, rng.standard_normal)
    misfits = [np.abs(_differences(out) - _differences(logits)).min(axis=1) for logits in models]
    right = np.mean((misfits[1] < misfits[0]) == (coins == 1))
    allowed = expit(epsilon) if noise is NeuronNoise.LAPLACE else ndtr(epsilon / 2)
    return MeasuredSensitivity(float(right), float(allowed))


def single_weight(weights: int = 10_000, records: int = 1000, convexity: float = 0.01) -> MeasuredSensitivity:
    """How far one weight moves when one record leaves, beside Dw = 2 rho / (lambda n sqrt(|W|)).

    Logistic regression; the record alone has a feature of its own, so its weight solves a one-dimensional problem and
    is 0 without it. rho = 1: inputs of norm 1.
    """
    moved = brentq(lambda w: convexity * w - expit(-w) / records, 0.0, 1 / (convexity * records), xtol=1e-15)
    return MeasuredSensitivity(float(moved), lu_convex(1.0, convexity, records) / math.sqrt(weights))


def risk_averse_minimiser(alpha: float = 5.0, records: int = 10_000, convexity: float = 0.001) -> MeasuredSensitivity:
    """How far the minimiser moves when one label is flipped, beside D2W = 2 rho / (lambda n).

    One-dimensional logistic regression, all inputs 1, all labels alike but one. The flipped record's weight in the
    gradient is softmax(alpha l), not 1/n. Convex throughout: only the objective differs from Theorem 4's.
    """

    def slope(w: float, flipped: int) -> float:
        losses = np.concatenate([np.full(records - flipped, -log_expit(w)), np.full(flipped, -log_expit(-w))])
        weight = record_weights(losses, alpha)[records - flipped :].sum()
        return float(convexity * w - (1 - weight) * expit(-w) + weight * expit(w))

    reach = 1 / convexity
    ends = [brentq(slope, 0.0, reach, args=(flipped,), xtol=1e-12) for flipped in (0, 1)]
    return MeasuredSensitivity(abs(ends[0] - ends[1]), lu_convex(1.0, convexity, records))


@dataclass(frozen=True, slots=True)
class NonConvexity:
    """J at W, at -W and at their midpoint 0; a convex J would have J(0) at most their mean."""

    at_weights: float
    at_opposite: float
    at_midpoint: float


def xor_network(alpha: float, regulariser: float = 0.0) -> NonConvexity:
    """A tanh net without output bias that computes XOR: flipping all signs leaves the function unchanged.

    Three hidden neurons, inputs (x_1, x_2, 1). With a regulariser the weights are first trained, else set by hand.
    Any accurate tanh network refutes convexity in this way, at every alpha.
    """
    inputs = np.array([[-1, -1, 1], [-1, 1, 1], [1, -1, 1], [1, 1, 1]], dtype=np.float64)
    signs = np.array([-1.0, 1.0, 1.0, -1.0])

    def objective(flat: Array) -> float:
        hidden, out = flat[:9].reshape(3, 3), flat[9:]
        losses = -log_expit(signs * (np.tanh(inputs @ hidden.T) @ out))
        return risk_averse_loss(losses, alpha) + 2 * regulariser * float(flat @ flat)

    steep = 2.0
    by_hand = np.array([steep, steep, -steep, -steep, -steep, -steep, 0, 0, steep, -12, -12, -12])
    flat = by_hand if regulariser == 0 else minimize(objective, by_hand / 2, method="BFGS").x
    return NonConvexity(objective(flat), objective(-flat), objective(np.zeros(12)))


def output_layer_gradient(inputs: int = 784, hidden: int = 128, classes: int = 10) -> MeasuredSensitivity:
    """Norm of one record's gradient in the output layer alone, beside Proposition 1's rho.

    All hidden tanh neurons saturated at 1 and all probability on a wrong class: sqrt(2) sqrt(hidden).
    """
    activations, error = np.ones(hidden), np.zeros(classes)
    error[0], error[1] = 1.0, -1.0
    gradient = np.outer(activations, error)
    return MeasuredSensitivity(
        float(np.linalg.norm(gradient)), published_noise((inputs, hidden), classes, 10_000, 0.0005).lipschitz
    )


def _differences(logits: Array) -> Array:
    """Differences of all pairs of three classes; shape (rows, 3)."""
    return logits - np.roll(logits, 1, axis=1)
