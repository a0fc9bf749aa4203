"""The toy: the mean of bounded values, released again and again with Gaussian noise, then shrunk to a guess.

Source      Dwork & Roth (2014), section 3.5 and appendix A (Gaussian mechanism); its exact composition is
            Dong, Roth & Su (2022), corollary 2 (mu-GDP with mu = sqrt(steps)/noise_multiplier).
Claim       epsilon at delta from that mu, exact; add-remove; the unit is one record.
Departures  The paper releases once. Many releases of the same sum, averaged, teach composition: with
            the noise calibrated to one epsilon, the number of steps changes nothing but the time.

One step releases sum(min(x_i, clip)) + N(0, (noise_multiplier * clip)^2) for values x_i in [0, 1]. The
estimate is shrinkage * (average of the releases) / n + (1 - shrinkage) * prior, with the public n. For
values uniform on [0, 1], which is what the packaged data are, its error is known in closed form:

    bias     shrinkage * (clip - clip^2 / 2) + (1 - shrinkage) * prior - 1/2
    variance shrinkage^2 * [ (noise_multiplier * clip)^2 / (steps * n^2) + var(min(X, clip)) / n ]
    expected_error = sqrt(bias^2 + variance)
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from dpcore.accounting import headline
from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import Gaussian, Repeated
from dpcore.gdp_dual import mu_gdp
from trainables.measures.protocols import Neighbours
from trainables.metrics import Worst
from trainables.rehearsal.setting import Setting
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
    Split,
    Task,
)
from trainables.training.noise import normals

SIGMA_MAX = 1e6
"""Largest noise multiplier that a plan may ask for; beyond it the estimate is the prior in all but name."""


def expected_error(config: Config, n: int) -> float:
    """Root mean squared error of the estimate for n values uniform on [0, 1] (closed form, module's text)."""
    clip, steps = float(config["clip"]), int(config["steps"])
    shrinkage, prior, noise = (float(config[name]) for name in ("shrinkage", "prior", "noise_multiplier"))
    clipped_mean = clip - clip**2 / 2
    clipped_variance = clip**2 - 2 * clip**3 / 3 - clipped_mean**2
    bias = shrinkage * clipped_mean + (1 - shrinkage) * prior - 0.5
    variance = shrinkage**2 * ((noise * clip) ** 2 / (steps * n**2) + clipped_variance / n)
    return math.sqrt(bias**2 + variance)


class NoisyMean:
    """See the module's text."""

    name = "noisy-mean"
    source = "Dwork & Roth 2014; Dong, Roth & Su 2022"
    parameters: tuple[Parameter, ...] = (
        Parameter(
            name="clip",
            kind="float",
            low=1e-6,
            high=1.0,
            default=1.0,
            unit="value",
            doc="values are cut to [0, clip]; smaller means less noise and more bias",
        ),
        Parameter(name="steps", kind="int", low=1, high=1_000_000, default=1, doc="how often the sum is released"),
        Parameter(
            name="shrinkage",
            kind="float",
            low=0.0,
            high=1.0,
            default=1.0,
            doc="weight of the private estimate against the prior",
        ),
        Parameter(
            name="prior", kind="float", low=0.0, high=1.0, default=0.5, unit="value", doc="public guess of the mean"
        ),
        Parameter(
            name="noise_multiplier",
            kind="float",
            low=1e-3,
            high=SIGMA_MAX,
            doc="noise standard deviation divided by clip; solved from epsilon by default",
        ),
        Parameter(
            name="step_seconds",
            kind="float",
            low=0.0,
            high=60.0,
            default=0.0,
            unit="s",
            doc="pause after each step, to make a long trial for practice",
        ),
    )
    enforces_units = False
    metrics: tuple[Metric, ...] = (
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
    solves: Mapping[str, str] = MappingProxyType({"noise": "noise_multiplier", "steps": "steps"})

    def plan(
        self, config: Config, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """Exact: mu = sqrt(steps)/noise_multiplier must not exceed mu(epsilon, delta)."""
        if facts.task is not Task.MEAN:
            raise InvalidValue("data", facts.dataset, "values to average", "Use `data: {source: uniform}`.")
        if target.adjacency is not Adjacency.ADD_REMOVE:
            raise InvalidValue("privacy.adjacency", str(target.adjacency), "add-remove for noisy-mean")
        full = dict(config)
        largest_mu = mu_gdp(target.epsilon, target.delta)
        # A relative step of 1e-9 towards more noise (fewer steps) outweighs what the accountant charges for round-off.
        if target.solve == "noise":
            full["noise_multiplier"] = math.sqrt(int(full["steps"])) / largest_mu * (1 + 1e-9)
        elif target.solve == "steps":
            full["steps"] = math.floor((float(full["noise_multiplier"]) * largest_mu) ** 2 * (1 - 1e-9))
        noise, steps = float(full["noise_multiplier"]), int(full["steps"])
        needed = math.sqrt(max(steps, 1)) / largest_mu
        if steps < 1 or (target.solve == "none" and noise < needed):
            return Refusal(
                violations={"epsilon": math.log(needed / noise)},
                reason=f"noise_multiplier={noise:.6g}: epsilon={target.epsilon} at delta={target.delta} needs at least "
                f"{needed:.6g} for {max(steps, 1)} step(s). Raise the noise or epsilon.",
            )
        if noise > SIGMA_MAX:
            return Refusal(
                violations={"noise": math.log(noise / SIGMA_MAX)},
                reason=f"noise_multiplier={noise:.6g} needed: expected at most {SIGMA_MAX:g}. Raise epsilon.",
            )
        event = Gaussian(noise_multiplier=noise)
        return PrivacyPlan(
            system=self.name,
            config=full,
            solved=(self.solves[target.solve],) if target.solve != "none" else (),
            mechanism=f"{steps} Gaussian release(s) of a sum of values cut to [0, {float(full['clip']):.4g}]",
            schedule=((event, steps),),
            guarantee=headline(Repeated(event=event, count=steps), target.delta, target.adjacency, unit=target.unit),
            work=float(steps) * facts.n,
        )

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """Release sum after sum; the state is the running total of the releases."""
        values = np.asarray(data.train.inputs["value"], dtype=np.float64)
        for run in runs:
            self._fit_one(run, values, data.facts.n, execution)

    def neighbours(self, plan: PrivacyPlan, facts: PublicFacts) -> Neighbours:
        """See `trainables.measures.protocols.Auditable`: the largest value among zeros, and the sum of the releases."""

        def data(values: np.ndarray) -> Dataset:
            split = Split({"value": values}, np.zeros(len(values)))
            nobody = Split({"value": values[:0]}, np.zeros(0))
            return Dataset(facts=facts, train=split, validation=nobody, fingerprint="chosen by the attacker")

        zeros = np.zeros(facts.n - 1)
        return Neighbours(
            with_it=data(np.append(zeros, 1.0)),
            without_it=data(zeros),
            score=lambda released: float(released["total"]),
            doc="the value 1 among zeros; the attacker adds up all releases",
        )

    def rehearsal(self, setting: Setting) -> Setting:
        """See `trainables.rehearsal.SetsItsRehearsal`: without the pauses."""
        return replace(setting, plan=replace(setting.plan, config={**setting.plan.config, "step_seconds": 0.0}))

    def _fit_one(self, run: Run, values: np.ndarray, n: int, execution: Execution) -> None:
        config, stop = run.member.plan.config, run.member.to_step
        clip, noise = float(config["clip"]), float(config["noise_multiplier"])
        pause = float(config["step_seconds"])
        per_interval = stop if pause == 0 else max(1, int(execution.checkpoint_seconds / pause))
        clipped_sum = float(np.minimum(values, clip).sum())
        total = float(run.state["total"]) if run.state is not None else 0.0
        draw = normals(run, execution)
        step = run.start_step
        while step < stop:
            until = min(stop, step + per_interval)
            run.may_execute(until)
            for _ in range(step, until):
                total += clipped_sum + noise * clip * float(draw(()))
                if pause:
                    time.sleep(pause)
            step = until
            shrinkage = float(config["shrinkage"])
            estimate = shrinkage * total / (step * n) + (1 - shrinkage) * float(config["prior"])
            released = {**config, "steps": step}
            run.checkpoint(
                step,
                {"total": np.float64(total)},  # type: ignore[dict-item]
                {"expected_error": expected_error(released, n), "estimate": estimate},
            )


NOISY_MEAN = NoisyMean()
