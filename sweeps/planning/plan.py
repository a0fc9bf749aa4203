"""What a proposal, and a whole sweep, would release and cost: decided from public facts, before a record is read.

Trials without protection. A published comparison needs baselines that promise nothing. Their plan says so itself:
every event is `NonPrivate` and the claim is an infinite epsilon. Such a plan is never within a budget, so it is refused
unless the spec gives the reason under `privacy.allow_unprotected`; then it runs, `check` names it, and its infinite
epsilon stands wherever an epsilon is shown. A plan that claims an infinite epsilon for anything else is a bug, reason
or not.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dpcore.checks import InvalidValue
from dpcore.events import NonPrivate, phases
from dpcore.guarantee import STANDING
from sweeps.privacy.charge import fitted_to_part
from sweeps.privacy.ledger import ONE_TRIAL, chosen_line
from sweeps.privacy.release import Release
from sweeps.search import samplers
from sweeps.search.asha import report_steps, stops
from sweeps.search.space import Branch, SearchGrid, Space
from sweeps.spec.domains import Domain
from sweeps.spec.hyperparameters import spelled_out
from sweeps.spec.problems import Problems
from sweeps.spec.sections import FUNCTION, SweepSpec
from sweeps.spec.sweep_budget import budget_of
from sweeps.store.records import SYSTEM, TARGET_EPSILON, TrialRecord, TrialState
from sweeps.util.fingerprint import code_digest
from trainables import plugins
from trainables.adaptation import content, places
from trainables.data import SOURCES
from trainables.data.source import parted
from trainables.features.declared import MAP
from trainables.metrics import WITH, Arguments
from trainables.models import build
from trainables.models.registry import builder_of
from trainables.planning import check_unit, check_weights, of_their_metrics, of_their_models, resting_on_word, stranger
from trainables.publishing import check_measurable
from trainables.registry import SYSTEMS
from trainables.system import Config, DatasetSpec, PrivacyPlan, PrivacyTarget, Refusal, Scalar, System
from trainables.training.noise import named
from trainables.validation.planning import plan_with_reports

SECONDS_PER_GRADIENT = 2e-5
"""For planned work, in gradients of one record: of small models on one core. An assumption, which decides between
samplers."""
EXHAUSTED_PROPOSALS_PER_TRIAL = 20
EXHAUSTED_INFEASIBLE_IN_A_ROW = 200
OTHER_DRAWS = 20
"""Of the remaining knobs, before an end of a domain counts as senseless."""


def exhausted(spec: SweepSpec, proposals: int, infeasible_in_a_row: int) -> bool:
    """Whether the space has run dry: 20 proposals for every trial asked for, or 200 infeasible ones in a row."""
    limit = EXHAUSTED_PROPOSALS_PER_TRIAL * spec.search.trials
    return proposals >= limit or infeasible_in_a_row >= EXHAUSTED_INFEASIBLE_IN_A_ROW


def infeasible_in_a_row(records: Iterable[TrialRecord]) -> int:
    """How many of the latest proposals of the sampler were infeasible."""
    own = [one for one in records if one.request is None]
    states = [one.state for one in sorted(own, key=lambda one: one.number, reverse=True)]
    return next((count for count, state in enumerate(states) if state is not TrialState.INFEASIBLE), len(states))


def plan_proposal(
    spec: SweepSpec,
    config: Config,
    facts: DatasetSpec,
    calibrations: MutableMapping[str, float],
    number: int = 0,
) -> PrivacyPlan | Refusal:
    """Plan one proposal, or say why it is not launched.

    number  of the proposal, which decides its part of a budget of the whole sweep

    A combination of knobs that makes no sense is refused like one that is too large: others of the space may do
    (`check_corners` finds values that never do).

    The claim of a trial of a sweep rests on `ONE_TRIAL` besides what its system says, that of a final run on where its
    hyperparameters are from.

    The plan's own claim is held against the target: a system whose plan exceeds it has a bug, which is raised as an
    InvalidValue, loudly. So is an unprotected plan that no reason was given for. What the claims of a sound plan are
    worth in this sweep is the publisher's to say.
    """
    planner = _Planner(spec, facts, calibrations, Space.of(spec), number)
    if broken := planner.space.broken(config):
        return Refusal(
            violations=broken, reason=f"{planner.space.said(config)}. Narrow the space, or drop the constraint."
        )
    try:
        plan = planner.planned(config)
    except _Senseless as error:
        return Refusal(violations={error.name: 1.0}, reason=str(error))
    if isinstance(plan, Refusal):
        return plan
    found = ONE_TRIAL if spec.search.chosen is None else chosen_line(spec.search.chosen)
    claim = replace(plan.guarantee, assumptions=(*plan.guarantee.assumptions, found))
    held = planner.held(config, replace(plan, guarantee=claim))
    if isinstance(held, Refusal):
        return held
    weights = spec.weight_lines(places([str(held.config.get("model", ""))], [str(held.config.get("weights", ""))]))
    return Release.of(spec).plan(resting_on_word(held, (*of_their_metrics(spec.asked), *weights)))


def feasible(
    spec: SweepSpec, configs: Iterable[Config], facts: DatasetSpec, calibrations: MutableMapping[str, float]
) -> Iterator[PrivacyPlan]:
    """The plans of those that may be launched, in order."""
    planned = (plan_proposal(spec, config, facts, calibrations) for config in configs)
    return (one for one in planned if isinstance(one, PrivacyPlan))


@dataclass(frozen=True, slots=True)
class _Planner:
    """Plans for one sweep."""

    spec: SweepSpec
    facts: DatasetSpec
    calibrations: MutableMapping[str, float]
    space: Space
    number: int = 0

    def planned(self, config: Config) -> PrivacyPlan | Refusal:
        """The system's own plan, if what the objectives ask can be measured of it. Raises _Senseless."""
        spec, system = self.spec, SYSTEMS[str(config[SYSTEM])]
        knobs = self.space.branch(config[SYSTEM]).complete(config, system.hyperparameters)
        try:
            check_unit(system, self.facts, spec.privacy.unit)
            check_weights(system, self.facts)
            plan = self._fitted(system, knobs, float(config[TARGET_EPSILON]))
            if isinstance(plan, PrivacyPlan):
                check_measurable(spec.asked, system, plan)
        except InvalidValue as error:
            raise _Senseless(error.name, error.value, error.expected, error.remedy) from error
        return plan if isinstance(plan, Refusal) else named(plan, spec.privacy.noise_source)

    def _fitted(self, system: System, knobs: Config, epsilon: float) -> PrivacyPlan | Refusal:
        """For a trial's own budget, or for its part of that of the whole sweep."""
        spec = self.spec

        def plan_at(target: float) -> PrivacyPlan | Refusal:
            aim, reports = spec.privacy.target(target), partial(report_steps, spec, system)
            return plan_with_reports(system, knobs, self.facts, aim, self.calibrations, reports)

        if (budget := budget_of(spec)) is None:
            return plan_at(epsilon)
        return fitted_to_part(plan_at, partial(stops, spec), budget, self.number, self.calibrations)

    def held(self, config: Config, plan: PrivacyPlan) -> PrivacyPlan | Refusal:
        """The plan, if its claim and its size are within the spec. Raises InvalidValue as `plan_proposal`."""
        system, epsilon = SYSTEMS[str(config[SYSTEM])], float(config[TARGET_EPSILON])
        claim, privacy = plan.guarantee, self.spec.privacy
        if is_unprotected(plan):
            if privacy.unprotected_because is None:
                expected = f"the reason why {system.name} may run: it claims nothing, its epsilon is infinite"
                remedy = "Give a reason of at least 10 characters, or drop the system."
                raise InvalidValue("privacy.allow_unprotected", None, expected, remedy)
        elif not (claim.epsilon <= epsilon and claim.delta <= privacy.delta):
            expected = f"a claim within epsilon={epsilon} and delta={privacy.delta}"
            remedy = "The system's calibration is wrong: nothing was launched."
            raise InvalidValue(f"{system.name}.plan", (claim.epsilon, claim.delta), expected, remedy)
        # Where the whole sweep has one budget, `epsilon` is the largest part that a trial gets of it: no trial's own.
        aimed = plan if privacy.scope == "sweep" else _aimed(plan, system, privacy.target(epsilon))
        return _within_limits(self.spec, aimed, system)

    def senseless(self, configs: Sequence[Config]) -> InvalidValue | None:
        """What is wrong with the first configuration, unless one of the others makes sense. Those that break a
        constraint are never launched: nothing is asked of them."""
        first = None
        for config in configs:
            if self.space.broken(config):
                continue
            try:
                plan = self.planned(config)
                if isinstance(plan, PrivacyPlan):
                    self.held(config, plan)
            except _Senseless as error:
                first = first or error
            except InvalidValue as error:
                return error
            else:
                return None
        return first


def _aimed(plan: PrivacyPlan, system: System, target: PrivacyTarget) -> PrivacyPlan:
    """The plan, whose claim says which budget its noise was solved for, where it keeps exactly that kind of budget."""
    claim = plan.guarantee
    solved = system.solves.get("noise") in plan.solved
    alike = (claim.delta, claim.adjacency, claim.unit) == (target.delta, target.adjacency, target.unit)
    if not (solved and alike and claim.status in STANDING and claim.epsilon <= target.epsilon):
        return plan
    return replace(plan, guarantee=replace(claim, aimed_at=target.epsilon))


class _Senseless(InvalidValue):
    """What the system said of one configuration."""


def is_unprotected(plan: PrivacyPlan) -> bool:
    """Whether the plan says of itself that it protects nobody: nothing but `NonPrivate` events, an infinite claim."""
    return math.isinf(plan.guarantee.epsilon) and set(phases(plan.event())) == {NonPrivate()}


def _within_limits(spec: SweepSpec, plan: PrivacyPlan, system: System) -> PrivacyPlan | Refusal:
    sizes: dict[str, tuple[float, float | None]] = {"work": (plan.work, spec.limits.work)}
    if "noise" in system.solves:
        noise = float(plan.config[system.solves["noise"]])
        sizes["noise_multiplier"] = (noise, spec.limits.noise_multiplier)
    over = {name: (size, limit) for name, (size, limit) in sizes.items() if limit is not None and size > limit}
    if not over:
        return plan
    told = ", ".join(f"{name}={size:.6g}: expected at most {limit:.6g}" for name, (size, limit) in over.items())
    return Refusal(
        violations={name: math.log(size / limit) for name, (size, limit) in over.items() if limit is not None},
        reason=f"{told}. Raise `limits`, or narrow the space.",
    )


def check_corners(spec: SweepSpec, facts: DatasetSpec, calibrations: MutableMapping[str, float]) -> None:
    """Plan the ends of every domain, one knob at a time, so that senseless values surface before the first trial.

    An end that makes sense beside some other draws of the remaining knobs is none: it is refused where it does not.
    Raises SpecErrors with one error per end that the system calls senseless, and for what `plan_proposal` raises.
    """
    problems, space = Problems(), Space.of(spec)
    planner = _Planner(spec, facts, calibrations, space)
    rng = samplers.generator(spec.search.seed, 0, samplers.ENDS)
    for branch in space.branches:
        middle = branch.drawn(lambda: 0.5)
        others = [branch.drawn(lambda: float(rng.random())) for _ in range(OTHER_DRAWS if branch.searched else 0)]
        for name, domain in ({"": None} | dict(branch.searched)).items():
            for end in [None] if domain is None else dict.fromkeys(ends(domain)):
                moved = {} if end is None else {**branch.with_knob(name), name: end}
                configs = [space.config(branch, space.epsilons[0], {**knobs, **moved}) for knobs in (middle, *others)]
                found = planner.senseless(configs)
                if found is not None:
                    path = _path(branch, found.name)
                    if all((path, found.value) != (one.path, one.value) for one in problems.errors):
                        problems.add(path, found.value, found.expected, found.remedy)
    problems.raise_any()


def _path(branch: Branch, name: str) -> str:
    """Where in a spec: a knob, a part of the spec that the system names itself, or else the system."""
    if name in branch.fixed or name in branch.searched or name in branch.follows:
        return f"systems.{branch.system}.{name}"
    return name if name.partition(".")[0] in SweepSpec.model_fields else f"systems.{branch.system}: {name}"


def ends(domain: Domain) -> tuple[Scalar, ...]:
    """Every choice, or the smallest and the largest value of a range."""
    return domain.values if domain.kind == "choice" else (domain.draw(0.0), domain.draw(1.0 - 1e-16))


# Whether anything of a space may be launched: where nothing may, a sweep would end without a trial.

DRAWS = 200
"""From the prior, for a plan; as many infeasible ones in a row end a sweep."""


def draws(spec: SweepSpec, space: Space, count: int = DRAWS) -> Iterator[Config]:
    """Configurations from the prior, the same ones every time; of a final run its one point."""
    if spec.search.chosen is not None:
        return iter(spec.search.first)
    rng = samplers.generator(spec.search.seed, 0, samplers.DRAWN)
    return (space.draw(rng) for _ in range(count))


def certain(spec: SweepSpec, space: Space) -> list[Config]:
    """Configurations that are tried whatever is drawn: points of `search.first`, and a grid that is walked whole.

    A grid of more than DRAWS points is left to draws.
    """
    found: list[Config] = [] if spec.search.chosen is not None else list(spec.search.first)
    if samplers.walks_grid(spec.search.sampler):
        grid = SearchGrid.of(space)
        if len(grid) <= DRAWS and spec.search.repeats * len(grid) <= spec.search.trials - len(found):
            found += [grid.point(number) for number in range(len(grid))] * spec.search.repeats
    return found


# The code that decides what a sweep trains and proposes, as one digest.


def code_of(spec: SweepSpec) -> str:
    """`code_digest` of this project, of what the spec names of the user's own (the files of its feature map and its
    tokenizers, too), and of the installed packages that its sampler and its systems come from."""
    named = (*({*spec.texts()} - {*spec.weight_places}), *spec.data.files)
    return code_digest((*spec.user_modules(), *_installed(spec)), named)


def _installed(spec: SweepSpec) -> Iterator[str]:
    """Modules of installed packages that offer the sampler or a system, and of those that have the system's class."""
    sampler = samplers.module_of(spec.search.sampler)
    if sampler is not None:
        yield sampler
    for name in spec.systems:
        offering = plugins.module_of(name)
        if offering is not None:
            yield offering
            own = None if (system := SYSTEMS.known(name)) is None else stranger(system)
            yield from () if own is None else (own,)


# The weights that models and a feature map of the user's own load, as a fingerprint: what code says nothing of.

WEIGHTS = "weights"
"""Among a sweep's fingerprints, where it has a model or a feature map of the user's own, or weights to start from."""
ACCEPTED_AS = {WEIGHTS: "code"}
"""{fingerprint: the word by which a change of it is accepted}, where that is another."""
MODEL = "model"


def weights_of(spec: SweepSpec, facts: DatasetSpec) -> dict[str, str]:
    """{WEIGHTS: digest of the tensors that they load, and of the files that models start from}, or nothing.

    Builds each model and map of the user's own, as planning does, and reads no record.
    """
    found = {place: content(place) for place in spec.weight_places}
    own, features = parted(spec.data.options())
    if features is not None and FUNCTION.fullmatch(features.name):
        found[f"{MAP} {features.name}"] = features.pretrained_fingerprint(SOURCES[spec.data.source].facts(own))
    if models := _models(spec):
        from trainables.models.pretrained import pretrained_fingerprint

        found |= {
            built: pretrained_fingerprint(partial(build, model, facts, hidden=1, arguments=arguments))
            for built, (model, arguments) in models.items()
        }
    return {WEIGHTS: hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()} if found else {}


def accepting(changed: Iterable[str]) -> tuple[str, ...]:
    """The words by which changes of these fingerprints are accepted, each once."""
    return tuple(dict.fromkeys(ACCEPTED_AS.get(name, name) for name in changed))


def _models(spec: SweepSpec) -> dict[str, tuple[str, Arguments]]:
    """Models of the user's own by what they are built with: the first value of each argument, and one other at a time,
    every choice and both ends of a range, since what is loaded may depend on it."""
    found: dict[str, tuple[str, Arguments]] = {}
    for name, knobs in spec.systems.items():
        system, knob = SYSTEMS.known(name), knobs.get(MODEL)
        if knob is None or system is None or stranger(system) is not None:
            continue
        values = knob.values if isinstance(knob, Domain) else (knob,)
        given = {key: one for key, one in spelled_out(spec.systems, name).items() if key.startswith(WITH)}
        several = {key: ends(one) if isinstance(one, Domain) else (one,) for key, one in given.items()}
        first = {key: taken[0] for key, taken in several.items()}
        for one in values:
            if isinstance(one, str) and FUNCTION.fullmatch(one) and of_their_models([one]):
                builder = builder_of(one)
                for moved in (first, *({**first, key: value} for key, taken in several.items() for value in taken[1:])):
                    known = {key.removeprefix(WITH): value for key, value in moved.items() if builder.takes(key)}
                    arguments = tuple(sorted(known.items()))
                    found[" ".join([one, *(f"{key}={value!r}" for key, value in arguments)])] = one, arguments
    return found
