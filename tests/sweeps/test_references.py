"""Where the volume under a front ends: public beforehand, printed with its source, and the same for two sweeps."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweeps.privacy.published_store import PublishedStore
from sweeps.reporting import tables
from sweeps.reporting.front import AxisEnd, FrontAxis, axis_ends, front, sweep_front
from sweeps.spec.parse import load_spec
from sweeps.spec.problems import SpecErrors
from tests.sweeps import toys, view_sweeps
from tests.sweeps.toys import spec_with
from tests.sweeps.view_sweeps import record
from trainables.metrics import Worst
from trainables.publishing import declared, natural_worst
from trainables.registry import SYSTEMS
from trainables.system import DatasetSpec, InputSpec, Metric, Task

ACCURACY, EPSILON = FrontAxis("accuracy", "maximize"), FrontAxis("epsilon", "minimize")
LOSS = FrontAxis("loss", "minimize")


def facts(task: Task, classes: int | None = None) -> DatasetSpec:
    features = {"x": InputSpec(shape=(2,))}
    bounds = {"target_low": -1.0, "target_high": 4.0}
    return DatasetSpec(dataset="d", task=task, n=9, n_validation=3, features=features, classes=classes, **bounds)


def ends(spec: Any) -> dict[str, tuple[float, str]]:
    return {name: (one.value, one.source) for name, one in spec.front.reference.items()}


def test_references_follow_from_budgets_limits_and_metrics():
    found = ends(spec_with(privacy={"epsilon": [1.0, 8.0], "delta": 1e-5}, limits={"work": 5e4}))
    assert found["epsilon"] == found["target_epsilon"] == (8.8, "a tenth beyond the largest budget, 8")
    assert found["work"] == (5e4, "limits.work")
    # Without a natural worst: the spec has to say.
    assert "seconds" not in found
    assert "loss" not in found


def test_given_ones_go_before_and_survive_a_round_trip():
    spec = spec_with(front={"reference": {"epsilon": 20, "loss": {"value": 2.5, "source": "a paper"}}})
    assert ends(spec)["epsilon"] == (20.0, "given")
    assert ends(spec)["loss"] == (2.5, "a paper")
    again = load_spec(spec.canonical(), systems=toys.SYSTEMS, sources=toys.SOURCES)
    assert again == spec
    # A budget that is changed in a canonical spec changes what follows from it.
    wider = spec_with().canonical() | {"privacy": {"epsilon": 3.0, "delta": 1e-5}}
    assert ends(load_spec(wider, systems=toys.SYSTEMS, sources=toys.SOURCES))["epsilon"][0] == 3.3


@pytest.mark.parametrize("value", [math.inf, math.nan, "x", True, None])
def test_a_bad_reference_is_refused_with_its_path(value: object):
    with pytest.raises(SpecErrors, match=r"front\.reference\.loss"):
        spec_with(front={"reference": {"loss": value}})


@pytest.mark.parametrize(
    ("worst", "known", "value"),
    [
        (Worst.GUESSED_LOSS, facts(Task.CLASSIFICATION, 10), math.log(10)),
        (Worst.GUESSED_LOSS, facts(Task.REGRESSION), None),
        (Worst.TARGET_RANGE, facts(Task.REGRESSION), 5.0),
        (Worst.TARGET_RANGE, facts(Task.MEAN), 5.0),
        (Worst.TARGET_RANGE, facts(Task.RATING, 5), 4.0),
        (0.0, facts(Task.CLASSIFICATION, 10), 0.0),
        (None, facts(Task.CLASSIFICATION, 10), None),
    ],
)
def test_the_natural_worst_is_a_public_value(worst: Any, known: DatasetSpec, value: float | None):
    metric = next(iter(declared(SYSTEMS["noisy-sgd"]).values()))
    found = natural_worst(replace(metric, worst=worst), known)
    assert (None if found is None else found[0]) == value


def test_systems_agree_on_the_worst_of_a_metric():
    """One name, one axis: a front may hold several systems."""
    seen: dict[str, Metric] = {}
    for system in SYSTEMS.values():
        for name, metric in declared(system).items():
            known = seen.setdefault(name, metric)
            assert (known.worst, known.goal) == (metric.worst, metric.goal), (system.name, name)
    assert {seen[name].worst for name in seen if name.endswith("accuracy") and seen[name].goal == "maximize"} == {0.0}


ENDS = {"accuracy": AxisEnd(0.0, "the worst accuracy there is"), "epsilon": AxisEnd(4.0)}


def test_without_a_reference_there_is_no_volume_and_it_says_what_to_do():
    found = front([record(0, epsilon=1.0, accuracy=0.7, loss=0.3)], [ACCURACY, LOSS, EPSILON], reference=ENDS)
    assert found.panels[0].hypervolume is None
    assert "needs a reference for loss: --reference loss=VALUE" in found.footer(found.panels[0])


def test_value_and_source_are_printed_in_every_form():
    found = front([record(0, epsilon=1.0, accuracy=0.7)], [ACCURACY, EPSILON], reference=ENDS)
    said = "hypervolume 2.1 (up to accuracy 0, the worst accuracy there is; epsilon 4, given)"
    for form in ("table", "html"):
        assert said in " ".join(str(tables.render(found, form)).split())
    assert json.loads(tables.render(found, "json"))["reference"] == {
        "accuracy": {"value": 0.0, "source": "the worst accuracy there is"},
        "epsilon": {"value": 4.0, "source": "given"},
    }


def test_the_stored_spec_says_it_and_the_caller_goes_before(tmp_path: Path):
    stored = {name: {"value": one.value, "source": one.source} for name, one in ENDS.items()}
    store = view_sweeps.new_sweep(tmp_path, front={"reference": stored})
    lease = store.acquire("views")
    view_sweeps.complete(store, lease, 0, accuracy=0.5)
    assert axis_ends(store.sweep("views").references) == ENDS
    assert sweep_front(PublishedStore(store), "views").panels[0].hypervolume == pytest.approx(0.5 * 3)
    chosen = sweep_front(PublishedStore(store), "views", reference={"epsilon": AxisEnd(2.0)})
    assert chosen.panels[0].hypervolume == pytest.approx(0.5)
    older = view_sweeps.new_sweep(tmp_path, "older", front={})
    assert axis_ends(older.sweep("older").references) == {}
    lease.release()
