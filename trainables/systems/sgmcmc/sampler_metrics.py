"""Metrics of the unprotected samplers and optimisers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from trainables.metrics import Dependence, Metric, Worst

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
