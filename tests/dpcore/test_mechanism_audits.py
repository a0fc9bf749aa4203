"""Every mechanism of dpcore under audit: planted bugs are refuted, the right parts rarely are.

The claims are the headline epsilons of the events that the parts themselves issue. A verdict is wrong on a true claim
with probability at most LEVEL; the counts of wrong verdicts below are allowed what a binomial with that rate exceeds
with probability 1e-4. Seeds are fixed besides.
"""

from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from dpcore.accountants.pld import PLDAccountant
from dpcore.accounting import headline
from dpcore.audit import (
    Audit,
    AuditOutcome,
    AuditVerdict,
    MultiRun,
    OneRun,
    OneRunFDP,
    ThreatModel,
    choose_threshold,
    count_at,
    guess,
    toss,
)
from dpcore.audit.attacks import sampled_log_likelihood_ratio
from dpcore.events import Adjacency, Gaussian, Repeated
from dpcore.gradients import engine as engine_module
from dpcore.gradients.units import clip_factors
from dpcore.sampling import PoissonSampling
from tests.dpcore.audited_releases import (
    PerTensor,
    Release,
    SampledRun,
    batch_mean,
    dirac,
    everybody,
    loop_with_raw_norms,
    noise,
    shuffled_epoch,
)
from tests.dpcore.dirac_canaries import spread
from tests.dpcore.trade_off_oracles import composed

torch.set_num_threads(1)
LEVEL = 0.05
CLIP = 3.0
ADD_REMOVE = Adjacency.ADD_REMOVE


@cache
def claim(event, delta: float):
    return headline(event, delta, ADD_REMOVE)


def verdict(evidence: MultiRun | OneRun, event, delta: float) -> AuditOutcome:
    audit = Audit(evidence=evidence, threat_model=ThreatModel.EVERY_UPDATE, adjacency=ADD_REMOVE, delta=delta)
    return AuditVerdict(audit=audit, guarantee=claim(event, delta)).outcome


def few_enough(refuted: int, audits: int) -> bool:
    return refuted <= stats.binom.isf(1e-4, audits, LEVEL)


# One release over all records. At delta 0.1 few runs tell a claim of mu = 1 from one of mu = 2.


def network() -> nn.Module:
    """Four layers, eight tensors, through which every record's gradient passes."""
    torch.manual_seed(3)
    layers = [nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)]
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2], nn.Tanh(), layers[3])


def neighbours(target_input: float = 1.0, target_label: float = -1e6):
    """Eight ordinary records, and the same with a record whose gradient is far larger than theirs and opposed."""
    torch.manual_seed(4)
    inputs, labels = torch.randn(8, 4), torch.full((8,), 1000.0)
    extra = torch.full((1, 4), target_input)
    return (torch.cat([inputs, extra]), torch.cat([labels, torch.tensor([target_label])])), (inputs, labels)


def audit_release(release: Release, key: str, runs: int = 200, audits: int = 1, pair=None) -> int:
    """How many of `audits` audits, each with a threshold from runs of its own, refute the claim at delta 0.1."""
    source, (with_it, without_it) = noise(key), pair or neighbours()
    in_, out = release.scores(with_it, without_it, audits * runs + 100, source)
    # The right score is the same in every run: the exact difference of the two noise-free releases.
    threshold = choose_threshold(in_[:100], out[:100], 0.1, LEVEL)
    refuted = 0
    for k in range(audits):
        part = slice(100 + k * runs, 100 + (k + 1) * runs)
        evidence = count_at(in_[part], out[part], threshold)
        refuted += verdict(evidence, Gaussian(noise_multiplier=release.noise_multiplier), 0.1) is AuditOutcome.REFUTED
    return refuted


def release(**bugs) -> Release:
    return Release(model=network(), clip_norm=CLIP, noise_multiplier=1.0, **bugs)


def test_the_right_release_is_not_refuted_more_often_than_stated():
    assert few_enough(audit_release(release(), "right", runs=80, audits=40), 40)


def test_the_audit_of_the_right_release_has_power():
    """It refutes a claim of half the true mu, so that its silence above means something."""
    source, (with_it, without_it) = noise("power"), neighbours()
    in_, out = release().scores(with_it, without_it, 300, source)
    threshold = choose_threshold(in_[:100], out[:100], 0.1, LEVEL)
    assert (
        verdict(count_at(in_[100:], out[100:], threshold), Gaussian(noise_multiplier=2.0), 0.1) is AuditOutcome.REFUTED
    )


def test_clipping_that_divides_by_the_factor_is_caught(monkeypatch):
    monkeypatch.setattr(engine_module, "clip_factors", lambda squares, clip_norm: 1 / clip_factors(squares, clip_norm))
    assert audit_release(release(), "divides") == 1


def test_clipping_each_tensor_is_caught():
    assert audit_release(release(sums=PerTensor()), "per tensor") == 1


def test_clipping_the_batch_mean_is_caught():
    assert audit_release(release(sums=batch_mean), "batch mean") == 1


def test_half_the_noise_is_caught():
    assert audit_release(release(scale=0.5), "half") == 1


def test_noise_that_forgets_the_clip_norm_is_caught():
    assert audit_release(release(scale=1 / CLIP), "no clip norm") == 1


def test_dividing_by_the_realised_batch_size_is_caught():
    assert audit_release(release(divisor=lambda records: float(len(records[1]))), "realised size") == 1


def test_a_gradient_that_is_not_finite_shows_only_where_the_guard_is_missing():
    pair = neighbours(target_input=float("nan"))
    assert audit_release(release(sums=loop_with_raw_norms), "no guard", pair=pair) == 1
    assert few_enough(audit_release(release(), "guard", runs=80, audits=15, pair=pair), 15)


# Poisson sampling. With this little noise all privacy is in the batches that the target misses: it misses both with
# probability 1/4, so the claim's profile reaches epsilon 0 just above delta 3/4, and that is where it is tested.

STEPS, RATE, NARROW, MISSED = 2, 0.5, 0.2, 0.76
SAMPLED = Repeated(event=PoissonSampling(rate=RATE).event(Gaussian(noise_multiplier=NARROW)), count=STEPS)


def audit_sampling(key: str, batches=None, runs: int = 80, audits: int = 1) -> int:
    """Whole runs over nine records with or without the first; the score is the most powerful one for Poisson."""
    source, rng = noise(key), np.random.default_rng(7)
    run = SampledRun(
        canaries=dirac(9, CLIP, seed=2),
        noise_multiplier=NARROW,
        rate=RATE,
        steps=STEPS,
        sources=lambda step: source,
        batches=batches,
    )

    def scores(present: bool, count: int) -> np.ndarray:
        coins = np.array([present] + [True] * 8)
        rows = [run.responses(coins, rng)[:, :1] for _ in range(count)]
        return np.array([sampled_log_likelihood_ratio(one, NARROW, RATE)[0] for one in rows])

    threshold = choose_threshold(scores(True, 40), scores(False, 40), MISSED, LEVEL)
    evidence = [count_at(scores(True, runs), scores(False, runs), threshold) for _ in range(audits)]
    return sum(verdict(one, SAMPLED, MISSED) is AuditOutcome.REFUTED for one in evidence)


def test_poisson_sampling_is_not_refuted_more_often_than_stated():
    assert few_enough(audit_sampling("poisson", runs=30, audits=15), 15)


@pytest.mark.parametrize("mutant", [shuffled_epoch, everybody])
def test_batches_that_are_not_poisson_are_caught(mutant):
    assert audit_sampling(mutant.__name__, mutant) == 1


# Noise that returns. One run with 400 canaries, each included by its coin; batches hold half of those present.

WIDE = 4.0
ATTEMPTS = Repeated(event=PoissonSampling(rate=0.5).event(Gaussian(noise_multiplier=WIDE)), count=6)


def audit_noise(key: str, seed: int, sources) -> bool:
    run = SampledRun(canaries=dirac(400, CLIP, seed), noise_multiplier=WIDE, rate=0.5, steps=6, sources=sources)
    rng = np.random.default_rng(seed)
    coins = toss(400, rng)
    observed = guess(spread(run.responses(coins, rng)), coins, guesses_in=50, guesses_out=50)
    return verdict(OneRun(observed=observed), ATTEMPTS, 1e-5) is AuditOutcome.REFUTED


def test_noise_replayed_by_a_later_attempt_is_caught():
    """Six launches of one trial whose noise does not depend on the attempt: differences of releases have no noise."""
    assert audit_noise("replay", 11, lambda step: noise("trial", attempt=0))


def test_noise_keyed_by_the_attempt_is_not_refuted_more_often_than_stated():
    refuted = sum(audit_noise("fresh", seed, lambda step, s=seed: noise(f"trial {s}", step)) for seed in range(20))
    assert few_enough(refuted, 20)


# The whole curve. What the PLD accountant says of the event, tested from one run with every part in it.

CURVE_STEPS, CURVE_NOISE = 4, 1.5
CURVE_EVENT = Repeated(event=PoissonSampling(rate=0.5).event(Gaussian(noise_multiplier=CURVE_NOISE)), count=CURVE_STEPS)


@cache
def curve():
    return composed(PLDAccountant().compose(CURVE_EVENT), epsilons=12)


def rejects_the_curve(seed: int, scale: float = 1.0) -> bool:
    source = noise(f"curve {seed}")
    run = SampledRun(
        canaries=dirac(2000, CLIP, seed),
        noise_multiplier=CURVE_NOISE * scale,
        rate=0.5,
        steps=CURVE_STEPS,
        sources=lambda step: source,
    )
    rng = np.random.default_rng(seed)
    coins = toss(2000, rng)
    scores = sampled_log_likelihood_ratio(run.responses(coins, rng), CURVE_NOISE, 0.5)
    return OneRunFDP(observed=guess(scores, coins, guesses_in=200, guesses_out=200)).rejects(curve(), LEVEL)


def test_the_accountants_curve_survives_one_run_unless_the_noise_forgets_the_clip_norm():
    assert few_enough(sum(rejects_the_curve(seed) for seed in range(20)), 20)
    assert rejects_the_curve(0, scale=1 / CLIP)
