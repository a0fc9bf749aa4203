"""Own data demand an answer: whose are the validation records? What it means, and who cannot keep them private."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpcore.checks import InvalidValue
from trainables.data import SOURCES
from trainables.system import PublicFacts

TABLE = SOURCES["table"]
HASHED: dict[str, Any] = {"share": 0.25, "id": "id"}
FILE: dict[str, Any] = {"path": "more.parquet", "n": 50}


def facts(validation: dict[str, Any] | None, **changes: Any) -> PublicFacts:
    options = {
        "path": "all.parquet",
        "n": 200,
        "label": "rich",
        "classes": 2,
        "columns": {"age": {"low": 0, "high": 9}},
    }
    return TABLE.facts(options | changes | ({} if validation is None else {"validation": validation}))


@pytest.mark.parametrize("split", [HASHED, FILE])
@pytest.mark.parametrize("records", [{}, {"records": None}, {"records": "secret"}, {"records": True}])
def test_whose_records_they_are_has_to_be_said(split, records):
    with pytest.raises(InvalidValue) as raised:
        facts({**split, **records})
    error = raised.value
    assert error.name == "data.validation.records"
    assert "no claim covers" in error.remedy
    assert "noised histogram" in error.remedy


def test_public_records_are_public_and_no_records_ask_for_nothing():
    assert facts(None).private_validation is None
    assert facts(None).n_validation == 0
    for split in (HASHED, FILE):
        assert facts({**split, "records": "public"}).private_validation is None


def test_a_hash_of_an_id_parts_the_records_and_the_claim_says_what_it_rests_on():
    found = facts({**HASHED, "records": "private"}).private_validation
    assert found is not None
    assert "id" in found.assumption
    assert found.budget_share is None
    others = [
        facts({**HASHED, "records": "private", **change}).private_validation
        for change in ({"key": "other"}, {"share": 0.5}, {"id": "name"})
    ]
    assert len({found.parts, *(one.parts for one in others)}) == 4
    assert facts({**HASHED, "records": "private"}, path="b.parquet").private_validation.parts != found.parts


def test_another_file_parts_the_records_only_where_that_is_declared():
    assert facts({**FILE, "records": "private"}).private_validation.parts == ""
    assert facts({**FILE, "records": "private", "disjoint": False}).private_validation.parts == ""
    declared = facts({**FILE, "records": "private", "disjoint": True}).private_validation
    assert "more.parquet" in declared.parts
    assert "declared" in declared.assumption


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({**HASHED, "records": "private", "disjoint": True}, "disjoint"),
        ({**FILE, "records": "private", "disjoint": "yes"}, "disjoint"),
        ({"path": "all.parquet", "n": 50, "records": "private", "disjoint": True}, "disjoint"),
        ({"path": "./more/../all.parquet", "n": 50, "records": "private", "disjoint": True}, "disjoint"),
        ({"path": "all.parquet/part-1.parquet", "n": 50, "records": "private", "disjoint": True}, "disjoint"),
        ({"path": "all.parquet", "n": 50, "records": "public"}, "records"),
        ({"path": "all.parquet/part-1.parquet", "n": 50, "records": "public"}, "records"),
        ({**HASHED, "records": "private", "budget_share": 0}, "budget_share"),
        ({**HASHED, "records": "private", "budget_share": True}, "budget_share"),
        ({**HASHED, "records": "private", "budget_share": 1.5}, "budget_share"),
        ({**HASHED, "records": "private", "bins": "none"}, "bins"),
        ({**HASHED, "records": "public", "bins": "loss"}, "bins"),
        ({**HASHED, "records": "public", "budget_share": 0.5}, "budget_share"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(wrong, path):
    with pytest.raises(InvalidValue) as raised:
        facts(wrong)
    assert raised.value.name == f"data.validation.{path}"


@pytest.mark.parametrize("source", ["digits", "uniform"])
def test_a_benchmark_is_public_without_being_asked(source):
    assert SOURCES[source].facts({}).private_validation is None


def test_sources_over_others_keep_private_records_private_or_refuse(tmp_path: Path):
    scans = {"columns": {"scan": {"low": 0, "high": 9, "shape": [8, 8]}}, "path": str(tmp_path)}
    options = {"n": 200, "label": "rich", "classes": 2, "of": "table", "validation": {**HASHED, "records": "private"}}
    found = SOURCES["frozen"].facts(options | scans | {"filters": 4, "patch": 3})
    assert found.private_validation is not None
    with pytest.raises(InvalidValue, match=r"public with data\.source: projected"):
        SOURCES["projected"].facts(options | scans | {"dimension": 1})
    # Its own option `validation` is a number: whose records those are could not be said.
    with pytest.raises(InvalidValue, match=r"data\.of='table'"):
        SOURCES["pooled"].facts(options | scans | {"train": 100, "validation": 50})
