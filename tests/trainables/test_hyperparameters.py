"""Hyperparameters: one typed record, its parameters, and the one place that reads a configuration."""

from __future__ import annotations

import math

import pytest

from dpcore.checks import InvalidValue
from trainables.hyperparameters import complete, hyperparameter, hyperparameters, read
from trainables.publishing import MEASURES, declared
from trainables.registry import SYSTEMS
from trainables.system import Dependence


@hyperparameters
class Base:
    """Two numbers.

    rate  how
          far
    size  of something else
    """

    rate: float = hyperparameter(low=0.0, high=1.0)
    size: int = hyperparameter(low=1, default=3, unit="records", doc="how many")


@hyperparameters
class Mine(Base):
    """What every field is, whatever else is said of it."""

    target: float


def test_what_is_missing_is_named_unless_it_is_solved() -> None:
    with pytest.raises(InvalidValue, match=r"rate=None: expected a value \(how far\)"):
        read(Base, {})
    with pytest.raises(InvalidValue, match="target=None"):
        read(Mine, {"rate": 0.5})
    assert complete(Base, {}) == {"size": 3}
    assert math.isnan(read(Base, {}, solved="rate").rate)


# What every number that may leave a trial depends on.


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_every_metric_of_every_system_declares_on_what_it_depends(system):
    knobs = {parameter.name: parameter for parameter in system.hyperparameters}
    for metric in declared(system).values():
        assert isinstance(metric.depends, Dependence), metric.name
        for name, value in metric.raw_under.items():
            assert value in knobs[name].choices, metric.name


def test_what_reads_the_training_records_past_the_mechanism_is_declared_raw():
    raw = {name for name, metric in MEASURES.items() if metric.depends is Dependence.RAW}
    assert raw == {"audited_epsilon", "membership_auc", "membership_accuracy", "membership_f1", "priv_leak"}
    attacked = {metric.name for metric in SYSTEMS["sgld"].metrics if metric.depends is Dependence.RAW}
    assert {"train_accuracy", "gap", "attack_auc", "last_attack_auc", "loss_bound", "mpl"} <= attacked
    unnoised = {metric.name for metric in SYSTEMS["convexified-loss"].metrics if metric.depends is Dependence.RAW}
    assert unnoised == {"shadow_leak", "accuracy_loss", "baseline_accuracy", "train_accuracy", "baseline_leak"}


@pytest.mark.parametrize("system", ["bayesian-sgd", "bayesian-variational", "average-case-sgd", "variational-draws"])
def test_a_figure_of_training_distances_is_raw_and_one_of_held_out_distances_is_not(system):
    metric = declared(SYSTEMS[system])["bayesian_epsilon"]
    assert metric.depends_under({"distances": "training"}) is Dependence.RAW
    assert metric.depends_under({"distances": "held-out"}) is Dependence.VALIDATION


def test_a_run_that_stops_on_training_distances_has_no_metric_that_does_not_depend_on_them():
    stopped = SYSTEMS["average-case-sgd"].metrics
    assert {one.depends_under({"distances": "training"}) for one in stopped} == {Dependence.RAW}
