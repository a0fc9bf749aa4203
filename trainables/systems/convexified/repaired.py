"""`convexified-head`: the risk-averse loss on a linear head in a ball, certified, with noise on every logit.

Mathematics and proof: `dpcore.convexified.repaired`. What the certificate leaves open (1% more) is charged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpcore.adjacency import Adjacency
from dpcore.convexified import repaired
from dpcore.events import Event, Gaussian
from dpcore.gdp_dual import mu_gdp
from dpcore.guarantee import Guarantee
from trainables.measures.protocols import Neighbours
from trainables.system import Config, Dataset, Execution, PrivacyPlan, PrivacyTarget, PublicFacts, Run
from trainables.systems.convexified.base import QueryingSystem
from trainables.systems.convexified.knobs import HEAD_KNOBS, HEAD_METRICS
from trainables.systems.convexified.scales import head_of

TRAINING = ("alpha", "regularisation", "radius", "features", "hidden", "clip_norm", "bias")


class ConvexifiedHead(QueryingSystem):
    """A certified linear head; every logit of every answer has noise of its own."""

    name = "convexified-head"
    source = "Lu et al. 2021, repaired"
    parameters = HEAD_KNOBS
    metrics = HEAD_METRICS
    adjacency = Adjacency.REPLACE_ONE

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; runs that differ in noise alone share their training."""
        from trainables.systems.convexified.repaired_fit import fit

        fit(runs, data, execution)

    def neighbours(self, plan: PrivacyPlan, facts: PublicFacts) -> Neighbours:
        """The flipped label that moves the head furthest (see `trainables.measures.protocols.Auditable`)."""
        from trainables.systems.convexified.neighbours import repaired_neighbours

        return repaired_neighbours(plan, facts)

    def _check(self, full: Config, facts: PublicFacts) -> None:
        head_of(full, facts)
        super()._check(full, facts)

    def _noise(self, full: Config, target: PrivacyTarget) -> float:
        return math.sqrt(int(full["queries"])) / mu_gdp(target.epsilon, target.delta)

    def _claim(self, full: Config, facts: PublicFacts, target: PrivacyTarget) -> Guarantee:
        head = head_of(full, facts)
        sigma = float(full["noise_multiplier"]) * head.sensitivity
        return replace(repaired.guarantee(head, sigma, int(full["queries"]), target.delta), unit=target.unit)

    def _each(self, full: Config) -> Event:
        return Gaussian(noise_multiplier=float(full["noise_multiplier"]), adjacency=Adjacency.REPLACE_ONE)

    def _mechanism(self, full: Config, facts: PublicFacts) -> str:
        head = head_of(full, facts)
        return (
            f"{full['queries']} logit vectors of a certified head (risk aversion {head.alpha:.4g}, radius "
            f"{head.radius:.4g}), each with Gaussian noise of {float(full['noise_multiplier']):.5g} times its "
            f"sensitivity {head.sensitivity:.4g}"
        )

    def _work(self, full: Config, facts: PublicFacts) -> float:
        return float(facts.n) * head_of(full, facts).iterations

    def _group(self, full: Config) -> str:
        return ",".join(f"{name}={full[name]!r}" for name in TRAINING)


CONVEXIFIED_HEAD = ConvexifiedHead()
