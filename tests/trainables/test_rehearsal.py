"""A trial in small on made-up records: every system passes, and every mistake is found and said."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from dpcore.gradients import engine as releases
from tests.trainables.registry_cases import CANDIDATES, data_of
from trainables.data import SOURCES
from trainables.metrics import Dependence
from trainables.registry import SYSTEMS
from trainables.rehearsal.findings import CannotRun, Rehearsed
from trainables.rehearsal.rehearse import fitting, rehearse
from trainables.system import DatasetSpec, InputSpec, PrivacyPlan, PrivacyTarget, Refusal, RunSettings, Task
from trainables.systems import noisy_mean
from trainables.training.made_up import made_up
from trainables.training.trained_model import METRICS

BROKEN = "tests.trainables.broken_models"


def rehearsed(name, facts=None, *, system=None, objectives=("epsilon",), execution=None, **config) -> Rehearsed:
    """The rehearsal of a system's case, on the facts of its own data unless others are given."""
    case, facts = CANDIDATES[name], data_of(name).facts if facts is None else facts
    target = PrivacyTarget(
        epsilon=case.epsilon,
        delta=case.delta,
        adjacency=case.adjacency,
        solve=case.solve,
        unit="record" if facts.unit is None else "person",
    )

    def planned(few: DatasetSpec) -> PrivacyPlan | Refusal:
        return SYSTEMS[name].plan({**case.config, **config}, few, target, {})

    plan = planned(facts)
    assert isinstance(plan, PrivacyPlan), plan
    return rehearse(
        system or SYSTEMS[name],
        plan,
        facts,
        objectives=objectives,
        replanned=planned,
        execution=execution or RunSettings(),
    )


# The exam that every system of the registry sits


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_is_rehearsed_on_its_own_facts(name):
    found = rehearsed(name)
    assert found.steps >= 1
    assert found.reported
    declared, task = SYSTEMS[name].metrics, data_of(name).facts.task
    judged = [one for one in declared if one.depends is Dependence.VALIDATION and task in (one.tasks or {task})]
    assert {one.name for one in judged} <= set(found.reported) <= {one.name for one in declared}
    if found.step is not None:
        assert np.isfinite(found.step.loss)
        assert found.step.records == found.step.planned == CANDIDATES[name].config["batch_size"]
        assert not found.step.unreached


TABLE = {
    "path": "nowhere.csv",
    "n": 5000,
    "label": "y",
    "columns": {"age": {"low": 0, "high": 100}, "work": {"categories": ["a", "b", "c"]}},
}


@pytest.mark.parametrize(
    ("source", "options", "model"),
    [
        ("mnist", {}, "cnn"),
        ("imdb", {}, "embedding-pool"),
        ("movielens_100k", {}, "two-branch"),
        ("movielens_100k", {"unit": {"column": "user", "max_records": 4}}, "item-table"),
        ("abalone", {}, "linear"),
        ("table", {**TABLE, "target": [0, 9]}, "mlp"),
        ("table", {**TABLE, "classes": 3, "unit": {"column": "id", "max_records": 3}}, "mlp"),
    ],
)
def test_sources_are_rehearsed_from_their_facts_alone(source, options, model, monkeypatch):
    """No folder, no file: nothing could be read."""
    facts = SOURCES[source].facts(options)
    found = rehearsed("noisy-sgd", facts, model=model, hidden=4, batch_size=16, epochs=1)
    assert found.step is not None
    assert found.step.loss > 0
    judged = {one.name for one in METRICS if facts.task in (one.tasks or ())} | {"loss"}
    assert set(found.reported) == (judged if facts.n_validation else set())


def test_private_reports_are_rehearsed_as_noised_histograms():
    from trainables.validation.planning import plan_with_reports

    options = {**TABLE, "classes": 2, "validation": {"records": "private", "share": 0.2, "id": "id"}}
    facts, system = SOURCES["table"].facts(options), SYSTEMS["noisy-sgd"]
    target, config = PrivacyTarget(epsilon=2.0, delta=1e-5), {**CANDIDATES["noisy-sgd"].config, "hidden": 4}

    def planned(few):
        return plan_with_reports(system, config, few, target, {}, lambda steps: (steps,))

    plan = planned(facts)
    found = rehearse(
        system, plan, facts, objectives=["accuracy"], replanned=planned, execution=RunSettings(noise_source="secure")
    )
    assert set(found.reported) == {"accuracy", "auc", "loss"}


# What people do wrong with their own models


@pytest.mark.parametrize(
    ("builder", "words"),
    [
        ("too_wide_an_input", ["fails on one record", "x (1, 4)", "shapes cannot be multiplied"]),
        ("an_output_too_few", ["(1, 1)", "expected (1, 2)", "one column for each of 2 classes"]),
        ("a_tuple", ["returns tuple", "expected (1, 2)"]),
        ("raises_when_called", ["KeyError", "age", "broken_models.py", "in forward"]),
        ("branches_on_values", ["cannot be computed for each record apart", "broken_models.py"]),
        ("keeps_its_first_pass", ["keeps a tensor of its first forward", "Make it in __init__"]),
        ("no_weight_reached", ["no record's loss depends on any weight", "layer.weight, layer.bias", "detach()"]),
        ("infinite_loss", ["the loss of 8 of 8", "infinite or no number"]),
        ("infinite_gradient", ["the gradient of layer.weight", "would count as zero"]),
    ],
)
def test_a_broken_model_is_found(builder, words):
    with pytest.raises(CannotRun) as refused:
        rehearsed("noisy-sgd", model=f"{BROKEN}:{builder}")
    for word in words:
        assert word in str(refused.value)


def test_a_right_model_passes_and_its_routes_are_told():
    assert rehearsed("noisy-sgd", model=f"{BROKEN}:right").step.unreached == ()
    scaled = rehearsed("noisy-sgd", model=f"{BROKEN}:with_a_scale").step
    assert scaled.routes == {"layer.weight": "one pass", "layer.bias": "one pass", "scale": "per record"}


# Objectives without a value


def test_an_objective_that_nothing_reports_is_named_with_what_is_reported():
    with pytest.raises(CannotRun, match=r"objective rmse .* It reports accuracy, auc, .*loss"):
        rehearsed("noisy-sgd", objectives=["rmse", "epsilon"])


# Mutants of systems


@dataclass
class Mutant:
    """A system with one method of its own."""

    fit: object
    inner: object = field(default_factory=lambda: SYSTEMS["noisy-sgd"])

    def __getattr__(self, name):
        return getattr(self.inner, name)


def raising(runs, data, execution):
    raise IndexError("list index out of range")


def idle(runs, data, execution):
    """Comes back without a word."""


def undeclared(runs, data, execution):
    for run in runs:
        run.checkpoint(run.member.to_step, {}, {"secret_metric": 1.0})


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (raising, "IndexError: list index out of range"),
        (idle, "without its last checkpoint"),
        (undeclared, "secret_metric"),
    ],
)
def test_a_broken_system_is_found(fit, words):
    with pytest.raises(CannotRun, match=words):
        rehearsed("noisy-sgd", system=Mutant(fit))


def test_noise_that_is_no_number_is_found(monkeypatch):
    def broken(*arguments, **options):
        return {name: one * float("nan") for name, one in given(*arguments, **options).items()}

    given = releases.noisy_mean_gradient
    monkeypatch.setattr(releases, "noisy_mean_gradient", broken)
    with pytest.raises(CannotRun, match="noised gradient of"):
        rehearsed("noisy-sgd")


def test_an_objective_that_is_no_number_is_found(monkeypatch):
    monkeypatch.setattr(noisy_mean, "expected_error", lambda config, n: float("nan"))
    with pytest.raises(CannotRun, match="expected_error is no number"):
        rehearsed("noisy-mean", objectives=["expected_error"])


def test_a_system_may_say_how_it_is_rehearsed():
    assert rehearsed("noisy-mean", step_seconds=30.0).seconds < 10


# Made-up records


FACTS = DatasetSpec(
    dataset="made up",
    task=Task.CLASSIFICATION,
    n=1000,
    n_validation=100,
    features={
        "image": InputSpec(shape=(3, 4), low=-2.0, high=5.0),
        "word": InputSpec(shape=(6,), cardinality=7),
        "code": InputSpec(shape=(), cardinality=3),
    },
    classes=5,
)


def test_made_up_records_keep_to_the_facts():
    data = made_up(FACTS, 40, 9)
    image, word, code = (data.train.inputs[name] for name in ("image", "word", "code"))
    assert (image.shape, word.shape, code.shape) == ((40, 3, 4), (40, 6), (40,))
    assert image.min() >= -2
    assert image.max() <= 5
    assert len({one.tobytes() for one in image}) == 40
    assert (word.min(), word.max(), code.max()) == (0, 6, 2)
    assert set(data.train.targets) == set(data.validation.targets) == set(range(5))
    assert len(data.validation) == 9


def test_a_configuration_that_cannot_be_planned_small_runs_as_it_is():
    facts = replace(data_of("sgd").facts, n=70)
    assert rehearsed("sgd", facts, batch_size=66).records == 70


@pytest.mark.parametrize(
    ("few_mb", "one_mb", "planned", "at_once", "fits"),
    [
        (800, 100, 64, 1, (5, None)),
        (800, 790, 640, 1, None),  # most of it are weights, whatever the number of records
        (100, 20, 8, 1, None),
        (800, 100, 8, 2, (3, None)),
        (1600, 600, 64, 2, (2, 1)),
        (1600, 600, 3, 2, (2, 1)),
        (620, 600, 8, 2, (None, 1)),
    ],
)
def test_a_batch_that_does_not_fit_is_found_with_what_does(few_mb, one_mb, planned, at_once, fits):
    limits = fitting(few_mb, 8, planned, 1000.0, lambda: one_mb, at_once)
    assert (limits and (limits.microbatch, limits.concurrency)) == fits


def test_a_model_of_which_one_record_does_not_fit_is_found():
    with pytest.raises(CannotRun, match="one record alone takes about 2,000 MB"):
        fitting(8000, 8, 64, 1000.0, lambda: 2000, 1)
