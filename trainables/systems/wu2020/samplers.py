"""The six systems: what they are called, what they take, and the plan that claims nothing."""

from __future__ import annotations

import math

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.protocol import Scheduled, unprotected
from trainables import models
from trainables.metrics import Metric
from trainables.planning import ClaimTerms, PlannedSystem, check_batch, terms_of
from trainables.system import Config, Dataset, DatasetSpec, PrivacyTarget, Refusal, Run, RunSettings, Task
from trainables.systems.wu2020 import hyperparameters
from trainables.systems.wu2020.hyperparameters import (
    CommonKnobs,
    DropoutKnobs,
    NoiselessDescentKnobs,
    PosteriorKnobs,
    PSGLDKnobs,
    RMSpropKnobs,
    SGHMCKnobs,
)
from trainables.training.trained_model import ScoredByLoss

NOTHING = "none: the gradients are not clipped, so no finite epsilon holds and nothing is claimed"


class Unprotected(ScoredByLoss, PlannedSystem[CommonKnobs, Scheduled]):
    """One method. Iterates of a sampler stand for a posterior. Nothing is solved: no noise would buy an epsilon."""

    bounded = False

    def __init__(self, name: str, source: str, knobs: type[CommonKnobs]) -> None:
        self.name, self.source, self.knobs = name, source, knobs

    @property
    def metrics(self) -> tuple[Metric, ...]:  # type: ignore[override]
        """See `System.metrics`."""
        leaks = hyperparameters.LEAKAGE_METRICS if issubclass(self.knobs, PosteriorKnobs) else ()
        return hyperparameters.WITH_LAST + leaks

    def check(self, knobs: CommonKnobs, facts: DatasetSpec, target: PrivacyTarget, given: Config) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (task, no validation records, model, batch above n)."""
        if facts.task is not Task.CLASSIFICATION:
            raise InvalidValue("data", facts.dataset, f"classes to predict, for {self.name}", "Choose another source.")
        if not facts.n_validation:
            raise InvalidValue("data", facts.dataset, "validation records: they are the attack's non-members")
        models.check(knobs.model, facts)
        check_batch(knobs.batch_size, facts)
        steps = self.mechanism(knobs, facts, terms_of(target)).steps
        for name in ("average", "draws"):
            # Asked for, that is: short runs make do with what they have of the defaults.
            if name in given and (asked := getattr(knobs, name, 0)) > steps:
                expected = f"at most the {steps} steps of this trial: there are no more iterates"
                raise InvalidValue(name, asked, expected, "Take more epochs, or smaller batches.")
        if isinstance(knobs, DropoutKnobs) and knobs.dropout and knobs.model == "linear":
            raise InvalidValue("model", "linear", "a model with hidden units: nothing is dropped out of it", "Use sgd.")
        return None

    def mechanism(self, knobs: CommonKnobs, facts: DatasetSpec, terms: ClaimTerms) -> Scheduled:
        """See `PlannedSystem.mechanism`."""
        return unprotected(sum(phase.steps for phase in knobs.phases(facts.n)))

    def claim(self, knobs: CommonKnobs, released: Scheduled, facts: DatasetSpec, target: PrivacyTarget) -> Guarantee:
        """See `PlannedSystem.claim`: an infinite epsilon, whatever the target."""
        return Guarantee(
            epsilon=math.inf,
            delta=target.delta,
            adjacency=target.adjacency,
            unit=target.unit,
            accountant="none",
            status=Status.MEMBERSHIP_ONLY,
            theorem=NOTHING,
        )

    def rests_on(self, knobs: CommonKnobs, facts: DatasetSpec) -> tuple[str, ...]:
        """See `PlannedSystem.rests_on`: nothing is claimed."""
        return ()

    def describe(self, knobs: CommonKnobs, released: Scheduled, facts: DatasetSpec) -> str:
        """See `PlannedSystem.describe`."""
        return f"{released.steps} {self.name} steps on shuffled batches of {knobs.batch_size}, unclipped: unprotected"

    def work(self, knobs: CommonKnobs, released: Scheduled, facts: DatasetSpec) -> float:
        """See `PlannedSystem.work`."""
        return float(released.steps) * knobs.batch_size

    def train(self, run: Run, knobs: CommonKnobs, released: Scheduled, data: Dataset, execution: RunSettings) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.wu2020.training import train

        train(run, knobs, data, execution)


SGD = Unprotected("sgd", "Robbins & Monro 1951", NoiselessDescentKnobs)
RMSPROP = Unprotected("rmsprop", "Tieleman & Hinton 2012", RMSpropKnobs)
DROPOUT = Unprotected("dropout", "Srivastava et al. 2014", DropoutKnobs)
SGLD = Unprotected("sgld", "Wu et al. 2020", PosteriorKnobs)
PSGLD = Unprotected("psgld", "Wu et al. 2020", PSGLDKnobs)
SGHMC = Unprotected("sghmc", "Wu et al. 2020", SGHMCKnobs)
