"""The four systems of private prediction in every form that is proved, and a small data set for them."""

from dpcore.events import Adjacency
from tests.trainables.recording import blobs
from trainables.data.packaged import DIGITS
from trainables.system import PrivacyPlan, PrivacyTarget
from trainables.systems.vandermaaten2020 import (
    LOSS_PERTURBATION,
    MODEL_SENSITIVITY,
    PREDICTION_SENSITIVITY,
    SUBSAMPLE_AND_AGGREGATE,
)

DELTA = 1e-4
NETWORK = {"hidden": 8, "epochs": 60, "learning_rate": 0.3, "batch_size": 8}
REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
FACTS = DIGITS.facts({})

CASES = [
    (MODEL_SENSITIVITY, {"noise": "gaussian"}),
    (MODEL_SENSITIVITY, {"noise": "pure"}),
    *(
        (PREDICTION_SENSITIVITY, {"noise": noise, "composition": how, "queries": 50})
        for noise, how in [
            ("gaussian", "joint"),
            ("gaussian", "advanced"),
            ("gaussian", "standard"),
            ("pure", "joint"),
            ("pure", "standard"),
        ]
    ),
    (LOSS_PERTURBATION, {"noise": "pure", "jacobian": "rank"}),
    (LOSS_PERTURBATION, {"noise": "pure", "jacobian": "trace"}),
    (LOSS_PERTURBATION, {"noise": "gaussian"}),
    *((SUBSAMPLE_AND_AGGREGATE, {"composition": how, "models": 40}) for how in ("joint", "advanced", "standard")),
]
IDS = ["-".join([system.name, *map(str, knobs.values())]) for system, knobs in CASES]


def target(epsilon=2.0, adjacency=REPLACE, solve="noise"):
    return PrivacyTarget(epsilon=epsilon, delta=DELTA, adjacency=adjacency, solve=solve)


def planned(system, knobs, **settings):
    plan = system.plan({"regularisation": 0.02, **knobs}, FACTS, target(**settings), {})
    assert isinstance(plan, PrivacyPlan), plan
    return plan


def small(n=40, n_validation=30, classes=3, seed=0, spread=0.1):
    return blobs(n, n_validation, classes, seed, spread)
