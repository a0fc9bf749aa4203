"""DP-SGLD with its published noise: what Wu et al. compare their membership bounds with.

Source      Wang, Fienberg & Smola (2015), Algorithm 2; Wu et al. (2020), Property 1.
Claim       (epsilon, delta) of the noise that the published formula asks for at the target, recounted exactly by the
            PLD: the formula adds far more than its own claim needs. The published claim stands beside.
Departures  The paper assumes gradients bounded by a Lipschitz constant; here every per-record gradient is clipped to
            it, `clip_norm`. Batches are Poisson samples at rate batch_size / n. ceil(n / b) steps make a pass, and all
            of them are counted.

One step, with step size e, prior N(0, v) and clip norm L:

    theta -= e [ theta / v + (n/b) sum over the batch of clip(gradient, L) ];  theta += N(0, max(e^2 F, e))

F is `dpcore.sgld.published_noise_factor`. As long as e^2 F is the larger, the noise multiplier is sqrt(F) b / (n L),
whatever the step size. There is nothing to solve: the noise follows from the target.

Property 1 of Wu et al. concludes that membership leakage is at most epsilon/4 with probability 1 - delta. For delta > 0
it is refuted (`dpcore.membership.property_1_counterexample`), and it is no part of the claim.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcore.accountants.pld import ToleranceNotReached
from dpcore.accounting import headline
from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import Composed, Gaussian, PoissonSampled, Repeated
from dpcore.guarantee import Guarantee, Status
from dpcore.sampling import PoissonSampling
from dpcore.sgld import Phase, published_noise_variance
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
from trainables.systems.noisy_sgd import ASSUMPTIONS, REPORTED, STEPS_MAX
from trainables.systems.sgld import HALVINGS_MAX
from trainables.systems.sgld import PARAMETERS as CLIPPED_PARAMETERS
from trainables.systems.sgld_blocks import schedule

LARGEST_NOISE = 1e6
"""The formula asks for noise that drowns every gradient; beyond this nothing of the data is left to count."""

_CLIP = Parameter(
    name="clip_norm",
    kind="float",
    low=1e-9,
    high=1e6,
    default=1.0,
    unit="gradient norm",
    doc="L: every record's gradient is clipped to it, where the paper assumes a Lipschitz constant",
)
_EPSILON, _DELTA = "target_epsilon", "target_delta"
_STEP_SIZE_DOC = "e of the first block; its noise has variance max(e^2 F, e)"
PARAMETERS = (
    *(
        replace(one, doc=_STEP_SIZE_DOC) if one.name == "step_size" else one
        for one in CLIPPED_PARAMETERS
        if one.name != "noise_multiplier"
    ),
    _CLIP,
)


def noise_multipliers(config: Config, n: int) -> list[float]:
    """sqrt(max(e^2 F, e)) / (e (n/b) L) of each block."""
    batch_size, clip = int(config["batch_size"]), float(config["clip_norm"])
    epsilon, delta, epochs = float(config[_EPSILON]), float(config[_DELTA]), int(config["epochs"])
    return [
        math.sqrt(published_noise_variance(phase.step_size, n, epochs, clip, batch_size, epsilon, delta))
        / (phase.step_size * n / batch_size * clip)
        for phase in schedule(config, n)
    ]


def events(config: Config, n: int) -> tuple[tuple[PoissonSampled, int], ...]:
    """What each block releases: the event of one step, and how many."""
    sampling = PoissonSampling(rate=int(config["batch_size"]) / n)
    return tuple(
        (sampling.event(Gaussian(noise_multiplier=noise)), phase.steps)
        for noise, phase in zip(noise_multipliers(config, n), schedule(config, n), strict=True)
    )


class DPSGLD:
    """The System."""

    name = "dp-sgld"
    source = "Wang, Fienberg & Smola 2015; Wu et al. 2020"
    parameters = PARAMETERS
    metrics = REPORTED
    enforces_units = True
    reports_privately = True

    @property
    def solves(self) -> Mapping[str, str]:
        """Nothing: the published formula gives the noise."""
        return {}

    def plan(
        self, config: Config, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """See `System.plan`. Raises InvalidValue (model, batch above n, adjacency)."""
        full = self._complete(config, target)
        models.check(str(full["model"]), facts)
        if int(full["batch_size"]) > facts.n:
            raise InvalidValue(
                "batch_size",
                full["batch_size"],
                f"at most n={facts.n} {facts.counted} of {facts.dataset}",
                "Lower batch_size.",
            )
        steps = sum(phase.steps for phase in schedule(full, facts.n))
        halvings = (int(full["epochs"]) - 1) // int(full["halve_every"])
        sizes = {"steps": (steps, STEPS_MAX), "halvings": (halvings, HALVINGS_MAX)}
        sizes["noise"] = (max(noise_multipliers(full, facts.n)), LARGEST_NOISE)  # type: ignore[assignment]
        for name, (value, largest) in sizes.items():
            if value > largest:
                return Refusal(
                    violations={name: math.log(value / largest)},
                    reason=f"{name}={value:.6g}: expected at most {largest:g}. Take fewer epochs, or raise epsilon or "
                    "halve_every.",
                )
        try:
            return self._planned(full, facts, target)
        except ToleranceNotReached as error:
            return Refusal(violations={"accounting": 1.0}, reason=f"epsilon cannot be bounded closely enough: {error}")

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; one run after the other."""
        from trainables.systems.sgld_training import walk

        for run in runs:
            config = run.member.plan.config
            # The shared loop moves by half a step size; this update has no half.
            doubled = tuple(Phase(2 * one.step_size, one.steps) for one in schedule(config, data.facts.n))
            noises = noise_multipliers(config, data.facts.n)
            walk(run, data, execution, clip=float(config["clip_norm"]), phases=doubled, noises=noises)

    def canary_scale(self, plan: PrivacyPlan, facts: PublicFacts) -> tuple[float, float]:
        """See `trainables.measures.protocols.CanaryTrained`: q n is the batch size."""
        return float(plan.config["clip_norm"]), float(plan.config["batch_size"])

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
        full: dict[str, Scalar] = {}
        for parameter in self.parameters:
            value = config.get(parameter.name, parameter.default)
            if value is None:
                raise InvalidValue(parameter.name, None, f"a value ({parameter.doc})")
            full[parameter.name] = value
        return full | {_EPSILON: target.epsilon, _DELTA: target.delta}

    def _planned(self, full: Config, facts: PublicFacts, target: PrivacyTarget) -> PrivacyPlan | Refusal:
        blocks = events(full, facts.n)
        whole = Composed(events=tuple(Repeated(event=event, count=count) for event, count in blocks))
        claim = headline(whole, target.delta, target.adjacency, unit=target.unit)
        if claim.epsilon > target.epsilon:
            return Refusal(
                violations={"epsilon": math.log(claim.epsilon / target.epsilon)},
                reason=f"the published noise for epsilon={target.epsilon} spends {claim.epsilon:.6g} at "
                f"delta={target.delta}. Lower epsilon, or use clipped-sgld.",
            )
        published = Guarantee(
            epsilon=target.epsilon,
            delta=target.delta,
            adjacency=target.adjacency,
            unit=target.unit,
            accountant="published formula",
            # It holds for this run because the exact count of the same noise is no larger.
            status=claim.status if claim.status is Status.PROVED else Status.PROVED_UNDER_ASSUMPTIONS,
            theorem="Wang, Fienberg & Smola (2015), Algorithm 2",
            assumptions=claim.assumptions,
        )
        noises = noise_multipliers(full, facts.n)
        return PrivacyPlan(
            system=self.name,
            config=dict(full),
            solved=(),
            mechanism=f"{sum(count for _, count in blocks)} Langevin steps on Poisson batches of {facts.counted} "
            f"(rate {full['batch_size']}/{facts.n}), gradients clipped to {float(full['clip_norm']):.4g}, Gaussian "
            f"noise of {min(noises):.5g} times that or more on the sum, by the published formula",
            schedule=blocks,
            guarantee=replace(claim, assumptions=claim.assumptions + ASSUMPTIONS + facts.assumptions),
            beside=(published,),
            work=float(sum(count for _, count in blocks)) * int(full["batch_size"]) * facts.unit_records,
        )


DP_SGLD = DPSGLD()
