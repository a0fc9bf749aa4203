"""Checks across sections: delta against n, metrics against systems, samplers against spaces.

Each is called with the draft of the spec, notes its problems, and leaves alone what is wrong by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from sweeps.privacy.population import own_public_parts
from sweeps.privacy.sweep_budget import budget_of_sections, trial_budgets
from sweeps.search import samplers
from sweeps.search.grid import SearchGrid, points_up_to
from sweeps.search.samplers import Automatic, Independent, Learning
from sweeps.search.space import Space, read_point
from sweeps.spec.constraints import FORM, Constraint
from sweeps.spec.domains import Domain, as_number
from sweeps.spec.hyperparameters import Knobs, spelled_out
from sweeps.spec.problems import Problems
from sweeps.spec.sections import (
    BUDGET_AXES,
    MOST,
    Data,
    EarlyStopping,
    ExecutionOptions,
    FrontOptions,
    Limits,
    ObjectiveOptions,
    Privacy,
    Reference,
    Resources,
    Search,
    Selection,
    Tracking,
    beyond,
    direction,
)
from sweeps.store.records import TARGET_EPSILON
from sweeps.util.files import check_tracking_uri
from sweeps.util.suggest import did_you_mean
from trainables.data import SOURCES
from trainables.data.source import HoldsOut
from trainables.data.splits import PART, PartSplit, PartUse
from trainables.data.table import TABLE
from trainables.export.protocol import ReleasesModel
from trainables.measures.objectives import MEASURES, measured, missing
from trainables.measures.quality import GROUPED, QUALITY, check_had, own_metrics
from trainables.planning import check_unit, check_weights
from trainables.publishing import OWN_METRICS, declared, natural_worst
from trainables.system import DatasetSpec, Dependence, Metric, Scalar, System, traits_of
from trainables.validation.declaration import NOISE_SD
from trainables.validation.histogram_bins import reported
from trainables.validation.planning import check_private

# A spec as far as it could be read, which is what the checks across its sections look at.


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Sections as they were read; one that is wrong by itself is None, and nothing is held against it.

    systems          {name: its knobs}, canonical, of the systems that are known
    chosen           these systems
    facts            None where the data section is wrong
    part             of the records that the data section asks for; None: all of them
    written_privacy  the privacy section as it was written, which may be wrong elsewhere than where a check looks
    """

    data: Data | None
    privacy: Privacy | None
    objectives: Sequence[ObjectiveOptions] | None
    report: Sequence[str] | None
    curve: int | None
    search: Search | None
    selection: Selection | None
    early_stopping: EarlyStopping | None
    limits: Limits | None
    resources: Resources | None
    execution: ExecutionOptions | None
    tracking: Tracking | None
    front: FrontOptions | None
    constraints: Sequence[str] | None
    systems: Mapping[str, Knobs]
    chosen: Sequence[System]
    facts: DatasetSpec | None
    part: PartSplit | None
    written_privacy: Mapping[str, Any]

    @property
    def asked(self) -> tuple[tuple[str, str], ...]:
        """(path, metric) of each that a trial has to report."""
        objectives = [(f"objectives.{i}.metric", one.metric) for i, one in enumerate(self.objectives or ())]
        return (*objectives, *((f"report.{i}", metric) for i, metric in enumerate(self.report or ())))


# The `constraints` section: each relation read, then held against the knobs of the sweep.

SECTION = "constraints"


def sound(draft: Draft, problems: Problems) -> Sequence[str]:
    """The constraints of a draft that was checked, unless something is wrong with one."""
    wrong = any(one.path.partition(".")[0] == SECTION for one in problems.errors)
    return () if wrong else draft.constraints or ()


def check_constraints(draft: Draft, problems: Problems) -> None:
    """Each relation speaks of knobs of one system, all of them numbers that are known before a trial is planned."""
    found: set[str] = set()
    for i, text in enumerate(draft.constraints or ()):
        path = f"{SECTION}.{i}"
        try:
            one = Constraint.parse(text)
        except (InvalidValue, OverflowError) as error:
            problems.add(path, text, error.expected if isinstance(error, InvalidValue) else FORM)
            continue
        if one.text in found:
            problems.add(path, text, "each relation once")
        found.add(one.text)
        if draft.systems:
            _check_names(path, one, draft, problems)


def _check_names(path: str, one: Constraint, draft: Draft, problems: Problems) -> None:
    systems = {name: spelled_out(draft.systems, name) for name in draft.systems}
    known = {name for knobs in systems.values() for name in knobs}
    solved = {name for system in draft.chosen for name in system.solves.values()} - known
    before = len(problems.errors)
    for name in sorted(one.names - known - {TARGET_EPSILON}):
        if name in solved:
            limit = f"`limits.{name}` bounds it." if name == "noise_multiplier" else ""
            problems.add(path, one.text, f"knobs with a value before a trial is planned: {name} is solved", limit)
        else:
            problems.add(path, one.text, f"knobs of the sweep, which {name} is not", did_you_mean(name, known))
    if len(problems.errors) > before:
        return
    names = one.names - {TARGET_EPSILON}
    if not names:
        problems.add(path, one.text, "a relation that names a knob")
        return
    together = [knobs for knobs in systems.values() if names <= knobs.keys()]
    if not together:
        problems.add(path, one.text, f"knobs of one system: none has all of {', '.join(sorted(names))}")
    for name in sorted(names):
        if any(isinstance(value, bool | str) for knobs in together for value in _values(knobs[name])):
            remedy = "With `when`, a knob depends on what is no number."
            problems.add(path, one.text, f"knobs that are numbers, which {name} is not", remedy)


def _values(knob: Scalar | Domain) -> Sequence[Scalar]:
    return knob.values if isinstance(knob, Domain) else (knob,)


# A private selection against the rest of the spec: what its price does not cover is refused, with the reason.

INDEPENDENT = "random: the price of the best holds for independent draws from a prior that no result changes"


def selects(draft: Draft) -> bool:
    """Whether few trials leave under one budget for the search: the best, the first to meet a target, or a front."""
    release = draft.written_privacy.get("release")
    return draft.written_privacy.get("scope") == "sweep" and release in ("best", "first", "front")


def proposing(search: Search, selection: Selection) -> tuple[Search, Selection]:
    """The sections of a private selection with what `auto` comes to: no result leads the search."""
    return search.model_copy(update={"sampler": "random"}), selection


def check_selection(draft: Draft, problems: Problems) -> None:
    """`privacy: {scope: sweep, release: best}`, or `first`, with all else, and `selection` without it."""
    if not selects(draft):
        if draft.selection is not None:
            expected = "privacy.scope: sweep and release: best beside it, or first, or front"
            problems.add("selection", draft.selection.count, expected, "Add them, or drop `selection`.")
        return
    if draft.selection is None:
        remedy = "Add `selection: {deadline_minutes: 45}`, long enough for search.trials trials."
        problems.add("selection", None, "when the winner leaves, announced before the search", remedy)
    _check_search(draft, problems)
    _check_objectives(draft, problems)
    _check_target(draft, problems)
    _check_orders(draft, problems)
    _check_budget(draft, problems)
    _check_running(draft, problems)


def _check_search(draft: Draft, problems: Problems) -> None:
    search = draft.search
    if draft.early_stopping is not None:
        expected = "null: which trials go on would follow from other trials, and the price holds for independent ones"
        problems.add("early_stopping.method", draft.early_stopping.method, expected, "Drop it.")
    if draft.curve is not None:
        problems.add("curve", draft.curve, "null: nothing of a sealed trial leaves but the winner's end", "Drop it.")
    if search is None:
        return
    if draft.selection is not None:
        from sweeps.selection.law import law_of

        try:
            law_of(draft.selection, search.trials)
        except InvalidValue as error:
            problems.add(error.name, error.value, error.expected, error.remedy)
    if search.sampler not in ("random", "auto"):
        problems.add("search.sampler", search.sampler, INDEPENDENT, "Use random.")
    for name, unset, why in (
        ("warm_start", None, "null: the prior is fixed in public, and results of another sweep are none of it"),
        ("first", (), "none: a point that is tried first is no draw from the prior"),
        ("stratified", False, "false: whose turn it is would tell the winner's place among the trials"),
        ("resolved", None, "null: no method is chosen"),
    ):
        if getattr(search, name) != unset:
            problems.add(f"search.{name}", getattr(search, name), why, "Drop it.")


def _check_objectives(draft: Draft, problems: Problems) -> None:
    objectives = draft.objectives or ()
    if len(objectives) > 1 and draft.written_privacy.get("release") != "front":
        expected = "one objective: which trial is best has to be a total order, fixed in public"
        remedy = "Keep the one that decides; or `release: front`, of which the best by each of several orders leave."
        problems.add("objectives", [one.metric for one in objectives], expected, remedy)
    for path, metric in draft.asked:
        if metric in OWN_METRICS:
            expected = "a metric of the model: time and memory are side channels, and the plan is alike for all trials"
            problems.add(path, metric, expected, "Drop it.")


def _check_target(draft: Draft, problems: Problems) -> None:
    if draft.selection is None:
        return
    target = draft.selection.target
    if draft.written_privacy.get("release") != "first":
        if target is not None:
            remedy = "Write `release: first`, or drop it."
            expected = f"null with release: {draft.written_privacy['release']}, whatever it has reached"
            problems.add("selection.target", target.metric, expected, remedy)
        return
    if target is None:
        remedy = "Add `target: {metric: accuracy, at_least: 0.9}`, say, not chosen by these records."
        expected = "what a trial has to reach to leave, public and fixed before the search"
        problems.add("selection.target", None, expected, remedy)
        return
    bounds = {name: getattr(target, name) for name in ("at_least", "at_most") if getattr(target, name) is not None}
    if len(bounds) != 1:
        problems.add(
            "selection.target", bounds, "one of at_least and at_most", "Keep the one that a trial has to meet."
        )
    if len(draft.objectives or ()) != 1:
        return
    (objective,) = draft.objectives or ()
    if target.metric != objective.metric:
        remedy = "Name the objective; `report` lists what else the winner tells."
        problems.add("selection.target.metric", target.metric, f"the objective, {objective.metric}", remedy)
    wanted = "at_most" if objective.goal == "minimize" else "at_least"
    if len(bounds) == 1 and wanted not in bounds:
        expected = f"{wanted}: objective {objective.metric} is to {objective.goal}"
        problems.add("selection.target", bounds, expected, f"Write {wanted}.")


def _check_orders(draft: Draft, problems: Problems) -> None:
    if draft.selection is None or draft.objectives is None:
        return
    written = draft.selection.orders
    if draft.written_privacy.get("release") != "front":
        if written:
            remedy = "Write `release: front`, or drop them."
            problems.add("selection.orders", list(written), "none: one order decides here", remedy)
        return
    known = {one.metric for one in draft.objectives}
    for place, order in enumerate(written):
        if not order or not order.keys() <= known:
            expected = f"a weight for some of the objectives, {', '.join(sorted(known))}"
            problems.add(f"selection.orders[{place}]", order, expected, "Add the metric to `objectives`.")
            return
    count = len(written) or len(draft.objectives)
    if not 2 <= count <= MOST or len(set(map(direction, written))) < len(written):
        path = "selection.orders" if written else "objectives"
        given = list(written) if written else [one.metric for one in draft.objectives]
        remedy = "Of one order use `release: best`. Each further order makes every trial dearer."
        expected = f"2 to {MOST} orders that differ, in more than their scale: the best trial by each leaves"
        problems.add(path, given, expected, remedy)
    if draft.selection.count in ("binomial", "poisson"):
        expected = "geometric, logarithmic or tnb: of other laws the winners of several orders have no rule"
        problems.add("selection.count", draft.selection.count, expected, "Use geometric.")


def _check_budget(draft: Draft, problems: Problems) -> None:
    privacy = draft.privacy
    if privacy is None:
        return
    if len(privacy.epsilon) > 1 and privacy.release != "first":
        remedy = "Keep one, or use `release: first`, of which the cheapest budget leaves that reaches a target."
        problems.add("privacy.epsilon", list(privacy.epsilon), "one budget: that of the whole search", remedy)
    for name in ("allow_unprotected", "allow_raw_measures"):
        if getattr(privacy, name) is not None:
            expected = "null: what is not covered has no price, and the winner would carry it"
            problems.add(f"privacy.{name}", getattr(privacy, name), expected, "Drop it.")
    if privacy.noise_source == "secure":
        expected = "pseudorandom: a lost trial is run again with the very noise that it had, which nobody can seed here"
        problems.add("privacy.noise_source", "secure", expected, "Drop it.")
    if draft.data is None or draft.facts is None:
        return
    source, options = SOURCES.get(draft.data.source), draft.data.options()
    if isinstance(source, HoldsOut) and (held := source.held_out(options)) is not None and held.private:
        expected = "public: nothing adds a private reading to the price of a selection yet"
        problems.add("data.test.records", "private", expected, "Declare public test records, or drop them.")


def _check_running(draft: Draft, problems: Problems) -> None:
    limits, resources = draft.limits, draft.resources
    if limits is not None:
        for name in ("hours", "trial_minutes", "stall_seconds"):
            if getattr(limits, name) is not None:
                expected = "null: what ends a trial by the clock may depend on its records. The deadline alone ends all"
                problems.add(f"limits.{name}", getattr(limits, name), expected, "Drop it.")
    if resources is not None and resources.workers > 1:
        expected = "1: a sealed trial is trained by one process"
        problems.add("resources.workers", resources.workers, expected, "Drop it.")


GRID_LIMIT = 1_000_000
"""Largest grid that is enumerated."""
RUNG_OBJECTIVES = 3
"""Most objectives of early stopping: a thousand points of four take seconds at every launch."""
STALL_INTERVALS = 3
"""Intervals between two checkpoints that a limit on stalls has to be longer than."""


def check_delta(draft: Draft, problems: Problems) -> None:
    """delta above 1/n allows the release of a whole record. A delta that is no number was reported already."""
    facts, delta = draft.facts, draft.written_privacy.get("delta")
    number = as_number(delta)
    if facts is None or number is None or isinstance(draft.written_privacy.get("allow_large_delta"), str):
        return
    if 1 / facts.n < number < 1:
        problems.add(
            "privacy.delta",
            delta,
            f"at most 1/n = {1 / facts.n:.3g} for n={facts.n} {facts.counted}",
            "Lower it, or set `allow_large_delta` to the reason why a whole record may leak.",
        )


def check_tracking(draft: Draft, problems: Problems) -> None:
    """MLflow's place, before anything is sent to it."""
    if draft.tracking is not None and draft.tracking.uri is not None:
        with problems.noted():
            check_tracking_uri("tracking.uri", draft.tracking.uri)


def check_units(draft: Draft, problems: Problems) -> None:
    """A claim per anything but a record needs data that say whose records are whose, and systems that bound the whole
    of them; one on weighted records needs systems that clip after the weight."""
    if draft.privacy is None or draft.facts is None:
        return
    for system in draft.chosen:
        with problems.noted():
            check_unit(system, draft.facts, draft.privacy.unit)
            check_weights(system, draft.facts)


def check_validation(draft: Draft, problems: Problems) -> None:
    """Private validation records leave through a noised histogram alone, which not every system reports by."""
    if draft.facts is None:
        return
    for system in draft.chosen:
        with problems.noted():
            check_private(system, draft.facts)


def check_test(draft: Draft, problems: Problems) -> None:
    """Test records are read for a model that leaves; private ones in parallel with training, or not at all."""
    if draft.data is None or draft.facts is None:
        return
    source, options = SOURCES.get(draft.data.source), draft.data.options()
    if not isinstance(source, HoldsOut) or (held := source.held_out(options)) is None:
        return
    if draft.chosen and not any(isinstance(one, ReleasesModel) for one in draft.chosen):
        problems.add(
            "data.test",
            options["test"],
            "a system whose model may leave: of others there is none to be scored",
            "Drop it, or sweep noisy-sgd, say.",
        )
    if held.private and draft.privacy is not None and draft.privacy.adjacency is not Adjacency.ADD_REMOVE:
        problems.add(
            "data.test.records",
            "private",
            "public under replace-one, where the score would add to what training spends, and nothing plans that",
            "Use add-remove, or declare the test records public.",
        )


def check_unavailable(draft: Draft, problems: Problems) -> None:
    """Settings that are understood and not built yet."""
    scope, release = draft.written_privacy.get("scope"), draft.written_privacy.get("release")
    if scope != "sweep" and release in ("best", "first", "front"):
        which = "trials are on the front" if release == "front" else f"trial is {release}"
        problems.add(
            "privacy.release",
            release,
            f"all, or `scope: sweep` beside it: which {which} is a result of the whole search",
            "Add `scope: sweep`.",
        )


def check_budgets(draft: Draft, problems: Problems) -> None:
    """A repeated budget would be drawn more often."""
    budgets = () if draft.privacy is None else draft.privacy.epsilon
    if len(set(budgets)) < len(budgets):
        problems.add("privacy.epsilon", list(budgets), "each budget once")


def check_processes(draft: Draft, problems: Problems) -> None:
    """Several workers and half precision are for systems that train by sums of clipped gradients."""
    resources, execution = draft.resources, draft.execution
    others = ", ".join(system.name for system in draft.chosen if not traits_of(system).workers)
    if resources is not None:
        if resources.workers > 1 and others:
            problems.add(
                "resources.workers",
                resources.workers,
                f"1 with {others}: it is trained by one process",
                "Sweep noisy-sgd, noisy-adam or clipped-sgld with several workers, or drop `workers`.",
            )
        for short, long, alone in (("cpus", "cpus_per_worker", 1.0), ("gpus", "gpus_per_worker", 0.0)):
            given, each = getattr(resources, short), getattr(resources, long)
            if given != alone and (resources.workers > 1 or (each is not None and each != given)):
                problems.add(
                    f"resources.{short}",
                    given,
                    f"`{long}` alone, which says what each process occupies",
                    f"Use {long}.",
                )
    if execution is not None and execution.precision != "float32" and others:
        problems.add(
            "execution.precision", execution.precision, f"float32 with {others}: it forms no clipped gradients of a net"
        )


def check_curve(draft: Draft, problems: Problems) -> None:
    """A curve needs a system that trains in steps and reports between them."""
    if draft.curve is not None and draft.chosen and not any(traits_of(one).curve for one in draft.chosen):
        others = ", ".join(system.name for system in draft.chosen)
        problems.add(
            "curve",
            draft.curve,
            f"null with {others}, which reports at the end of a launch alone",
            "Drop it: `early_stopping` has them report at the end of each rung.",
        )


def check_stalls(draft: Draft, problems: Problems) -> None:
    """A worker that does all that is asked of it writes its records once in `checkpoint_seconds`, and not sooner."""
    limits, execution = draft.limits, draft.execution
    if limits is None or execution is None or limits.stall_seconds is None:
        return
    least = STALL_INTERVALS * execution.checkpoint_seconds
    if limits.stall_seconds < least:
        problems.add(
            "limits.stall_seconds",
            limits.stall_seconds,
            f"at least {least:g}, {STALL_INTERVALS} times execution.checkpoint_seconds: between checkpoints healthy "
            "workers are silent",
            "Give it longer than the longest start, step and evaluation, or lower checkpoint_seconds.",
        )


def goal_of(metric: str, chosen: Sequence[System]) -> Literal["maximize", "minimize"] | None:
    """The direction that the metric itself calls better; None where it says none.

    Raises KeyError for a metric that nobody reports.
    """
    if metric in OWN_METRICS:
        return OWN_METRICS[metric].goal
    for system in chosen:
        for one in system.metrics:
            if one.name == metric:
                return one.goal
    return measured([metric])[metric].goal


def check_objectives(draft: Draft, problems: Problems) -> None:
    """Every chosen system must report every metric, or it must be measured: a trial without a value has no rank."""
    chosen, goals = draft.chosen, [one.goal for one in draft.objectives or ()]
    metrics = [metric for _, metric in draft.asked]
    for i, (path, metric) in enumerate(draft.asked):
        if (reported_here := _only_reports(metric, draft)) is not None:
            if own_metrics([metric]):
                problems.add(
                    path,
                    metric,
                    "no function of your own on private validation records: the plan counts no look of it at them",
                    "Declare data.validation.records: public if that is true, or choose one of "
                    f"{', '.join(sorted(reported_here))}.",
                )
                continue
            problems.add(
                path,
                metric,
                f"one of {', '.join(sorted(reported_here))}: what a noised histogram of these validation records says",
                "Choose one of them; data.validation.bins decides between loss and auc of more than two classes.",
            )
            continue
        if metrics.index(metric) < i:
            problems.add(path, metric, "each metric once")
        if not _is_had_of_all(path, metric, draft, problems):
            continue
        if not (chosen or metric in OWN_METRICS or metric in MEASURES):
            continue
        goal, better = goals[i] if i < len(goals) else None, goal_of(metric, chosen)
        if goal is None and better is None and i < len(goals):
            remedy = "Only its author knows which way it is better."
            problems.add(f"objectives.{i}.goal", None, f"maximize or minimize beside {metric}", remedy)
        elif goal is not None and better not in (None, goal):
            problems.add(f"objectives.{i}.goal", goal, f"{better}: that is the better {metric}")


def _is_had_of_all(path: str, metric: str, draft: Draft, problems: Problems) -> bool:
    """Whether each chosen system reports `metric`, or it can be measured of it."""
    reporting = {system.name: {one.name for one in system.metrics} for system in draft.chosen}
    silent = [system for system in draft.chosen if metric not in reporting[system.name]]
    if metric in OWN_METRICS or not silent:
        return True
    if metric in MEASURES or own_metrics([metric]):
        why = {system.name: missing(metric, system, draft.facts) for system in silent}
        for name, reason in why.items():
            if reason:
                expected = f"a metric that can be measured of {name}: {reason}"
                problems.add(path, metric, expected, "Drop it, or that system.")
        return not any(why.values()) and (metric in MEASURES or _is_imported(path, metric, problems))
    known = set(OWN_METRICS).union(MEASURES, *reporting.values())
    expected = f"a metric that {', '.join(system.name for system in silent)} reports"
    problems.add(path, metric, expected, did_you_mean(metric, known - {metric}))
    return False


def _is_imported(path: str, metric: str, problems: Problems) -> bool:
    """Whether a function of the user's own is to be had; what is wrong with it is noted."""
    try:
        check_had(path, metric)
    except InvalidValue as error:
        problems.add(error.name, error.value, error.expected, error.remedy)
    except Exception as error:
        problems.add(path, metric, f"a module that can be imported ({type(error).__name__}: {error})")
    else:
        return True
    return False


def _only_reports(metric: str, draft: Draft) -> frozenset[str] | None:
    """What reports on private validation records say, if `metric` is judged on them and is not among that."""
    facts = draft.facts
    if facts is None or facts.private_validation is None:
        return None
    found = [one for system in draft.chosen if (one := declared(system, [metric]).get(metric)) is not None]
    said = reported(facts, facts.private_validation.bins)
    judged = any(one.depends is Dependence.VALIDATION or one.name.endswith(NOISE_SD) for one in found)
    return said if judged and metric not in said else None


def check_search(draft: Draft, problems: Problems) -> None:
    """Samplers and early stopping against the space and the number of objectives."""
    search, systems, early_stopping = draft.search, draft.systems, draft.early_stopping
    objectives = len(draft.objectives or ())
    if search is None:
        return
    if early_stopping is not None and objectives > RUNG_OBJECTIVES:
        problems.add(
            "early_stopping.method",
            early_stopping.method,
            f"at most {RUNG_OBJECTIVES} objectives (there are {objectives}): volumes settle ties, and take too long",
            "Drop `early_stopping`, or an objective.",
        )
    try:
        entry = samplers.sampler(search.sampler)
    except InvalidValue as error:
        problems.add(error.name, error.value, error.expected, error.remedy)
        return
    if search.warm_start is not None and isinstance(entry, Independent):
        problems.add(
            "search.warm_start",
            search.warm_start,
            f"a sampler that learns: {entry.name} would ignore it",
            f"Use {samplers.one_of(samplers.names(samplers.is_learning))}, or drop `warm_start`.",
        )
    if search.resolved is not None and not isinstance(entry, Automatic):
        problems.add(
            "search.resolved",
            search.resolved,
            f"nothing with {entry.name}: it is the method that `sampler: auto` comes to",
            "Drop `resolved`, or use the sampler auto.",
        )
    if isinstance(entry, Automatic) and search.resolved == "gp" and len(systems) > 1 and not search.stratified:
        problems.add(
            "search.resolved",
            search.resolved,
            "tpe or nsga2 for several systems: a Gaussian process has no conditional knobs",
            "Drop `resolved`, or add `stratified: true`: one model for each system.",
        )
    if isinstance(entry, Learning):
        _check_learning(entry, search, systems, objectives, problems)
    if search.stratified and samplers.walks_grid(entry.name):
        problems.add(
            "search.stratified",
            True,
            f"false with {entry.name}, which visits every system at every budget",
            "Drop `stratified`, or use another sampler.",
        )
    if search.repeats > 1 and not samplers.walks_grid(entry.name):
        problems.add(
            "search.repeats",
            search.repeats,
            f"1 with {entry.name}: only a grid has points to repeat",
            "Use the grid sampler, or drop `repeats`.",
        )
    if samplers.walks_grid(entry.name):
        _check_grid(entry.name, draft, problems)


def check_first(draft: Draft, problems: Problems) -> None:
    """Known points are points of the space."""
    if draft.search is not None and draft.privacy is not None and draft.systems:
        first_points(draft, problems)
        if len(draft.search.first) > draft.search.trials:
            points = len(draft.search.first)
            problems.add("search.trials", draft.search.trials, f"at least {points}, the points of search.first")


def first_points(draft: Draft, problems: Problems) -> tuple[dict[str, Scalar], ...]:
    """`search.first`, each point complete; problems of those that are none are noted."""
    assert draft.search is not None
    assert draft.privacy is not None
    try:
        budgets = trial_budgets(draft.privacy, draft.search, draft.early_stopping)
    except InvalidValue:
        # `sweeps.spec.rules` says why.
        budgets = draft.privacy.epsilon
    space = Space.over(draft.systems, budgets, sound(draft, problems))
    points = (read_point(space, one, f"search.first.{i}", problems) for i, one in enumerate(draft.search.first))
    return tuple(point for point in points if point is not None)


def _check_learning(
    entry: Learning, search: Search, systems: Mapping[str, Knobs], objectives: int, problems: Problems
) -> None:
    if len(systems) > 1 and not search.stratified and not entry.mixes_systems:
        mixing = samplers.names(lambda one: not isinstance(one, Learning) or one.mixes_systems)
        problems.add(
            "search.sampler",
            entry.name,
            "one system: it has no conditional knobs",
            f"Use {samplers.one_of(mixing)} to mix systems, or add `stratified: true`: one sampler for each system.",
        )
    if objectives > 1 and not entry.several_objectives:
        problems.add(
            "search.sampler",
            entry.name,
            f"one objective (there are {objectives}): it ranks by a single number",
            "Drop all objectives but one, or use another sampler.",
        )


def _check_grid(sampler: str, draft: Draft, problems: Problems) -> None:
    systems = draft.systems
    continuous = False
    for system, knobs in systems.items():
        for name, knob in knobs.items():
            if isinstance(knob, Domain) and not knob.separate and knob.points is None:
                continuous = True
                problems.add(
                    f"systems.{system}.{name}.{knob.kind}",
                    [knob.low, knob.high],
                    "`points` or `choice`, since a grid cannot hold a continuous range",
                    "Add `points: 5` beside it, for example.",
                )
    if continuous or not systems:
        return
    constraints = sound(draft, problems)
    space = Space.over(systems, [1.0] if draft.privacy is None else draft.privacy.epsilon, constraints)
    size = points_up_to(GRID_LIMIT, space)
    if size > GRID_LIMIT:
        problems.add("search.sampler", sampler, f"at most {GRID_LIMIT} grid points, not {size}", "Use fewer points.")
    elif size == 0:
        alone = [
            one for one in constraints if not len(SearchGrid.of(replace(space, constraints=(Constraint.parse(one),))))
        ]
        expected = f"{'a relation' if alone else 'relations'} that hold{'s' if alone else ''} at some point of the grid"
        problems.add("constraints", ", ".join(alone or constraints), expected, "Widen the grid.")


# One final run with what an earlier sweep found: nothing is searched, and nothing else leaves.
#
# `scope: public` after a sweep on records that are declared public, `scope: holdout` after one on another part of the
# same records (`data.part`).

FINAL = ("public", "holdout")
"""Scopes of a final run."""


def is_final(draft: Draft) -> bool:
    """Whether it is one run with hyperparameters of an earlier sweep."""
    return draft.written_privacy.get("scope") in FINAL


def check_final(draft: Draft, problems: Problems) -> None:
    """`privacy.scope: public` or `holdout` with all else, and what belongs to them without them."""
    search = draft.search
    _check_part(draft, problems)
    if not is_final(draft):
        for name in ("chosen_from", "chosen"):
            if search is not None and getattr(search, name) is not None:
                expected = "privacy.scope: public beside it, or holdout"
                problems.add(f"search.{name}", getattr(search, name), expected, "Add it, or drop this.")
        return
    scope = draft.written_privacy["scope"]
    if search is not None and search.chosen_from is None:
        remedy = "Add `chosen_from: NAME`, a sweep of this store that has ended."
        problems.add("search.chosen_from", None, f"the sweep that tuned, with scope: {scope}", remedy)
    _check_final_search(draft, problems)
    _check_privacy(draft, problems)
    if len(draft.objectives or ()) > 1:
        expected = "one objective, by which the best trial of the sweep that tuned is chosen"
        remedy = "Keep the one that decides; `report` lists what else the final run tells."
        problems.add("objectives", [one.metric for one in draft.objectives or ()], expected, remedy)
    if scope == "holdout":
        _check_objective(draft, problems)


def _check_part(draft: Draft, problems: Problems) -> None:
    """Who reads which part: the sweep that tunes one, the final run of a holdout the other."""
    data, privacy = draft.data, draft.privacy
    if data is None or draft.facts is None:
        return
    holds, part = draft.written_privacy.get("scope") == "holdout", draft.part
    if holds and (part is None or part.use is not PartUse.FINAL):
        id_ = ", id: COLUMN" if data.source == TABLE.name else ""
        problems.add(
            PART,
            None if part is None else str(part.use),
            "the part that did not tune, with scope: holdout: a run on all records is another release of those that "
            "tuned, and adds to what they were charged",
            f"Write `part: {{use: final, share: 0.2{id_}}}` in data, with the share that tuned.",
        )
    elif part is not None and part.use is PartUse.FINAL and not holds:
        expected = "tuning, or privacy.scope: holdout beside it"
        problems.add(f"{PART}.use", "final", expected, "The final run names the sweep that tuned.")
    if (holds or part is not None) and privacy is not None and privacy.adjacency is not Adjacency.ADD_REMOVE:
        problems.add(
            "privacy.adjacency",
            str(privacy.adjacency),
            "add-remove where the records are parted: one that replaces another may change both parts",
            "Use add-remove, or leave data.part out.",
        )


def _check_objective(draft: Draft, problems: Problems) -> None:
    for path, metric in draft.asked:
        named = [OWN_METRICS.get(metric), *(declared(one, [metric]).get(metric) for one in draft.chosen)]
        side = any(one is not None and one.depends is Dependence.SIDE_CHANNEL for one in named)
        if path.startswith("objectives") and side:
            expected = "a metric that the claim of the sweep that tuned covers: times and memory depend on the records"
            problems.add(path, metric, expected, "List it under `report`.")


def _check_final_search(draft: Draft, problems: Problems) -> None:
    search = draft.search
    if draft.early_stopping is not None:
        problems.add("early_stopping.method", draft.early_stopping.method, "null: a final run is one trial", "Drop it.")
    if search is None:
        return
    if search.trials != 1:
        expected = "1: the one final run, with what search.chosen_from found"
        problems.add("search.trials", search.trials, expected, "Write `trials: 1`.")
    if search.sampler not in ("random", "auto"):
        problems.add("search.sampler", search.sampler, "none: a final run searches nothing", "Leave it out.")
    for name, unset, why in (
        ("warm_start", None, "null: a final run learns from no sweep, and takes its point from search.chosen_from"),
        ("stratified", False, "false: there is one trial"),
        ("resolved", None, "null: nothing is searched"),
    ):
        if getattr(search, name) != unset:
            problems.add(f"search.{name}", getattr(search, name), why, "Drop it.")
    if search.first and search.chosen is None:
        expected = "none: the point of a final run is that of search.chosen_from"
        problems.add("search.first", list(search.first), expected, "Drop it.")


def _check_privacy(draft: Draft, problems: Problems) -> None:
    privacy = draft.privacy
    if privacy is None:
        return
    if len(privacy.epsilon) > 1:
        problems.add("privacy.epsilon", list(privacy.epsilon), "one budget: that of the final run", "Keep one.")
    for name in ("allow_unprotected", "allow_raw_measures"):
        if getattr(privacy, name) is not None:
            expected = f"null with scope: {privacy.scope}: the claim of the final run is that of the whole procedure"
            problems.add(f"privacy.{name}", getattr(privacy, name), expected, "Drop it.")


# Checks of a budget for everything that leaves a sweep (`scope: sweep`, `release: all`), and of what belongs to it.
#
# Whatever would leave such a sweep without being counted is refused: then its total would promise more than it keeps.

OWN = ("spread", "shares", "filter", "order")
"""Settings of such a budget alone."""


def check_sweep_scope(draft: Draft, problems: Problems) -> None:
    """A budget of the whole sweep, or settings that nothing would read."""
    privacy, search = draft.privacy, draft.search
    if privacy is None:
        return
    if (privacy.scope, privacy.release) != ("sweep", "all"):
        for name in OWN:
            if name in draft.written_privacy:
                problems.add(
                    f"privacy.{name}",
                    draft.written_privacy[name],
                    "left out unless scope is sweep and release is all: it spreads a budget of the whole sweep",
                    "Add `scope: sweep`, or drop it.",
                )
        return
    if len(privacy.epsilon) > 1:
        problems.add(
            "privacy.epsilon",
            list(privacy.epsilon),
            "one number with scope: sweep, which is spread over the trials",
            "Name the total alone; several totals are several sweeps.",
        )
    if privacy.spread == "halving" and draft.early_stopping is None:
        problems.add(
            "privacy.spread",
            "halving",
            "equal or front-loaded without early_stopping: it counts on rungs that most trials never reach",
            "Add `early_stopping: {method: asha}`, or choose equal.",
        )
    if (privacy.order is None) != (privacy.filter == "gdp"):
        problems.add(
            "privacy.order",
            privacy.order,
            "an order above 1 with filter: renyi, fixed before the first trial, and none with gdp",
            "For example `filter: renyi`, `order: 8`." if privacy.order is None else "Drop it, or use filter: renyi.",
        )
    elif search is not None:
        try:
            budget = budget_of_sections(privacy, search, draft.early_stopping)
            assert budget is not None
            _ = budget.trial_epsilon
        except InvalidValue as error:
            problems.add(f"privacy.{error.name}", error.value, error.expected, "A higher order leaves more.")
    _check_uncounted(draft, problems)


def _check_uncounted(draft: Draft, problems: Problems) -> None:
    """What would leave, or steer the search, without being counted."""
    privacy = draft.privacy
    assert privacy is not None
    for name in ("allow_raw_measures", "allow_unprotected"):
        if (why := getattr(privacy, name)) is not None:
            problems.add(
                f"privacy.{name}",
                why,
                "left out with scope: sweep: what no claim covers is in no total",
                "Drop it, or use scope: trial.",
            )
    for path, metric in draft.asked:
        if not path.startswith("objectives"):
            continue
        named = [OWN_METRICS.get(metric), *(declared(one, [metric]).get(metric) for one in draft.chosen)]
        if any(one is not None and one.depends is Dependence.SIDE_CHANNEL for one in named):
            problems.add(
                path,
                metric,
                "a metric that the total covers: running times and memory depend on the records, and would choose "
                "trials by them",
                "List it under `report`.",
            )
    if draft.data is None or draft.facts is None:
        return
    source = SOURCES.get(draft.data.source)
    held = source.held_out(draft.data.options()) if isinstance(source, HoldsOut) else None
    if held is not None and held.private:
        problems.add(
            "data.test.records",
            "private",
            "public with scope: sweep: its filter counts launches, and no readings of private test records",
            "Declare the test records public if that is true, or use scope: trial.",
        )


# Metrics that read training records outside of every claim: a spec names none without saying why it may leave.


def may_be_raw(metric: Metric, system: System, knobs: Mapping[str, Scalar | Domain]) -> bool:
    """Whether `metric` reads raw records in some trial of a system with these knobs (`spelled_out`)."""
    defaults = {one.name: one.default for one in system.hyperparameters}

    def may_be(name: str, value: Scalar) -> bool:
        knob = knobs.get(name, value)
        if not isinstance(knob, Domain):
            return knob == value
        # Where a knob is not there, the system uses its default.
        return knob.contains(value) or (bool(knob.when) and defaults.get(name) == value)

    return metric.depends is Dependence.RAW or any(may_be(*one) for one in metric.raw_under.items())


def raw_metrics(system: System, knobs: Mapping[str, Scalar | Domain]) -> tuple[str, ...]:
    """Names of the metrics of `system` itself that read raw records in some of its trials."""
    return tuple(metric.name for metric in system.metrics if may_be_raw(metric, system, knobs))


def check_raw_measures(draft: Draft, problems: Problems) -> None:
    """Raw metrics need a reason, and one that leaves them uncovered forbids learning from them."""
    data, privacy = draft.data, draft.privacy
    public = data is not None and data.records_are_public is not None
    reason = None if privacy is None else privacy.allow_raw_measures
    if public and reason is not None:
        problems.add(
            "privacy.allow_raw_measures",
            reason,
            "left out beside data.records_are_public: public records leave nothing uncovered",
            "Keep the one that is true.",
        )
    raw: dict[str, Metric] = {}
    knobs = {name: spelled_out(draft.systems, name) for name in draft.systems}
    steering = {one.metric for one in draft.objectives or ()}
    told = set()
    for path, name in draft.asked:
        for system in draft.chosen:
            metric = declared(system, [name]).get(name)
            if metric is None or path in told or not may_be_raw(metric, system, knobs[system.name]):
                continue
            told.add(path)
            if name in steering:
                raw[name] = metric
            if data is not None and privacy is not None and not public and reason is None:
                problems.add(
                    path,
                    metric.name,
                    f"a metric that a claim covers; of {system.name} this one depends on: {metric.released}",
                    "Drop it; or say in data.records_are_public why these records are public, or in "
                    "privacy.allow_raw_measures why it leaves uncovered.",
                )
    if not raw or reason is None or public:
        return
    names = ", ".join(raw)
    if draft.search is not None and samplers.learns(draft.search.sampler):
        problems.add(
            "search.sampler",
            draft.search.sampler,
            f"{samplers.one_of(samplers.fixed())} with {names}: every later configuration would carry training "
            "records on",
            "Use the random sampler, or drop that objective.",
        )
    if draft.early_stopping is not None:
        problems.add(
            "early_stopping.method",
            draft.early_stopping.method,
            f"no early stopping with {names}: which trials go on would carry training records on",
            "Drop `early_stopping`, or that objective.",
        )


def check_population(draft: Draft, problems: Problems) -> None:
    """The ledger of a population counts all that leaves its sweeps: what no epsilon covers has no place in it."""
    data, privacy = draft.data, draft.privacy
    if data is None or data.population is None:
        return
    outside = {
        "data.records_are_public": data.records_are_public,
        "privacy.allow_raw_measures": privacy and privacy.allow_raw_measures,
        "privacy.allow_unprotected": privacy and privacy.allow_unprotected,
    }
    for path, reason in outside.items():
        if reason:
            problems.add(
                path,
                reason,
                f"left out beside data.population: {data.population}, whose ledger counts all that is released",
                "Leave the population out where its records need no protection.",
            )
    _check_own_parts(data, draft.facts, problems)


def _check_own_parts(data: Data, facts: DatasetSpec | None, problems: Problems) -> None:
    """Scores on public records leave as they are, and the ledger shows nothing for them: not of its own records."""
    options = data.options()
    expected = f"private beside data.population: {data.population}, whose ledger would show nothing for exact scores"
    parts = own_public_parts(options)
    for name in parts:
        problems.add(
            f"data.{name}.records",
            "public",
            f"{expected} on records of its own source",
            "Declare them private, or name a separate file (path, n) of people outside of the population.",
        )
    declared = isinstance(options.get("validation"), Mapping)
    if not declared and facts is not None and facts.n_validation and facts.private_validation is None:
        problems.add(
            "data.source",
            data.source,
            f"{expected} on records of its own: the validation records of this source are public",
            "Declare data.validation {records: private, ...} where the source takes it; or leave the population out "
            "where its records need no protection.",
        )


# Which metrics that a spec asks for no trial could report on its data, by what systems declare of their metrics.


def check_reported(draft: Draft, problems: Problems) -> None:
    """A metric may need validation records, or another kind of target: a trial that cannot report it has no rank."""
    if draft.facts is None:
        return
    for path, name in draft.asked:
        for system in draft.chosen:
            metric = declared(system, [name]).get(name)
            if metric is not None and (lacking := _lacking(metric, draft.facts)):
                expected, remedy = lacking
                problems.add(path, name, f"{expected}, for {system.name}", remedy)


def _lacking(metric: Metric, facts: DatasetSpec) -> tuple[str, str] | None:
    """What would have to be, and what to do; None where nothing is missing."""
    if metric.depends is Dependence.VALIDATION and not facts.n_validation:
        return (
            f"validation records: {facts.dataset} has none, and no trial would report it",
            "Declare data.validation, or choose another objective.",
        )
    if metric.tasks is not None and facts.task not in metric.tasks:
        return (
            f"a metric of a {facts.task}, which {facts.dataset} is: no trial would report it",
            "Choose another objective; `sweeps systems` lists them.",
        )
    if metric.name.removesuffix(NOISE_SD) in GROUPED and facts.groups is None:
        remedy = "Declare data.groups: {column: NAME, categories: [...]} (source table), or drop it."
        return f"groups: {facts.dataset} declares none, and no trial would report it", remedy
    if metric.name.endswith(NOISE_SD) and facts.private_validation is None:
        return "private validation records: no noise is added to public ones", "Choose another objective."
    return None


# Where the volume under a front ends: what the spec says, else what is public beforehand, never what was observed.
#
# A reference that depended on the results would move with them: two sweeps, or one at two times, could not be
# compared.


def references(
    given: FrontOptions,
    privacy: Privacy,
    limits: Limits,
    chosen: Sequence[System],
    facts: DatasetSpec | None,
    asked: Collection[str],
) -> FrontOptions:
    """With every reference that follows from budgets, limits and the metrics of the systems; given ones go before.

    asked  metrics that the spec names: of `trainables.measures.quality` no other is ever reported
    """
    found: dict[str, Reference] = {}
    found |= dict.fromkeys(BUDGET_AXES, beyond(privacy.epsilon))
    if limits.work is not None:
        found["work"] = _derived(limits.work, "limits.work")
    if facts is not None:
        for metric in {name: one for system in chosen for name, one in declared(system, asked).items()}.values():
            told = metric.name in asked or metric.name not in (*QUALITY, *GROUPED)
            worst = natural_worst(metric, facts) if told else None
            if worst is not None:
                found[metric.name] = _derived(*worst)
    own = {name: one for name, one in given.reference.items() if not one.derived}
    return FrontOptions(reference=dict(sorted((found | own).items())))


def _derived(value: float, source: str) -> Reference:
    return Reference(value=value, source=source, derived=True)


def check_references(draft: Draft, problems: Problems) -> None:
    """A reference of a metric that no system reports is a slip of the pen."""
    chosen, given = draft.chosen, {} if draft.front is None else draft.front.reference
    asked = [name for _, name in draft.asked]
    known = set(OWN_METRICS).union(MEASURES, *(declared(system, asked) for system in chosen))
    for name, one in given.items():
        if chosen and name not in known:
            expected = f"a metric that {', '.join(system.name for system in chosen)} reports"
            problems.add(f"front.reference.{name}", one.value, expected, did_you_mean(name, known))
