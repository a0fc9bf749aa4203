"""The plan of a sweep as `sweeps check` prints it: what draws from its prior would release and cost."""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from dpcore.accounting import group_epsilon_lower
from dpcore.checks import InvalidValue
from dpcore.guarantee import Status, delta_text, epsilon_text
from sweeps.planning.estimate import Resolution, Spread, TotalEstimate, estimated_total, resolution_of
from sweeps.planning.plan import (
    DRAWS,
    EXHAUSTED_PROPOSALS_PER_TRIAL,
    certain,
    check_corners,
    draws,
    feasible,
    is_unprotected,
    plan_proposal,
)
from sweeps.planning.rehearsal import Rehearsal, Rehearsing, check_feasible, corners
from sweeps.privacy.heldout import declared_test
from sweeps.privacy.ledger import HEADING, Assumptions
from sweeps.privacy.release import Published, Release
from sweeps.privacy.totals import Total, earlier_lines
from sweeps.privacy.wording import validation_text
from sweeps.ray.resources import check_at_once, check_sockets_fit, check_workers, workers_at
from sweeps.search import samplers
from sweeps.search.asha import stops
from sweeps.search.space import SearchGrid, Space
from sweeps.selection import compare
from sweeps.selection.compare import Comparison, compared
from sweeps.selection.preview import SelectionPreview, check_deadline, check_model_size, say_deadline, sealed_outcomes
from sweeps.selection.price import SealedPrior
from sweeps.spec.hyperparameters import spelled_out
from sweeps.spec.parse import public_facts
from sweeps.spec.rules import FINAL, raw_metrics
from sweeps.spec.sections import FUNCTION, SweepSpec, learns
from sweeps.spec.sweep_budget import budget_of
from sweeps.util.log import Event, say
from sweeps.util.text import hanging
from trainables import plugins
from trainables.data import SOURCES
from trainables.models import shaping
from trainables.registry import SYSTEMS
from trainables.system import DatasetSpec, PrivacyPlan, Refusal
from trainables.units import RECORD

if TYPE_CHECKING:
    from sweeps.search.optuna_sampler import WarmStart

# Notes under the plan of a sweep: what a person may not have meant, or should know before it runs.


def notes_on(
    spec: SweepSpec, facts: DatasetSpec, plans: Sequence[PrivacyPlan], samples: int, grid_size: int | None
) -> list[str]:
    """One sentence each.

    facts      of the spec's data
    plans      of those of the `samples` draws that may be launched
    grid_size  number of grid points; None for samplers that walk no grid
    """
    notes: list[str] = []
    if unprotected := sorted({plan.system for plan in plans if is_unprotected(plan)}):
        notes.append(
            f"{', '.join(unprotected)} claim NOTHING: epsilon is infinite, whatever the budget. "
            f"Allowed because: {spec.privacy.unprotected_because}"
        )
    if refuted := sorted({plan.system for plan in plans if plan.guarantee.status is Status.REFUTED}):
        notes.append(
            f"{', '.join(refuted)} run as published, with claims that are REFUTED: their epsilon bounds nothing, and "
            "stands on no front beside claims that hold. `sweeps audit` shows it"
        )
    if facts.asserted_by:
        notes.append(
            f"facts and records are asserted by {facts.asserted_by}, none of whose code was read here. It is held to "
            "bounds, counts and units as declared; private validation adds to training"
        )
    if len(plans) * EXHAUSTED_PROPOSALS_PER_TRIAL < samples:
        notes.append("so few draws are feasible that a sampler which does not learn ends early. Narrow the space")
    for name in spec.systems if Release.of(spec).withheld else ():
        if raw := raw_metrics(SYSTEMS[name], spelled_out(spec.systems, name)):
            notes.append(f"{', '.join(raw)} of {name} read records outside of every claim: they leave no trial")
    first = len(spec.search.first)
    if first and spec.search.chosen_from is None:
        notes.append(
            f"{first} of the trials are the points of search.first, tried before the sampler's own. They count in the "
            "total; how they were found does not: if these records were looked at for that, add what it cost"
        )
    points = None if grid_size is None else grid_size * spec.search.repeats + first
    if points is not None and points < spec.search.trials:
        notes.append(f"the grid ends after {points} of {spec.search.trials} trials")
    if len(spec.privacy.epsilon) == 1 and any(objective.metric == "epsilon" for objective in spec.objectives):
        notes.append("epsilon is an objective and there is one budget: it will hardly vary. Give a list of budgets.")
    favours = learns(spec.search.sampler) and spec.search.sampler != samplers.AUTO
    if len(spec.privacy.epsilon) > 1 and len(spec.objectives) == 1 and favours:
        notes.append(
            f"{spec.search.sampler} will favour the best budget: add epsilon as an objective to cover them all"
        )
    if spec.early_stopping is not None and plans:
        steps = round(median(plan.steps for plan in plans))
        notes.append(f"early stopping: a trial of {steps} steps stops first after {stops(spec, steps)[0]}")
    if timed := sorted({"seconds", "peak_memory_mb"} & {objective.metric for objective in spec.objectives}):
        notes.append(f"{', '.join(timed)} depend on the machine: the same seed may then not give the same proposals")
    return notes


# What `sweeps check` says of one budget for the whole sweep: how it is spread, and what that buys.


def spread_lines(spec: SweepSpec) -> tuple[str, ...]:
    """One line each; none where each trial has a budget of its own."""
    budget = budget_of(spec)
    if budget is None:
        return ()
    total = f"mu {epsilon_text(math.sqrt(budget.total))}"
    if budget.order is not None:
        total = f"Renyi divergence {epsilon_text(budget.total)} at order {budget.order:g}"
    first, last = (epsilon_text(budget.alone(number), digits=3) for number in (0, budget.shares - 1))
    parts = f"equal: {budget.shares} trials at epsilon {first} each"
    if budget.spread == "front-loaded" and budget.shares > 1:
        parts = f"front-loaded: the first of {budget.shares} trials at epsilon {first} by itself, the last at {last}"
    elif budget.spread == "halving":
        launched = ", ".join(str(budget.times(rung)) for rung in range(budget.rungs))
        parts = f"halving: a trial that runs whole at epsilon {first}, for {launched} launches of the rungs in turn"
    rungs = "rungs that early stopping never runs leave their parts unspent; `spread: halving` makes less noise of them"
    return (
        f"{total} in all; {parts}",
        *([rungs] if budget.rungs > 1 and budget.spread != "halving" else ()),
        "a launch that would exceed the budget is refused, and the sweep ends; each launch that is lost takes its part "
        "again, so that fewer trials may run",
    )


SEALED_SAMPLES = 40
"""Draws that are planned under the price of a selection: each is a few plans."""
SPREAD_DRAWS = 24
"""Draws that are planned where the whole sweep has one budget: each plan is fitted to its part, by several plans."""
GROUP_SAMPLES = 20
"""Draws whose group privacy is counted: each takes as long as a dozen plans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The plan of a sweep, as `sweeps check` prints it.

    grid_size   number of grid points; None for other samplers
    left_out    of the grid, because they break a constraint
    samples, feasible  draws from the prior that were planned, and how many of them may be launched
    reasons     why the others may not, with counts
    solved      {"<system>.<parameter>": spread of the solved values}
    work, steps  of a feasible trial, work in its system's unit; None without a feasible draw
    total       None with the reason in `notes` when no accountant can count it
    warm_start  what the earlier sweep named in `search.warm_start` is worth here; None without one
    started_from  what it released, and the sweeps that it started from
    per_record  least epsilon per unit that the planned noise would have if single records were sampled and clipped;
                None where the claim is per record, or no step is a Gaussian
    noise       standard deviation on a count of a report on private validation records; None without such reports
    resolution  what `sampler: auto` comes to; None for other samplers
    selection   what releasing the winners alone costs; None where every trial is released
    spread      how one budget of the whole sweep is spread, and what that buys; empty where each trial has its own
    rehearsal   what a rehearsal on made-up records found; None without one
    population  what its population has left for it (`sweeps.privacy.population`), a line each
    modes       the comparison of the ways to charge for the search, where it was asked for
    """

    spec: SweepSpec
    facts: DatasetSpec
    grid_size: int | None
    left_out: int
    samples: int
    feasible: int
    reasons: Mapping[str, int]
    solved: Mapping[str, Spread]
    work: Spread | None
    steps: Spread | None
    total: TotalEstimate | None
    notes: tuple[str, ...]
    warm_start: WarmStart | None
    started_from: tuple[Total, ...]
    per_record: Spread | None
    noise: Spread | None
    resolution: Resolution | None
    selection: SelectionPreview | None = None
    spread: tuple[str, ...] = ()
    rehearsal: Rehearsal | None = None
    population: tuple[str, ...] = ()
    modes: Comparison | None = None

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Those of the plan, and of the selection: what it may say of the deadline waits for a rehearsal."""
        return self.notes if self.selection is None else (*self.notes, *self.selection.notes())

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; an infinite total is the string "inf"."""
        privacy, search = self.spec.privacy, self.spec.search
        own = {one.name: _plain(getattr(self, one.name)) for one in fields(self) if one.name not in ("spec", "facts")}
        if self.total is not None and math.isinf(self.total.epsilon):
            own["total"]["epsilon"] = "inf"
        for name in ("selection", "modes", "spread"):
            if not own[name]:
                del own[name]
        return own | {
            "name": self.spec.name,
            "heading": Release.of(self.spec).heading,
            "data": self.facts.dataset,
            "n": self.facts.n,
            "digest": self.spec.digest,
            "epsilons": privacy.epsilon,
            **{name: getattr(privacy, name) for name in ("delta", "unit")},
            "adjacency": str(privacy.adjacency),
            **{name: getattr(search, name) for name in ("sampler", "stratified", "trials", "repeats")},
            "resolved": None if self.resolution is None else self.resolution.method,
            "space": [
                (system, name, str(knob))
                for system, knobs in sorted(self.spec.systems.items())
                for name, knob in sorted(shaping(knobs).items())
            ],
            "constraints": self.spec.constraints,
            "notes": self.all_notes,
            "validation": validation_text(self.facts, privacy.adjacency),
            "test": None if (test := declared_test(self.spec)) is None else str(test),
            "unit_records": self.facts.unit_records,
            "feasible_share": self.feasible / self.samples,
            "treatment": self.facts.treatment,
        }

    def title(self) -> list[str]:
        """What is swept, by what, under which budget."""
        privacy, search = self.spec.privacy, self.spec.search
        budgets = ", ".join(epsilon_text(epsilon, digits=6) for epsilon in privacy.epsilon)
        most, bounded = ("", "each trial") if self.selection is None else ("at most ", "the whole search")
        if self.spread:
            bounded = "everything that leaves the sweep"
        if privacy.scope in FINAL:
            bounded = "the final run"
        method = "" if self.resolution is None else f" ({self.resolution.method})"
        data = f"{self.facts.dataset} (n={self.facts.n})"
        return [
            *filter(None, [Release.of(self.spec).heading]),
            f"{self.spec.name} · {most}{search.trials} trials · {search.sampler}{method} · {data}",
            f"epsilon {budgets} at delta {delta_text(privacy.delta)}, {privacy.adjacency}, per {privacy.unit}, for "
            f"{bounded}",
            *self._whose(),
        ]

    def _whose(self) -> Iterator[str]:
        """Where records have an id and no unit: that each of them counts alone."""
        declared = (self.spec.data.options().get(name) for name in ("validation", "test", "part"))
        ids = {one["id"] for one in declared if isinstance(one, Mapping) and one.get("id")}
        if self.facts.unit is None and ids:
            yield (
                f"EACH ROW IS PROTECTED ALONE: where {' or '.join(sorted(map(str, ids)))} has several rows, declare "
                "data.unit: {column, max_records}."
            )

    def lines(self) -> Iterator[tuple[str, str]]:
        """(label, sentence) each."""
        privacy, search = self.spec.privacy, self.spec.search
        yield from (("Spread", line) for line in self.spread)
        if privacy.unit != RECORD:
            least = "" if self.per_record is None else f"at least epsilon {self.per_record} per {privacy.unit}"
            least = least and f". By group privacy the same noise on single records would claim {least}"
            most = f"of at most {self.facts.unit_records} records each{least}"
            yield "Unit", f"n, batches, clips and validation go by {privacy.unit}, {most}"
        yield from _under("Space", self._space_lines())
        if search.stratified or self.resolution is not None:
            method = "" if self.resolution is None else f"{self.resolution.method}: {self.resolution.why}; "
            yield "Sampler", f"{method}{'systems and budgets' if search.stratified else 'budgets'} in turn"
        yield from _under("Noise", (f"{name} {spread}" for name, spread in self.solved.items()))
        refused = "".join(f"; {count} refused: {reason}" for reason, count in self.reasons.items())
        yield "Feasible", f"{self.feasible} of {self.samples} draws from the prior{refused}"
        if self.noise is not None:
            yield "", f"on each count of a report on validation records: {self.noise} records"
        if self.steps is not None:
            yield "Work", f"{self.steps} steps a trial, about {self.steps.median * search.trials:,.4g} in all"
        if (validation := validation_text(self.facts, privacy.adjacency)) is not None:
            yield "Scores", f"validation records {validation}"
        if (test := declared_test(self.spec)) is not None:
            yield "Test", str(test)
        if self.warm_start is not None:
            yield "Warm start", str(self.warm_start)
        yield from () if self.selection is None else self.selection.lines()
        if self.total is not None:
            yield "Total", str(self.total)
        assumptions = Assumptions.of(claim for total in self.started_from for claim in total.claims())
        yield from (("Earlier", line) for line in earlier_lines(self.started_from, assumptions))
        yield from (("Note", note) for note in self.all_notes)
        yield from _under(HEADING, assumptions.lines())
        yield from () if self.rehearsal is None else self.rehearsal.lines()
        # By the declaration alone, no record was looked at.
        yield from (("Records", one) for one in self.facts.treatment)
        yield from (("Population", one) for one in self.population)

    def _space_lines(self) -> Iterator[str]:
        for system, knobs in sorted(self.spec.systems.items()):
            defaults = {one.name: one.default for one in SYSTEMS[system].hyperparameters if one.name != "model"}
            shown = [
                f"{name} {knob}" for name, knob in sorted(shaping(knobs).items()) if defaults.get(name, "") != knob
            ]
            yield f"{system}: {', '.join([*shown, 'all else as by default'])}"
        yield from (f"where {one}" for one in self.spec.constraints)
        if self.grid_size is not None:
            each = f", each {self.spec.search.repeats} times" if self.spec.search.repeats > 1 else ""
            beside = f"; {self.left_out} besides break a constraint, and are left out" if self.left_out else ""
            yield f"{self.grid_size} grid points{each}{beside}"

    def __str__(self) -> str:
        beside = [] if self.modes is None else ["", compare.text(self.modes)]
        return "\n".join([*self.title(), "", *(hanging(label, text) for label, text in self.lines()), *beside])


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _under(label: str, lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(label, line) of the first, and no label before the others."""
    return ((label if not number else "", line) for number, line in enumerate(lines))


def preview(
    spec: SweepSpec,
    *,
    samples: int | None = None,
    warm: Sequence[Published] = (),
    started_from: Sequence[Total] = (),
    rehearsed: float | None = None,
) -> Preview:
    """Plan `samples` draws from the prior and sum up. Reads no record.

    samples       DRAWS unless given, SPREAD_DRAWS where the whole sweep has one budget
    warm          trials of the sweep that `search.warm_start` names
    started_from  `sweeps.privacy.totals.earlier_totals` of this spec; that of a final run has its point (`chosen`)
    rehearsed     seconds of a trial, where a model of one's own was rehearsed

    Raises SpecErrors when a system calls an end of a domain senseless.
    """
    facts, calibrations = public_facts(spec), dict[str, float]()
    check_corners(spec, facts, calibrations)
    space = Space.of(spec)
    samples = samples or (DRAWS if budget_of(spec) is None else SPREAD_DRAWS)
    drawn = list(draws(spec, space, samples if spec.selection is None else min(samples, SEALED_SAMPLES)))
    selection, total, why_not = None, None, list[str]()
    if spec.selection is not None:
        outcomes, selection = sealed_outcomes(SealedPrior(spec, facts, calibrations), drawn)
    else:
        outcomes = [plan_proposal(spec, config, facts, calibrations, number) for number, config in enumerate(drawn)]
    plans = [one for one in outcomes if isinstance(one, PrivacyPlan)]
    refusals = [one for one in outcomes if isinstance(one, Refusal)]
    grid = SearchGrid.of(space) if samplers.walks_grid(spec.search.sampler) else None
    grid_size = None if grid is None else len(grid)
    notes = [f"for example: {refusals[0].reason}"] if refusals else []
    notes += notes_on(spec, facts, plans, len(drawn), grid_size)
    if spec.selection is None:
        known = list(feasible(spec, certain(spec, space), facts, calibrations))
        total, why_not = estimated_total(spec, plans, certain=known)
    earlier = None
    if spec.search.warm_start is not None:
        # A quarter of a second of imports.
        from sweeps.search.optuna_sampler import fitting

        release = Release.of(spec)
        _, earlier = fitting(spec, space, [release.seen(one) for one in warm])
        if not earlier.fitting:
            notes.append(f"nothing of sweep {spec.search.warm_start!r} fits: the search starts cold")
    grouped = [] if facts.unit is None else plans[:GROUP_SAMPLES]
    bounds = [group_epsilon_lower(plan.event(), spec.privacy.delta, facts.unit_records) for plan in grouped]
    return Preview(
        spec=spec,
        facts=facts,
        grid_size=grid_size,
        left_out=0 if grid is None else grid.left_out,
        samples=len(drawn),
        feasible=len(plans),
        reasons=dict(Counter(", ".join(sorted(one.violations)) for one in refusals).most_common()),
        solved=_solved(plans),
        work=Spread.of([plan.work for plan in plans]),
        steps=Spread.of([plan.steps for plan in plans]),
        total=total,
        notes=(*notes, *why_not),
        warm_start=earlier,
        started_from=tuple(started_from),
        per_record=Spread.of([bound for bound in bounds if bound is not None]),
        noise=Spread.of([plan.validation.histogram.deviation for plan in plans if plan.validation is not None]),
        resolution=resolution_of(spec, facts, calibrations, rehearsed),
        selection=selection,
        spread=spread_lines(spec),
    )


def _solved(plans: Sequence[PrivacyPlan]) -> dict[str, Spread]:
    values: dict[str, list[float]] = {}
    for plan in plans:
        for name in plan.solved:
            values.setdefault(f"{plan.system}.{name}", []).append(float(plan.config[name]))
    return {name: spread for name, found in sorted(values.items()) if (spread := Spread.of(found)) is not None}


# The work of `sweeps check`: look at the places, plan the spec, rehearse it on made-up records. It reads no record.


def checked(
    spec: SweepSpec,
    *,
    rehearsal: bool = True,
    modes: bool = False,
    address: str | None = None,
    warm: Sequence[Published] = (),
    started_from: Sequence[Total] = (),
) -> Preview:
    """Plan, look at the places, rehearse. Raises SpecErrors, WouldFail, and what `check_places` raises.

    rehearsal           False: only plan, from public facts alone
    modes               compare the ways to charge for the search too (`sweeps.selection.compare`)
    address             see `check_places`
    warm, started_from  as in `sweeps.planning.preview.preview`
    """
    for function in spec.user_functions():
        # Here, and not only where it is imported: that is in another process, whose words come late.
        plugins.enter("function", function)
    if FUNCTION.fullmatch(spec.search.sampler):
        plugins.enter("search.sampler", spec.search.sampler)
    if not rehearsal:
        plan, found = preview(spec, warm=warm, started_from=started_from), None
    else:
        check_places(spec, address)
        with Rehearsing(spec) as rehearsing:
            # Planning builds the user's own model: not in this process, before it has come back from the other one.
            first = rehearsing.finished() if spec.user_modules() else None
            with redirect_stdout(sys.stderr):
                # What the user's code prints is no part of a JSON document.
                rehearsed = None if first is None else first.trial_seconds(spec)
                plan = preview(spec, warm=warm, started_from=started_from, rehearsed=rehearsed)
            found = first or rehearsing.finished()
    if found is not None:
        check_model_size(spec, found)
        if plan.selection is not None:
            measured = check_deadline(found.fitted(spec, address), found, address)
            plan = replace(plan, selection=replace(plan.selection, measured=measured))
    if not plan.feasible and (found is None or not found.ran):
        check_feasible(spec, plan.facts)
    return replace(plan, rehearsal=found, modes=compared(spec, plan.facts, found) if modes else None)


def check_places(spec: SweepSpec, address: str | None = None, *, joining: bool = True) -> None:
    """What the files and the machine can tell before anything runs: schemas and resources, and no record.

    address  of the Ray cluster that trials are meant for; None: this machine
    joining  ask the cluster itself, too

    Raises InvalidValue (files, columns, device, workers of a sealed search), ClusterUnreachable (resources, imports of
    its workers).
    """
    SOURCES[spec.data.source].inspect(spec.data.options())
    check_workers(spec, address)
    cpus, gpus = spec.resources.per_worker()
    if spec.execution.device == "cuda" and gpus == 0:
        raise InvalidValue(
            "execution.device",
            "cuda",
            "auto or cpu where trials ask for no GPU: they see none",
            "Set resources.gpus (or gpus_per_worker), or leave the device out.",
        )
    if address is None and gpus == 0 and cpus * spec.resources.workers <= (os.cpu_count() or 1):
        # Ray takes a second to import.
        return
    from sweeps.ray.cluster import alive_nodes, check_importable_everywhere, check_reachable, check_resources, cluster

    check_reachable(address, spec.resources)
    if address is not None and joining:
        with cluster(address):
            nodes = alive_nodes()
            check_resources(spec.resources, nodes, "the cluster has")
            if spec.selection is not None:
                check_at_once(spec, workers_at(spec, address), nodes, "the cluster")
            check_importable_everywhere(spec.user_functions())


LARGE_BATCH = 2048
"""Records that every machine holds at once, in the packaged networks."""


def before_launch(
    spec: SweepSpec, address: str | None = None, *, rehearsal: bool = True
) -> tuple[SweepSpec, float | None]:
    """What `sweeps run` makes sure of before it records a sweep.

    A model or sampler that is not ours is tried out in another process: planning builds the model, and it could take
    this one along. So are large batches, and the models of a sealed search, whose size and time have to be known before
    it begins: a time that may be too short is said.

    Returns the spec, with sizes that fit in memory (`Rehearsal.fitted`; trials at once only on this machine), and
    seconds of a trial where one was tried out.
    Raises what `checked` raises. Resources of a cluster are its own to tell, when the sweep has joined it.
    """
    check_places(spec, address, joining=False)
    if address is None:
        check_sockets_fit()
    large = any(
        float(config.get("batch_size", 0)) > LARGE_BATCH for corner in corners(spec) for config in corner.configs[:1]
    )
    ours = not spec.user_modules() and samplers.module_of(spec.search.sampler) is None
    if ours and spec.selection is None and not (large and rehearsal):
        check_feasible(spec, public_facts(spec))
        return spec, None
    if not rehearsal:
        return spec, None
    with Rehearsing(spec) as rehearsing:
        found = rehearsing.finished()
    check_model_size(spec, found)
    fitted = found.fitted(spec, address)
    if found.limits is not None:
        say(f"{found.limits}, and are taken", Event.WARNING)
    say_deadline(check_deadline(fitted, found, address))
    if not found.ran:
        check_feasible(spec, public_facts(spec))
    return fitted, found.trial_seconds(spec)
