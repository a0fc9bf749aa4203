"""What every system is asked. Each question returns what is wrong, one sentence each; nothing is a pass."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import pytest

from dpcore import events
from dpcore.accounting import headline
from dpcore.checks import InvalidValue
from dpcore.events import PoissonSampled, phases
from dpcore.guarantee import STANDING, Guarantee, Notion
from dpcore.noise import Keystream, PseudorandomNoise, SecureNoise
from tests.trainables.exam.candidate import Candidate, same
from tests.trainables.exam.door import AroundTheDoor, Door, watched, without_chance
from tests.trainables.recording import MemoryRun, memory_run
from tests.trainables.thread_team import ThreadTeam
from trainables.metrics import Scalar, scores_of
from trainables.system import Hyperparameter, PrivacyPlan, Refusal, traits_of
from trainables.training import noise
from trainables.validation.planning import plan_with_reports

CLOSE = 1e-5
"""Of float32 sums over records in another order."""
ROUNDING = 1e-9
"""Relative: how far a recount by the same accountant may be from the claim."""
Question = Callable[[Candidate], list[str]]


def sit(candidate: Candidate) -> dict[str, list[str]]:
    """{question: faults}, of those that found any."""
    return {name: faults for name, ask in QUESTIONS.items() if (faults := ask(candidate))}


def plans_are_pure(one: Candidate) -> list[str]:
    """The same question gives the same plan, whatever was solved before and in whatever order knobs are named."""
    asked, facts = one.asked(), one.records.facts
    turned = MappingProxyType(dict(reversed(asked.items())))
    calibrations: dict[str, float] = {}
    found = [one.system.plan(config, facts, one.target, calibrations) for config in (asked, turned, asked)]
    faults = [] if all(plan == one.plan for plan in found) else ["planned again, it is another plan"]
    if asked != one.asked():
        faults.append("planning changed the configuration")
    named = {knob.name for knob in one.system.hyperparameters} & asked.keys()
    if isinstance(found[0], PrivacyPlan) and not named <= found[0].config.keys():
        faults.append(f"the plan leaves out {sorted(named - found[0].config.keys())}")
    return faults


def claims_are_kept(one: Candidate) -> list[str]:
    """The claim is within the target, and no smaller than what the planned events cost when they are counted again."""
    plan, target = one.plan, one.target
    claim = plan.guarantee
    faults = []
    if not claim.epsilon <= target.epsilon and not math.isinf(claim.epsilon):
        faults.append(f"epsilon {claim.epsilon} is claimed for a target of {target.epsilon}")
    if claim.delta > target.delta or claim.adjacency is not target.adjacency or claim.unit != target.unit:
        faults.append("the claim is of another delta, adjacency or unit than the target")
    if claim.status not in STANDING or claim.notion is not Notion.DP:
        return faults
    counted = headline(plan.event(), claim.delta, claim.adjacency, unit=claim.unit).epsilon
    below = claim.epsilon < counted * (1 - ROUNDING)
    if below or (claim.accountant == "pld" and claim.epsilon > counted * (1 + ROUNDING)):
        faults.append(f"epsilon {claim.epsilon} is claimed, {counted} is counted")
    return faults


def claims_stand_as_declared(one: Candidate) -> list[str]:
    """A plan's claim has the status that lists of systems tell; assumptions may stand beside a proof."""
    found, declared = one.plan.guarantee.status, traits_of(one.system).standing
    stands = found is declared or (found in STANDING and declared in STANDING)
    return [] if stands else [f"a claim that is {found} is listed as {declared}"]


def plans_are_written_down(one: Candidate) -> list[str]:
    """Plan and event survive JSON; the events of parts add up to that of the whole."""
    plan = one.plan
    faults = []
    read = PrivacyPlan.from_dict(json.loads(json.dumps(plan.to_dict())))
    if read != plan or read.to_dict() != plan.to_dict():
        faults.append("the plan that is read is not the one that was written")
    if phases(read.event()) != phases(plan.event()):
        faults.append("the plan that is read counts another event")
    if events.from_dict(json.loads(json.dumps(events.to_dict(plan.event())))) != plan.event():
        faults.append("the event that is read is not the one that was written")
    for cut in _cuts(plan):
        parts = Counter(phases(plan.event(0, cut))) + Counter(phases(plan.event(cut, plan.steps)))
        if parts != Counter(phases(plan.event())):
            faults.append(f"cut at step {cut}, the parts are not the whole")
    return faults


@dataclass
class _Watched(MemoryRun):
    """A run that hears of every draw, and keeps those that come before their horizon is noted."""

    early: list[str] = field(default_factory=list)

    def drew(self, count: int) -> None:
        if count and (not self.horizons or self.horizons[-1] <= self.start_step):
            self.early.append("noise was drawn before any step was announced")

    def reserve_until(self, until_step: int) -> None:
        if self.horizons and until_step < self.horizons[-1]:
            self.early.append("a horizon was taken back")
        super().reserve_until(until_step)


def what_runs_is_what_was_planned(one: Candidate) -> list[str]:
    """Steps draw noise in proportion, none before it is announced, all are run.

    As many Poisson batches are drawn as there are steps that count one, with coins of the keystream.
    """
    plan = one.plan
    try:
        whole, run = _drawn(one, plan, 0, plan.steps)
    except AroundTheDoor as error:
        return [str(error)]
    faults = [*dict.fromkeys(run.early)]
    if run.final[0] != plan.steps or run.horizons[-1] != plan.steps:
        faults.append(f"{plan.steps} steps were planned, {run.final[0]} run, {run.horizons[-1]} announced")
    sampled = sum(count for event, count in phases(plan.event()).items() if isinstance(event, PoissonSampled))
    if sampled and not whole.keys:
        faults.append("Poisson batches that no keystream drew")
    if sampled and whole.batches != sampled:
        faults.append(f"{sampled} Poisson batches were counted, {whole.batches} drawn")
    if one.noisy != (whole.drawn > 0):
        faults.append(f"{whole.drawn} normals were drawn from the source")
    for cut in _cuts(plan)[:1]:
        parts = [_drawn(one, plan, *span)[0] for span in ((0, cut), (cut, plan.steps))]
        if sum(part.drawn for part in parts) != whole.drawn:
            faults.append(f"cut at step {cut}, {[part.drawn for part in parts]} normals are drawn, not {whole.drawn}")
        if sampled and parts[0].drawn * plan.steps != whole.drawn * cut:
            faults.append(f"{cut} of {plan.steps} alike steps drew {parts[0].drawn} of {whole.drawn} normals")
    return faults


def _drawn(one: Candidate, plan: PrivacyPlan, start: int, stop: int) -> tuple[Door, _Watched]:
    state = None
    if start:
        with watched():
            state = one.run(plan, "secure", to_step=start).final[1]
    with watched() as door:
        made = memory_run(plan, from_step=start, to_step=stop, state=state)
        run = _Watched(made.member, made.start_step, made.state, made.streams)
        door.told = run.drew
        return door, one.fit(run, "secure")


def broken_runs_go_on(one: Candidate) -> list[str]:
    """Killed at a checkpoint and resumed, it ends where it would have: whatever is not chance stands in the state."""
    plan = one.plan
    with without_chance():
        whole = one.run(plan, "secure").final
        for cut in _cuts(plan):
            first = one.run(plan, "secure", to_step=cut)
            rest = one.run(plan, "secure", from_step=cut, state=first.final[1]).final
            moved = [name for name in _differing(rest[1], whole[1]) if not name.startswith(tuple(one.chance))]
            if rest[0] != whole[0] or moved:
                return [f"resumed at step {cut}, it ends elsewhere: {moved}"]
    return []


def curves_are_of_the_same_run(one: Candidate) -> list[str]:
    """Of a system that says so: at each point it reports what a launch that ends there does, and it ends where it would
    without a curve."""
    if not traits_of(one.system).curve:
        return []
    cuts = tuple(_cuts(one.plan))
    with without_chance():
        plain = one.run(one.plan, "secure").final
        drawn = one.run(one.plan, "secure", curve=cuts)
        faults = [] if tuple(drawn.curve) == cuts else [f"of {cuts} it reports after {tuple(drawn.curve)} steps"]
        if moved := _differing(drawn.final[1], plain[1]):
            faults.append(f"with a curve it ends elsewhere: {moved}")
        for cut in cuts[-1:] if not faults else ():
            ended = one.run(one.plan, "secure", to_step=cut).final[2]
            at = {name: np.array(value) for name, value in drawn.curve[cut].items()}
            if other := _differing(at, {name: np.array(value) for name, value in ended.items()}):
                faults.append(f"after {cut} steps it reports other values than a launch that ends there: {other}")
    return faults


def _differing(one: Mapping, other: Mapping) -> list[str]:
    return sorted(
        name
        for name in one.keys() | other.keys()
        if name not in one
        or name not in other
        or one[name].shape != other[name].shape
        or not np.allclose(one[name], other[name], rtol=CLOSE, atol=CLOSE, equal_nan=True)
    )


def noise_comes_from_the_secure_source(one: Candidate) -> list[str]:
    """Under `noise_source: secure`: nothing is drawn around the door, the same noise gives the same release."""
    releases = []
    for seed in (1, 1, 2):
        with watched(seed):
            try:
                releases.append(one.released(one.plan, "secure"))
            except AroundTheDoor as error:
                return [str(error)]
    faults = []
    if not same(releases[0], releases[1]):
        faults.append("the same noise gave another release")
    if one.noisy and same(releases[0], releases[2]):
        faults.append("other noise gave the same release")
    return faults


def one_secret_gives_one_release(one: Candidate) -> list[str]:
    """Under `noise_source: pseudorandom`: the sweep's secret decides, and no keystream is asked for."""

    def no_keystream(*_):
        raise AroundTheDoor("a keystream was asked for")

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(Keystream, "__init__", no_keystream)
        monkeypatch.setattr(Keystream, "derived", no_keystream)
        try:
            first, again = one.released(one.plan), one.released(one.plan)
            other = one.released(one.plan, secret=b"another secret, of another sweep")
        except AroundTheDoor as error:
            return [str(error)]
    faults = [] if same(first, again) else ["the same secret gave another release"]
    return faults + (["another secret gave the same release"] if same(first, other) else [])


def claims_name_their_generator(one: Candidate) -> list[str]:
    """Every finite claim says once which generator it rests on."""
    faults = []
    for source in (PseudorandomNoise, SecureNoise):
        plan = noise.named(one.plan, source.name)
        for claim in (plan.guarantee, *plan.beside):
            if _generators(claim) != ([] if math.isinf(claim.epsilon) else [source.floating_point]):
                faults.append(f"under {source.name} the claim of {claim.accountant} names {_generators(claim)}")
    return faults


def _generators(claim: Guarantee) -> list[str]:
    return [line for line in claim.assumptions if line.startswith("floating-point")]


def workers_agree(one: Candidate) -> list[str]:
    """Of a system that says so: several workers add up the sums of its batches, and it ends where one process does."""
    if not traits_of(one.system).workers:
        return []
    alone, team = one.run(one.plan).final, ThreadTeam(one.records, workers=2)
    step, state, _ = one.fit(memory_run(one.plan), "pseudorandom", team=team).final
    faults = [] if team.tasks else ["no worker was asked for anything"]
    moved = _differing(state, alone[1])
    if step != alone[0] or moved:
        faults.append(f"with two workers it ends elsewhere: {moved}")
    return faults


SCORES = {"accuracy", "loss", "rmse", "auc"}
"""Of validation records, where the model is judged by what its predictions say."""


def metrics_are_as_declared(one: Candidate) -> list[str]:
    """What a finished trial reports has been declared, for its task; and some setting reports all that is declared."""
    reported = one.run(one.plan).final[2]
    declared = {metric.name: metric for metric in one.system.metrics}
    faults = [f"{name} has no error" for name in SCORES & reported.keys() if f"{name}_se" not in reported]
    reported = {name: reported[name] for name in scores_of(reported)}
    faults += [f"{name} is reported, and not declared" for name in sorted(reported.keys() - declared.keys())]
    if not reported:
        faults.append("nothing is reported")
    task = one.records.facts.task
    foreign = [name for name in reported if name in declared and not _fits(declared[name].tasks, task)]
    faults += [f"{name} is reported, and not for {task}" for name in foreign]
    told = reported.keys() | one.run(one.planned(one.telling)).final[2].keys() | _reported_privately(one).keys()
    silent = [name for name, metric in declared.items() if _fits(metric.tasks, task) and name not in told]
    return faults + [f"{name} is declared, and never reported" for name in silent]


def _reported_privately(one: Candidate) -> Mapping[str, float]:
    """What it tells of private validation records, where it says that it can."""
    if not traits_of(one.system).private_reports:
        return {}
    private = one.privately()
    facts = private.records.facts
    plan = plan_with_reports(one.system, one.asked(), facts, one.target, {}, lambda steps: (steps,))
    assert isinstance(plan, PrivacyPlan), plan
    return private.run(plan).final[2]


def _fits(tasks, task) -> bool:
    return tasks is None or task in tasks


def every_knob_changes_something(one: Candidate) -> list[str]:
    """Another value of a knob gives another plan (beyond its own line in it), a refusal, or another release."""
    faults, releases = [], {}
    for knob in one.system.hyperparameters:
        if knob.name in one.silent or knob.name in one.plan.solved:
            continue
        beside = one.beside.get(knob.name, {})
        before = one.planned(beside)
        try:
            after = one.system.plan(
                one.asked({**beside, knob.name: _another(one, knob, before)}), one.records.facts, one.target, {}
            )
        except InvalidValue as error:
            faults.append(f"{knob.name}: {error}")
            continue
        if isinstance(after, Refusal) or _without(knob.name, after) != _without(knob.name, before):
            continue
        key = tuple(sorted(beside.items()))
        if key not in releases:
            releases[key] = one.released(before)
        if same(one.released(after), releases[key]):
            faults.append(f"{knob.name}: neither the plan nor the release depends on it")
    return faults


def _without(knob: str, plan: PrivacyPlan) -> dict:
    """A plan but for one knob's own line, and for the sentence that may quote it."""
    written = plan.to_dict()
    numbers = ("guarantee", "beside", "work", "solved", "validation")
    config = {name: value for name, value in plan.config.items() if name != knob}
    return {**{name: written[name] for name in numbers}, "config": config, "event": phases(plan.event())}


def _another(one: Candidate, knob: Hyperparameter, plan: PrivacyPlan) -> Scalar:
    """A value of a knob that is not the plan's."""
    if knob.name in one.others:
        return one.others[knob.name]
    value = plan.config.get(knob.name, knob.default)
    if knob.choices:
        return next(other for other in knob.choices if other != value)
    if knob.kind == "choice" or value is None:
        raise AssertionError(f"{one.system.name}: the candidate has to name another {knob.name} in `others`")
    low, high = (-math.inf if knob.low is None else knob.low), (math.inf if knob.high is None else knob.high)
    if knob.kind == "int":
        return int(value) + 1 if value + 1 <= high else int(value) - 1
    return next(other for other in (value * 0.75, value * 1.5, value + 0.25) if low <= other <= high and other != value)


def _cuts(plan: PrivacyPlan) -> list[int]:
    """The steps after which a run is cut: the first, a middle one, the last but one."""
    return sorted({1, plan.steps // 2, plan.steps - 1} & set(range(1, plan.steps)))


QUESTIONS: dict[str, Question] = {
    ask.__name__: ask
    for ask in (
        plans_are_pure,
        claims_are_kept,
        claims_stand_as_declared,
        plans_are_written_down,
        what_runs_is_what_was_planned,
        broken_runs_go_on,
        curves_are_of_the_same_run,
        noise_comes_from_the_secure_source,
        one_secret_gives_one_release,
        claims_name_their_generator,
        workers_agree,
        metrics_are_as_declared,
        every_knob_changes_something,
    )
}
