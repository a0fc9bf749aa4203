"""Mechanisms under audit: planted bugs are refuted, the right releases rarely are.

Each audit looks at neighbours for which the mechanism's bound is reached or nearly reached, through the score of the
best attacker. A verdict is wrong on a true claim with probability at most LEVEL; the number of wrong ones allowed is
what a binomial with that rate exceeds with probability 1e-4. Seeds are fixed besides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from dpcore import gdp
from dpcore.accountants.pld import PLDAccountant
from dpcore.accounting import headline
from dpcore.audit import (
    Audit,
    AuditOutcome,
    AuditVerdict,
    OneRun,
    OneRunFDP,
    ThreatModel,
    choose_threshold_against,
    claimed,
    count_at,
    guess,
    toss,
)
from dpcore.audit.attacks import sampled_log_likelihood_ratio
from dpcore.events import Adjacency, Gaussian, PoissonSampled, Repeated
from dpcore.gradients import PrivateGradients, noisy_mean_gradient
from dpcore.guarantee import Guarantee
from dpcore.sampling import PoissonSampling
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.oracles import composed, noise

torch.set_num_threads(1)
LEVEL, DELTA = 0.05, 1e-5
ADD_REMOVE = Adjacency.ADD_REMOVE
Scores = Callable[[bool, int, np.random.Generator], np.ndarray]
"""(with the target, how many runs, generator) -> what the attacker makes of so many releases."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One mechanism with its claim: what it releases, and what it releases with a bug.

    curve  a whole trade-off function that is claimed; finds more than the one point
    runs   of each of `audits` audits of the right release; a wrong one has `wrong_runs`
    """

    claim: Guarantee
    right: Scores
    wrong: dict[str, Scores]
    curve: gdp.TradeOff | None = None
    runs: int = 150
    audits: int = 30
    wrong_runs: int = 400


def refuted(claim: Guarantee, evidence, curve=None) -> bool:
    audit = Audit(
        evidence=evidence, threat_model=ThreatModel.EVERY_UPDATE, adjacency=claim.adjacency, delta=claim.delta
    )
    return AuditVerdict(audit=audit, guarantee=claim, curve=curve).outcome is AuditOutcome.REFUTED


def refutations(case: Case, scores: Scores, runs: int, audits: int) -> int:
    """How many of `audits` audits refute the claim, by a threshold from runs of its own."""
    rng = np.random.default_rng(0)
    hypothesis = claimed(case.claim, case.curve)
    threshold = choose_threshold_against(
        scores(True, runs, rng), scores(False, runs, rng), hypothesis, case.claim.delta, LEVEL
    )
    return sum(
        refuted(case.claim, count_at(scores(True, runs, rng), scores(False, runs, rng), threshold), case.curve)
        for _ in range(audits)
    )


def few_enough(wrong: int, audits: int) -> bool:
    return wrong <= stats.binom.isf(1e-4, audits, LEVEL)


def curve_of(event, adjacency: Adjacency = ADD_REMOVE) -> gdp.TradeOff:
    return gdp.enveloped(PLDAccountant(adjacency=adjacency).compose(event).epsilon)


# One training step over all records, one of them far larger than the others and opposed. At delta 0.1 few runs tell a
# claim of mu = 1 from one of mu = 2.

CLIP = 3.0


def flat(tensors) -> np.ndarray:
    return torch.cat([one.detach().flatten() for one in tensors.values()]).double().numpy()


def training_step() -> Case:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    torch.manual_seed(4)
    inputs, labels = torch.randn(8, 4), torch.full((8,), 1000.0)
    more = torch.cat([inputs, torch.ones(1, 4)]), torch.cat([labels, torch.tensor([-1e6])])
    engine, source = PrivateGradients(model, oracle.squared_loss), noise("step")
    sums = {
        present: engine.clipped_sum(*records, clip_norm=CLIP)
        for present, records in ((True, more), (False, (inputs, labels)))
    }

    def scores(scale: float = 1.0, divisor: Callable[[bool], float] = lambda present: 8.0) -> Scores:
        means = [flat(sums[present].tensors) / divisor(present) for present in (True, False)]

        def of(present: bool, runs: int, rng: np.random.Generator) -> np.ndarray:
            given = {"noise_multiplier": scale, "expected_batch_size": divisor(present), "noise": source}
            drawn = (noisy_mean_gradient(sums[present], **given) for _ in range(runs))
            return np.array([flat(one) @ (means[0] - means[1]) for one in drawn])

        return of

    return Case(
        claim=headline(Gaussian(noise_multiplier=1.0), 0.1, ADD_REMOVE),
        right=scores(),
        wrong={
            "half the noise": scores(0.5),
            "noise that forgets the clip norm": scores(1 / CLIP),
            "divided by the realised size": scores(divisor=lambda present: 8.0 + present),
        },
        runs=80,
    )


# Poisson sampling. With this little noise all privacy is in the batches that the target misses: it misses both with
# probability 1/4, so the claim's profile reaches epsilon 0 just above delta 3/4, and that is where it is tested.


def sampling() -> Case:
    steps, rate, narrow = 2, 0.5, 0.2

    def scores(batches) -> Scores:
        """Of nine records or of eight; the score is the most powerful one for Poisson."""

        def of(present: bool, runs: int, rng: np.random.Generator) -> np.ndarray:
            held = [[present and 0 in one for one in batches(8 + present, rng)] for _ in range(runs)]
            responses = np.array(held).T + narrow * rng.standard_normal((steps, runs))
            return sampled_log_likelihood_ratio(responses, narrow, rate)

        return of

    poisson = PoissonSampling(rate=rate)
    event = Repeated(event=poisson.event(Gaussian(noise_multiplier=narrow)), count=steps)
    return Case(
        claim=headline(event, 0.76, ADD_REMOVE),
        right=scores(lambda n, rng: [poisson.indices(n, rng) for _ in range(steps)]),
        wrong={
            "one pass over shuffled records": scores(lambda n, rng: np.array_split(rng.permutation(n), steps)),
            "no sampling at all": scores(lambda n, rng: [np.arange(n)] * steps),
        },
    )


def empty_batches() -> Case:
    """The target alone in the data, or nobody; a release of exactly 0 is a batch without noise."""
    wide, steps, poisson = 3.0, 6, PoissonSampling(rate=0.3)

    def scores(noise_of_empty: bool) -> Scores:
        def of(present: bool, runs: int, rng: np.random.Generator) -> np.ndarray:
            drawn = np.array([[len(poisson.indices(int(present), rng)) for _ in range(steps)] for _ in range(runs)])
            releases = drawn + rng.normal(0, wide, drawn.shape) * ((drawn > 0) | noise_of_empty)
            return releases.sum(1) - 100.0 * (releases == 0).sum(1)

        return of

    event = Repeated(event=PoissonSampled(rate=0.3, event=Gaussian(noise_multiplier=wide)), count=steps)
    return Case(
        claim=headline(event, DELTA, ADD_REMOVE),
        right=scores(True),
        wrong={"empty batches without noise": scores(False)},
        curve=curve_of(event),
    )


CASES: dict[str, Callable[[], Case]] = {
    "training step": cache(training_step),
    "Poisson sampling": cache(sampling),
    "empty batches": cache(empty_batches),
}


@pytest.mark.parametrize("name", CASES)
def test_the_right_release_is_refuted_no_more_often_than_stated(name):
    case = CASES[name]()
    assert few_enough(refutations(case, case.right, case.runs, case.audits), case.audits)


@pytest.mark.parametrize("name", CASES)
def test_planted_bugs_are_refuted(name):
    case = CASES[name]()
    missed = [bug for bug, scores in case.wrong.items() if not refutations(case, scores, case.wrong_runs, 1)]
    assert not missed


# One run with many canaries, each included by its own coin, through the engine: one-hot inputs and labels whose
# gradient, -label * input at weight 0, is far beyond the clip norm.


@dataclass(frozen=True, kw_only=True)
class CanaryRun:
    """`steps` releases of a linear model over canaries along distinct coordinates, half of those present in a batch."""

    canaries: int
    noise_multiplier: float
    steps: int
    sources: Callable[[int], object]
    sampling: PoissonSampling = field(default=PoissonSampling(rate=0.5))

    def responses(self, coins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """[steps, canaries]: each canary's coordinate of the noisy sums, in clip norms; `coins` says who is there."""
        model = nn.Linear(self.canaries, 1, bias=False)
        nn.init.zeros_(model.weight)
        engine = PrivateGradients(model, oracle.squared_loss)
        inputs = -torch.eye(self.canaries)[torch.from_numpy(coins)]
        expected, rows = 0.5 * self.canaries, []
        for step in range(self.steps):
            batch = inputs[torch.from_numpy(self.sampling.indices(len(inputs), rng))]
            total = engine.clipped_sum(batch, torch.full((len(batch),), 100 * CLIP), clip_norm=CLIP)
            given = {"noise_multiplier": self.noise_multiplier, "expected_batch_size": expected}
            mean = noisy_mean_gradient(total, **given, noise=self.sources(step))
            rows.append(flat(mean) * expected / CLIP)
        return np.array(rows)


def attempts_are_refuted(seed: int, sources) -> bool:
    """Six launches of one trial. Fresh noise hides a canary's coming and going; noise that returns cancels out."""
    run = CanaryRun(canaries=400, noise_multiplier=4.0, steps=6, sources=sources)
    rng = np.random.default_rng(seed)
    coins = toss(400, rng)
    observed = guess(np.ptp(run.responses(coins, rng), axis=0), coins, guesses_in=50, guesses_out=50)
    event = Repeated(event=run.sampling.event(Gaussian(noise_multiplier=4.0)), count=6)
    return refuted(headline(event, DELTA, ADD_REMOVE), OneRun(observed=observed))


def test_noise_replayed_by_a_later_attempt_is_caught_and_noise_keyed_by_the_attempt_is_not():
    assert attempts_are_refuted(11, lambda step: noise("trial", attempt=0))
    fresh = sum(attempts_are_refuted(seed, lambda step, s=seed: noise(f"trial {s}", step)) for seed in range(12))
    assert few_enough(fresh, 12)


def test_the_accountants_curve_survives_one_run_unless_the_noise_forgets_the_clip_norm():
    event = Repeated(event=PoissonSampling(rate=0.5).event(Gaussian(noise_multiplier=1.5)), count=4)
    curve = composed(PLDAccountant().compose(event), epsilons=12)

    def rejected(seed: int, scale: float = 1.0) -> bool:
        source, rng = noise(f"curve {seed}"), np.random.default_rng(seed)
        run = CanaryRun(canaries=1000, noise_multiplier=1.5 * scale, steps=4, sources=lambda step: source)
        coins = toss(1000, rng)
        scores = sampled_log_likelihood_ratio(run.responses(coins, rng), 1.5, 0.5)
        return OneRunFDP(observed=guess(scores, coins, guesses_in=100, guesses_out=100)).rejects(curve, LEVEL)

    assert few_enough(sum(rejected(seed) for seed in range(12)), 12)
    assert rejected(0, scale=1 / CLIP)
