"""A spec's unit is a record, or something that data and systems make true."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from sweeps.planning.plan import plan_proposal
from sweeps.search.space import Space
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.problems import SpecErrors
from tests.sweeps import specs
from trainables.registry import SYSTEMS

UNIT = {"unit": {"column": "patient_id", "max_records": 50}}
SPEC: dict[str, Any] = specs.digits(
    "visits",
    trials=2,
    data={
        "source": "table",
        "path": "visits.parquet",
        "n": 2000,
        "label": "ill",
        "classes": ["no", "yes"],
        "columns": {"pulse": {"low": 30, "high": 200}},
        "validation": {"share": 0.2, "records": "public"},
        **UNIT,
    },
    systems={"subsample-and-aggregate": {"models": 40, "queries": 20, "regularisation": 0.01}},
    privacy={"epsilon": 1.0, "delta": 1e-5, "unit": "patient"},
)


def changed(path: str, value: Any) -> dict[str, Any]:
    raw = deepcopy(SPEC)
    *parents, last = path.split("/")
    inner = raw
    for parent in parents:
        inner = inner[parent]
    inner[last] = value
    return raw


def problems(raw: dict[str, Any]) -> list[str]:
    with pytest.raises(SpecErrors) as caught:
        load_spec(raw)
    return [str(one) for one in caught.value.errors]


def test_a_unit_that_data_and_system_enforce_is_claimed() -> None:
    spec = load_spec(SPEC)
    facts = public_facts(spec)
    assert (facts.n, facts.n_validation, facts.unit_records) == (1600, 400, 50)
    config = Space.of(spec).draw(np.random.default_rng(0))
    plan = plan_proposal(spec, config, facts, {})
    assert plan.guarantee.unit == "patient"
    assert any("patient_id" in line for line in plan.guarantee.assumptions)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("privacy", {"epsilon": 1.0, "delta": 1e-5}, "privacy.unit='record': expected another word"),
        ("privacy/unit", "record", "privacy.unit='record': expected another word"),
        ("systems/model-sensitivity", {"regularisation": 0.01}, "expected record with model-sensitivity: it counts"),
        ("privacy/delta", 1e-3, "expected at most 1/n = 0.000625 for n=1600 values of patient_id."),
        ("data", {"source": "digits", **UNIT}, "no unit: digits does not know whose its records are"),
        ("objectives", [{"metric": "accuracy"}, {"metric": "membership_auc"}], "single records"),
    ],
)
def test_a_unit_is_made_of_a_grouping_its_word_and_systems_that_bound_it(path: str, value: Any, said: str) -> None:
    assert said in "\n".join(problems(changed(path, value)))


def test_planning_refuses_too() -> None:
    """The door of every plan: a spec that was put together by hand passes no earlier one."""
    spec = load_spec(SPEC)
    by_hand = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"unit": "record"})})
    facts = public_facts(spec)
    config = Space.of(by_hand).draw(np.random.default_rng(0))
    refusal = plan_proposal(by_hand, config, facts, {}, SYSTEMS)
    assert "privacy.unit='record'" in refusal.reason
