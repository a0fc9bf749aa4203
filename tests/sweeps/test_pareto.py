"""Fronts: golden, oracle (quadratic brute force), properties, refusals."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcore.guarantee import epsilon_text
from sweeps.privacy import totals as ledger
from sweeps.privacy.ledger import Procedure
from sweeps.privacy.release import PublishedStore
from sweeps.reporting import front as fronts
from sweeps.reporting import tables
from sweeps.spec.sections import Reference
from sweeps.store.records import TrialRecord, TrialState
from sweeps.store.store import Store
from tests.benchmarks.chosen import compare
from tests.sweeps import toys, view_sweeps
from tests.sweeps.toys import spec_with
from tests.sweeps.view_sweeps import ACCURACY, EPSILON, ERROR, claiming, mixed_sweep, record
from trainables.metrics import Worst
from trainables.publishing import declared, natural_worst
from trainables.registry import SYSTEMS
from trainables.system import DatasetSpec, InputSpec, Metric, Task


def brute_force(values: np.ndarray, maximize: list[bool]) -> list[bool]:
    """The definition: no other row is at least as good everywhere and better somewhere."""
    signed = [[-v if up else v for v, up in zip(row, maximize, strict=True)] for row in values.tolist()]

    def dominates(a: list[float], b: list[float]) -> bool:
        return all(x <= y for x, y in zip(a, b, strict=True)) and any(x < y for x, y in zip(a, b, strict=True))

    return [not any(dominates(other, row) for other in signed) for row in signed]


def inclusion_by_cells(values: np.ndarray, reference: np.ndarray) -> float:
    """Hypervolume (minimising) by summing the cells of the grid that the coordinates span."""
    points = values[(values < reference).all(axis=1)]
    if not len(points):
        return 0.0
    axes = [np.unique(np.append(points[:, j], reference[j])) for j in range(len(reference))]
    corners = np.stack(np.meshgrid(*(axis[:-1] for axis in axes), indexing="ij"), axis=-1)
    sizes = np.stack(np.meshgrid(*(np.diff(axis) for axis in axes), indexing="ij"), axis=-1).prod(axis=-1)
    covered = (points[:, None] <= corners.reshape(1, -1, len(axes))).all(axis=-1).any(axis=0)
    return float(sizes.reshape(-1)[covered].sum())


GOLDEN = np.array([(0.5, 0.20), (1, 0.12), (3, 0.08), (8, 0.06)])  # (epsilon, error), DPareto's shape of front


def test_golden_hypervolume_through_the_front():
    records = [record(i, epsilon=e, error=err) for i, (e, err) in enumerate(GOLDEN)]
    (panel,) = fronts.front(
        records, [EPSILON, ERROR], reference={"epsilon": Reference(value=10.0), "error": Reference(value=0.5)}
    ).panels
    assert panel.hypervolume == pytest.approx(3.890, abs=1e-12)
    assert panel.on_front.all()
    scaled = GOLDEN.copy()
    scaled[:, 0] = np.log10(scaled[:, 0])
    assert fronts.hypervolume(scaled, [False, False], [1, 0.5]) == pytest.approx(
        0.4932, abs=5e-5
    )  # four printed digits


numbers = st.sampled_from([0.0, -0.0, 0.5, 1.0, 1.0 + 2**-52, 2.0, 5e-324, math.inf, -math.inf]) | st.floats(
    allow_nan=False, allow_infinity=True
)


@settings(max_examples=150)
@given(st.data())
def test_front_is_the_brute_force_front(data: st.DataObject):
    dimensions = data.draw(st.integers(1, 5))
    rows = data.draw(st.lists(st.tuples(*[numbers] * dimensions), max_size=25))
    maximize = data.draw(st.lists(st.booleans(), min_size=dimensions, max_size=dimensions))
    values = np.array(rows, dtype=float).reshape(len(rows), dimensions)
    assert fronts.nondominated(values, maximize).tolist() == brute_force(values, maximize)


@settings(max_examples=60)
@given(st.integers(1, 4), st.data())
def test_hypervolume_is_the_sum_of_covered_cells(dimensions: int, data: st.DataObject):
    coordinate = st.integers(0, 6).map(float) | st.just(math.inf)
    rows = data.draw(st.lists(st.tuples(*[coordinate] * dimensions), max_size=8))
    values = np.array(rows, dtype=float).reshape(len(rows), dimensions)
    reference = np.full(dimensions, 6.0)
    assert fronts.hypervolume(values, [False] * dimensions, reference) == pytest.approx(
        inclusion_by_cells(values, reference), abs=1e-9
    )


def test_what_is_left_out_is_counted():
    records = [
        record(0, accuracy=0.5),
        record(1, accuracy=math.nan),
        record(2, accuracy=math.inf),
        record(3, loss=1.0),
        replace(record(4, accuracy=0.9), guarantee=None),
        record(5, state=TrialState.FAILED),
        record(6, state=TrialState.INFEASIBLE),
    ]
    result = fronts.front(records, [ACCURACY, EPSILON])
    assert result.excluded == {
        "accuracy not a finite number": 2,
        "without accuracy": 1,
        "without a guarantee": 1,
        "failed": 1,
        "infeasible": 1,
    }
    assert result.keys() == ["s-0"]


@pytest.mark.parametrize(
    ("name", "other"),
    [("notion", "bayesian-dp"), ("adjacency", "replace-one"), ("delta", 1e-6), ("unit", "user"), ("status", "refuted")],
)
def test_different_guarantees_share_axes_only_by_name_and_then_in_their_own_panel(name: str, other: object):
    records = [claiming(0), claiming(1, **{name: other})]
    with pytest.raises(fronts.MixedGuarantees, match=f"--mix {name}") as caught:
        fronts.front(records, [ACCURACY, EPSILON], as_refuted=True)
    assert str(other) in str(caught.value)
    panels = fronts.front(records, [ACCURACY, EPSILON], mix=[name], as_refuted=True).panels
    assert [len(panel.records) for panel in panels] == [1, 1]
    assert {str(panel.label[name]) for panel in panels} == {str(other), str(getattr(records[0].guarantee, name))}
    assert len({panel.title for panel in panels}) == 2


def test_claims_that_stand_share_axes_each_under_its_own_status():
    records = [claiming(0), claiming(1, status="proved-under-assumptions"), claiming(2, status="refuted")]
    with pytest.raises(fronts.MixedGuarantees, match="refuted"):
        fronts.front(records, [ACCURACY, EPSILON], as_refuted=True)
    found = fronts.front(records, [ACCURACY, EPSILON], mix=["status"], as_refuted=True)
    assert [panel.label["status"] for panel in found.panels] == ["proved or proved-under-assumptions", "refuted"]
    listed = {row["key"]: row["status"] for row in tables.rows(found, everything=True)}
    assert listed == {record.key: record.guarantee.status for record in records if record.guarantee}
    panels = json.loads(tables.to_json(found))["panels"]
    assert [panel["trials"] for panel in panels] == [2, 1]


def of_systems(count: int) -> list[TrialRecord]:
    """Points of three kinds, one of them with another status; a whole front for nobody."""
    rng = np.random.default_rng(8)
    found = []
    for number in range(count):
        status = "proved-under-assumptions" if number % 3 == 2 else "proved"
        one = claiming(number, status=status, epsilon=float(rng.integers(1, 6)))
        config = {**one.config, "system": ("noisy-sgd", "a", "a")[number % 3]}
        found.append(replace(one, config=config, metrics={**one.metrics, "accuracy": float(rng.random())}))
    return found


def test_each_kind_has_the_front_that_it_would_have_alone():
    records = of_systems(60)
    (panel,) = fronts.front(records, [ACCURACY, EPSILON]).panels
    found = fronts.kinds(panel, [ACCURACY, EPSILON], across=1, up=0)
    assert [one.name for one in found] == ["a (proved)", "a (proved-under-assumptions)", "noisy-sgd (proved)"]
    assert [one.system for one in found] == [0, 0, 1]
    for kind in found:
        members = [one for one, mine in zip(panel.records, kind.members, strict=True) if mine]
        assert {panel.records[i].key for i in kind.own} == set(fronts.front(members, [ACCURACY, EPSILON]).keys())
        across = panel.values[kind.own, 1]
        assert (np.diff(across) >= 0).all()


# The total of the procedure stands under a front of the store in every form, and is the ledger's own number.


@pytest.fixture
def store(tmp_path):
    """Twelve finished trials, one failed after three steps, one lost and to be charged whole."""
    opened = mixed_sweep(tmp_path)
    yield opened
    opened.close()


def counted(store: Store) -> Procedure:
    return ledger.summary(store.trials("views"), store.ledger("views"), ()).procedure


def test_the_note_is_the_ledgers_total(store):
    found = fronts.sweep_front(PublishedStore(store), "views", total=True)
    assert found.procedure == counted(store)
    assert found.note == (
        f"All trials together: epsilon {epsilon_text(counted(store).guarantee.epsilon)} at delta 1e-05, "
        "differential-privacy, add-remove, per record, by pld, status: proved (3 assumptions). May be quoted. "
        "It covers all results and the choice of the best, but no running times and memory. 1 trial that "
        "failed or did not end counts with all planned steps: results or records may have decided where that ended."
    )
    # Fourteen launches: more than what the best of them claims, and more than all those on the front.
    assert found.procedure.guarantee.epsilon > max(trial.guarantee.epsilon for trial in found.panels[0].records)
    assert fronts.sweep_front(PublishedStore(store), "views").note == ""


# Shrunk scores: golden numbers, properties, and by simulation what the chosen one is worth.


SCORES = st.lists(st.tuples(st.floats(-5, 5), st.floats(0.001, 2)), min_size=fronts.FEWEST, max_size=12)


def test_equal_errors_give_the_rule_of_efron_and_morris():
    """With one error s for all, t^2 = S / (n - 1) - s^2: of 0, 1, 2, 3 it is 5/3 - 1, and B = 3/5."""
    shrunk, errors = fronts.shrink(np.array([0.0, 1, 2, 3]), np.ones(4))
    assert shrunk == pytest.approx(0.6 * 1.5 + 0.4 * np.arange(4), abs=1e-9)
    assert errors == pytest.approx(np.sqrt(0.4 + 0.36 * (5 / 3) / 4), abs=1e-9)


@given(SCORES)
def test_shrunk_scores_lie_between_their_own_and_the_mean_and_are_no_less_sure(listed):
    scores, errors = np.array(listed).T
    shrunk, left = fronts.shrink(scores, errors)
    assert (shrunk >= scores.min() - 1e-9).all()
    assert (shrunk <= scores.max() + 1e-9).all()
    assert (left <= errors + 1e-9).all()
    # A shift moves all alike.
    assert fronts.shrink(scores + 1, errors)[0] == pytest.approx(shrunk + 1, abs=1e-6)


def test_a_noisy_score_of_few_like_it_is_held_against_all_and_infinities_stay():
    scores, errors = [0.9, 0.5, 0.5, 0.52, 0.51, np.inf], [0.3, 0.01, 0.01, 0.01, 0.01, 0.1]
    shrunk, _ = fronts.shrink_alike(scores, errors, ["lonely", *"abcd", "e"])
    assert shrunk[0] < 0.6
    assert shrunk[5] == np.inf
    assert list(fronts.shrink_alike([0.9, 0.5], [0.3, 0.01], ["a", "b"])[0]) == [0.9, 0.5]


def test_what_the_chosen_trial_is_said_to_score_is_within_its_error_of_what_it_is_worth():
    """300 sweeps of 12 trials on Adult at n = 500, where luck is largest: raw scores overstate three times as much."""
    found = compare("adult", 500, np.random.default_rng(0))
    assert abs(found["shrunk"][2]) < 1
    assert found["raw"][1] > 2 * abs(found["shrunk"][1])
    assert found["shrunk"][0] < found["raw"][0] + 0.002


# Where the volume under a front ends: public beforehand, printed with its source, and the same for two sweeps.


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
    again = toys.loaded(spec.canonical())
    assert again == spec
    # A budget that is changed in a canonical spec changes what follows from it.
    wider = spec_with().canonical() | {"privacy": {"epsilon": 3.0, "delta": 1e-5}}
    assert ends(toys.loaded(wider))["epsilon"][0] == 3.3


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


ENDS = {"accuracy": Reference(value=0.0, source="the worst accuracy there is"), "epsilon": Reference(value=4.0)}


def test_the_stored_spec_says_it_and_the_caller_goes_before(tmp_path: Path):
    stored = {name: {"value": one.value, "source": one.source} for name, one in ENDS.items()}
    store = view_sweeps.new_sweep(tmp_path, front={"reference": stored})
    lease = store.acquire("views")
    view_sweeps.complete(store, lease, 0, accuracy=0.5)
    assert store.sweep("views").references == ENDS
    assert fronts.sweep_front(PublishedStore(store), "views").panels[0].hypervolume == pytest.approx(0.5 * 3)
    chosen = fronts.sweep_front(PublishedStore(store), "views", reference={"epsilon": Reference(value=2.0)})
    assert chosen.panels[0].hypervolume == pytest.approx(0.5)
    lease.release()
