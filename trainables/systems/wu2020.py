"""Bayesian samplers and ordinary optimisers without protection: the methods whose membership leakage was compared.

    sgd       theta -= r g                                       g: mean gradient of the batch
    rmsprop   V = a V + (1-a) g^2;  theta -= r g / (sqrt(V) + c)
    dropout   sgd on the net with dropout behind every hidden unit
    sgld      theta -= (e/2) G;  theta += N(0, e)                G = theta / v + n g: gradient of -ln posterior
    psgld     V = a V + (1-a) G^2;  P = 1/(sqrt(V) + c);  theta -= (e/2) P G;  theta += N(0, e P)
    sghmc     w = (1-f) w - e G + N(0, 2 f e);  theta += w

Source      Wu et al. (2020), section "Evaluation"; SGLD Welling & Teh (2011), pSGLD Li et al. (2016, curvature term
            dropped), SGHMC Chen, Fox & Guestrin (2014), RMSprop Tieleman & Hinton (2012).
Claim       NOTHING. The gradients are not clipped, so no finite epsilon holds, whatever noise a sampler adds. Epsilon
            is infinite, and a spec has to say why such a trial may run (`privacy.allow_unprotected`). The paper's
            bounds are on membership leakage, conditional on a converged sampler, and vacuous for losses above 0.35
            (`dpcore.papers.wu2020`). The protected relatives are `clipped-sgld` and `dp-sgld`.
Metrics     The paper's: accuracy on training and validation records and their gap; AUC, F1 and accuracy of the
            threshold attack that is given the mean training loss; and for samplers the leakage Mpl. All but accuracy
            and loss on the validation records are computed from training records, without noise.
Ensembles   `average: K` averages the predicted probabilities of the last K iterates: the paper's `+` methods, K = 3.
            Metrics `last_*` are those of the last iterate alone: one training serves SGLD and SGLD+.
Departures  The rate halves every `halve_every` epochs, as the paper's set-up says; elsewhere it says that the rate is
            constant. Where it leaves open on which gradient pSGLD's V is built, it is G.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.protocol import Scheduled, unprotected
from dpcore.noise import NoiseSource
from dpcore.papers.wu2020 import Phase, halving_schedule, step_size_of
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.metrics import Dependence, Metric, Worst
from trainables.planning import Case, Fit, PlannedSystem, stated
from trainables.system import Task, Traits
from trainables.training.hyperparameters import ModelHyperparameters
from trainables.training.trained_model import ScoredByLoss

if TYPE_CHECKING:
    from torch import nn

    from trainables.training.optimisers import Optimiser


@hyperparameters
class CommonHyperparameters(ModelHyperparameters):
    """Of every method.

    samples      whether the iterates stand for a posterior, whose leakage is measured
    model        name of a model or package.module:function
    hidden       hidden ReLU units
    batch_size   records of a shuffled batch
    epochs       ceil(n / batch_size) steps each
    halve_every  the rate halves after these
    average      predicted probabilities of so many last iterates are averaged; 1 is no ensemble
    """

    samples: ClassVar[bool] = False
    model: str = hyperparameter(default="mlp3")
    hidden: int = hyperparameter(low=1, high=65536, default=64, unit="units")
    batch_size: int = hyperparameter(low=1, unit="records")
    epochs: int = hyperparameter(low=1, high=1_000_000, unit="passes")
    halve_every: int = hyperparameter(low=1, high=1_000_000, unit="epochs")
    average: int = hyperparameter(low=1, high=1000, default=3, unit="iterates")

    @property
    def window(self) -> int:
        """How many last iterates are kept."""
        return max(self.average, getattr(self, "draws", 1))

    def phases(self, n: int) -> tuple[Phase, ...]:
        """The blocks of a trial on n records."""
        first: float = getattr(self, "step_size" if self.samples else "learning_rate")
        return halving_schedule(first, self.halve_every, self.epochs, -(-n // self.batch_size))


@hyperparameters
class NoiselessDescentHyperparameters(CommonHyperparameters):
    """Of `sgd`, and of every optimiser.

    learning_rate  r of the first block, on the mean loss of a batch
    """

    learning_rate: float = hyperparameter(low=1e-12, high=1e6)


@hyperparameters
class DropoutHyperparameters(NoiselessDescentHyperparameters):
    """Of `dropout`.

    dropout  share of hidden units that a step leaves out
    """

    dropout: float = hyperparameter(low=0.0, high=0.95, default=0.3)


@hyperparameters
class SquareHyperparameters:
    """Of a method that divides by the root of a remembered square.

    decay  a of the squared gradient
    floor  c beside the root
    """

    decay: float = hyperparameter(low=0.0, high=0.999999, default=0.99)
    floor: float = hyperparameter(low=1e-12, high=1.0, default=1e-5)


@hyperparameters
class RMSpropHyperparameters(SquareHyperparameters, NoiselessDescentHyperparameters):
    """Of `rmsprop`."""


@hyperparameters
class PosteriorHyperparameters(CommonHyperparameters):
    """Of `sgld`, and of every sampler: its iterates stand for a posterior.

    step_size       e of the first block, on the summed loss
    prior_variance  v of the weights' Gaussian prior
    draws           last iterates that stand for the posterior in the leakage Mpl
    """

    samples = True
    step_size: float = hyperparameter(low=1e-12, high=10.0)
    prior_variance: float = hyperparameter(low=1e-6, high=1e6, default=1.0)
    draws: int = hyperparameter(low=2, high=1000, default=20, unit="iterates")


@hyperparameters
class PSGLDHyperparameters(SquareHyperparameters, PosteriorHyperparameters):
    """Of `psgld`."""


@hyperparameters
class SGHMCHyperparameters(PosteriorHyperparameters):
    """Of `sghmc`.

    friction  f; a step keeps 1 - f of w
    """

    friction: float = hyperparameter(low=1e-6, high=1.0, default=0.1)


# Metrics of the unprotected samplers and optimisers.

_of_model = partial(
    Metric,
    released="the validation records and the model, which is released without noise at an epsilon that is infinite",
    depends=Dependence.VALIDATION,
)
_of_members = partial(
    Metric, released="the training records, without noise: covered by no claim", depends=Dependence.RAW
)
_of_attack = partial(_of_members, goal="minimize", worst=1.0)

_ATTACK = {
    "auc": "area under the curve of the threshold attack on the loss; members train, non-members validate",
    "f1": "F1 of that attack at the mean training loss, which the attacker is given",
    "accuracy": "accuracy of that attack at the mean training loss; moves with the shares of members and non-members",
}
_LEAKAGE = {
    "mpl": "members' mean leakage Mpl of the last iterate, leave-one-out, prior 1/2, if the sampler converged",
    "mpl_bound": "mean over members of equation 7's bound max(s/4, 0) on that leakage",
    "ensemble_mpl_bound": "mean over members of equation 9's bound for the averaged prediction",
}
METRICS = (
    _of_model(name="accuracy", goal="maximize", worst=0.0, doc="share of validation records classified right"),
    _of_model(
        name="loss", goal="minimize", worst=Worst.GUESSED_LOSS, doc="mean cross-entropy on the validation records"
    ),
    _of_members(name="train_accuracy", goal="maximize", worst=0.0, doc="share of training records classified right"),
    _of_members(name="gap", goal="minimize", worst=1.0, doc="training accuracy minus validation accuracy"),
    *(_of_attack(name=f"attack_{name}", doc=doc) for name, doc in _ATTACK.items()),
    _of_members(
        name="loss_bound",
        goal="minimize",
        doc="largest loss of any record under the model: an observed B, no bound on other records",
    ),
)
LAST = "last_"
"""Metrics of the last iterate alone carry this before their name."""

LEAKAGE_METRICS = tuple(_of_members(name=name, goal="minimize", doc=doc) for name, doc in _LEAKAGE.items())

WITH_LAST = METRICS + tuple(
    replace(one, name=LAST + one.name, doc=f"{one.doc}; of the last iterate alone") for one in METRICS
)


NOTHING = "none: the gradients are not clipped, so no finite epsilon holds and nothing is claimed"


class Unprotected(ScoredByLoss, PlannedSystem[CommonHyperparameters, Scheduled]):
    """One method. Iterates of a sampler stand for a posterior. Nothing is solved: no noise would buy an epsilon."""

    bounded = False
    traits = Traits(standing=Status.MEMBERSHIP_ONLY)

    def __init__(self, name: str, source: str, params: type[CommonHyperparameters]) -> None:
        self.name, self.source, self.params = name, source, params
        leaks = LEAKAGE_METRICS if params.samples else ()
        self.metrics = WITH_LAST + leaks

    def check(self, case: Case[CommonHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (task, no validation records, model, batch above n)."""
        params, facts = case.params, case.facts
        if facts.task is not Task.CLASSIFICATION:
            raise InvalidValue("data", facts.dataset, f"classes to predict, for {self.name}", "Choose another source.")
        if not facts.n_validation:
            raise InvalidValue("data", facts.dataset, "validation records: they are the attack's non-members")
        super().check(case)
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

    def claims(self, case: Case[CommonHyperparameters], released: Scheduled) -> list[Guarantee]:
        """See `PlannedSystem.claims`: an infinite epsilon, whatever the target."""
        return [stated(case.target, math.inf, accountant="none", status=Status.MEMBERSHIP_ONLY, theorem=NOTHING)]

    def rests_on(self, case: Case[CommonHyperparameters]) -> tuple[str, ...]:
        """See `PlannedSystem.rests_on`: nothing is claimed."""
        return ()

    def describe(self, case: Case[CommonHyperparameters], released: Scheduled) -> str:
        """See `PlannedSystem.describe`."""
        batch = case.params.batch_size
        return f"{released.steps} {self.name} steps on shuffled batches of {batch}, unclipped: unprotected"

    def train(self, fit: Fit[CommonHyperparameters, Scheduled]) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.wu2020_training import train

        train(fit, partial(self.optimiser, fit.params, fit.data.facts.n))

    def optimiser(self, params: CommonHyperparameters, n: int, model: nn.Module, noise: NoiseSource) -> Optimiser:
        """The update, with its rate halving over the trial."""
        from trainables.training import optimisers

        rate_of = partial(step_size_of, params.phases(n))
        if not isinstance(params, PosteriorHyperparameters):
            rmsprop = isinstance(params, RMSpropHyperparameters)
            return optimisers.rmsprop(model, rate_of, params) if rmsprop else optimisers.Optimiser(model, rate_of)
        posterior = optimisers.NoisyPosterior(n, params.prior_variance, noise)
        match params:
            case PSGLDHyperparameters():
                return optimisers.psgld(model, rate_of, posterior, params)
            case SGHMCHyperparameters():
                return optimisers.sghmc(model, rate_of, posterior, params.friction)
        return optimisers.sgld(model, rate_of, posterior)


SGD = Unprotected("sgd", "Robbins & Monro 1951", NoiselessDescentHyperparameters)
RMSPROP = Unprotected("rmsprop", "Tieleman & Hinton 2012", RMSpropHyperparameters)
DROPOUT = Unprotected("dropout", "Srivastava et al. 2014", DropoutHyperparameters)
SGLD = Unprotected("sgld", "Wu et al. 2020", PosteriorHyperparameters)
PSGLD = Unprotected("psgld", "Wu et al. 2020", PSGLDHyperparameters)
SGHMC = Unprotected("sghmc", "Wu et al. 2020", SGHMCHyperparameters)
