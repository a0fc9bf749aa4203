"""Optuna's one door: every sampler that learns, over a study that lives in memory only.

Why not simply `study.ask` with a stock sampler:

- A sampler object remembers (random state, inferred space, kernel parameters), so its proposals depend on what
  the process has lived through. Here a fresh sampler, seeded by (sweep seed, number), serves one proposal.
- The space is known, so it is given instead of inferred from the trials: TPE's `group=True` infers an order that
  depends on which trial finished first, and samples the knobs of systems that were not chosen; a study that was
  rebuilt lacks those, and proposes something else. Here a system is drawn first, then its knobs jointly.
- An infeasible point told as failed teaches nothing: it is told COMPLETE with its violation as a constraint.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, create_trial

from dpcore.checks import InvalidValue
from dpcore.guarantee import delta_text
from sweeps.privacy.release import Published
from sweeps.search.asha import objective_values
from sweeps.search.samplers import AUTO, METHODS, Learning, Turns, one_of, sampler, seed_of_point, widened
from sweeps.search.space import Branch, Space
from sweeps.spec.domains import Domain
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import SYSTEM, TARGET_EPSILON, Extension, TrialState
from trainables.system import Scalar

optuna.logging.set_verbosity(optuna.logging.WARNING)

CONSTRAINT = "infeasible"


class Learner:
    """A sampler that learns from all trials that it is told of; where systems take turns, for each of them by itself.

    Of systems that compete in one study the leading one gets nearly all trials, and the best of the others is then the
    best of one or two draws: whoever compares systems gives each a study of its own.

    spec        that the sweep began with
    warm        trials of an earlier sweep, of which those count that fit (`warm_start`)
    extensions  of the sweep
    """

    def __init__(self, spec: SweepSpec, warm: Iterable[Published], extensions: Sequence[Extension]) -> None:
        entry = sampler(spec.search.sampler)
        budgets_in_turn = entry.name == AUTO
        if budgets_in_turn:
            if spec.search.resolved is None:
                expected = f"a method, one of {one_of(METHODS)}, which is chosen when a sweep begins"
                raise InvalidValue("search.resolved", None, expected)
            entry = sampler(spec.search.resolved)
        assert isinstance(entry, Learning)
        stratified = spec.search.stratified
        self._turns = Turns.of(spec, extensions) if stratified or budgets_in_turn else None
        spec = widened(spec, extensions)
        space = Space.of(spec)
        found, _ = fitting(spec, space, warm)
        trials = ceil(spec.search.trials / len(space.branches)) if stratified else spec.search.trials
        parts: dict[str | None, Space] = {None: space}
        if stratified:
            parts = {branch.system: replace(space, branches=(branch,)) for branch in space.branches}
        self._studies = {
            system: _Study(entry, spec, part, trials, [one for one in found if system in (None, one.system)])
            for system, part in parts.items()
        }

    def rebuild(self, records: Iterable[Published]) -> None:
        """Know these records and no others."""
        known = list(records)
        for system, study in self._studies.items():
            study.rebuild([record for record in known if system in (None, record.system)])

    def tell(self, record: Published) -> None:
        """Know a trial's latest state."""
        self._studies[record.system if None not in self._studies else None].tell(record)

    def point(self, number: int, index: int) -> dict[str, Scalar]:
        """The configuration of trial `number`, the sampler's own proposal `index`, given what was told so far."""
        system, epsilon = (None, None) if self._turns is None else self._turns.at(index)
        return self._studies[system].point(number, epsilon)


class _Study:
    """What one Optuna study knows, of all systems of a space together."""

    def __init__(self, entry: Learning, spec: SweepSpec, space: Space, trials: int, warm: Sequence[Published]) -> None:
        self._entry, self._spec, self._trials, self._warm = entry, spec, trials, warm
        self._codec = _Codec(space)
        self._records: dict[int, Published] = {}
        self._study: optuna.Study | None = None
        self._asked: dict[int, optuna.Trial] = {}
        self._taught: dict[int, Lesson | None] = {}
        self._start = 0

    def rebuild(self, records: Iterable[Published]) -> None:
        """Know these records and no others."""
        self._records = {record.number: record for record in records}
        self._study = None

    def tell(self, record: Published) -> None:
        """Know a trial's latest state."""
        self._records[record.number] = record
        if self._study is None:
            return
        now = lesson(self._spec, record)
        trial = self._asked.get(record.number)
        if record.number in self._taught and self._taught[record.number] == now:
            return
        if trial is None or self._taught[record.number] is not None:
            # Optuna cannot reopen a finished trial, nor constrain one that it did not ask for: start over.
            self._study = None
            return
        assert now is not None
        self._taught[record.number] = now
        del self._asked[record.number]
        trial.set_constraint(CONSTRAINT, now.violation)
        if now.paused_at is None:
            self._study.tell(trial, now.values)
        else:
            trial.report(now.values[0], now.paused_at)
            self._study.tell(trial, state=optuna.trial.TrialState.PRUNED)

    def point(self, number: int, epsilon: float | None) -> dict[str, Scalar]:
        """The configuration of trial `number`, given what was told so far; at the budget `epsilon` if given."""
        study, seed = self._study_for(number), seed_of_point(self._spec.search.seed, number)
        given = {} if epsilon is None else self._codec.encode_budget(epsilon)
        study.sampler = _Staged(self._entry.build(seed, self._trials), self._codec, given)
        trial = study.ask(self._codec.root)
        branch = self._codec.branch_of(trial.params)
        for name, distribution in self._codec.knobs[branch.system].items():
            _take(trial, name, distribution)
        self._asked[number], self._taught[number] = trial, None
        return self._codec.decode(branch, trial.params)

    def _study_for(self, number: int) -> optuna.Study:
        start = window_start(number, self._entry.window)
        if self._study is None or start != self._start or self._entry.reads_penalties:
            self._start = start
            self._study = self._fresh_study(number)
        return self._study

    def _fresh_study(self, number: int) -> optuna.Study:
        directions = [str(objective.goal) for objective in self._spec.objectives]
        study = optuna.create_study(directions=directions)
        known = [record for _, record in sorted(self._records.items()) if record.number < number]
        seen = kept(self._spec, [record for record in known if record.number < self._start])
        seen += [record for record in known if record.number >= self._start]
        lessons = [lesson(self._spec, record) for record in (*self._warm, *seen)]
        penalty = self._penalty(lessons)
        study.add_trials(
            self._frozen(record, one, penalty) for record, one in zip((*self._warm, *seen), lessons, strict=True)
        )
        self._asked = {}
        self._taught = {record.number: one for record, one in zip(seen, lessons[len(self._warm) :], strict=True)}
        return study

    def _penalty(self, lessons: Sequence[Lesson | None]) -> tuple[float, ...]:
        """Finite values for infeasible trials: the worst seen, where the sampler looks at them."""
        values = [one.values for one in lessons if one is not None and one.violation <= 0]
        if not values or not self._entry.reads_penalties:
            return (0.0,) * len(self._spec.objectives)
        columns = zip(*values, strict=True)
        return tuple(
            max(column) if objective.goal == "minimize" else min(column)
            for objective, column in zip(self._spec.objectives, columns, strict=True)
        )

    def _frozen(self, record: Published, now: Lesson | None, penalty: tuple[float, ...]) -> FrozenTrial:
        params, distributions = self._codec.encode(record.config)
        placed: dict[str, Any] = {"params": params, "distributions": distributions}
        if now is None:
            return create_trial(state=optuna.trial.TrialState.RUNNING, **placed)
        placed["constraints"] = {CONSTRAINT: now.violation}
        if now.paused_at is not None:
            (value,) = now.values
            reported = {now.paused_at: value}
            return create_trial(
                state=optuna.trial.TrialState.PRUNED, value=value, intermediate_values=reported, **placed
            )
        return create_trial(values=now.values if now.violation <= 0 else penalty, **placed)


class _Codec:
    """Between our configurations and Optuna's parameters: `<system>.<knob>`, choices as their index."""

    def __init__(self, space: Space) -> None:
        self.space = space
        names = [branch.system for branch in space.branches]
        self.root: dict[str, BaseDistribution] = {}
        if len(names) > 1:
            self.root[SYSTEM] = CategoricalDistribution(range(len(names)))
        self._domains: dict[str, dict[str, Domain]] = {}
        self.knobs: dict[str, dict[str, BaseDistribution]] = {}
        for branch in space.branches:
            domains = {TARGET_EPSILON: Domain(kind="choice", values=space.epsilons), **branch.searched}
            # One value is nothing to model: it would only blur the densities of the others.
            self._domains[branch.system] = {
                k: d for k, d in domains.items() if len(set(d.values)) > 1 or d.low < d.high
            }
            self.knobs[branch.system] = {
                f"{branch.system}.{name}": _distribution(domain)
                for name, domain in self._domains[branch.system].items()
            }
        self.everything = self.root | {name: d for knobs in self.knobs.values() for name, d in knobs.items()}

    def branch_of(self, params: Mapping[str, Any]) -> Branch:
        """The branch that Optuna's parameters are in."""
        return self.space.branches[int(params.get(SYSTEM, 0))]

    def decode(self, branch: Branch, params: Mapping[str, Any]) -> dict[str, Scalar]:
        """Optuna's parameters as a configuration."""
        knobs = {name: domain.draw(0.0) for name, domain in branch.searched.items()}
        epsilon = self.space.epsilons[0]
        for name, domain in self._domains[branch.system].items():
            value = params[f"{branch.system}.{name}"]
            plain = domain.values[int(value)] if domain.kind == "choice" else domain.nearest(value)
            if name == TARGET_EPSILON:
                epsilon = float(plain)
            else:
                knobs[name] = plain
        return self.space.config(branch, epsilon, knobs)

    def encode_budget(self, epsilon: float) -> dict[str, Any]:
        """A target budget as Optuna's parameter in every branch; {} where there is one budget only."""
        return {
            f"{system}.{TARGET_EPSILON}": domains[TARGET_EPSILON].values.index(epsilon)
            for system, domains in self._domains.items()
            if TARGET_EPSILON in domains
        }

    def encode(self, config: Mapping[str, Scalar]) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
        """A configuration as Optuna's parameters and their distributions; knobs that are not there in their middle."""
        branch = self.space.branch(config[SYSTEM])
        params: dict[str, Any] = {SYSTEM: self.space.branches.index(branch)} if self.root else {}
        values = {TARGET_EPSILON: config[TARGET_EPSILON], **branch.placed(config)}
        for name, domain in self._domains[branch.system].items():
            value = values[name]
            params[f"{branch.system}.{name}"] = domain.values.index(value) if domain.kind == "choice" else value
        return params, self.root | self.knobs[branch.system]

    def placed(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Optuna's parameters, knobs that are not there in their middle: whatever was drawn for them says nothing, and
        a rebuilt study could not know it."""
        branch = self.branch_of(params)
        config = self.decode(branch, params)
        absent = {f"{branch.system}.{name}" for name in branch.searched if name not in config}
        middle, _ = self.encode(config)
        return {name: middle[name] if name in absent else value for name, value in params.items()}


def _distribution(domain: Domain) -> BaseDistribution:
    if domain.kind == "choice":
        return CategoricalDistribution(range(len(domain.values)))
    if domain.integer:
        return IntDistribution(int(domain.low), int(domain.high), log=domain.log, step=int(domain.step or 1))
    return FloatDistribution(domain.low, domain.high, log=domain.log, step=domain.step)


def _take(trial: optuna.Trial, name: str, distribution: BaseDistribution) -> None:
    match distribution:
        case CategoricalDistribution():
            trial.suggest_categorical(name, distribution.choices)
        case IntDistribution():
            trial.suggest_int(name, distribution.low, distribution.high, log=distribution.log, step=distribution.step)
        case FloatDistribution():
            trial.suggest_float(name, distribution.low, distribution.high, log=distribution.log, step=distribution.step)


class _Staged(BaseSampler):
    """Draws the system first, then the knobs of that system jointly, each stage by the inner sampler.

    given  parameters that are settled already
    """

    def __init__(self, inner: BaseSampler, codec: _Codec, given: Mapping[str, Any]) -> None:
        self._inner, self._codec, self._given = inner, codec, given

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._codec.everything

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        params = self._stage(study, trial, self._codec.root)
        knobs = self._codec.knobs[self._codec.branch_of(params).system]
        return self._codec.placed(params | self._stage(study, trial, knobs))

    def _stage(self, study: optuna.Study, trial: FrozenTrial, space: dict[str, BaseDistribution]) -> dict[str, Any]:
        settled = {name: value for name, value in self._given.items() if name in space}
        free = {name: distribution for name, distribution in space.items() if name not in settled}
        if not free:
            return settled
        params = self._inner.sample_relative(study, trial, free)
        for name, distribution in free.items():
            if name not in params:
                params[name] = self._inner.sample_independent(study, trial, name, distribution)
        return params | settled

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        return self._inner.sample_independent(study, trial, param_name, param_distribution)


# The trials as a sampler sees them: the lesson of each one, and which of them are looked at.

FEASIBLE = -1.0
"""Constraint value of a feasible trial. One unit: violations are logarithms of ratios, so a factor e inside."""
FAILED = 1.0
"""Constraint value of a trial that failed or returned no finite objective: its neighbourhood is worth avoiding."""
LARGEST_VIOLATION = 1e6

WINDOW_STEP = 500
KEPT = 100
"""How many of the best trials before its window a sampler looks at."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a trial teaches a sampler.

    values      one per objective; for an infeasible trial they mean nothing
    violation   above 0: infeasible
    paused_at   the step of a trial that early stopping has paused there; None: finished, or as good as that: of several
                objectives a paused trial teaches what it has reported, until it reports more
    """

    values: tuple[float, ...]
    violation: float
    paused_at: int | None = None


def lesson(spec: SweepSpec, record: Published) -> Lesson | None:
    """The lesson of a trial; None while there is none yet."""
    nothing = (0.0,) * len(spec.objectives)
    amounts = [amount for amount in record.violations.values() if not amount <= 0]
    if amounts:
        total = sum(amounts)
        return Lesson(nothing, min(total, LARGEST_VIOLATION) if math.isfinite(total) else LARGEST_VIOLATION)
    if record.state in (TrialState.FAILED, TrialState.INFEASIBLE):
        return Lesson(nothing, FAILED)
    values = objective_values(spec, record) if record.step > 0 or record.state is TrialState.COMPLETE else None
    stops_early = spec.early_stopping is not None and record.step < record.planned_steps
    if stops_early and record.metrics and values is not None:
        # Optuna has no paused trials of several objectives. What such a trial has reported is a point of the front.
        return Lesson(values, FEASIBLE, paused_at=record.step if len(values) == 1 else None)
    if record.state is not TrialState.COMPLETE:
        return None
    return Lesson(nothing, FAILED) if values is None else Lesson(values, FEASIBLE)


def window_start(number: int, window: int) -> int:
    """First trial number that proposal `number` looks at: at least `window` trials back, moved in whole steps.

    A function of the number alone, so that a rebuilt study holds the same trials as one that grew.
    """
    return max(0, (number - window) // WINDOW_STEP * WINDOW_STEP)


def kept(spec: SweepSpec, earlier: Sequence[Published]) -> list[Published]:
    """The best feasible trials before the window: by value, or the non-dominated ones."""
    lessons = [(record, lesson(spec, record)) for record in earlier]
    good = [(record, one.values) for record, one in lessons if one is not None and one.violation <= 0]
    good = [(record, values) for record, values in good if record.state is TrialState.COMPLETE]
    if not good:
        return []
    signs = [1.0 if objective.goal == "minimize" else -1.0 for objective in spec.objectives]
    costs = np.array([values for _, values in good]) * signs
    if len(signs) == 1:
        chosen = np.argsort(costs[:, 0], kind="stable")[:KEPT]
    else:
        import moocore

        # The latest of the front: a long front would otherwise outgrow the window.
        chosen = np.flatnonzero(moocore.is_nondominated(costs, keep_weakly=False))[-KEPT:]
    return [good[i][0] for i in sorted(chosen)]


@dataclass(frozen=True, slots=True)
class WarmStart:
    """What an earlier sweep's trials are worth here.

    offered  trials of the earlier sweep
    fitting  finished ones that are points of this space, under the same delta and adjacency
    reasons  why the others were left out, with counts
    """

    offered: int = 0
    fitting: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        left_out = "; ".join(f"{count}: {reason}" for reason, count in self.reasons.most_common(5))
        return f"{self.fitting} of {self.offered} earlier trials fit" + (f" (left out: {left_out})" if left_out else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"offered": self.offered, "fitting": self.fitting, "reasons": dict(self.reasons)}


def fitting(spec: SweepSpec, space: Space, warm: Iterable[Published]) -> tuple[tuple[Published, ...], WarmStart]:
    """The trials of an earlier sweep that this one may learn from, by number, and how many there are."""
    records, reasons = sorted(warm, key=lambda record: record.number), Counter[str]()
    found = list[Published]()
    for record in records:
        if reason := space.misfit(record.config) or _unusable(spec, space, record):
            reasons[reason] += 1
        else:
            found.append(record)
    return tuple(found), WarmStart(len(records), len(found), reasons)


def _unusable(spec: SweepSpec, space: Space, record: Published) -> str:
    """Why nothing is learned from a point of the space."""
    claim, privacy = record.guarantee, spec.privacy
    if claim is not None and claim.delta != privacy.delta:
        return f"delta was {delta_text(claim.delta)}"
    if claim is not None and claim.adjacency != privacy.adjacency:
        return f"adjacency was {claim.adjacency}"
    if broken := space.broken(record.config):
        return f"{', '.join(broken)} does not hold"
    return "" if lesson(spec, record) is not None else "not finished"
