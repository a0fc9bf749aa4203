"""`convexified-loss`: Algorithm 1 of Lu et al. (2021) as published. Its claim is refuted, and says so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.convexified.one_neuron import Noise, published_guarantee
from dpcore.convexified.published import Bound
from dpcore.events import Event, NonPrivate
from dpcore.gdp_dual import mu_gdp
from dpcore.guarantee import Guarantee
from trainables.measures.protocols import Neighbours
from trainables.system import Config, Dataset, Execution, PrivacyPlan, PrivacyTarget, PublicFacts, Run
from trainables.systems.convexified.base import QueryingSystem
from trainables.systems.convexified.knobs import PUBLISHED_KNOBS, PUBLISHED_METRICS
from trainables.systems.convexified.scales import held_out, sensitivities
from trainables.systems.linear import classes_of

UNNOISED = "Metrics of the model without noise are reported too: no claim covers them."
ATTACKED = "Half of the queries are training records: which ones is reported by the attack's metric."

TRAINING = (
    "alpha", "regularisation", "hidden", "learning_rate", "batch_size", "epochs", "draw", "shadows", "attack_epochs",
)  # fmt: skip
"""What decides the training before any noise."""


class ConvexifiedLoss(QueryingSystem):
    """Noise on one sampled output neuron of a tanh network, per query."""

    name = "convexified-loss"
    source = "Lu et al. 2021, as published"
    parameters = PUBLISHED_KNOBS
    metrics = PUBLISHED_METRICS
    adjacency = Adjacency.ADD_REMOVE

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; runs that differ in noise alone share their training and their shadows."""
        from trainables.systems.convexified.published_fit import fit

        fit(runs, data, execution)

    def neighbours(self, plan: PrivacyPlan, facts: PublicFacts) -> Neighbours:
        """Data sets that the answers tell apart (see `trainables.measures.protocols.Auditable`)."""
        from trainables.systems.convexified.neighbours import published_neighbours

        return published_neighbours(plan, facts)

    def without_its_attack(self, plan: PrivacyPlan) -> PrivacyPlan:
        """See `trainables.measures.protocols.AttacksItself`: no shadows."""
        return replace(plan, config={**plan.config, "shadows": 0})

    def _check(self, full: Config, facts: PublicFacts) -> None:
        if int(full["batch_size"]) > facts.n:
            raise InvalidValue("batch_size", full["batch_size"], f"at most n={facts.n} records of {facts.dataset}")
        if int(full["shadows"]) and facts.n_validation < 6:
            raise InvalidValue(
                "shadows", full["shadows"], f"0: {facts.dataset} has {facts.n_validation} validation records, 6 needed"
            )
        if full["bound"] == Bound.CHAUDHURI_BINARY and classes_of(facts) > 2:
            raise InvalidValue("bound", full["bound"], "another bound: this one is for two classes")
        super()._check(full, facts)

    def _askable(self, full: Config, facts: PublicFacts) -> int:
        asked = held_out(full, facts)
        return 2 * asked if int(full["shadows"]) else asked

    def _noise(self, full: Config, target: PrivacyTarget) -> float:
        queries = int(full["queries"])
        if full["noise"] == Noise.LAPLACE:
            return queries / target.epsilon
        return math.sqrt(queries) / mu_gdp(target.epsilon, target.delta)

    def _claim(self, full: Config, facts: PublicFacts, target: PrivacyTarget) -> Guarantee:
        """What the publication claims for all queries together: basic composition, or that of Gaussian DP."""
        noise, queries = Noise(str(full["noise"])), int(full["queries"])
        each = 1 / float(full["noise_multiplier"])
        total = queries * each if noise is Noise.LAPLACE else math.sqrt(queries) * each
        claim = published_guarantee(total, noise, target.delta)
        told = ((UNNOISED, bool(full["reference"])), (ATTACKED, int(full["shadows"]) > 0))
        lines = tuple(line for line, applies in told if applies)
        # One delta for both laws of noise, so that they share an axis; a pure claim holds at every delta.
        return replace(claim, delta=target.delta, unit=target.unit, assumptions=(*claim.assumptions, *lines))

    def _each(self, full: Config) -> Event:
        # Two outputs of three leave without noise; no sensitivity of the noised one is bounded.
        return NonPrivate()

    def _mechanism(self, full: Config, facts: PublicFacts) -> str:
        bounds = sensitivities(full, facts)
        return (
            f"{full['queries']} probability vectors of a tanh network (risk aversion {float(full['alpha']):.4g}), each "
            f"with {full['noise']} noise on one sampled logit (claimed sensitivity {bounds.logit:.4g}, not a bound)"
        )

    def _work(self, full: Config, facts: PublicFacts) -> float:
        return float(facts.n) * int(full["epochs"]) * (1 + int(full["shadows"]))

    def _group(self, full: Config) -> str:
        return ",".join(f"{name}={full[name]!r}" for name in TRAINING)


CONVEXIFIED_LOSS = ConvexifiedLoss()
