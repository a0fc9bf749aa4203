"""The JSON schema of a spec: it refuses nothing that loads, and no misspelled knob or option passes it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sweeps.examples import example_names, load
from sweeps.search import samplers
from sweeps.spec.parse import load_spec, read_document
from sweeps.spec.problems import SpecErrors
from sweeps.spec.schema import spec_schema
from sweeps.spec.sections import SweepSpec
from tests.trainables.source_cases import CANDIDATES
from trainables.registry import SYSTEMS
from trainables.system import Hyperparameter, System

ROOT = Path(__file__).parent.parent.parent
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
    assert_taken(load(text).canonical())


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


# Specs drawn by a seed over every system, data source and section: what a person might write, and often may not.


TRIES = 20
"""Drawn for each that is wanted: sections that do not fit each other are drawn again."""


def accepted(count: int, seed: int) -> list[tuple[dict[str, Any], SweepSpec]]:
    """So many specs as they were written, each with what `load_spec` makes of it."""
    rng, found = random.Random(seed), []
    for turn in range(count * TRIES):
        raw = drawn(rng, turn)
        with suppress(SpecErrors):
            found.append((raw, load_spec(raw)))
        if len(found) == count:
            return found
    raise AssertionError(f"{len(found)} of {count} were accepted")


def drawn(rng: random.Random, turn: int) -> dict[str, Any]:
    """One spec; `turn` goes through systems and sources, so that each is met."""
    names, candidates = list(SYSTEMS), list(CANDIDATES.values())
    chosen = sorted({names[turn % len(names)], *rng.sample(names, rng.choice([0, 0, 1, 2]))})
    solve = rng.choice(["noise", "noise", "steps", "none"])
    candidate = candidates[turn % len(candidates)]
    data = {"source": candidate.source.name, **candidate.options}
    if any(one.name == "path" for one in candidate.source.options) or "of" in data:
        data["path"] = "." if data.get("of") != "digits" else None
    data |= {name: one for name, one in candidate.others.items() if rng.random() < 0.3}
    first = SYSTEMS[chosen[0]]
    raw: dict[str, Any] = {
        "name": rng.choice(["a", "First-1", "x" * 100]),
        "data": {name: one for name, one in data.items() if one is not None},
        "systems": {name: _knobs(rng, SYSTEMS[name], solve) for name in chosen},
        "privacy": {
            "epsilon": rng.choice([1, 0.5, "3", [1, 2.5], ["1e1", 2], [4]]),
            "delta": rng.choice([1e-9, "1e-10"]),
            "solve": solve,
            "adjacency": rng.choice(["add-remove", "replace-one"]),
            "noise_source": rng.choice(["pseudorandom", "secure"]),
            "allow_unprotected": "for comparison with others",
            "allow_raw_measures": rng.choice([None, None, "records were published"]),
        },
        "objectives": [{"metric": one} for one in rng.sample([m.name for m in first.metrics] + ["epsilon"], 1)],
        "search": _search(rng),
    }
    for name, values in _OPTIONAL.items():
        if rng.random() < 0.4:
            raw[name] = rng.choice([None, *values])
    return raw


_OPTIONAL: dict[str, list[Any]] = {
    "early_stopping": [{"method": "asha"}, {"method": "asha", "reduction": "4", "rungs": 5}],
    "limits": [{}, {"work": 1e9, "noise_multiplier": None}, {"stall_seconds": "3600"}],
    "resources": [{"cpus": 2, "gpus": 0.25}, {"workers": 1, "cpus_per_worker": 1.0}, {"concurrency": "3"}],
    "execution": [{"retries": 0, "device": "cpu"}, {"precision": "float32", "microbatch": None, "threads": 2.0}],
    "tracking": [{"uri": None}, {"uri": "http://127.0.0.1:5000"}],
    "front": [{"reference": {"epsilon": 9}}, {"reference": {"epsilon": {"value": "9", "derived": "no"}}}],
    "store": ["sqlite:///a.db"],
}


def _search(rng: random.Random) -> dict[str, Any]:
    sampler = rng.choice(list(samplers.SAMPLERS))
    search: dict[str, Any] = {"trials": rng.choice([4, "30"]), "sampler": sampler}
    other = {"repeats": 2} if samplers.walks_grid(sampler) else {"stratified": rng.choice(["yes", False, 1, "True"])}
    return search | {name: value for name, value in {"seed": 2**40, **other}.items() if rng.random() < 0.4}


def _knobs(rng: random.Random, system: System, solve: str) -> dict[str, Any] | None:
    solved = system.solves.get(solve) if solve != "none" else None
    knobs = {
        one.name: _knob(rng, one)
        for one in system.hyperparameters
        if one.name != solved and (one.default is None or rng.random() < 0.5)
    }
    return knobs or rng.choice([None, {}])


def _knob(rng: random.Random, one: Hyperparameter) -> Any:
    if one.kind == "choice":
        values = list(one.choices) or ["mlp", "linear", "mine.nets:small"]
        return rng.choice([rng.choice(values), {"choice": values}, {"categorical": values[:1]}])
    low = one.low if one.low is not None else 1
    high = min(one.high if one.high is not None else low + 3, low + 3)
    if one.kind == "int":
        low, high = int(low), int(high)
        forms = [{"int_uniform": [low, high]}, {"int_uniform": [low, str(high)], "points": 2}, float(high)]
        forms += [{"int": {"low": low, "high": high, "step": 1}}, {"int_uniform": [low, high], "step": str(high - low)}]
        forms += [{"int_log_uniform": [max(low, 1), max(high, 1)], "points": None}] if high >= 1 else []
    else:
        forms = [{"uniform": [low, high], "points": 3}, {"uniform": [low, high]}]
        forms += [{"float": {"low": low, "high": high, "log": low > 0}, "points": 2}]
        forms += [{"log_uniform": [low, f"{high:.17g}"], "points": 2}] if low > 0 else []
    return rng.choice([low, high, str(high), {"choice": [low, high] if low < high else [low]}, *forms])
