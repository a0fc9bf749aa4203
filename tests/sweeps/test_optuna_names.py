"""Distributions as Optuna names them are other spellings of ours; steps are kept by every sampler."""

from __future__ import annotations

from typing import Any

import pytest

from sweeps.search import Proposer, samplers
from sweeps.search.sampler_exam import faults
from sweeps.spec import SpecErrors, load_spec
from tests.sweeps.test_search import exam
from tests.sweeps.toys import SOURCES, SYSTEMS, finished, spec_with

SAME = [
    ("rate", {"float": {"low": 0.1, "high": 5}}, {"uniform": [0.1, 5]}),
    ("rate", {"float": {"low": 0.1, "high": "5", "log": True}}, {"log_uniform": [0.1, 5]}),
    ("rate", {"float": {"low": 0, "high": 0.3, "step": 0.1}}, {"uniform": [0, 0.3], "step": 0.1}),
    (
        "rate",
        {"float": {"low": 1, "high": 5, "log": False, "step": None}, "points": 3},
        {"uniform": [1, 5], "points": 3},
    ),
    ("steps", {"int": {"low": 3, "high": 9}}, {"int_uniform": [3, 9]}),
    ("steps", {"int": {"low": 3, "high": 9, "log": True, "step": 1}}, {"int_log_uniform": [3, 9]}),
    ("steps", {"int": {"low": 3, "high": 9, "step": 3}}, {"int_uniform": [3, 9], "step": 3}),
    ("mode", {"categorical": ["plain", "adaptive"]}, {"choice": ["plain", "adaptive"]}),
]
REFUSED = [
    ("rate", {"float": [1, 2]}, "hill.rate.float=", "{low: A, high: B}"),
    ("rate", {"float": {"low": 1}}, "hill.rate.float=", "{low: A, high: B}"),
    ("rate", {"float": {"low": 1, "high": 2, "lgo": True}}, "hill.rate.float.lgo=True", "Known: `high`, `log`"),
    ("rate", {"float": {"low": 1, "high": 2, "log": "yes"}}, "hill.rate.float.log='yes'", "true or false"),
    ("rate", {"float": {"low": 2, "high": 1}}, "hill.rate.uniform=[2, 1]", "low <= high"),
    ("rate", {"flaot": {"low": 2, "high": 1}}, "hill.rate.flaot=", "Did you mean `float`?"),
    ("rate", {"float": {"low": 1, "high": 2}, "uniform": [1, 2]}, "hill.rate=", "exactly one domain"),
    (
        "rate",
        {"float": {"low": 1, "high": 2, "log": True, "step": 0.5}},
        "hill.rate.step=0.5",
        "no `step` beside a log",
    ),
    ("rate", {"uniform": [0, 1], "step": 0.3}, "hill.rate.step=0.3", "whole steps from 0 to 1"),
    ("rate", {"uniform": [0, 1], "step": 0}, "hill.rate.step=0", "above 0"),
    ("rate", {"uniform": [0, 1], "step": True}, "hill.rate.step=True", "above 0"),
    ("rate", {"uniform": [0, 1], "step": 0.5, "points": 3}, "hill.rate.step=0.5", "no `step` beside `points`"),
    ("rate", {"float": {"low": 0, "high": 1}, "step": 0.5}, "hill.rate.step=0.5", "among the keys of `float`"),
    ("steps", {"float": {"low": 1, "high": 2}}, "hill.steps.uniform=", "an integer domain"),
    ("steps", {"int": {"low": 1, "high": 4, "step": 1.5}}, "hill.steps.step=1.5", "a whole number"),
    ("mode", {"categorical": ["plain"], "step": 1}, "hill.mode.step=1", "no `step` beside `choice`"),
    ("mode", {"categorical": ["palin"]}, "hill.mode.choice.0='palin'", "Did you mean `plain`?"),
]


def spec(knob: str, value: object, sampler: str = "random") -> Any:
    return spec_with(systems={"hill": {"rate": 1.0, knob: value}}, search={"sampler": sampler, "trials": 9})


@pytest.mark.parametrize(("knob", "theirs", "ours"), SAME)
def test_two_spellings_are_one_spec(knob, theirs, ours):
    found, meant = spec(knob, theirs), spec(knob, ours)
    assert found == meant
    assert found.digest == meant.digest
    assert found.canonical()["systems"]["hill"][knob] == meant.systems["hill"][knob].to_dict()


@pytest.mark.parametrize(("knob", "value", "where", "expected"), REFUSED)
def test_what_is_wrong_is_named(knob, value, where, expected):
    with pytest.raises(SpecErrors) as refused:
        spec(knob, value)
    assert len(refused.value.errors) == 1
    assert where in str(refused.value)
    assert expected in str(refused.value)


STEPPED = {
    "hill": {
        "rate": {"float": {"low": 0.1, "high": 0.8, "step": 0.1}},
        "steps": {"int": {"low": 3, "high": 18, "step": 5}},
        "clip": {"choice": [1.0, 2.0]},
    }
}
RATES, STEPS = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, {3, 8, 13, 18}


@pytest.mark.parametrize("name", samplers.SAMPLERS)
def test_every_sampler_keeps_steps(name):
    """Exactly the decimals that a person would write, and all of them before long."""
    method = {"resolved": "gp"} if name == "auto" else {}
    made = exam(name, systems=STEPPED, search={"sampler": name, "trials": 64, "seed": 3, **method})
    assert faults(made) == []
    proposer, seen = Proposer(made), []
    for _ in range({"gp": 14, "auto": 14, "grid": 400}.get(name, 64)):
        proposal = proposer.propose()
        if proposal is None:
            break
        seen.append(dict(proposal.config))
        proposer.tell(finished(made, proposal))
    assert {one["rate"] for one in seen} <= RATES
    assert {one["steps"] for one in seen} <= STEPS
    assert len({(one["rate"], one["steps"]) for one in seen}) >= 8
    if name == "grid":
        assert len({(one["rate"], one["steps"], one["clip"]) for one in seen}) == len(RATES) * len(STEPS) * 2
    assert load_spec(made.canonical(), systems=SYSTEMS, sources=SOURCES) == made
