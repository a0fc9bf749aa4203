"""Two small systems with closed-form plans and a data source: enough to sit every exam of the search."""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import pytest

from dpcore.checks import InvalidValue
from dpcore.events import Gaussian
from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.protocol import Scheduled
from sweeps.examples import load
from sweeps.spec import hyperparameters, parse
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import Proposal, TrialRecord, TrialState
from tests.sweeps.view_sweeps import guarantee, plan
from trainables.data.options import Option
from trainables.system import (
    Config,
    Dataset,
    DatasetSpec,
    Dependence,
    Hyperparameter,
    Metric,
    PrivacyPlan,
    PrivacyTarget,
    Refusal,
    Run,
    RunSettings,
    System,
    Task,
    Traits,
)


class Hill:
    """Accuracy is highest at one point of (rate, clip); the noise grows with steps and falls with epsilon."""

    name = "hill"
    source = "made up"
    hyperparameters: tuple[Hyperparameter, ...] = (
        Hyperparameter(name="rate", kind="float", low=0.0, high=1e3, doc="step size"),
        Hyperparameter(name="clip", kind="float", low=0.0, high=1e3, default=1.0, doc="clip norm"),
        Hyperparameter(name="batch_size", kind="int", low=1, unit="records", default=10, doc="expected batch size"),
        Hyperparameter(name="steps", kind="int", low=1, high=10_000, default=27, doc="number of steps"),
        Hyperparameter(name="model", kind="choice", default="mlp", doc="name of the model or module:function"),
        Hyperparameter(
            name="mode", kind="choice", choices=("plain", "adaptive"), default="plain", doc="kind of update"
        ),
        Hyperparameter(name="noise_multiplier", kind="float", low=1e-3, high=1e6, doc="noise per clip"),
    )
    metrics: tuple[Metric, ...] = tuple(
        Metric(name=name, goal=goal, doc=doc, released="nothing", depends=Dependence.PUBLIC)
        for name, goal, doc in (
            ("accuracy", "maximize", "share of right answers"),
            ("loss", "minimize", "one minus accuracy"),
        )
    )
    solves: Mapping[str, str] = {"noise": "noise_multiplier", "steps": "steps"}
    traits = Traits()
    largest_noise = 1e6

    def plan(
        self, config: Config, facts: DatasetSpec, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """One Gaussian per step; epsilon is sqrt(steps)/noise by decree."""
        full = dict(config)
        if int(full["batch_size"]) > facts.n:
            raise InvalidValue("batch_size", full["batch_size"], f"at most n={facts.n}")
        if target.solve == "noise":
            full["noise_multiplier"] = math.sqrt(int(full["steps"])) / target.epsilon
        elif target.solve == "steps":
            full["steps"] = max(1, math.floor((float(full["noise_multiplier"]) * target.epsilon) ** 2))
        noise, steps = float(full["noise_multiplier"]), int(full["steps"])
        if noise > self.largest_noise:
            return Refusal(violations={"noise": math.log(noise / self.largest_noise)}, reason="too much noise")
        return PrivacyPlan(
            system=self.name,
            config=full,
            solved=(self.solves[target.solve],) if target.solve != "none" else (),
            mechanism=Scheduled(schedule=((Gaussian(noise_multiplier=noise), steps),)),
            description="none",
            guarantee=Guarantee(
                epsilon=math.sqrt(steps) / noise,
                delta=target.delta,
                adjacency=target.adjacency,
                accountant="decree",
                status=Status.PROVED,
                theorem="none",
            ),
            work=float(steps * int(full["batch_size"])),
        )

    def fit(self, runs: Sequence[Run], data: Dataset, execution: RunSettings) -> None:
        """The search never trains."""
        raise NotImplementedError


class Valley(Hill):
    """A second system with knobs of its own."""

    name = "valley"
    hyperparameters = (
        Hyperparameter(name="depth", kind="int", low=1, high=100, default=3, doc="layers"),
        *(one for one in Hill.hyperparameters if one.name not in ("clip", "mode", "model")),
    )
    metrics = Hill.metrics[:1]
    solves: Mapping[str, str] = {"noise": "noise_multiplier"}


class Points:
    """n declared records."""

    name = "points"
    doc = "declared, never drawn"
    options = (Option(name="n", doc="how many there are", default=1000),)

    def facts(self, options: Mapping[str, object]) -> DatasetSpec:
        """`n` is the only option."""
        n = options.get("n", 1000)
        if not isinstance(n, int) or n < 1:
            raise InvalidValue("n", n, "a whole number of at least 1")
        return DatasetSpec(dataset="points", task=Task.CLASSIFICATION, n=n, n_validation=10, features={}, classes=2)

    def inspect(self, options: Mapping[str, object]) -> None:
        """There is no file."""

    def load(self, options: Mapping[str, object]) -> Dataset:
        """The search never reads."""
        raise NotImplementedError


SYSTEMS: dict[str, System] = {"hill": Hill(), "valley": Valley()}
SOURCES = {"points": Points()}

SPEC: dict[str, Any] = {
    "name": "exam",
    "data": {"source": "points"},
    "systems": {"hill": {"rate": {"log_uniform": [0.01, 10]}, "clip": {"uniform": [0.1, 5]}}},
    "privacy": {"epsilon": 1.0, "delta": 1e-5},
    "objectives": [{"metric": "accuracy", "goal": "maximize"}],
    "search": {"sampler": "random", "trials": 20, "seed": 7},
}


PLAN = plan({"system": "hill"}, 1.0, steps=27)


def spec_with(**sections: Any) -> SweepSpec:
    """The exam's spec with whole sections replaced."""
    return loaded({**SPEC, **sections})


def loaded(raw: Any, systems: Mapping[str, System] = SYSTEMS, sources: Mapping[str, Any] = SOURCES) -> SweepSpec:
    """A spec that is read where these systems and sources are all that there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse, "SYSTEMS", systems)
        patch.setattr(hyperparameters, "SYSTEMS", systems)
        patch.setattr(parse, "SOURCES", sources)
        return load(raw)


def finished(spec: SweepSpec, proposal: Proposal, **changes: Any) -> TrialRecord:
    """The proposal as a complete trial: accuracy from its knobs, epsilon as targeted."""
    config = proposal.config
    height = math.exp(-((math.log10(float(config["rate"])) - 0.3) ** 2))
    height *= math.exp(-((float(config.get("clip", 1.0)) - 2.0) ** 2) / 8)
    epsilon = float(config["target_epsilon"])
    fields: dict[str, Any] = {
        "key": f"{spec.name}-{proposal.number}",
        "number": proposal.number,
        "state": TrialState.COMPLETE,
        "config": config,
        "seed": proposal.seed,
        "plan": PLAN,
        "violations": {},
        "metrics": {"accuracy": height * (1 - math.exp(-epsilon)), "loss": 1 - height},
        "guarantee": guarantee(epsilon, delta=spec.privacy.delta),
        "step": 27,
    }
    return TrialRecord(**(fields | changes))


def running(spec: SweepSpec, proposal: Proposal) -> TrialRecord:
    """The proposal as a launched trial."""
    return finished(spec, proposal, state=TrialState.RUNNING, metrics={}, guarantee=None, step=0)


def infeasible(spec: SweepSpec, proposal: Proposal, amount: float) -> TrialRecord:
    """The proposal as a refused one."""
    return finished(
        spec,
        proposal,
        state=TrialState.INFEASIBLE,
        plan=None,
        violations={"noise": amount},
        metrics={},
        guarantee=None,
        step=0,
    )
