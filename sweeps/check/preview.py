"""The plan of a sweep as `sweeps check` prints it: what draws from its prior would release and cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from dpcore.checks import InvalidValue
from dpcore.events import Composed, UnsupportedEvent
from dpcore.group_privacy import group_epsilon_lower
from dpcore.guarantee import STANDING, Status, weakest
from sweeps.check.feasibility import DRAWS, draws
from sweeps.control.planning import EXHAUSTED_PROPOSALS_PER_TRIAL, check_corners, is_unprotected, plan_proposal
from sweeps.ledger.assumptions import HEADING, Assumptions
from sweeps.ledger.spending import NOT_COVERED, choices_by_results, in_parallel
from sweeps.ledger.summary import Choice
from sweeps.ledger.text import COUNTS, COVERS, PROMISES_NOTHING
from sweeps.ledger.totals import Total as EarlierTotal
from sweeps.ledger.totals import earlier_lines
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.release.policy import Release
from sweeps.release.published import Published
from sweeps.release.rounding import delta_text, epsilon_text
from sweeps.release.validation_text import validation_text
from sweeps.search import registry
from sweeps.search.history import WarmStart, fitting
from sweeps.search.rungs import first_stop
from sweeps.search.space import Space
from sweeps.spec.domains import Domain
from sweeps.spec.model import SweepSpec
from sweeps.spec.raw import raw_metrics
from trainables.system import PrivacyPlan, PublicFacts, Refusal, Scalar, System
from trainables.units import RECORD

PREVIEW_SAMPLES = DRAWS
GROUP_SAMPLES = 20
"""Draws whose group privacy is counted: each takes as long as a dozen plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Smallest, median and largest of some numbers."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        """The spread of at least one value."""
        return cls(low=min(values), median=float(np.median(values)), high=max(values))

    def __str__(self) -> str:
        return f"{self.low:.4g} .. {self.high:.4g} (median {self.median:.4g})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalEstimate:
    """What the whole sweep may release, when every trial is published: the composition of all of them.

    The trials are not known yet; the total is that of as many feasible draws from the prior: an estimate, no claim.

    choices  what will let results choose budgets: then what was executed will have no total that is a claim
    status   of the weakest claim among the draws
    public   whether the records are declared public: then more leaves than is counted
    """

    trials: int
    epsilon: float
    delta: float
    accountant: str
    choices: tuple[Choice, ...] = ()
    status: Status = Status.PROVED
    public: bool = False

    def __str__(self) -> str:
        if math.isinf(self.epsilon):
            return f"all {self.trials} trials together: {PROMISES_NOTHING}"
        number = f"epsilon {epsilon_text(self.epsilon)} at delta {delta_text(self.delta)}"
        estimate = (
            f"all {self.trials} trials together: about {number}, an estimate by {self.accountant} from draws of the "
            "space"
        )
        if not self.choices:
            if self.status not in STANDING:
                return f"{estimate}. It will be no guarantee, because the weakest claim among them is {self.status}."
            return f"{estimate}. After the run the exact total can be quoted. {COUNTS if self.public else COVERS}"
        what = " and ".join(choice.will for choice in self.choices)
        instead = " and ".join(choice.instead for choice in self.choices)
        return (
            f"{estimate}. It will be no guarantee, because {what}. One trial's epsilon can be quoted, saying that it "
            f"leaves out the search for its hyperparameters. For a total that can be quoted, {instead}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The plan of a sweep, as `sweeps check` prints it.

    heading     what stands above every claim of the sweep (`sweeps.release.policy`); mostly empty
    space       one line per knob and system
    grid_size   number of grid points; None for other samplers
    samples, feasible  draws from the prior that were planned, and how many of them may be launched
    reasons     why the others may not, with counts
    solved      {"<system>.<parameter>": spread of the solved values}
    work        of a feasible trial, in its system's unit; None without a feasible draw
    per_record  least epsilon per unit that the planned noise would have if single records were sampled and clipped;
                None where the claim is per record, or no step is a Gaussian
    warm_start  what the earlier sweep named in `search.warm_start` is worth here; None without one
    started_from  what it released, and the sweeps that it started from
    validation  what is done with the validation records, in one line; None without any
    noise       standard deviation on a count of a report on private validation records; None without such reports
    total       None with the reason in `notes` when no accountant can count it
    """

    name: str
    heading: str
    data: str
    n: int
    digest: str
    epsilons: tuple[float, ...]
    delta: float
    adjacency: str
    unit: str
    sampler: str
    stratified: bool
    trials: int
    space: tuple[tuple[str, str, str], ...]
    grid_size: int | None
    repeats: int
    samples: int
    feasible: int
    reasons: Mapping[str, int]
    solved: Mapping[str, Spread]
    work: Spread | None
    total: TotalEstimate | None
    notes: tuple[str, ...]
    warm_start: WarmStart | None = None
    started_from: tuple[EarlierTotal, ...] = ()
    validation: str | None = None
    per_record: Spread | None = None
    unit_records: int = 1
    noise: Spread | None = None

    @property
    def _sampler(self) -> str:
        return f"{self.sampler}, systems and budgets in turn," if self.stratified else self.sampler

    @property
    def _unit(self) -> str:
        told = f"n, batches, clips and validation go by {self.unit}, of at most {self.unit_records} records each"
        if self.per_record is None:
            return told
        return (
            f"{told}. By group privacy the same noise on single records would claim at least epsilon "
            f"{self.per_record} per {self.unit}"
        )

    @property
    def feasible_share(self) -> float:
        """Share of the prior that may be launched."""
        return self.feasible / self.samples

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite total is the string "inf"."""
        out = asdict(replace(self, started_from=())) | {"feasible_share": self.feasible_share}
        out["started_from"] = [total.to_dict() for total in self.started_from]
        if self.total is not None and math.isinf(self.total.epsilon):
            out["total"]["epsilon"] = "inf"
        if self.warm_start is not None:
            # A Counter does not survive `asdict`.
            out["warm_start"] = {
                "offered": self.warm_start.offered,
                "fitting": self.warm_start.fitting,
                "reasons": dict(self.warm_start.reasons),
            }
        return out

    def render(self) -> str:
        """For people, in lines of at most about a hundred characters."""
        budgets = ", ".join(epsilon_text(epsilon, digits=6) for epsilon in self.epsilons)
        assumptions = Assumptions.of(claim for total in self.started_from for claim in total.claims())
        lines = [
            f"{self.name}: {self.trials} trials by {self._sampler} on {self.data} (n={self.n})",
            f"budget   epsilon {budgets} at delta {delta_text(self.delta)}, {self.adjacency}, unit {self.unit}, "
            "for each trial",
            *([f"unit     {self._unit}"] if self.unit != RECORD else []),
            *([f"validation records: {self.validation}"] if self.validation is not None else []),
            "space",
        ]
        if self.heading:
            lines.insert(0, self.heading)
        width = max(len(f"{system}.{knob}") for system, knob, _ in self.space)
        lines += [f"  {f'{system}.{knob}':<{width}}  {domain}" for system, knob, domain in self.space]
        if self.grid_size is not None:
            each = f", each {self.repeats} times" if self.repeats > 1 else ""
            lines.append(f"  {self.grid_size} grid points{each}")
        lines.append(f"feasible {self.feasible} of {self.samples} draws from the prior ({self.feasible_share:.0%})")
        lines += [f"  {count} refused: {reason}" for reason, count in self.reasons.items()]
        lines += [f"solved   {name} {spread}" for name, spread in self.solved.items()]
        if self.noise is not None:
            lines.append(f"noise    on each count of a report on validation records: {self.noise} records")
        if self.work is not None:
            lines.append(f"work     {self.work} a trial, about {self.work.median * self.trials:.4g} in all")
        if self.warm_start is not None:
            lines.append(f"warm     {self.warm_start}")
        if self.total is not None:
            lines.append(f"total    {self.total}")
        lines += [f"total    {line}" for line in earlier_lines(self.started_from, assumptions)]
        lines += [f"note     {note}" for note in self.notes]
        if assumptions.sentences:
            lines += [f"{HEADING}:", *(f"  {line}" for line in assumptions.lines())]
        return "\n".join(lines)


def preview(
    spec: SweepSpec,
    facts: PublicFacts | None = None,
    calibrations: MutableMapping[str, float] | None = None,
    *,
    systems: Mapping[str, System] | None = None,
    samples: int = PREVIEW_SAMPLES,
    warm: Sequence[Published] = (),
    started_from: Sequence[EarlierTotal] = (),
) -> Preview:
    """Plan `samples` draws from the prior and sum up. Reads no record.

    warm          trials of the sweep that `search.warm_start` names
    started_from  `sweeps.ledger.totals.earlier_totals` of this spec

    Raises SpecErrors when a system calls an end of a domain senseless.
    """
    if facts is None:
        from sweeps.spec import public_facts

        facts = public_facts(spec)
    calibrations = {} if calibrations is None else calibrations
    check_corners(spec, facts, calibrations, systems)
    space = Space.of(spec)
    outcomes = [plan_proposal(spec, config, facts, calibrations, systems) for config in draws(spec, space, samples)]
    plans = [one for one in outcomes if isinstance(one, PrivacyPlan)]
    refusals = [one for one in outcomes if isinstance(one, Refusal)]
    grid_size = space.grid_size() if registry.walks_grid(spec.search.sampler) else None
    notes = [f"for example: {refusals[0].reason}"] if refusals else []
    release = Release.of(spec)
    notes += _notes(spec, space, plans, samples, grid_size)
    notes += _withheld(spec, release, systems)
    total, why_not = _total(spec, plans)
    earlier = None
    if spec.search.warm_start is not None:
        _, earlier = fitting(spec, space, [release.seen(one) for one in warm])
        if not earlier.fitting:
            notes.append(f"nothing of sweep {spec.search.warm_start!r} fits: the search starts cold")
    return Preview(
        name=spec.name,
        heading=release.heading,
        data=facts.dataset,
        n=facts.n,
        digest=spec.digest,
        epsilons=space.epsilons,
        delta=spec.privacy.delta,
        adjacency=str(spec.privacy.adjacency),
        unit=spec.privacy.unit,
        sampler=spec.search.sampler,
        stratified=spec.search.stratified,
        trials=spec.search.trials,
        space=_listing(space),
        grid_size=grid_size,
        repeats=spec.search.repeats,
        samples=samples,
        feasible=len(plans),
        reasons=dict(Counter(", ".join(sorted(one.violations)) for one in refusals).most_common()),
        solved=_solved(plans),
        work=Spread.of([plan.work for plan in plans]) if plans else None,
        total=total,
        notes=(*notes, *why_not),
        warm_start=earlier,
        started_from=tuple(started_from),
        validation=validation_text(facts, spec.privacy.adjacency),
        per_record=_per_record(spec, plans, facts),
        unit_records=facts.unit_records,
        noise=_noise_of_reports(plans),
    )


def _per_record(spec: SweepSpec, plans: list[PrivacyPlan], facts: PublicFacts) -> Spread | None:
    """Over the first of the draws, what their noise would leave to a unit whose records are sampled one by one."""
    if facts.unit is None:
        return None
    bounds = [
        group_epsilon_lower(plan.event(), spec.privacy.delta, facts.unit_records) for plan in plans[:GROUP_SAMPLES]
    ]
    found = [bound for bound in bounds if bound is not None]
    return Spread.of(found) if found else None


def _listing(space: Space) -> tuple[tuple[str, str, str], ...]:
    rows: list[tuple[str, str, str]] = []
    for branch in space.branches:
        knobs: dict[str, Scalar | Domain] = {**branch.fixed, **branch.searched}
        rows += [(branch.system, name, str(knobs[name])) for name in sorted(knobs)]
    return tuple(rows)


def _noise_of_reports(plans: list[PrivacyPlan]) -> Spread | None:
    found = [plan.validation.histogram.deviation for plan in plans if plan.validation is not None]
    return Spread.of(found) if found else None


def _solved(plans: list[PrivacyPlan]) -> dict[str, Spread]:
    values: dict[str, list[float]] = {}
    for plan in plans:
        for name in plan.solved:
            values.setdefault(f"{plan.system}.{name}", []).append(float(plan.config[name]))
    return {name: Spread.of(found) for name, found in sorted(values.items())}


def _notes(spec: SweepSpec, space: Space, plans: list[PrivacyPlan], samples: int, grid_size: int | None) -> list[str]:
    notes: list[str] = []
    if unprotected := sorted({plan.system for plan in plans if is_unprotected(plan)}):
        notes.append(
            f"{', '.join(unprotected)} claim NOTHING: epsilon is infinite, whatever the budget. "
            f"Allowed because: {spec.privacy.allow_unprotected}"
        )
    if refuted := sorted({plan.system for plan in plans if plan.guarantee.status is Status.REFUTED}):
        notes.append(
            f"{', '.join(refuted)} run as published, with claims that are REFUTED: their epsilon bounds nothing, and "
            "stands on no front beside claims that hold. `sweeps audit` shows it"
        )
    if spec.limits.stall_seconds is not None:
        notes.append(
            f"a launch silent for {spec.limits.stall_seconds:g} s is ended: start, steps and judging must be faster"
        )
    if not plans:
        notes.append("no draw is feasible: raise epsilon or `limits`, or narrow the space")
    elif len(plans) * EXHAUSTED_PROPOSALS_PER_TRIAL < samples:
        notes.append("few draws are feasible: a sampler that does not learn would end exhausted. Narrow the space.")
    points = None if grid_size is None else grid_size * spec.search.repeats
    if points is not None and points < spec.search.trials:
        notes.append(f"the grid ends after {points} of {spec.search.trials} trials")
    if len(space.epsilons) == 1 and any(objective.metric == "epsilon" for objective in spec.objectives):
        notes.append("epsilon is an objective and there is one budget: it will hardly vary. Give a list of budgets.")
    if len(space.epsilons) > 1 and len(spec.objectives) == 1 and registry.learns(spec.search.sampler):
        notes.append(
            f"{spec.search.sampler} will favour the best budget: add epsilon as an objective to cover them all"
        )
    if spec.early_stopping is not None and plans:
        steps = round(float(np.median([plan.steps for plan in plans])))
        notes.append(f"early stopping: a trial of {steps} steps stops first after {first_stop(spec, steps)}")
    timed = sorted({"seconds", "peak_memory_mb"} & {objective.metric for objective in spec.objectives})
    if timed:
        notes.append(f"{', '.join(timed)} depend on the machine: the same seed may then not give the same proposals")
    return notes


def _withheld(spec: SweepSpec, release: Release, systems: Mapping[str, System] | None) -> list[str]:
    from trainables.registry import SYSTEMS

    if not release.withheld:
        return []
    found = {name: raw_metrics((systems or SYSTEMS)[name], knobs) for name, knobs in spec.systems.items()}
    return [
        f"{', '.join(names)} of {system} read training records outside of every claim: they leave no trial"
        for system, names in found.items()
        if names
    ]


def _total(spec: SweepSpec, plans: list[PrivacyPlan]) -> tuple[TotalEstimate | None, list[str]]:
    if not plans:
        return None, []
    if not Release.of(spec).covered:
        return None, [f"total of the procedure: {NOT_COVERED}"]
    from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
    from dpcore.parallel import headline_of_parts

    chosen = [plans[i % len(plans)] for i in range(spec.search.trials)]
    try:
        claim = headline_of_parts(
            Composed(events=tuple(plan.event() for plan in chosen)),
            Composed(events=tuple(plan.validation.event() for plan in chosen if plan.validation is not None)),
            parallel=in_parallel(chosen),
            delta=spec.privacy.delta,
            adjacency=spec.privacy.adjacency,
            unit=spec.privacy.unit,
        )
    except (InvalidValue, UnsupportedEvent, ToleranceNotReached, DiscretisationInvalid) as error:
        return None, [f"total of the procedure: no accountant can count it ({error})"]
    return (
        TotalEstimate(
            trials=spec.search.trials,
            epsilon=claim.epsilon,
            delta=claim.delta,
            accountant=claim.accountant,
            choices=choices_by_results(RecordedSpec(spec.canonical())),
            status=weakest(*(plan.guarantee.status for plan in chosen)),
            public=spec.data.records_are_public is not None,
        ),
        [],
    )
