"""The toy: the mean of bounded values, released again and again with Gaussian noise, then shrunk to a guess.

Source      Dwork & Roth (2014), section 3.5 and appendix A (Gaussian mechanism); its exact composition is
            Dong, Roth & Su (2022), corollary 2 (mu-GDP with mu = sqrt(steps)/noise_multiplier).
Claim       epsilon at delta from that mu, exact; add-remove; the unit is one record.
Departures  The paper releases once. Many releases of the same sum, averaged, teach composition: with
            the noise calibrated to one epsilon, the number of steps changes nothing but the time.

One step releases sum(cut(x_i)) + N(0, (noise_multiplier * clip)^2), values x_i in [0, 1] cut to [0, clip]. The
estimate is shrinkage * (average of the releases) / n + (1 - shrinkage) * prior, with the public n. For
values uniform on [0, 1], which is what the packaged data are, its error is known in closed form:

    bias     shrinkage * (clip - clip^2 / 2) + (1 - shrinkage) * prior - 1/2
    variance shrinkage^2 * [ (noise_multiplier * clip)^2 / (steps * n^2) + var(min(X, clip)) / n ]
    expected_error = sqrt(bias^2 + variance)
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.gdp import mu_gdp
from dpcore.mechanisms.noisy_sums import NoisySum
from trainables.hooks import Neighbours
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.metrics import Dependence, Metric, Scalar, Task, Worst
from trainables.planning import Case, Fit, PlannedSystem, check_at_most
from trainables.rehearsal.findings import Setting
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, Split, State, Traits
from trainables.training.loop import Pace, run_steps
from trainables.training.noise import normals

SIGMA_MAX = 1e6
"""Largest noise multiplier that a plan may ask for; beyond it the estimate is the prior in all but name."""


@hyperparameters
class NoisyMeanHyperparameters:
    """Of `noisy-mean`.

    clip              values are cut to [0, clip]; smaller means less noise and more bias
    steps             how often the sum is released
    shrinkage         weight of the private estimate against the prior
    prior             public guess of the mean
    noise_multiplier  noise standard deviation divided by clip; solved from epsilon by default
    step_seconds      pause after each step, to make a long trial for practice
    """

    clip: float = hyperparameter(low=1e-6, high=1.0, default=1.0, unit="value")
    steps: int = hyperparameter(low=1, high=1_000_000, default=1)
    shrinkage: float = hyperparameter(low=0.0, high=1.0, default=1.0)
    prior: float = hyperparameter(low=0.0, high=1.0, default=0.5, unit="value")
    noise_multiplier: float = hyperparameter(low=1e-3, high=SIGMA_MAX)
    step_seconds: float = hyperparameter(low=0.0, high=60.0, default=0.0, unit="s")


VALUE = "value"


def expected_error(params: NoisyMeanHyperparameters, n: int) -> float:
    """Root mean squared error of the estimate for n values uniform on [0, 1] (closed form, module's text)."""
    clip, shrinkage = params.clip, params.shrinkage
    clipped_mean = clip - clip**2 / 2
    clipped_variance = clip**2 - 2 * clip**3 / 3 - clipped_mean**2
    bias = shrinkage * clipped_mean + (1 - shrinkage) * params.prior - 0.5
    noise_variance = (params.noise_multiplier * clip) ** 2 / (params.steps * n**2)
    return math.sqrt(bias**2 + shrinkage**2 * (noise_variance + clipped_variance / n))


class NoisyMean(PlannedSystem[NoisyMeanHyperparameters, NoisySum]):
    """See the module's text."""

    name = "noisy-mean"
    source = "Dwork & Roth 2014; Dong, Roth & Su 2022"
    params = NoisyMeanHyperparameters
    sentence = "{released.steps} Gaussian release(s) of a sum of values cut to [0, {released.clip:.4g}]"
    traits = Traits(curve=True)
    remedy = "Raise noise_multiplier or epsilon, or take fewer steps."
    metrics = (
        Metric(
            name="expected_error",
            goal="minimize",
            worst=Worst.TARGET_RANGE,
            doc="root mean squared error of the estimate, in closed form",
            released="the configuration alone: no record",
            depends=Dependence.PUBLIC,
        ),
        Metric(
            name="estimate",
            goal="maximize",
            doc="the private estimate of the mean",
            released="the noisy releases: post-processing of the claim",
            depends=Dependence.RELEASED,
        ),
    )
    solves = MappingProxyType({"noise": "noise_multiplier", "steps": "steps"})
    adjacencies = (Adjacency.ADD_REMOVE,)

    def check(self, case: Case[NoisyMeanHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (data)."""
        facts = case.facts
        if facts.task is not Task.MEAN:
            raise InvalidValue("data", facts.dataset, "values to average", "Use `data: {source: uniform}`.")
        value = facts.features.get(VALUE)
        alone = len(facts.features) == 1 and value is not None and not value.shape and not value.cardinality
        if not alone or value is None or not 0.0 <= value.low < value.high <= 1.0:
            expected = f"one number of each record, called {VALUE!r}, with declared bounds in [0, 1]"
            raise InvalidValue("data", facts.dataset, expected, "Scale it in the source, by public bounds.")

    def rests_on(self, case: Case[NoisyMeanHyperparameters]) -> tuple[str, ...]:
        """See `PlannedSystem.rests_on`: nothing besides; there are no validation records."""
        return ()

    def solve(
        self, case: Case[NoisyMeanHyperparameters], calibrations: MutableMapping[str, float]
    ) -> dict[str, Scalar]:
        """Exact: mu = sqrt(steps) / noise_multiplier must not exceed mu(epsilon, delta).

        A relative step of 1e-9 towards more noise (fewer steps) outweighs what the accountant charges for round-off.
        """
        params, target = case.params, case.target
        largest_mu = mu_gdp(target.epsilon, target.delta)
        if target.solve == "noise":
            return {"noise_multiplier": math.sqrt(params.steps) / largest_mu * (1 + 1e-9)}
        if target.solve == "steps":
            return {"steps": max(1, math.floor((params.noise_multiplier * largest_mu) ** 2 * (1 - 1e-9)))}
        return {}

    def check_solved(self, case: Case[NoisyMeanHyperparameters]) -> None:
        """See `PlannedSystem.check_solved`."""
        check_at_most(SIGMA_MAX, "Raise epsilon.", " needed", noise=case.params.noise_multiplier)

    def mechanism(self, case: Case[NoisyMeanHyperparameters]) -> NoisySum:
        """See `PlannedSystem.mechanism`."""
        params = case.params
        return NoisySum(clip=params.clip, noise_multiplier=params.noise_multiplier, steps=params.steps)

    def work(self, case: Case[NoisyMeanHyperparameters], released: NoisySum) -> float:
        """See `PlannedSystem.work`."""
        return float(released.steps) * case.facts.n

    def train(self, fit: Fit[NoisyMeanHyperparameters, NoisySum]) -> None:
        """See `PlannedSystem.train`: release sum after sum."""
        run, pause = fit.run, fit.params.step_seconds
        interval = run.member.to_step if pause == 0 else max(1, int(fit.settings.checkpoint_seconds / pause))
        run_steps(run, _Releases(fit), Pace(steps=interval))

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.hooks.Auditable`: the largest value among zeros, and the sum of the releases."""

        def data(values: np.ndarray) -> Dataset:
            split = Split({VALUE: values}, np.zeros(len(values)))
            nobody = Split({VALUE: values[:0]}, np.zeros(0))
            return Dataset(facts=facts, train=split, validation=nobody, fingerprint="chosen by the attacker")

        zeros = np.zeros(facts.n - 1)
        return Neighbours(
            with_it=data(np.append(zeros, 1.0)),
            without_it=data(zeros),
            score=lambda released: float(released["total"]),
            doc="the value 1 among zeros; the attacker adds up all releases",
        )

    def rehearsal(self, setting: Setting) -> Setting:
        """See `trainables.rehearsal`: without the pauses."""
        return replace(setting, plan=replace(setting.plan, config={**setting.plan.config, "step_seconds": 0.0}))


class _Releases:
    """One run, as `run_steps` executes it; the state is the running total of the releases."""

    stopped = False

    def __init__(self, fit: Fit[NoisyMeanHyperparameters, NoisySum]) -> None:
        self._params, self._released, self._n = fit.params, fit.mechanism, fit.data.facts.n
        self._draw = normals(fit.run, fit.settings)
        self._clipped_sum = fit.mechanism.clipped_sum(np.asarray(fit.data.train.inputs[VALUE], dtype=np.float64))
        self._total = float(fit.run.state["total"]) if fit.run.state is not None else 0.0

    def step(self, number: int) -> None:
        """See `Training.step`."""
        self._total += self._released.release(self._clipped_sum, self._draw)
        if self._params.step_seconds:
            time.sleep(self._params.step_seconds)

    def state(self) -> State:
        """See `Training.state`."""
        return {"total": np.float64(self._total)}  # type: ignore[dict-item]

    def metrics(self, step: int) -> Mapping[str, float]:
        """See `Training.metrics`: no record is looked at."""
        params = self._params
        estimate = params.shrinkage * self._total / (step * self._n) + (1 - params.shrinkage) * params.prior
        return {"expected_error": expected_error(replace(params, steps=step), self._n), "estimate": estimate}


NOISY_MEAN = NoisyMean()
