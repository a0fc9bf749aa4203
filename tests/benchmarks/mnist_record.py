"""Runs of the example `mnist-record`: what a reading of the 10,000 test images found of each winner, and the cost.

Run: sweeps run mnist-record --name record-1 --data DIR; sweeps test record-1 0; and so on, then
     python -m tests.benchmarks.mnist_record --root .sweeps record-1 record-2 ...

Several runs on the same records are as many releases. Their epsilons add up, with their deltas; less is proved by the
Renyi divergences of one search (Papernot & Steinke 2022), the largest over all plans that its space may draw.
"""

from __future__ import annotations

import statistics

import numpy as np
import typer
from scipy.stats import binomtest

import sweeps
from dpcore.accountants.rdp import BU2020_ORDERS, improved_epsilon
from dpcore.selection.best import tight
from dpcore.selection.counts import CountLaw, TruncatedNegativeBinomial
from dpcore.selection.profiles import EventProfile
from sweeps.examples import load
from sweeps.search.space import Space
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec.parse import public_facts
from trainables.system import PrivacyPlan

EXAMPLE = "mnist-record"
ORDERS = (2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 16.0)


def renyi_of_best(law: CountLaw, trial: EventProfile) -> np.ndarray:
    """Renyi divergences of the best of K >= 1: the least of theorem 2 of Papernot & Steinke and R_Q(a) + penalty +
    ln(mean)/(a-1)."""
    one, orders, own = law.priced, np.array(ORDERS), trial.renyi(ORDERS)
    assert isinstance(one, TruncatedNegativeBinomial)
    second = np.array(BU2020_ORDERS)
    beside = (1 + one.shape) * np.min((1 - 1 / second) * trial.renyi(BU2020_ORDERS) - np.log(one.success) / second)
    found, beyond = own + tight(law, trial).penalty, np.log(one.mean) / (orders - 1)
    # Divergences rise with the order: each is bounded by those of larger orders.
    published = np.minimum.accumulate((own + float(beside) + beyond)[::-1])[::-1]
    return np.minimum(found + beyond, published)


def composed(searches: int, delta: float) -> float:
    """Epsilon of so many searches together. A plan's noise follows from its epochs alone: all of them are tried."""
    spec = load(EXAMPLE)
    planner = SealedPlanner.of(SealedPrior(spec, public_facts(spec)))
    assert isinstance(planner, SealedPlanner)
    drawn = Space.of(spec).draw(np.random.default_rng(0))
    low, high = spec.canonical()["systems"]["noisy-sgd"]["epochs"]["int_uniform"]
    worst = np.zeros(len(ORDERS))
    for epochs in range(low, high + 1):
        plan = planner.plan({**drawn, "epochs": epochs})
        assert isinstance(plan, PrivacyPlan)
        worst = np.maximum(worst, renyi_of_best(planner.pricing.law, EventProfile(plan.event())))
    return min(
        improved_epsilon(order, searches * one, delta) for order, one in zip(ORDERS, worst.tolist(), strict=True)
    )


def main(names: list[str], root: str = ".sweeps") -> None:
    right, epsilon, delta = [], 0.0, 0.0
    for name in names:
        opened = sweeps.open(name, root=root)
        trial, reading = opened.trial(0), opened.test(0, accept=("code",))
        accuracy, n = reading.metrics["accuracy"], 10_000
        count = round(accuracy * n)
        interval = binomtest(count, n).proportion_ci(method="wilson")
        right.append(accuracy)
        claim = trial.guarantee
        assert claim is not None
        epsilon, delta = epsilon + claim.epsilon, delta + claim.delta
        print(
            f"{name}: {accuracy:.2%} ({interval.low:.2%} .. {interval.high:.2%}) on test images, "
            f"{trial.metrics['accuracy']:.2%} by the noised score that chose it; epsilon {claim.epsilon:g} at delta "
            f"{claim.delta:g}; {reading.standing}"
        )
    print(f"median {statistics.median(right):.2%}, {min(right):.2%} .. {max(right):.2%}")
    print(f"together: epsilon {epsilon:g} at delta {delta:g} by adding")
    print(f"          epsilon {composed(len(right), 1e-5):.4g} at delta 1e-05 by Renyi divergence")


if __name__ == "__main__":
    typer.run(main)
