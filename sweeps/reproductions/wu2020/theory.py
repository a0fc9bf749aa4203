"""The paper's theorems against their own premises, and what clipping buys instead. No data, no training."""

from __future__ import annotations

import math

from dpcore.accounting import headline
from dpcore.adjacency import Adjacency
from dpcore.events import Composed, Gaussian, PoissonSampled, Repeated
from dpcore.guarantee import Status
from dpcore.membership import (
    dp_leakage_bound,
    leave_one_out_constant,
    property_1_counterexample,
    property_1_status,
    published_bound,
    repaired_bound,
    trivial_bound,
    vacuity_thresholds,
)
from dpcore.sgld import clipped_event, halving_schedule, noise_multiplier, published_noise_factor
from sweeps.release.rounding import epsilon_text
from sweeps.reproductions.claims import Claim, Table

COIN = math.log(2)
"""Loss of a coin flip between two classes."""
PASSES, BATCH, RECORDS, DELTA = 30, 32, 400, 1e-3

CLIPPED = (
    ("German Credit", 400, 32, 30, 1e-3, 5, 1e-3, (0.5, 1.0, 5.0)),
    ("IDC", 39_952, 128, 100, 1e-4, 20, 1e-5, (0.1, 1.0)),
)
"""Name, N, b, epochs, e, halved every so many epochs, delta, clip norms."""


def claims() -> list[Claim]:
    """Theorem 1, Property 1 and DP-SGLD."""
    trivial, half, one = vacuity_thresholds()
    counter = property_1_counterexample()
    return [
        Claim(
            claim="Theorem 1: (B/4)(exp(2B)-1) bounds the leakage of SGLD, and says something about a coin flip's loss",
            published="a uniform bound",
            ours=f"B = {COIN:.4f}: {published_bound(COIN):.3f}, any algorithm at prior 1/2: {trivial_bound(COIN):.3f}",
            holds=published_bound(COIN) < trivial_bound(COIN),
            note=f"Vacuous: above what any algorithm leaks (B/4) from B = {trivial:.4f}, above 1/2 from {half:.4f}, "
            f"above 1 from {one:.4f}. It is {Status.MEMBERSHIP_ONLY}, conditional on convergence and decreasing steps, "
            "drops a Jensen gap of up to B^2/8, and unclipped cross-entropy has no B.",
        ),
        Claim(
            claim="Lemma 2: the leave-one-out error is at most B(exp(2B)-1) (B = 1)",
            published=round(math.expm1(2.0), 3),
            ours=round(leave_one_out_constant(1.0), 4),
            holds=leave_one_out_constant(1.0) <= math.expm1(2.0),
            note=f"Exactly B tanh(B/4), {math.expm1(2.0) / leave_one_out_constant(1.0):.0f} times less. With that and "
            f"a Jensen gap, Theorem 1's constant is {repaired_bound(1.0):.4f} instead of {published_bound(1.0):.4f}.",
        ),
        Claim(
            claim="Property 1, delta > 0: (epsilon, delta)-DP leaks at most epsilon/4 with probability 1 - delta",
            published="holds",
            ours=f"epsilon 1, delta {counter.delta:.4f}: leaks more with probability {counter.leakage_exceeds:.4f}",
            holds=counter.leakage_exceeds <= counter.delta,
            note=f"{property_1_status(counter.delta)}: a 1-GDP Gaussian release.",
        ),
        Claim(
            claim="Property 1, delta = 0: epsilon-DP leaks at most epsilon/4 (epsilon = 1)",
            published=0.25,
            ours=round(dp_leakage_bound(1.0), 4),
            holds=dp_leakage_bound(1.0) <= 0.25,
            note=f"{property_1_status(0.0)}; sharper: sigmoid(epsilon) - 1/2.",
        ),
        _dp_sgld(),
    ]


def _dp_sgld() -> Claim:
    noise = math.sqrt(published_noise_factor(RECORDS, PASSES, 1.0, BATCH, 1.0, DELTA)) * BATCH / RECORDS
    steps = PASSES * math.ceil(RECORDS / BATCH)
    event = Repeated(event=PoissonSampled(rate=BATCH / RECORDS, event=Gaussian(noise_multiplier=noise)), count=steps)
    exact = headline(event, DELTA, Adjacency.ADD_REMOVE)
    return Claim(
        claim="DP-SGLD's published noise gives epsilon 1 at delta 1e-3 (German Credit, clipped to 1)",
        published=1.0,
        ours=epsilon_text(exact.epsilon),
        holds=exact.epsilon <= 1,
        note=f"{exact.status}, by {exact.accountant}: noise of {noise:.4g} clip norms spends {1 / exact.epsilon:.0f} "
        "times less than is claimed.",
    )


def clipping() -> Table:
    """The published schedules with every gradient clipped, counted exactly. Without a clip nothing can be counted."""
    rows: list[tuple[object, ...]] = []
    for name, records, batch, epochs, rate, every, delta, clips in CLIPPED:
        schedule = halving_schedule(rate, every, epochs, math.ceil(records / batch))
        rows.append((name, "none", "undefined", "inf", f"{delta:g}", "nothing is claimed"))
        for clip in clips:
            event: Composed = clipped_event(schedule, records, batch, clip)
            exact = headline(event, delta, Adjacency.ADD_REMOVE)
            first = noise_multiplier(rate, records, batch, clip)
            rows.append(
                (name, clip, first, epsilon_text(exact.epsilon), f"{delta:g}", f"{exact.status}, {exact.accountant}")
            )
    return Table(
        "SGLD with the paper's schedules, clipped: one draw's epsilon, add-remove, per record",
        ("data", "clip norm", "first noise multiplier", "epsilon", "delta", "status"),
        rows,
    )
