"""Hyperparameters and metrics of the unprotected samplers and optimisers."""

from __future__ import annotations

from dataclasses import replace

from trainables.metrics import Worst
from trainables.system import Dependence, Metric, Parameter

COMMON = (
    Parameter(name="model", kind="choice", default="mlp3", doc="name of a model or package.module:function"),
    Parameter(name="hidden", kind="int", low=1, high=65536, default=64, unit="units", doc="hidden ReLU units"),
    Parameter(name="batch_size", kind="int", low=1, unit="records", doc="records of a shuffled batch"),
    Parameter(name="epochs", kind="int", low=1, high=1_000_000, unit="passes", doc="ceil(n / batch_size) steps each"),
    Parameter(name="halve_every", kind="int", low=1, high=1_000_000, unit="epochs", doc="the rate halves after these"),
    Parameter(
        name="average",
        kind="int",
        low=1,
        high=1000,
        default=3,
        unit="iterates",
        doc="predicted probabilities of so many last iterates are averaged; 1 is no ensemble",
    ),
)

LEARNING_RATE = Parameter(
    name="learning_rate", kind="float", low=1e-12, high=1e6, doc="r of the first block, on the mean loss of a batch"
)
STEP_SIZE = Parameter(
    name="step_size", kind="float", low=1e-12, high=10.0, doc="e of the first block, on the summed loss"
)
PRIOR_VARIANCE = Parameter(
    name="prior_variance", kind="float", low=1e-6, high=1e6, default=1.0, doc="v of the weights' Gaussian prior"
)
DRAWS = Parameter(
    name="draws",
    kind="int",
    low=2,
    high=1000,
    default=20,
    unit="iterates",
    doc="last iterates that stand for the posterior in the leakage Mpl",
)
DECAY = Parameter(name="decay", kind="float", low=0.0, high=0.999999, default=0.99, doc="a of the squared gradient")
FLOOR = Parameter(name="floor", kind="float", low=1e-12, high=1.0, default=1e-5, doc="c beside the root")
FRICTION = Parameter(name="friction", kind="float", low=1e-6, high=1.0, default=0.1, doc="f; a step keeps 1 - f of w")
DROPOUT_RATE = Parameter(
    name="dropout", kind="float", low=0.0, high=0.95, default=0.3, doc="share of hidden units that a step leaves out"
)

_MEMBERS = "the training records, without noise: covered by no claim"
_MODEL = "the validation records and the model, which is released without noise at an epsilon that is infinite"

METRICS = (
    Metric(
        name="accuracy",
        goal="maximize",
        worst=0.0,
        doc="share of validation records classified right",
        released=_MODEL,
        depends=Dependence.VALIDATION,
    ),
    Metric(
        name="loss",
        goal="minimize",
        worst=Worst.GUESSED_LOSS,
        doc="mean cross-entropy on the validation records",
        released=_MODEL,
        depends=Dependence.VALIDATION,
    ),
    Metric(
        name="train_accuracy",
        goal="maximize",
        worst=0.0,
        doc="share of training records classified right",
        released=_MEMBERS,
        depends=Dependence.RAW,
    ),
    Metric(
        name="gap",
        goal="minimize",
        worst=1.0,
        doc="training accuracy minus validation accuracy",
        released=_MEMBERS,
        depends=Dependence.RAW,
    ),
    Metric(
        name="attack_auc",
        goal="minimize",
        worst=1.0,
        doc="area under the curve of the threshold attack on the loss; members train, non-members validate",
        released=_MEMBERS,
        depends=Dependence.RAW,
    ),
    Metric(
        name="attack_f1",
        goal="minimize",
        worst=1.0,
        doc="F1 of that attack at the mean training loss, which the attacker is given",
        released=_MEMBERS,
        depends=Dependence.RAW,
    ),
    Metric(
        name="attack_accuracy",
        goal="minimize",
        worst=1.0,
        doc="accuracy of that attack at the mean training loss; moves with the shares of members and non-members",
        released=_MEMBERS,
        depends=Dependence.RAW,
    ),
    Metric(
        name="loss_bound",
        goal="minimize",
        doc="largest loss of any record under the model: an observed B, no bound on other records",
        released=_MEMBERS,
        depends=Dependence.RAW,
    ),
)
LAST = "last_"
"""Metrics of the last iterate alone carry this before their name."""

LEAKAGE_METRICS = (
    Metric(
        name="mpl",
        goal="minimize",
        doc="members' mean leakage Mpl of the last iterate, leave-one-out, prior 1/2, if the sampler converged",
        released=_MEMBERS,
        depends=Dependence.RAW,
    ),
    Metric(
        name="mpl_bound",
        goal="minimize",
        doc="mean over members of equation 7's bound max(s/4, 0) on that leakage",
        released=_MEMBERS,
        depends=Dependence.RAW,
    ),
    Metric(
        name="ensemble_mpl_bound",
        goal="minimize",
        doc="mean over members of equation 9's bound for the averaged prediction",
        released=_MEMBERS,
        depends=Dependence.RAW,
    ),
)

WITH_LAST = METRICS + tuple(
    replace(one, name=LAST + one.name, doc=f"{one.doc}; of the last iterate alone") for one in METRICS
)
