"""Hyperparameters of the unprotected samplers and optimisers, a record for each method."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from dpcore.papers.sgld import Phase, halving_schedule
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.metrics import Dependence, Metric, Worst
from trainables.training.hyperparameters import ModelHyperparameters


@hyperparameters
class CommonHyperparameters(ModelHyperparameters):
    """Of every method."""

    model: str = hyperparameter(default="mlp3", doc="name of a model or package.module:function")
    hidden: int = hyperparameter(low=1, high=65536, default=64, unit="units", doc="hidden ReLU units")
    batch_size: int = hyperparameter(low=1, unit="records", doc="records of a shuffled batch")
    epochs: int = hyperparameter(low=1, high=1_000_000, unit="passes", doc="ceil(n / batch_size) steps each")
    halve_every: int = hyperparameter(low=1, high=1_000_000, unit="epochs", doc="the rate halves after these")
    average: int = hyperparameter(
        low=1,
        high=1000,
        default=3,
        unit="iterates",
        doc="predicted probabilities of so many last iterates are averaged; 1 is no ensemble",
    )

    @property
    def rate(self) -> float:
        """What halves: r or e of the first block."""
        raise NotImplementedError

    @property
    def window(self) -> int:
        """How many last iterates are kept."""
        return self.average

    def phases(self, n: int) -> tuple[Phase, ...]:
        """The blocks of a trial on n records."""
        return halving_schedule(self.rate, self.halve_every, self.epochs, -(-n // self.batch_size))


@hyperparameters
class NoiselessDescentHyperparameters(CommonHyperparameters):
    """Of `sgd`, and of every optimiser."""

    learning_rate: float = hyperparameter(low=1e-12, high=1e6, doc="r of the first block, on the mean loss of a batch")

    @property
    def rate(self) -> float:
        """r"""
        return self.learning_rate


@hyperparameters
class DropoutHyperparameters(NoiselessDescentHyperparameters):
    """Of `dropout`."""

    dropout: float = hyperparameter(low=0.0, high=0.95, default=0.3, doc="share of hidden units that a step leaves out")


@hyperparameters
class SquareHyperparameters:
    """Of a method that divides by the root of a remembered square."""

    decay: float = hyperparameter(low=0.0, high=0.999999, default=0.99, doc="a of the squared gradient")
    floor: float = hyperparameter(low=1e-12, high=1.0, default=1e-5, doc="c beside the root")


@hyperparameters
class RMSpropHyperparameters(SquareHyperparameters, NoiselessDescentHyperparameters):
    """Of `rmsprop`."""


@hyperparameters
class PosteriorHyperparameters(CommonHyperparameters):
    """Of `sgld`, and of every sampler: its iterates stand for a posterior."""

    step_size: float = hyperparameter(low=1e-12, high=10.0, doc="e of the first block, on the summed loss")
    prior_variance: float = hyperparameter(low=1e-6, high=1e6, default=1.0, doc="v of the weights' Gaussian prior")
    draws: int = hyperparameter(
        low=2,
        high=1000,
        default=20,
        unit="iterates",
        doc="last iterates that stand for the posterior in the leakage Mpl",
    )

    @property
    def rate(self) -> float:
        """e"""
        return self.step_size

    @property
    def window(self) -> int:
        """How many last iterates are kept."""
        return max(self.average, self.draws)


@hyperparameters
class PSGLDHyperparameters(SquareHyperparameters, PosteriorHyperparameters):
    """Of `psgld`."""


@hyperparameters
class SGHMCHyperparameters(PosteriorHyperparameters):
    """Of `sghmc`."""

    friction: float = hyperparameter(low=1e-6, high=1.0, default=0.1, doc="f; a step keeps 1 - f of w")


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

METRICS = (
    _of_model(name="accuracy", goal="maximize", worst=0.0, doc="share of validation records classified right"),
    _of_model(
        name="loss", goal="minimize", worst=Worst.GUESSED_LOSS, doc="mean cross-entropy on the validation records"
    ),
    _of_members(name="train_accuracy", goal="maximize", worst=0.0, doc="share of training records classified right"),
    _of_members(name="gap", goal="minimize", worst=1.0, doc="training accuracy minus validation accuracy"),
    _of_attack(
        name="attack_auc",
        doc="area under the curve of the threshold attack on the loss; members train, non-members validate",
    ),
    _of_attack(name="attack_f1", doc="F1 of that attack at the mean training loss, which the attacker is given"),
    _of_attack(
        name="attack_accuracy",
        doc="accuracy of that attack at the mean training loss; moves with the shares of members and non-members",
    ),
    _of_members(
        name="loss_bound",
        goal="minimize",
        doc="largest loss of any record under the model: an observed B, no bound on other records",
    ),
)
LAST = "last_"
"""Metrics of the last iterate alone carry this before their name."""

LEAKAGE_METRICS = (
    _of_members(
        name="mpl",
        goal="minimize",
        doc="members' mean leakage Mpl of the last iterate, leave-one-out, prior 1/2, if the sampler converged",
    ),
    _of_members(
        name="mpl_bound", goal="minimize", doc="mean over members of equation 7's bound max(s/4, 0) on that leakage"
    ),
    _of_members(
        name="ensemble_mpl_bound",
        goal="minimize",
        doc="mean over members of equation 9's bound for the averaged prediction",
    ),
)

WITH_LAST = METRICS + tuple(
    replace(one, name=LAST + one.name, doc=f"{one.doc}; of the last iterate alone") for one in METRICS
)
