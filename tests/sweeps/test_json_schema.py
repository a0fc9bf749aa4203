"""The JSON schema of a spec: it takes what loads as it is written, and no misspelled knob or option passes it."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dpcore.checks import InvalidValue
from sweeps.examples import example_names, load
from sweeps.spec.domains import Domain
from sweeps.spec.hyperparameters import _KnobReader
from sweeps.spec.parse import read_document
from sweeps.spec.schema import spec_schema
from sweeps.spec.sections import SweepSpec
from tests.trainables.source_cases import CANDIDATES
from trainables.registry import SYSTEMS
from trainables.system import Hyperparameter

ROOT = Path(__file__).parent.parent.parent


@cache
def schema() -> dict[str, Any]:
    found = spec_schema()
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def refusals(raw: Any, part: Any = None) -> list[str]:
    """Why the schema, or a part of it, does not take what is written."""
    validator = jsonschema.Draft202012Validator(schema() if part is None else {**part, "$defs": schema()["$defs"]})
    return [f"{list(error.path)}: {error.message[:300]}" for error in validator.iter_errors(raw)]


def packaged() -> list[str]:
    """The examples, and the whole specs of README and guide."""
    texts = [(ROOT / "sweeps/examples" / f"{name}.yaml").read_text() for name in example_names()]
    pages = [ROOT / "README.md", *sorted((ROOT / "sweeps/guide").glob("*.md"))]
    blocks = [block for page in pages for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)]
    return texts + [block for block in blocks if "\nobjectives:" in block]


@pytest.mark.parametrize("text", packaged())
def test_it_takes_what_is_packaged_as_it_was_written_and_as_it_is_recorded(text):
    recorded = load(text).canonical()
    assert refusals(read_document(text)) == refusals(recorded) == []
    # A store reads it without the code that it names.
    assert SweepSpec.model_validate_json(json.dumps(recorded)) == load(text)


@pytest.mark.parametrize("candidate", CANDIDATES.values(), ids=CANDIDATES)
def test_it_takes_every_option_of_a_source_and_none_that_is_misspelled(candidate):
    data = {"source": candidate.source.name, **candidate.options}
    if any(one.name == "path" for one in candidate.source.options):
        data["path"] = "."
    for written in (data, *(data | {name: value} for name, value in candidate.others.items())):
        assert refusals(written, schema()["$defs"]["Data"]) == []
        for option in written.keys() - {"source"}:
            slip = {f"{key}e" if key == option else key: value for key, value in written.items()}
            assert refusals(slip, schema()["$defs"]["Data"]), option


@pytest.mark.parametrize("system", SYSTEMS)
def test_it_takes_whatever_a_knob_is_read_from_and_no_misspelled_one(system):
    part, read = schema()["properties"]["systems"]["properties"][system], dict[str, list[Any]]()
    for one in SYSTEMS[system].hyperparameters:
        for form in forms(one):
            with suppress(InvalidValue):
                found = _KnobReader(one, None).read(one.name, form)
                read.setdefault(one.name, []).append(form)
                for written in (form, found.to_dict() if isinstance(found, Domain) else found):
                    assert refusals(written, part["properties"][one.name]) == [], one.name
    assert read.keys() == {one.name for one in SYSTEMS[system].hyperparameters}
    needed = {name: read[name][0] for name in part["required"]}
    assert refusals(needed, part) == []
    assert all(refusals({**needed, f"{name}e": values[0]}, part) for name, values in read.items())


def forms(one: Hyperparameter) -> list[Any]:
    """A knob as a person might write it, and often may not."""
    if one.kind == "choice":
        values = list(one.choices) or ["mlp", "linear", "mine.nets:small"]
        return [*values, {"choice": values}, {"categorical": values[:1]}]
    low = one.low if one.low is not None else 1
    high = min(one.high if one.high is not None else low + 3, low + 3)
    some = [low, high, {"choice": [low, high] if low < high else [low]}]
    if one.kind == "int":
        ends, log = [int(low), int(high)], [max(int(low), 1), max(int(high), 1)]
        return [*some, {"int_uniform": ends}, {"int_uniform": ends, "points": 2}, float(high),
                {"int": {"low": ends[0], "high": ends[1], "step": 1}}, {"int_log_uniform": log, "points": None},
                {"int_uniform": ends, "step": ends[1] - ends[0]}]  # fmt: skip
    return [*some, {"uniform": [low, high]}, {"uniform": [low, high], "points": 3},
            {"float": {"low": low, "high": high, "log": low > 0}, "points": 2},
            {"log_uniform": [low, high], "points": 2}]  # fmt: skip
