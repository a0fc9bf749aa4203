"""Clipped SGLD: one draw from (nearly) a Bayesian posterior, released with the differential privacy of its noise.

Source      Wu et al. (2020), equations 2-3, with every per-record gradient clipped to norm C and Poisson batches.
Claim       (epsilon, delta) of a composition of Poisson-subsampled Gaussians whose noise multiplier grows as the step
            size falls, by the PLD; add-remove; any number of queries.
Departures  The paper clips nothing, and without a clip there is no differential privacy to claim; its own bounds are on
            membership leakage and say nothing for losses above 0.35 (`dpcore.membership`). Its batches are shuffled;
            Poisson batches are drawn here, at rate batch_size / n.

One step, with step size e, noise multiplier z = 2 b / (n C sqrt(e)) and prior N(0, v):

    theta -= (e/2) [ theta / v + (n/b) (sum over the batch of clip(gradient, C) + z C N(0, I)) ]

The noise term is N(0, e I), the sampler's own. So the clip norm decides privacy: `noise_multiplier` is z of the first
step, and C = 2 b / (n z sqrt(step_size)) follows from it.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcore import calibrate
from dpcore.accountants.pld import ToleranceNotReached
from dpcore.accounting import headline
from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import Composed, Gaussian, PoissonSampled
from dpcore.sampling import PoissonSampling
from dpcore.sgld import Phase, clipped_event, noise_multiplier
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
from trainables.systems.noisy_sgd import ASSUMPTIONS, NOISE_MAX, NOISE_MIN, REPORTED, STEPS_MAX
from trainables.systems.sgld_blocks import clip_norm, schedule

HALVINGS_MAX = 16
"""Then the step size is 1/65536 of the first; noises further apart cannot be bounded together closely enough."""

PARAMETERS = (
    Parameter(
        name="model",
        kind="choice",
        default="mlp",
        doc="name of a model (linear, mlp, mlp3, cnn, resnet20, resnet18, ...) or package.module:function",
    ),
    Parameter(
        name="hidden", kind="int", low=1, high=65536, default=64, unit="units", doc="hidden ReLU units of mlp and text"
    ),
    Parameter(
        name="step_size", kind="float", low=1e-12, high=10.0, doc="e of the first block, the variance of its noise"
    ),
    Parameter(
        name="halve_every", kind="int", low=1, high=1_000_000, unit="epochs", doc="the step size halves after so many"
    ),
    Parameter(
        name="prior_variance", kind="float", low=1e-6, high=1e6, default=1.0, doc="of the weights' Gaussian prior"
    ),
    Parameter(
        name="batch_size",
        kind="int",
        low=1,
        unit="records",
        doc="expected number of records, or of units, in a Poisson batch; the sampling rate is batch_size / n",
    ),
    Parameter(
        name="epochs", kind="int", low=1, high=1_000_000, unit="passes", doc="ceil(n / batch_size) steps in each"
    ),
    Parameter(
        name="noise_multiplier",
        kind="float",
        low=NOISE_MIN,
        high=NOISE_MAX,
        doc="noise over clip norm in the first step; decides the clip norm; solved from epsilon by default",
    ),
)


def step_event(config: Config, n: int, phase: Phase) -> PoissonSampled:
    """What one step of a block releases."""
    batch_size = int(config["batch_size"])
    noise = noise_multiplier(phase.step_size, n, batch_size, clip_norm(config, n))
    return PoissonSampling(rate=batch_size / n).event(Gaussian(noise_multiplier=noise))


def event(config: Config, n: int) -> Composed:
    """Everything that the run releases."""
    return clipped_event(schedule(config, n), n, int(config["batch_size"]), clip_norm(config, n))


class ClippedSGLD:
    """The System."""

    name = "clipped-sgld"
    source = "Wu et al. 2020"
    parameters = PARAMETERS
    metrics = REPORTED
    enforces_units = True
    reports_privately = True
    data_parallel = True
    solves = {"noise": "noise_multiplier"}  # noqa: RUF012 (part of the System contract)

    def plan(
        self, config: Config, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """See `System.plan`. Raises InvalidValue (model, batch above n, adjacency, solving the steps)."""
        full = self._complete(config, target)
        models.check(str(full["model"]), facts)
        if int(full["batch_size"]) > facts.n:
            raise InvalidValue(
                "batch_size",
                full["batch_size"],
                f"at most n={facts.n} {facts.counted} of {facts.dataset}",
                "Lower batch_size.",
            )
        halvings = (int(full["epochs"]) - 1) // int(full["halve_every"])
        if halvings > HALVINGS_MAX:
            return _too_large("halvings", halvings, HALVINGS_MAX, "Raise halve_every, or take fewer epochs.")
        steps = sum(phase.steps for phase in schedule(full, facts.n))
        if steps > STEPS_MAX:
            return _too_large("steps", steps, STEPS_MAX, "Take fewer epochs or larger batches.")
        try:
            if target.solve == "noise":
                full["noise_multiplier"] = self._solved(full, facts, target, calibrations)
            return self._planned(full, facts, target)
        except calibrate.CannotCalibrate as error:
            return Refusal(violations={"epsilon": math.log(error.nearest_epsilon / target.epsilon)}, reason=str(error))
        except ToleranceNotReached as error:
            # Nothing can be claimed of it, so it is not launched; other points of the space go on.
            return Refusal(violations={"accounting": 1.0}, reason=f"epsilon cannot be bounded closely enough: {error}")

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; one run after the other."""
        from trainables.systems.sgld_training import train

        for run in runs:
            train(run, data, execution)

    def canary_scale(self, plan: PrivacyPlan, facts: PublicFacts) -> tuple[float, float]:
        """See `trainables.measures.protocols.CanaryTrained`: q n is the batch size."""
        return clip_norm(plan.config, facts.n), float(plan.config["batch_size"])

    def membership_scores(
        self, plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split
    ) -> NDArray[np.float64]:
        """See `trainables.measures.protocols.Scored`: minus each record's loss."""
        from trainables.training.released import negative_losses

        return negative_losses(plan, facts, state, split)

    def _complete(self, config: Config, target: PrivacyTarget) -> dict[str, Scalar]:
        if target.adjacency is not Adjacency.ADD_REMOVE:
            raise InvalidValue(
                "privacy.adjacency", str(target.adjacency), f"add-remove for {self.name}", "Poisson batches need it."
            )
        if target.solve == "steps":
            expected = f"noise or none for {self.name}"
            raise InvalidValue("privacy.solve", target.solve, expected, "Its steps differ; solve the noise.")
        full: dict[str, Scalar] = {}
        for parameter in self.parameters:
            value = config.get(parameter.name, parameter.default)
            if value is not None:
                full[parameter.name] = value
            elif parameter.name != self.solves.get(target.solve):
                raise InvalidValue(parameter.name, None, f"a value ({parameter.doc})")
        return full

    def _solved(
        self, full: Config, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> float:
        goal = calibrate.Target(epsilon=target.epsilon, delta=target.delta)
        parameter = replace(calibrate.NOISE, low=NOISE_MIN)
        return calibrate.solve(
            goal, parameter, lambda noise: event({**full, "noise_multiplier": noise}, facts.n), cache=calibrations
        )

    def _planned(self, full: Config, facts: PublicFacts, target: PrivacyTarget) -> PrivacyPlan | Refusal:
        noise = float(full["noise_multiplier"])
        if noise > NOISE_MAX:
            return _too_large("noise", noise, NOISE_MAX, "Change epsilon, or take fewer epochs or smaller batches.")
        whole = event(full, facts.n)
        claim = headline(whole, target.delta, target.adjacency, unit=target.unit)
        if claim.epsilon > target.epsilon:
            return Refusal(
                violations={"epsilon": math.log(claim.epsilon / target.epsilon)},
                reason=f"epsilon={claim.epsilon:.6g} at delta={target.delta}: expected at most {target.epsilon}. "
                "Raise noise_multiplier or epsilon, or take fewer epochs.",
            )
        phases = schedule(full, facts.n)
        steps = sum(phase.steps for phase in phases)
        batch_size = int(full["batch_size"])
        return PrivacyPlan(
            system=self.name,
            config=dict(full),
            solved=("noise_multiplier",) if target.solve == "noise" else (),
            mechanism=f"{steps} Langevin steps on Poisson batches of {facts.counted} (rate {batch_size}/{facts.n}), "
            f"gradients clipped to {clip_norm(full, facts.n):.4g}, Gaussian noise of {noise:.5g} times that on the "
            "first sum, more later",
            schedule=tuple((step_event(full, facts.n, phase), phase.steps) for phase in phases),
            guarantee=replace(claim, assumptions=claim.assumptions + ASSUMPTIONS + facts.assumptions),
            work=float(steps) * batch_size * facts.unit_records,
        )


def _too_large(name: str, value: float, largest: float, remedy: str) -> Refusal:
    return Refusal(
        violations={name: math.log(value / largest)},
        reason=f"{name}={value:.6g}: expected at most {largest:g}. {remedy}",
    )


CLIPPED_SGLD = ClippedSGLD()
