"""What a spec means: two spellings of one sweep are one sweep, and a change of the meaning is another one."""

from __future__ import annotations

import json
import pickle

import pytest
from pydantic import ValidationError

from sweeps.spec import diff
from tests.sweeps.toy_specs import changed, load
from tests.sweeps.toys import SPEC


@pytest.mark.parametrize("path", ["data/records_are_public", "privacy/allow_raw_measures"])
def test_the_reasons_for_raw_measures_are_part_of_the_meaning_and_no_option_of_the_source(path):
    reason = "a benchmark that anybody may download"
    spec = load(changed(path, reason))
    assert reason in json.dumps(spec.meaning())
    assert spec.digest != load(SPEC).digest
    assert spec.data.options() == load(SPEC).data.options()
    assert load(spec.canonical()) == spec


def test_canonical_form_loads_to_the_same_spec() -> None:
    for path, value in [
        ("systems/hill/clip", {"uniform": [1, 2], "points": 3}),
        ("early_stopping", {"method": "asha"}),
    ]:
        spec = load(changed(path, value))
        again = load(json.loads(json.dumps(spec.canonical(), sort_keys=True)))
        assert again == spec
        assert again.digest == spec.digest
        assert pickle.loads(pickle.dumps(spec)) == spec
    assert load(SPEC).objectives[0].goal == "maximize"
    with pytest.raises(ValidationError):
        load(SPEC).name = "other"  # type: ignore[misc]


def test_digest_is_of_the_meaning() -> None:
    spec = load(SPEC)
    same = [
        changed("name", "other"),
        changed("tracking/uri", "http://localhost:5000"),
        changed("store", "sqlite:///x.db"),
        changed("resources/cpus", 2),
        changed("execution/threads", 2),
        changed("systems/hill/steps", 27),  # the default, spelled out
        changed("objectives/0", {"metric": "accuracy"}),
        dict(reversed(SPEC.items())),
    ]
    for raw in same:
        assert load(raw).digest == spec.digest
    other = [
        changed("search/seed", 8),
        changed("search/trials", 21),
        changed("systems/hill/steps", 28),
        changed("systems/hill/clip", {"uniform": [0.1, 6]}),
        changed("privacy/delta", 2e-5),
        changed("privacy/noise_source", "secure"),
        changed("data/n", 1001),
        changed("early_stopping", {"method": "asha"}),
        changed("limits/work", 100),
    ]
    assert len({spec.digest, *(load(raw).digest for raw in other)}) == len(other) + 1


def test_diff_names_every_change_and_whether_it_matters() -> None:
    old = load(SPEC)
    raw = changed("systems/hill/clip", {"uniform": [0.1, 6]})
    raw |= {"name": "other", "resources": {"cpus": 2}}
    changes = diff(old, load(raw))
    assert {(change.path, change.meaning) for change in changes} == {
        ("name", False),
        ("resources.cpus", False),
        ("systems.hill.clip.uniform", True),
    }
    assert "systems.hill.clip.uniform: [0.1, 5.0] -> [0.1, 6.0]" in str(changes)
    assert not diff(old, old)


def test_user_modules_are_found_in_text_knobs() -> None:
    spec = load(changed("systems/hill/model", {"choice": ["mlp", "mine.nets:small", "mine.nets:large"]}))
    assert spec.user_modules() == ("mine.nets",)
    assert load(SPEC).user_modules() == ()
