"""The JSON schema of a spec: it refuses nothing that loads, and no misspelled knob or option passes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sweeps.examples import example_names
from sweeps.spec.parse import load_spec, read_document
from sweeps.spec.schema import spec_schema
from sweeps.spec.sections import SweepSpec
from tests.sweeps.generated_specs import accepted
from trainables.data import SOURCES

ROOT = Path(__file__).parent.parent.parent
TABLE = list(SOURCES).index("table")
GENERATED, SEED = 100, 15


@cache
def validator() -> jsonschema.Draft202012Validator:
    schema = spec_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@cache
def generated() -> list[Any]:
    return accepted(GENERATED, SEED)


def packaged() -> list[str]:
    """The examples, and the whole specs of README and guide."""
    texts = [(ROOT / "sweeps/examples" / f"{name}.yaml").read_text() for name in example_names()]
    pages = [ROOT / "README.md", *sorted((ROOT / "sweeps/guide").glob("*.md"))]
    blocks = [block for page in pages for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)]
    return texts + [block for block in blocks if "\nobjectives:" in block]


def assert_taken(raw: Any) -> None:
    assert not [f"{list(error.path)}: {error.message[:300]}" for error in validator().iter_errors(raw)]


@pytest.mark.parametrize("text", packaged())
def test_it_takes_what_is_packaged(text):
    assert_taken(read_document(text))
    assert_taken(load_spec(text).canonical())


def test_it_takes_whatever_loads_as_it_was_written_and_as_it_is_recorded():
    for raw, spec in generated():
        assert_taken(raw)
        assert_taken(spec.canonical())
        # A store reads it without the code that it names.
        assert SweepSpec.model_validate_json(json.dumps(spec.canonical())) == spec


def misspelled(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {(f"{key}e" if key == name else key): value for key, value in values.items()}


def test_a_misspelled_knob_or_option_is_refused():
    slips = 0
    for raw, _ in generated():
        for system, knobs in raw["systems"].items():
            for knob in knobs or {}:
                wrong = deepcopy(raw)
                wrong["systems"][system] = misspelled(knobs, knob)
                assert not validator().is_valid(wrong), (system, knob)
                slips += 1
        for option in set(raw["data"]) - {"source"}:
            assert not validator().is_valid(raw | {"data": misspelled(raw["data"], option)}), option
            slips += 1
    assert slips > 500


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("data", "source", "mnost"),
        ("systems", "noisy-sdg", {}),
        ("privacy", "epsilon", "much"),
        ("search", "stratified", "perhaps"),
        ("search", "trials", 2.5),
        ("limits", "wrok", 1),
    ],
)
def test_a_slip_in_a_section_is_refused(section, key, value):
    raw = read_document(packaged()[0])
    assert_taken(raw)
    assert not validator().is_valid(raw | {section: {**raw.get(section, {}), key: value}})
