"""The six systems: what they are called, what they take, and the plan that claims nothing."""

from __future__ import annotations

import math

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.protocol import Scheduled, unprotected
from trainables import models
from trainables.planning import Case, Fit, PlannedSystem, check_batch
from trainables.system import Task, Traits
from trainables.systems.wu2020 import hyperparameters
from trainables.systems.wu2020.hyperparameters import (
    CommonHyperparameters,
    DropoutHyperparameters,
    NoiselessDescentHyperparameters,
    PosteriorHyperparameters,
    PSGLDHyperparameters,
    RMSpropHyperparameters,
    SGHMCHyperparameters,
)
from trainables.training.trained_model import ScoredByLoss

NOTHING = "none: the gradients are not clipped, so no finite epsilon holds and nothing is claimed"


class Unprotected(ScoredByLoss, PlannedSystem[CommonHyperparameters, Scheduled]):
    """One method. Iterates of a sampler stand for a posterior. Nothing is solved: no noise would buy an epsilon."""

    bounded = False
    traits = Traits(standing=Status.MEMBERSHIP_ONLY)

    def __init__(self, name: str, source: str, params: type[CommonHyperparameters]) -> None:
        self.name, self.source, self.params = name, source, params
        leaks = hyperparameters.LEAKAGE_METRICS if issubclass(params, PosteriorHyperparameters) else ()
        self.metrics = hyperparameters.WITH_LAST + leaks

    def check(self, case: Case[CommonHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (task, no validation records, model, batch above n)."""
        params, facts = case.params, case.facts
        if facts.task is not Task.CLASSIFICATION:
            raise InvalidValue("data", facts.dataset, f"classes to predict, for {self.name}", "Choose another source.")
        if not facts.n_validation:
            raise InvalidValue("data", facts.dataset, "validation records: they are the attack's non-members")
        models.check(params.model, facts)
        check_batch(params.batch_size, facts)
        steps = self.mechanism(case).steps
        for name in ("average", "draws"):
            # Asked for, that is: short runs make do with what they have of the defaults.
            if name in case.given and (asked := getattr(params, name, 0)) > steps:
                expected = f"at most the {steps} steps of this trial: there are no more iterates"
                raise InvalidValue(name, asked, expected, "Take more epochs, or smaller batches.")
        if isinstance(params, DropoutHyperparameters) and params.dropout and params.model == "linear":
            raise InvalidValue("model", "linear", "a model with hidden units: nothing is dropped out of it", "Use sgd.")

    def mechanism(self, case: Case[CommonHyperparameters]) -> Scheduled:
        """See `PlannedSystem.mechanism`."""
        return unprotected(sum(phase.steps for phase in case.params.phases(case.facts.n)))

    def claim(self, case: Case[CommonHyperparameters], released: Scheduled) -> Guarantee:
        """See `PlannedSystem.claim`: an infinite epsilon, whatever the target."""
        return Guarantee(
            epsilon=math.inf,
            delta=case.target.delta,
            adjacency=case.target.adjacency,
            unit=case.target.unit,
            accountant="none",
            status=Status.MEMBERSHIP_ONLY,
            theorem=NOTHING,
        )

    def rests_on(self, case: Case[CommonHyperparameters]) -> tuple[str, ...]:
        """See `PlannedSystem.rests_on`: nothing is claimed."""
        return ()

    def describe(self, case: Case[CommonHyperparameters], released: Scheduled) -> str:
        """See `PlannedSystem.describe`."""
        batch = case.params.batch_size
        return f"{released.steps} {self.name} steps on shuffled batches of {batch}, unclipped: unprotected"

    def work(self, case: Case[CommonHyperparameters], released: Scheduled) -> float:
        """See `PlannedSystem.work`."""
        return float(released.steps) * case.params.batch_size

    def train(self, fit: Fit[CommonHyperparameters, Scheduled]) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.wu2020.training import train

        train(fit)


SGD = Unprotected("sgd", "Robbins & Monro 1951", NoiselessDescentHyperparameters)
RMSPROP = Unprotected("rmsprop", "Tieleman & Hinton 2012", RMSpropHyperparameters)
DROPOUT = Unprotected("dropout", "Srivastava et al. 2014", DropoutHyperparameters)
SGLD = Unprotected("sgld", "Wu et al. 2020", PosteriorHyperparameters)
PSGLD = Unprotected("psgld", "Wu et al. 2020", PSGLDHyperparameters)
SGHMC = Unprotected("sghmc", "Wu et al. 2020", SGHMCHyperparameters)
