"""Metrics of the unprotected samplers and optimisers."""

from __future__ import annotations

from dataclasses import replace

from trainables.metrics import Dependence, Metric, Worst

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
