"""NoisySGD and NoisyAdam: clipped, noised, Poisson-sampled gradient steps.

Source      Bu, Dong, Long & Su (2020), Algorithms 1 and 2; the mechanism is Abadi et al. (2016), Algorithm 1.
Claim       (epsilon, delta) of `steps` Poisson-subsampled Gaussians by the PLD, add-remove or replace-one (where a
            drawn record may give way to another, two clip norms away); any number of queries.
Departures  The paper divides by the realised batch size, a fact about the data that its own proof does not
            cover; here the divisor is the public q * n. The headline is the PLD's upper bound; the paper's CLT
            value stands beside it as `asymptotic`.

One step, with rate q = batch_size / n, clip norm R and noise multiplier s:

    g = (sum over the batch of clip(gradient, R) + s R N(0, I)) / (q n)
    noisy-sgd    theta -= learning_rate * g
    noisy-adam   m = beta1 m + (1 - beta1) g;  u = beta2 u + (1 - beta2) g^2;
                 theta -= learning_rate * m / (sqrt(u) + xi)

The printed Algorithm 2 has no bias correction, which makes the first hundreds of steps several times larger; the
released code calls an Adam that has it. `bias_correction: true` is the released code.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from dpcore import calibrate
from dpcore.accountants.pld import ToleranceNotReached
from dpcore.accounting import guarantee, headline
from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import Event, Gaussian, Repeated
from dpcore.guarantee import Guarantee
from dpcore.sampling import PoissonSampling
from trainables import models
from trainables.metrics import Worst
from trainables.system import (
    Config,
    Dataset,
    Dependence,
    Execution,
    Metric,
    Parameter,
    PrivacyPlan,
    PrivacyTarget,
    PublicFacts,
    Refusal,
    Run,
    Scalar,
    Split,
    State,
    Task,
)
from trainables.validation.reports import NOISE_SD

NOISE_MIN, NOISE_MAX = 0.2, 1000.0
"""Range of noise multipliers that a plan may ask for. Below it a single unsampled step spends epsilon 33 at delta 1e-5;
above it the gradient is noise in all but name."""
STEPS_MAX = 10_000_000

PUBLIC_VALIDATION = "The validation records are public."
ASSUMPTIONS = (PUBLIC_VALIDATION,)

_SHARED = (
    Parameter(
        name="model",
        kind="choice",
        default="mlp",
        doc="name of a model (linear, mlp, mlp3, cnn, resnet20, resnet18, ...) or package.module:function",
    ),
    Parameter(
        name="hidden", kind="int", low=1, high=65536, default=64, unit="units", doc="hidden ReLU units of mlp and text"
    ),
    Parameter(name="learning_rate", kind="float", low=1e-6, high=1e3, doc="size of a step"),
    Parameter(
        name="clip_norm",
        kind="float",
        low=1e-6,
        high=1e6,
        unit="gradient norm",
        doc="largest L2 norm of the gradient of one record, or unit, over all weights",
    ),
    Parameter(
        name="batch_size",
        kind="int",
        low=1,
        unit="records",
        doc="expected number of records, or of units, in a Poisson batch; the sampling rate is batch_size / n",
    ),
    Parameter(
        name="epochs",
        kind="float",
        low=1e-6,
        high=1e6,
        unit="passes",
        doc="expected passes over the data; ceil(epochs * n / batch_size) steps",
    ),
    Parameter(
        name="noise_multiplier",
        kind="float",
        low=NOISE_MIN,
        high=NOISE_MAX,
        doc="noise standard deviation divided by clip_norm; solved from epsilon by default",
    ),
)
_ADAM = (
    Parameter(name="beta1", kind="float", low=0.0, high=0.999999, default=0.9, doc="memory of the mean"),
    Parameter(name="beta2", kind="float", low=0.0, high=0.999999, default=0.999, doc="memory of the square"),
    Parameter(name="xi", kind="float", low=1e-12, high=1.0, default=1e-8, doc="keeps the division finite"),
    Parameter(
        name="bias_correction",
        kind="choice",
        choices=(False, True),
        default=False,
        doc="false: Algorithm 2 as printed; true: Adam of Kingma & Ba 2015, as in the paper's released code",
    ),
)

_RELEASED = "the validation records (without noise where they are declared public), and the private model"
_CLASSES, _NUMBERS = frozenset({Task.CLASSIFICATION, Task.RATING}), frozenset({Task.REGRESSION, Task.RATING})
METRICS = (
    Metric(
        name="accuracy",
        goal="maximize",
        worst=0.0,
        doc="share of validation records whose class is predicted (classes, ratings)",
        released=_RELEASED,
        depends=Dependence.VALIDATION,
        tasks=_CLASSES,
    ),
    Metric(
        name="rmse",
        goal="minimize",
        worst=Worst.TARGET_RANGE,
        doc="root mean squared error on the validation records (regressions; ratings: of the expected class)",
        released=_RELEASED,
        depends=Dependence.VALIDATION,
        tasks=_NUMBERS,
    ),
    Metric(
        name="loss",
        goal="minimize",
        worst=Worst.GUESSED_LOSS,
        doc="mean loss on the validation records",
        released=_RELEASED,
        depends=Dependence.VALIDATION,
    ),
    Metric(
        name="auc",
        goal="maximize",
        doc="area under the ROC curve on the validation records (more than two classes: mean of one against the rest)",
        released=_RELEASED,
        depends=Dependence.VALIDATION,
        worst=0.0,
        tasks=frozenset({Task.CLASSIFICATION}),
    ),
)
REPORTED = (
    *METRICS,
    *(
        Metric(
            name=name + NOISE_SD,
            goal="minimize",
            doc=f"standard deviation that the noise on private validation records gives {name}",
            released="the noised histogram of validation records: post-processing of the claim",
            depends=Dependence.RELEASED,
        )
        for name in ("accuracy", "rmse", "loss", "auc")
    ),
)
"""Of systems that report on private validation records too (`trainables.validation.judging.report`)."""


def steps_of(epochs: float, batch_size: int, n: int) -> int:
    """ceil(epochs * n / batch_size), exact for `epochs` as it is written in decimal.

    In floating point 0.1 * 1000 / 10 and 1 / (1 / 234) go wrong by one step.
    """
    return math.ceil(Fraction(repr(float(epochs))) * n / batch_size)


def epochs_of(steps: int, batch_size: int, n: int) -> float:
    """The largest float of epochs that means exactly `steps` steps or, where floats are too coarse, fewer."""
    epochs = steps * batch_size / n
    while steps_of(epochs, batch_size, n) > steps:
        epochs = math.nextafter(epochs, 0.0)
    return epochs


def _limit(whole: Event, target: PrivacyTarget) -> tuple[Guarantee, ...]:
    """The paper's own number, where its theorem reaches. Other notions cost a hundred times a plan: reports count them
    from the event."""
    if target.adjacency is not Adjacency.ADD_REMOVE:
        return ()
    return (guarantee("gdp-clt", whole, target.delta, target.adjacency, unit=target.unit),)


def step_event(batch_size: int, n: int, noise_multiplier: float) -> Event:
    """What one step releases."""
    return PoissonSampling(rate=batch_size / n).event(Gaussian(noise_multiplier=noise_multiplier))


class NoisyOptimiser:
    """The two systems differ in the update alone."""

    source = "Bu, Dong, Long & Su 2020"
    metrics = REPORTED
    enforces_units = True
    reports_privately = True
    data_parallel = True
    solves = {"noise": "noise_multiplier", "steps": "epochs"}  # noqa: RUF012 (part of the System contract)

    def __init__(self, name: str, parameters: tuple[Parameter, ...]) -> None:
        self.name, self.parameters = name, parameters

    def plan(
        self, config: Config, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """See `System.plan`. Raises InvalidValue (model, batch above n, adjacency)."""
        full = self._complete(config, target)
        self._check(full, facts)
        batch_size = int(full["batch_size"])
        if batch_size > facts.n:
            raise InvalidValue(
                "batch_size", batch_size, f"at most n={facts.n} {facts.counted} of {facts.dataset}", "Lower batch_size."
            )
        try:
            solved = self._solve(full, facts, target, calibrations)
            if isinstance(solved, Refusal):
                return solved
            return self._planned(full | solved, tuple(solved), facts, target, calibrations)
        except ToleranceNotReached as error:
            # Nothing can be claimed of it, so it is not launched; other points of the space go on.
            return Refusal(violations={"accounting": 1.0}, reason=f"epsilon cannot be bounded closely enough: {error}")

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; one run after the other."""
        from trainables.systems.noisy_training import train

        for run in runs:
            train(run, data, execution)

    def canary_scale(self, plan: PrivacyPlan, facts: PublicFacts) -> tuple[float, float]:
        """See `trainables.measures.protocols.CanaryTrained`: q n is the batch size."""
        return float(plan.config["clip_norm"]), float(plan.config["batch_size"])

    def membership_scores(
        self, plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split
    ) -> NDArray[np.float64]:
        """See `trainables.measures.protocols.Scored`: minus each record's loss."""
        from trainables.training.released import negative_losses

        return negative_losses(plan, facts, state, split)

    def _check(self, full: Config, facts: PublicFacts) -> None:
        models.check(str(full["model"]), facts)

    def _complete(self, config: Config, target: PrivacyTarget) -> dict[str, Scalar]:
        solved = self.solves.get(target.solve)
        full: dict[str, Scalar] = {}
        for parameter in self.parameters:
            value = config.get(parameter.name, parameter.default)
            if value is not None:
                full[parameter.name] = value
            elif parameter.name != solved:
                raise InvalidValue(parameter.name, None, f"a value ({parameter.doc})")
        return full

    def _solve(
        self,
        full: Config,
        facts: PublicFacts,
        target: PrivacyTarget,
        calibrations: MutableMapping[str, float],
    ) -> dict[str, Scalar] | Refusal:
        """The solved values by name."""
        batch_size = int(full["batch_size"])
        rate = batch_size / facts.n
        goal = calibrate.Target(epsilon=target.epsilon, delta=target.delta, adjacency=target.adjacency)
        try:
            if target.solve == "noise":
                steps = steps_of(float(full["epochs"]), batch_size, facts.n)
                event_of = partial(calibrate.sampled_gaussian, rate=rate, steps=steps)
                noise = calibrate.solve(goal, replace(calibrate.NOISE, low=NOISE_MIN), event_of, cache=calibrations)
                return {"noise_multiplier": noise}
            if target.solve == "steps":
                noise = float(full["noise_multiplier"])
                steps = calibrate.steps(goal, rate=rate, noise_multiplier=noise, cache=calibrations)
                return {"epochs": epochs_of(steps, batch_size, facts.n)}
        except calibrate.CannotCalibrate as error:
            # How far the best that can be done is from the target: what a searcher needs to turn round.
            return Refusal(violations={"epsilon": math.log(error.nearest_epsilon / target.epsilon)}, reason=str(error))
        return {}

    def _planned(
        self,
        full: Config,
        solved: tuple[str, ...],
        facts: PublicFacts,
        target: PrivacyTarget,
        calibrations: MutableMapping[str, float],
    ) -> PrivacyPlan | Refusal:
        batch_size, noise = int(full["batch_size"]), float(full["noise_multiplier"])
        steps = steps_of(float(full["epochs"]), batch_size, facts.n)
        for name, value, largest in (("noise", noise, NOISE_MAX), ("steps", steps, STEPS_MAX)):
            if value > largest:
                return Refusal(
                    violations={name: math.log(value / largest)},
                    reason=f"{name}={value:.6g} needed for epsilon={target.epsilon}: expected at most {largest:g}. "
                    "Change epsilon, or take fewer epochs or smaller batches.",
                )
        event = step_event(batch_size, facts.n, noise)
        whole = Repeated(event=event, count=steps)
        claim = headline(whole, target.delta, target.adjacency, unit=target.unit)
        if claim.epsilon > target.epsilon:
            return Refusal(
                violations={"epsilon": math.log(claim.epsilon / target.epsilon)},
                reason=f"epsilon={claim.epsilon:.6g} at delta={target.delta}: expected at most {target.epsilon}. "
                "Raise noise_multiplier or epsilon, or take fewer epochs.",
            )
        return PrivacyPlan(
            system=self.name,
            config=dict(full),
            solved=solved,
            mechanism=f"{steps} gradient steps on Poisson batches of {facts.counted} (rate {batch_size}/{facts.n}), "
            f"each with Gaussian noise of {noise:.5g} times the clip norm {float(full['clip_norm']):.4g} on the sum",
            schedule=((event, steps),),
            guarantee=replace(claim, assumptions=claim.assumptions + ASSUMPTIONS + facts.assumptions),
            beside=_limit(whole, target),
            work=float(steps) * batch_size * facts.unit_records,
        )


NOISY_SGD = NoisyOptimiser("noisy-sgd", _SHARED)
NOISY_ADAM = NoisyOptimiser("noisy-adam", _SHARED + _ADAM)
