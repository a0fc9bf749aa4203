"""Metrics that a spec asks for beyond those of its objectives: what is refused, what is recorded, what is said."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from sweeps.execution.end import missing_metrics
from sweeps.privacy.release import Published
from sweeps.spec.parse import load_spec
from sweeps.spec.problems import SpecErrors
from tests.sweeps.front_records import record
from tests.sweeps.private_people import PUBLIC, people, spec_of
from tests.sweeps.published_sweeps import REASON, attacked
from trainables.measures.objectives import MEASURES
from trainables.measures.quality import QUALITY
from trainables.metrics import Task

__all__ = ["people"]
CLASSES = sorted(name for name, one in QUALITY.items() if one.tasks == {Task.CLASSIFICATION})


def of(people: Any, *, public: bool = True, **changes: Any) -> dict[str, Any]:
    raw = spec_of(people, **changes)
    return raw | {"data": raw["data"] | {"validation": PUBLIC}} if public else raw


def errors(raw: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(SpecErrors) as refused:
        load_spec(raw)
    found: dict[str, str] = {}
    for error in refused.value.errors:
        found[error.path] = found.get(error.path, "") + str(error)
    return found


@pytest.mark.parametrize("asked", [{"report": ["NAME"]}, {"objectives": [{"metric": "NAME"}]}], ids=["report", "goal"])
@pytest.mark.parametrize("name", QUALITY)
def test_on_private_records_each_is_refused_by_name(people, name: str, asked: dict[str, Any]) -> None:
    found = errors(of(people, public=False, **json.loads(json.dumps(asked).replace("NAME", name))))
    [(path, text)] = found.items()
    assert path in ("report.0", "objectives.0.metric")
    assert name in text
    assert "noised histogram" in text


@pytest.mark.parametrize("name", QUALITY)
def test_on_public_records_each_is_had_where_it_means_something(people, name: str) -> None:
    raw = of(people, objectives=[{"metric": name}], report=["auc"])
    if name in CLASSES:
        assert load_spec(raw).objectives[0].goal == QUALITY[name].goal
    else:
        assert "a metric of a classification, which table is" in errors(raw)["objectives.0.metric"]


def test_metrics_besides_are_recorded_and_nothing_else_moves(people) -> None:
    plain, spec = load_spec(of(people)), load_spec(of(people, report=["f1", "log_loss", "seconds"]))
    assert spec.asked == ("auc", "f1", "log_loss", "seconds")
    assert load_spec(spec.canonical()) == spec
    assert list(spec.report) == ["f1", "log_loss", "seconds"]
    assert "report" not in plain.canonical()
    assert plain.report == ()
    ends = spec.front.reference
    assert ends.keys() - plain.front.reference.keys() == {"f1", "log_loss"}
    assert ends["log_loss"].value == pytest.approx(math.log(2))
    without = {key: value for key, value in spec.canonical().items() if key not in ("report", "front")}
    assert without == {key: value for key, value in plain.canonical().items() if key != "front"}


@pytest.mark.parametrize(
    ("report", "path", "words"),
    [
        (["f2"], "report.0", "f1"),
        (["auc"], "report.0", "each metric once"),
        (["f1", "f1"], "report.1", "each metric once"),
        (["membership_auc"], "report.0", "training records"),
        ("f1", "report", "a list"),
    ],
)
def test_what_cannot_be_reported_is_named(people, report: Any, path: str, words: str) -> None:
    assert words in errors(of(people, report=report))[path]


def test_a_system_without_a_model_that_may_be_judged_is_named(people) -> None:
    raw = of(people, objectives=[{"metric": "accuracy"}], report=["f1"])
    raw["systems"] = {"subsample-and-aggregate": {"models": 4, "queries": 5, "regularisation": 0.1}}
    assert "subsample-and-aggregate" in errors(raw)["report.0"]


def test_a_raw_metric_besides_needs_a_reason_and_steers_no_sampler() -> None:
    raw = attacked(objectives=[{"metric": "accuracy"}], search={"sampler": "tpe", "trials": 2})
    asked = raw | {"report": ["membership_auc"]}
    assert list(errors(asked)) == ["report.0"]
    assert load_spec(asked | {"privacy": {"epsilon": 1.0, "delta": 1e-5, "allow_raw_measures": REASON}})


def test_the_end_of_a_sweep_says_which_metric_is_no_number_and_why() -> None:
    rows = [record(0, f1=0.5), record(1, f1=math.nan), record(2)]
    finished = [Published(replace(row)) for row in rows]
    [line] = missing_metrics(finished, ["f1"], dict(MEASURES))
    assert "f1 is no number in 2 of 3 finished trials" in line
    assert "neither occurs nor is predicted" in line
    assert missing_metrics(finished[:1], ["f1"], dict(MEASURES)) == ()
