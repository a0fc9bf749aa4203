"""Tables 1 and 2 as printed: threshold attack and model, one run each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table.

    system, ensemble  how it is run here: the `+` rows average the outputs of the last three iterates
    """

    name: str
    system: str
    ensemble: bool
    attack_auc: float
    attack_f1: float
    attack_accuracy: float
    train_accuracy: float
    accuracy: float


TABLE_1 = (
    Row("SGD", "sgd", False, 0.677, 0.685, 0.646, 1.000, 0.734),
    Row("SGD+", "sgd", True, 0.677, 0.684, 0.645, 1.000, 0.720),
    Row("Dropout", "dropout", False, 0.527, 0.567, 0.527, 0.859, 0.747),
    Row("RMSprop", "rmsprop", False, 0.589, 0.677, 0.627, 0.965, 0.749),
    Row("SGLD", "sgld", False, 0.536, 0.598, 0.539, 0.811, 0.736),
    Row("SGLD+", "sgld", True, 0.536, 0.564, 0.526, 0.839, 0.751),
    Row("pSGLD", "psgld", False, 0.551, 0.600, 0.550, 0.858, 0.753),
    Row("pSGLD+", "psgld", True, 0.550, 0.568, 0.539, 0.859, 0.758),
)
"""German Credit, three-layer net."""

TABLE_2 = (
    Row("SGD", "sgd", False, 0.669, 0.716, 0.646, 0.993, 0.823),
    Row("SGD+", "sgd", True, 0.665, 0.714, 0.638, 0.998, 0.837),
    Row("Dropout", "dropout", False, 0.662, 0.711, 0.634, 0.994, 0.818),
    Row("RMSprop", "rmsprop", False, 0.674, 0.715, 0.652, 0.992, 0.818),
    Row("SGLD", "sgld", False, 0.641, 0.669, 0.620, 0.973, 0.817),
    Row("SGLD+", "sgld", True, 0.643, 0.658, 0.617, 0.981, 0.825),
    Row("pSGLD", "psgld", False, 0.652, 0.697, 0.641, 0.982, 0.824),
    Row("pSGLD+", "psgld", True, 0.648, 0.692, 0.640, 0.987, 0.830),
)
"""IDC, ResNet-18."""

METRICS = ("attack_auc", "attack_f1", "attack_accuracy", "train_accuracy", "accuracy")
