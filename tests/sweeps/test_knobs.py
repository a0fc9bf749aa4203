"""Knobs: some are there only beside others, some share a value, relations hold, and some are spelled as Optuna does."""

from __future__ import annotations

from itertools import product
from typing import Any

import jsonschema
import numpy as np
import pytest

import sweeps
from sweeps.planning.plan import plan_proposal
from sweeps.search import samplers
from sweeps.search.proposer import faults
from sweeps.search.space import SearchGrid, Space
from sweeps.spec.domains import SAME_AS, Constraint, SameAs
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.schema import spec_schema
from sweeps.store.records import TrialState
from tests.sweeps import specs
from tests.sweeps.fake_workers import NAME, SPEC, FakeSweep, memory_folder
from tests.sweeps.test_requests import launched
from tests.sweeps.test_search import sweep
from tests.sweeps.toys import SOURCES, loaded, spec_with
from trainables.system import PrivacyPlan, Refusal

pytestmark = pytest.mark.usefixtures("toys_known")
MODES = {"choice": ["plain", "adaptive"]}
HILL: dict[str, Any] = {
    "rate": {"log_uniform": [0.1, 10], "points": 3},
    "mode": MODES,
    "clip": {"choice": [1, 2, 3], "when": {"mode": "adaptive"}},
    "steps": {"int_uniform": [3, 5], "when": {"clip": ["2", 3]}},
}
VALLEY: dict[str, Any] = {
    "rate": {"same_as": "hill.rate"},
    "depth": {"int_uniform": [1, 3]},
    "batch_size": {"same_as": "depth"},
}
BOTH: dict[str, Any] = {"systems": {"hill": HILL, "valley": VALLEY}, "privacy": {"epsilon": [1, 2], "delta": 1e-5}}
RELATION = "rate * clip <= 25"


def spec(sampler: str = "random", **changes: Any) -> Any:
    return spec_with(**{**BOTH, "search": {"sampler": sampler, "trials": 40, "seed": 3}, **changes})


def planned(config: dict[str, Any], **changes: Any) -> PrivacyPlan | Refusal:
    made = spec(**changes)
    return plan_proposal(made, config, SOURCES["points"].facts({}), {})


def expected_grid() -> set[tuple[Any, ...]]:
    """Written out by hand, from the words of the spec."""
    points = set()
    for epsilon, rate in product((1.0, 2.0), (0.1, 1.0, 10.0)):
        points |= {("hill", epsilon, rate, "plain"), ("hill", epsilon, rate, "adaptive", 1.0)}
        points |= {("hill", epsilon, rate, "adaptive", clip, s) for clip in (2.0, 3.0) for s in (3, 4, 5)}
        points |= {("valley", epsilon, rate, depth) for depth in (1, 2, 3)}
    return points


def told(config: dict[str, Any]) -> tuple[Any, ...]:
    names = ("system", "target_epsilon", "rate", "mode", "clip", "steps" if config["system"] == "hill" else "depth")
    return tuple(round(config[n], 9) if n == "rate" else config[n] for n in names if n in config)


def test_a_grid_has_each_point_once_whatever_is_absent():
    grid = SearchGrid.of(Space.of(spec("grid")))
    points = [told(grid.point(number)) for number in range(len(grid))]
    assert len(points) == len(set(points)) == 66
    assert set(points) == expected_grid()
    made = spec("grid", constraints=[RELATION])
    within = SearchGrid.of(Space.of(made))
    kept = {told(within.point(number)) for number in range(len(within))}
    broken = {one for one in expected_grid() if one[0] == "hill" and len(one) > 4 and one[2] * one[4] > 25}
    assert kept == expected_grid() - broken
    assert within.left_out == len(broken) == 6


def test_draws_state_what_is_free_and_the_plan_what_is_used():
    space, rng = Space.of(spec()), np.random.default_rng(0)
    seen = set()
    for _ in range(300):
        config = space.draw(rng)
        assert space.misfit(config) == ""
        seen.add(tuple(sorted(config)))
        assert ("clip" in config) == (config.get("mode") == "adaptive")
        assert ("steps" in config) == (config.get("clip") in (2.0, 3.0) or config["system"] == "valley")
    assert len(seen) == 4
    plain = {"system": "hill", "target_epsilon": 1.0, "batch_size": 10, "mode": "plain", "model": "mlp", "rate": 1.0}
    plan = planned(plain)
    assert isinstance(plan, PrivacyPlan)
    assert (plan.config["clip"], plan.config["steps"]) == (1.0, 27), "the declared defaults"
    deep = planned({"system": "valley", "target_epsilon": 1.0, "depth": 2, "rate": 1.0, "steps": 27})
    assert isinstance(deep, PrivacyPlan)
    assert deep.config["batch_size"] == 2, "the value of depth"
    assert (
        space.misfit({**plain, "clip": 2.0})
        == "point.clip=2.0: expected no value: clip is there only when mode is adaptive. Leave it out"
    )
    assert "point.clip is not given" in space.misfit({**plain, "mode": "adaptive"})


RATES, STEPS = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}, {3, 8, 13, 18}
STEPPED = {
    **HILL,
    "rate": {"float": {"low": 0.1, "high": 0.8, "step": 0.1}},
    "steps": {"int": {"low": 3, "high": 18, "step": 5}, "when": {"clip": [2, 3]}},
}


@pytest.mark.parametrize("name", samplers.known())
def test_every_sampler_takes_them(name):
    """Twice the same, the same after a restart, points of the space, in one where most is conditional; and of steps
    exactly the decimals that a person would write."""
    entry = samplers.sampler(name)
    mixes = name != "auto" and (isinstance(entry, samplers.Independent) or entry.mixes_systems)
    search = {"sampler": name, "trials": 40, "seed": 3, **({"resolved": "gp"} if name == "auto" else {})}
    systems = {"hill": STEPPED, **({"valley": VALLEY} if mixes else {})}
    made = spec(search=search, systems=systems, constraints=[RELATION])
    # A proposal of a Gaussian process takes a third of a second, from the eleventh on.
    assert faults(made) == []
    assert loaded(made.canonical()) == made
    if not mixes:
        return
    seen = sweep(made, 40)
    assert sweep(made, 40, rebuild_every=3) == seen
    hills = [one for one in seen if one["system"] == "hill"]
    assert {one["rate"] for one in hills} <= RATES
    assert {one["steps"] for one in hills if "steps" in one} <= STEPS
    assert len({one["rate"] for one in hills}) >= 4


@pytest.mark.parametrize(
    ("text", "values", "off"),
    [
        ("a <= 4", {"a": 4}, 0.0),
        ("a <= 4", {"a": 8}, np.log(2)),
        ("a < 4", {"a": 4}, 1e-9),
        ("a > 2 * b + 1", {"a": 1, "b": 1}, np.log(3)),
        ("-1 <= a - b <= 1", {"a": 5, "b": 3}, np.log(2)),
        ("a - b >= 1", {"a": 1, "b": 3}, 1.5),
        ("a <= 1 and b <= 1", {"a": 2, "b": 2}, 2 * np.log(2)),
        ("a <= 1 or b <= 1", {"a": 4, "b": 2}, np.log(2)),
        ("a <= 1 or b <= 1", {"a": 4, "b": 1}, 0.0),
        ("a != b", {"a": 1, "b": 1}, 1.0),
        ("a == b ** 2", {"a": 9, "b": 3}, 0.0),
        ("1 / a < 1", {"a": 0}, 1.0),
        ("a ** 0.5 < 1", {"a": -1}, 1.0),
        ("a ** b < 1", {"a": 1e300, "b": 9}, 1.0),
    ],
)
def test_a_relation_counts_as_it_is_written(text, values, off):
    assert Constraint.parse(text).violation(values) == pytest.approx(off)


# -- what breaks a relation -------------------------------------------------------------------------------

BROKEN = {
    "system": "hill",
    "target_epsilon": 1.0,
    "batch_size": 10,
    "clip": 3.0,
    "mode": "adaptive",
    "model": "mlp",
    "rate": 10.0,
    "steps": 3,
}


def test_a_proposal_that_breaks_one_is_infeasible_and_one_without_the_knob_is_not():
    refusal = planned(BROKEN, constraints=[RELATION])
    assert isinstance(refusal, Refusal)
    assert refusal.violations == {RELATION: pytest.approx(np.log(30 / 25))}
    assert "rate * clip <= 25 does not hold of clip=3, rate=10" in refusal.reason
    plain = {name: value for name, value in BROKEN.items() if name not in ("clip", "steps")} | {"mode": "plain"}
    for config in ({**BROKEN, "clip": 2.0}, plain):
        assert isinstance(planned(config, constraints=[RELATION]), PrivacyPlan)


def test_a_sweep_of_them_runs_from_yaml_and_says_what_it_left_out():
    """Through controller and store, with noisy-mean; and `check` in words."""
    knobs = {
        "clip": {"choice": [0.25, 0.5, 1.0]},
        "steps": {"choice": [1, 2, 4]},
        "shrinkage": {"choice": [0.5, 1.0], "when": {"steps": [2, 4]}},
        "prior": {"same_as": "clip"},
    }
    change = {
        "systems": {"noisy-mean": knobs},
        "constraints": ["steps * clip <= 2"],
        "search": {"sampler": "grid", "trials": 30, "seed": 3},
    }
    with memory_folder() as folder:
        made = FakeSweep(folder, change=change)
        done = launched(made, 100)
        stored = made.store.trials(NAME)
    assert len(done) == len(stored) == 3 * 1 + 3 * 2 + 2 * 2
    assert {one.state for one in stored} == {TrialState.COMPLETE}
    assert {"shrinkage" in one.config for one in stored if one.config["steps"] == 1} == {False}
    for one in stored:
        assert one.plan is not None
        assert one.plan.config["prior"] == one.config["clip"]
        assert one.plan.config["shrinkage"] == one.config.get("shrinkage", 1.0)
    checked = " ".join(str(sweeps.check({**SPEC, **change}, rehearsal=False)).split())
    assert "13 grid points; 2 besides break a constraint, and are left out" in checked


# -- distributions as Optuna names them are other spellings of ours; steps are kept by every sampler --------

SAME = [
    ("rate", {"float": {"low": 0.1, "high": "5", "log": True}}, {"log_uniform": [0.1, 5]}),
    ("rate", {"float": {"low": 0, "high": 0.3, "step": 0.1}}, {"uniform": [0, 0.3], "step": 0.1}),
    ("steps", {"int": {"low": 3, "high": 9, "log": True, "step": 1}}, {"int_log_uniform": [3, 9]}),
    ("steps", {"int": {"low": 3, "high": 9, "step": 3}}, {"int_uniform": [3, 9], "step": 3}),
    ("mode", {"categorical": ["plain", "adaptive"]}, {"choice": ["plain", "adaptive"]}),
]


def one(knob: str, value: object) -> Any:
    return spec_with(systems={"hill": {"rate": 1.0, knob: value}}, search={"sampler": "random", "trials": 9})


@pytest.mark.parametrize(("knob", "theirs", "ours"), SAME)
def test_two_spellings_are_one_spec(knob, theirs, ours):
    found, meant = one(knob, theirs), one(knob, ours)
    assert found == meant
    assert found.digest == meant.digest
    assert found.canonical()["systems"]["hill"][knob] == meant.systems["hill"][knob].to_dict()


# -- several knobs of one kind, as one mapping -------------------------------------------------------------

PEAK = {"log_uniform": [0.1, 4]}


def rates(learning_rate: object, *constraints: str, **knobs: object) -> dict[str, Any]:
    own = {**specs.LINEAR, "learning_rate": learning_rate, **knobs}
    return specs.digits("rates", trials=2, systems={"noisy-sgd": own}, constraints=list(constraints))


def test_a_mapping_is_knobs_by_their_places():
    written = rates({"peak": PEAK, "schedule": {"choice": ["linear", "cosine"]}, "warmup": 0.1})
    found = load_spec(written)
    flat = rates(PEAK, **{"learning_rate.schedule": {"choice": ["linear", "cosine"]}, "learning_rate.warmup": 0.1})
    assert found == load_spec(flat) == load_spec(found.canonical())
    (branch,) = Space.of(found).branches
    assert set(branch.searched) == {"learning_rate", "learning_rate.schedule"}
    validator = jsonschema.Draft202012Validator(spec_schema())
    for one in (written, flat, found.canonical()):
        validator.validate(one)
    assert load_spec(rates({"peak": PEAK, "schedule": "constant"})).digest == load_spec(rates(PEAK)).digest


def test_they_are_followed_conditions_and_in_relations_by_their_places():
    warmup = {"uniform": [0, 0.5], "when": {"learning_rate.schedule": "linear"}}
    peak = {"peak": PEAK, "schedule": {"choice": ["linear", "constant"]}, "warmup": warmup}
    own, relation = "tests.sweeps.toys:Own", "learning_rate.warmup * learning_rate <= 0.25"
    spec = load_spec(rates(peak, relation, momentum={"same_as": "learning_rate.warmup"}))
    assert load_spec(spec.canonical()) == spec
    assert spec.constraints == (relation,)
    assert str(spec.systems["noisy-sgd"]["momentum"]) == "same as noisy-sgd.learning_rate.warmup"
    assert SameAs.from_dict({SAME_AS: f"{own}.with.width"}) == SameAs(own, "with.width")
    for config in Space.of(spec).middles():
        plan = plan_proposal(spec, config, public_facts(spec), {})
        assert isinstance(plan, PrivacyPlan | Refusal)
