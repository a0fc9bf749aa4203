"""Searches over a surface: ours as a sweep runs it, one trial at a time, and Optuna's own samplers as people take them.

Each yields what it tried, in order: (configuration, seen accuracy), whole trials alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import optuna

from dpcore.guarantee import Guarantee, Status
from sweeps.planning.estimate import resolved
from sweeps.privacy.release import was_published
from sweeps.search.proposer import Proposer
from sweeps.search.space import Space
from sweeps.spec.parse import public_facts
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import TARGET_EPSILON, TrialRecord, TrialState

optuna.logging.set_verbosity(optuna.logging.ERROR)

Config = Mapping[str, Any]
Trials = Iterator[tuple[Config, float]]
Search = Callable[[SweepSpec, "Field", int, int], Trials]
"""(spec, surface, trials, seed)"""
RUNGS = 3


class Field(Protocol):
    """What is searched: see `tests.benchmarks.surfaces.surface`."""

    def scores(self, configs: list[Config], rung: int = -1) -> Any: ...
    def seen(self, score: float, rng: np.random.Generator) -> float: ...


def ours(spec: SweepSpec, field: Field, trials: int, seed: int) -> Trials:
    """The sampler of `spec`."""
    spec = spec.model_copy(update={"search": spec.search.model_copy(update={"seed": seed, "trials": trials})})
    spec = resolved(spec, public_facts(spec))
    proposer, rng = Proposer(spec), np.random.default_rng(seed)
    for _ in range(trials):
        proposal = proposer.propose()
        assert proposal is not None
        value = field.seen(float(field.scores([proposal.config])[0]), rng)
        claim = Guarantee(
            epsilon=float(proposal.config[TARGET_EPSILON]),
            delta=spec.privacy.delta,
            adjacency=spec.privacy.adjacency,
            accountant="none",
            status=Status.NO_CLAIM,
            theorem="recorded",
        )
        record = TrialRecord.of(spec.name, proposal, TrialState.COMPLETE, guarantee=claim, step=1)
        proposer.tell(was_published(replace(record, metrics={"accuracy": value})))
        yield proposal.config, value


def _suggested(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """A configuration by Optuna's own words for the same domains."""
    (branch,) = space.branches
    knobs: dict[str, Any] = {}
    for name, domain in branch.searched.items():
        if domain.kind == "choice":
            knobs[name] = trial.suggest_categorical(name, domain.values)
        elif domain.integer:
            knobs[name] = trial.suggest_int(name, int(domain.low), int(domain.high), log=domain.log)
        else:
            knobs[name] = trial.suggest_float(name, domain.low, domain.high, log=domain.log)
    several = len(space.epsilons) > 1
    epsilon = trial.suggest_categorical(TARGET_EPSILON, space.epsilons) if several else space.epsilons[0]
    return space.config(branch, epsilon, knobs)


def stock(build: Callable[[int], optuna.samplers.BaseSampler]) -> Search:
    """A sampler of Optuna, with accuracy alone or, of several budgets, with epsilon as a second objective."""

    def search(spec: SweepSpec, field: Field, trials: int, seed: int) -> Trials:
        space, rng = Space.of(spec), np.random.default_rng(seed)
        several = len(space.epsilons) > 1
        study = optuna.create_study(
            directions=["maximize", "minimize"] if several else ["maximize"], sampler=build(seed)
        )
        for _ in range(trials):
            trial = study.ask()
            config = _suggested(trial, space)
            value = field.seen(float(field.scores([config])[0]), rng)
            study.tell(trial, [value, config[TARGET_EPSILON]] if several else value)
            yield config, value

    return search


def asha(spec: SweepSpec, field: Field, trials: int, seed: int) -> Trials:
    """Optuna's TPE with asynchronous successive halving, for as many steps as `trials` whole trials have.

    A trial's steps are cut into three rungs, as recorded: 1/9, 1/3 and all of them.
    """
    space, rng, spent = Space.of(spec), np.random.default_rng(seed), 0.0
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=seed),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3),
    )
    while spent < trials:
        trial = study.ask()
        config, value, before = _suggested(trial, space), math.nan, 0.0
        for rung in range(RUNGS):
            share = 3.0 ** (rung + 1 - RUNGS)
            spent, before = spent + share - before, share
            value = field.seen(float(field.scores([config], rung)[0]), rng)
            # Optuna counts resources from its least one: 1, 3, 9 ninths of the steps.
            trial.report(value, 3**rung)
            if rung < RUNGS - 1 and trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            study.tell(trial, value)
            yield config, value


STOCK: Mapping[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "Optuna TPE": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "Optuna GP": lambda seed: optuna.samplers.GPSampler(seed=seed, warn_independent_sampling=False),
    "Optuna NSGA-II": lambda seed: optuna.samplers.NSGAIISampler(seed=seed, population_size=10),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}
