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
from trainables.registry import SYSTEMS

SPEC: dict[str, Any] = {
    "name": "visits",
    "data": {
        "source": "table",
        "path": "visits.parquet",
        "n": 2000,
        "label": "ill",
        "classes": ["no", "yes"],
        "columns": {"pulse": {"low": 30, "high": 200}},
        "validation": {"share": 0.2, "records": "public"},
        "unit": {"column": "patient_id", "max_records": 50},
    },
    "systems": {"subsample-and-aggregate": {"models": 40, "queries": 20, "regularisation": 0.01}},
    "privacy": {"epsilon": 1.0, "delta": 1e-5, "unit": "patient"},
    "objectives": [{"metric": "accuracy"}],
    "search": {"sampler": "random", "trials": 2, "seed": 0},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    raw = deepcopy(SPEC)
    *parents, last = path.split("/")
    inner = raw
    for parent in parents:
        inner = inner[parent]
    if value is ...:
        del inner[last]
    else:
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


def test_a_word_alone_makes_no_unit() -> None:
    """What was printed as proved per banana."""
    raw = changed("data/unit", ...)
    raw["data"]["validation"] = {"share": 0.2, "id": "patient_id", "records": "public"}
    raw["privacy"]["unit"] = "banana"
    assert problems(raw) == [
        "privacy.unit='banana': expected record, or a word for what data.unit groups. "
        "Declare `data.unit: {column: NAME, max_records: k}` and call it by its name in `privacy.unit`."
    ]


@pytest.mark.parametrize("privacy", [{}, {"unit": "record"}])
def test_a_grouping_alone_makes_no_unit(privacy: dict[str, Any]) -> None:
    raw = changed("privacy", {"epsilon": 1.0, "delta": 1e-5} | privacy)
    (found,) = problems(raw)
    assert found.startswith("privacy.unit='record': expected another word")


def test_systems_that_bound_single_records_are_named() -> None:
    raw = changed("systems/model-sensitivity", {"regularisation": 0.01})
    (found,) = problems(raw)
    assert found.startswith("privacy.unit='patient': expected record with model-sensitivity: it counts and bounds")


def test_delta_is_held_against_units() -> None:
    (found,) = problems(changed("privacy/delta", 1e-3))
    assert found.startswith("privacy.delta=0.001: expected at most 1/n = 0.000625 for n=1600 values of patient_id.")


def test_sources_that_know_no_unit_are_named() -> None:
    raw = changed("data", {"source": "digits", "unit": {"column": "patient_id", "max_records": 50}})
    (found,) = [one for one in problems(raw) if one.startswith("data.unit")]
    assert "no unit: digits does not know whose its records are" in found


def test_measures_of_single_records_are_refused() -> None:
    found = problems(changed("objectives", [{"metric": "accuracy"}, {"metric": "membership_auc"}]))
    assert any("single records" in one for one in found)


def test_planning_refuses_too() -> None:
    """The door of every plan: a spec that was put together by hand passes no earlier one."""
    spec = load_spec(SPEC)
    by_hand = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"unit": "record"})})
    facts = public_facts(spec)
    config = Space.of(by_hand).draw(np.random.default_rng(0))
    refusal = plan_proposal(by_hand, config, facts, {}, SYSTEMS)
    assert "privacy.unit='record'" in refusal.reason
