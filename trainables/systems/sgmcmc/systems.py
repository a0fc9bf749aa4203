"""The six systems: what they are called, what they take, and the plan that claims nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from dpcore.events import NonPrivate
from dpcore.guarantee import Guarantee, Status
from trainables import models
from trainables.system import (
    Config,
    Dataset,
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
from trainables.systems.sgld_blocks import schedule
from trainables.systems.sgmcmc import knobs

NOTHING = "none: the gradients are not clipped, so no finite epsilon holds and nothing is claimed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unprotected:
    """One method. `rate` names the knob that halves; `samples` says whether iterates stand for a posterior."""

    name: str
    source: str
    rate: str
    samples: bool
    own: tuple[Parameter, ...]

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return knobs.COMMON + self.own

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return knobs.WITH_LAST + (knobs.LEAKAGE_METRICS if self.samples else ())

    @property
    def enforces_units(self) -> bool:
        """No: nothing is bounded, of a record or of a unit."""
        return False

    @property
    def solves(self) -> Mapping[str, str]:
        """Nothing: there is no noise that would buy an epsilon."""
        return {}

    def plan(
        self, config: Config, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """A plan with an infinite epsilon, whatever the target.

        Raises InvalidValue (task, no validation records, model, batch above n).
        """
        full = self._complete(config)
        if facts.task is not Task.CLASSIFICATION:
            raise InvalidValue("data", facts.dataset, f"classes to predict, for {self.name}", "Choose another source.")
        if not facts.n_validation:
            raise InvalidValue("data", facts.dataset, "validation records: they are the attack's non-members")
        models.check(str(full["model"]), facts)
        if int(full["batch_size"]) > facts.n:
            raise InvalidValue(
                "batch_size", full["batch_size"], f"at most n={facts.n} records of {facts.dataset}", "Lower batch_size."
            )
        steps = sum(phase.steps for phase in schedule(full, facts.n, self.rate))
        for name in ("average", "draws"):
            # Asked for, that is: short runs make do with what they have of the defaults.
            if name in full and name in config and int(full[name]) > steps:
                expected = f"at most the {steps} steps of this trial: there are no more iterates"
                raise InvalidValue(name, full[name], expected, "Take more epochs, or smaller batches.")
        if full.get("dropout") and full["model"] == "linear":
            raise InvalidValue("model", "linear", "a model with hidden units: nothing is dropped out of it", "Use sgd.")
        return PrivacyPlan(
            system=self.name,
            config=full,
            solved=(),
            mechanism=f"{steps} {self.name} steps on shuffled batches of {full['batch_size']}, unclipped: unprotected",
            schedule=((NonPrivate(), steps),),
            guarantee=Guarantee(
                epsilon=math.inf,
                delta=target.delta,
                adjacency=target.adjacency,
                unit=target.unit,
                accountant="none",
                status=Status.MEMBERSHIP_ONLY,
                theorem=NOTHING,
            ),
            work=float(steps) * int(full["batch_size"]),
        )

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; one run after the other."""
        from trainables.systems.sgmcmc.training import train

        for run in runs:
            train(run, data, execution, rate=self.rate, samples=self.samples)

    def membership_scores(
        self, plan: PrivacyPlan, facts: PublicFacts, state: State, split: Split
    ) -> NDArray[np.float64]:
        """See `trainables.measures.protocols.Scored`: minus each record's loss under the last iterate."""
        from trainables.training.released import negative_losses

        return negative_losses(plan, facts, state, split)

    def _complete(self, config: Config) -> dict[str, Scalar]:
        full: dict[str, Scalar] = {}
        for parameter in self.parameters:
            value = config.get(parameter.name, parameter.default)
            if value is None:
                raise InvalidValue(parameter.name, None, f"a value ({parameter.doc})")
            full[parameter.name] = value
        return full


_POSTERIOR = (knobs.STEP_SIZE, knobs.PRIOR_VARIANCE, knobs.DRAWS)

SGD = Unprotected(
    name="sgd",
    source="Robbins & Monro 1951",
    rate="learning_rate",
    samples=False,
    own=(knobs.LEARNING_RATE,),
)
RMSPROP = Unprotected(
    name="rmsprop",
    source="Tieleman & Hinton 2012",
    rate="learning_rate",
    samples=False,
    own=(knobs.LEARNING_RATE, knobs.DECAY, knobs.FLOOR),
)
DROPOUT = Unprotected(
    name="dropout",
    source="Srivastava et al. 2014",
    rate="learning_rate",
    samples=False,
    own=(knobs.LEARNING_RATE, knobs.DROPOUT_RATE),
)
SGLD = Unprotected(name="sgld", source="Wu et al. 2020", rate="step_size", samples=True, own=_POSTERIOR)
PSGLD = Unprotected(
    name="psgld",
    source="Wu et al. 2020",
    rate="step_size",
    samples=True,
    own=(*_POSTERIOR, knobs.DECAY, knobs.FLOOR),
)
SGHMC = Unprotected(
    name="sghmc",
    source="Wu et al. 2020",
    rate="step_size",
    samples=True,
    own=(*_POSTERIOR, knobs.FRICTION),
)
