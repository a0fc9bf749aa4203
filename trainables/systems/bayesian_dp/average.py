"""The system that claims the average case alone: gradients that need no clip, batches that need no coins.

One step, with standard deviation sigma = noise_multiplier * clip_norm on the sum and b expected records:

    theta -= learning_rate * mask * (sum over the batch of gradients, clipped only where `sensitivity: bounded`
                                     + sigma N(0, I)) / b

It runs only while a stopping filter admits it (`dpcore.accountants.bayesian_filter`): `privacy.epsilon` and
`privacy.delta` are the Bayesian target, epsilon_mu and delta_mu, and no ordinary epsilon stands behind them.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from dpcore.accountants.bayesian import beside_ordinary
from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import NonPrivate
from trainables import models
from trainables.system import (
    Config,
    Dataset,
    Execution,
    Parameter,
    PrivacyPlan,
    PrivacyTarget,
    PublicFacts,
    Refusal,
    Run,
    Scalar,
    Split,
    State,
)
from trainables.systems.bayesian_dp.clipped import SOURCE
from trainables.systems.bayesian_dp.knobs import ACCOUNTING, SHARE, STOPPED_METRICS, check_records
from trainables.systems.bayesian_dp.watch import check_figures, filter_for
from trainables.systems.noisy_sgd import ASSUMPTIONS, NOISY_SGD, STEPS_MAX, steps_of

NO_ORDINARY = "No ordinary differential privacy: a record unlike the others is not protected at all."
FROM_TRAINING = "Distances, and with them the stop, are facts about private training records, without noise."

PARAMETERS = (
    *(one for one in NOISY_SGD.parameters if one.name not in ("clip_norm", "noise_multiplier")),
    Parameter(
        name="sensitivity",
        kind="choice",
        choices=("unbounded", "bounded"),
        default="unbounded",
        doc="unbounded: gradients are not clipped; bounded: each is clipped to clip_norm",
    ),
    Parameter(
        name="clip_norm",
        kind="float",
        low=1e-6,
        high=1e6,
        unit="gradient norm",
        doc="the clip where sensitivity is bounded, and in any case the unit of the noise",
    ),
    Parameter(
        name="noise_multiplier",
        kind="float",
        low=1e-3,
        high=1e6,
        doc="noise standard deviation on the sum of gradients, divided by clip_norm",
    ),
    Parameter(
        name="batches",
        kind="choice",
        choices=("fixed", "poisson"),
        default="fixed",
        doc="fixed: batch_size records without replacement, distances between pairs; poisson: coins, distances are "
        "norms",
    ),
    SHARE,
    *(one for one in ACCOUNTING if one.name != "bayesian_delta"),
)


class AverageCaseSGD:
    """The System."""

    name = "average-case-sgd"
    source = SOURCE
    parameters = PARAMETERS
    metrics = STOPPED_METRICS
    enforces_units = False
    solves = MappingProxyType[str, str]({})

    def plan(
        self, config: Config, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """See `System.plan`: the claim is the filter's target. Raises InvalidValue (model, batch, knobs, adjacency)."""
        full = self._complete(config, target)
        models.check(str(full["model"]), facts)
        batch_size = int(full["batch_size"])
        if batch_size > facts.n:
            raise InvalidValue(
                "batch_size", batch_size, f"at most n={facts.n} records of {facts.dataset}", "Lower batch_size."
            )
        fixed = full["batches"] == "fixed"
        check_records(full, facts, pairs=fixed)
        if not fixed and full["sensitivity"] == "bounded" and full["distances"] == "held-out":
            raise InvalidValue(
                "batches",
                "poisson",
                "the system bayesian-sgd for clipped gradients, Poisson batches and held-out distances",
                "These have an ordinary claim too; bayesian_budget stops them in the same way.",
            )
        steps = steps_of(float(full["epochs"]), batch_size, facts.n)
        if steps > STEPS_MAX:
            return Refusal(
                violations={"steps": math.log(steps / STEPS_MAX)},
                reason=f"steps={steps}: expected at most {STEPS_MAX}. Take fewer epochs or larger batches.",
            )
        check_figures(full, target.delta, steps)
        stopping = filter_for(target.epsilon, target.delta, steps, float(full["estimate_failure"]))
        lines = (NO_ORDINARY, *(() if full["distances"] == "held-out" else (FROM_TRAINING,)))
        claim = stopping.guarantee(target.unit)
        claim = replace(claim, assumptions=(*claim.assumptions, *lines, *ASSUMPTIONS, *facts.assumptions))
        _, ordinary = beside_ordinary(claim, None, target.delta)
        sigma = float(full["noise_multiplier"]) * float(full["clip_norm"])
        return PrivacyPlan(
            system=self.name,
            config=full,
            solved=(),
            mechanism=f"at most {steps} gradient steps on {'fixed' if fixed else 'Poisson'} batches "
            f"({batch_size}/{facts.n}), {full['sensitivity']} gradients, Gaussian noise of {sigma:.5g} on the sum, "
            "until the Bayesian budget is spent",
            schedule=((NonPrivate(), steps),),
            guarantee=claim,
            beside=(ordinary,),
            work=float(steps) * batch_size,
        )

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; one run after the other."""
        from trainables.systems.bayesian_dp.training import train

        for run in runs:
            train(run, data, execution)

    def membership_scores(
        self, plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split
    ) -> NDArray[np.float64]:
        """See `trainables.measures.protocols.Scored`: minus each record's loss."""
        from trainables.training.released import negative_losses

        return negative_losses(plan, facts, state, split)

    def _complete(self, config: Config, target: PrivacyTarget) -> dict[str, Scalar]:
        if target.adjacency is not Adjacency.ADD_REMOVE:
            raise InvalidValue(
                "privacy.adjacency",
                str(target.adjacency),
                f"add-remove for {self.name}",
                "Bayesian differential privacy asks what one more record changes.",
            )
        if target.solve != "none":
            raise InvalidValue(
                "privacy.solve", target.solve, f"none for {self.name}", "What a step costs is not known before it runs."
            )
        full: dict[str, Scalar] = {}
        for parameter in self.parameters:
            value = config.get(parameter.name, parameter.default)
            if value is None:
                raise InvalidValue(parameter.name, None, f"a value ({parameter.doc})")
            full[parameter.name] = value
        return full


AVERAGE_CASE_SGD = AverageCaseSGD()
