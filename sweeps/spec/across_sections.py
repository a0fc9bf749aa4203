"""Checks across sections: delta against n, metrics against systems, samplers against spaces.

Each is called with the draft of the spec, notes its problems, and leaves alone what is wrong by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from sweeps.budget.sweep_budget import trial_budgets
from sweeps.process.suggestions import did_you_mean
from sweeps.process.tracking_uri import check_tracking_uri
from sweeps.search import registry
from sweeps.search.grid import SearchGrid, points_up_to
from sweeps.search.known_points import read_point
from sweeps.search.registry import Automatic, Independent, Learning
from sweeps.search.space import Space
from sweeps.spec.constraints import Constraint
from sweeps.spec.constraints_section import sound
from sweeps.spec.domains import Domain
from sweeps.spec.draft import Draft
from sweeps.spec.problems import Problems
from sweeps.spec.same_as import Knobs
from sweeps.spec.sections import Search
from sweeps.spec.selection_section import selects
from sweeps.spec.values import as_number
from trainables.capabilities import capabilities_of
from trainables.claims import check_unit, check_weights
from trainables.data import SOURCES
from trainables.data.splits import HasTestRecords
from trainables.export.protocol import ReleasesModel
from trainables.measures.objectives import MEASURES, measured, missing
from trainables.measures.quality import check_had, own_metrics
from trainables.publishing import OWN_METRICS, declared
from trainables.system import Dependence, Scalar, System
from trainables.validation.declaration import NOISE_SD
from trainables.validation.histogram_bins import reported
from trainables.validation.planning import check_private

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
    if not isinstance(source, HasTestRecords) or (held := source.held_out(options)) is None:
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
    others = ", ".join(system.name for system in draft.chosen if not capabilities_of(system).workers)
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
    if draft.curve is not None and draft.chosen and not any(capabilities_of(one).curve for one in draft.chosen):
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
    if registry.is_sealed(search.sampler) and selects(draft):
        # `sweeps.spec.selection_section` says what goes with it.
        return
    try:
        entry = registry.sampler(search.sampler)
    except InvalidValue as error:
        problems.add(error.name, error.value, error.expected, error.remedy)
        return
    if search.warm_start is not None and isinstance(entry, Independent):
        problems.add(
            "search.warm_start",
            search.warm_start,
            f"a sampler that learns: {entry.name} would ignore it",
            f"Use {registry.one_of(registry.names(registry.is_learning))}, or drop `warm_start`.",
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
    if search.stratified and registry.walks_grid(entry.name):
        problems.add(
            "search.stratified",
            True,
            f"false with {entry.name}, which visits every system at every budget",
            "Drop `stratified`, or use another sampler.",
        )
    if search.repeats > 1 and not registry.walks_grid(entry.name):
        problems.add(
            "search.repeats",
            search.repeats,
            f"1 with {entry.name}: only a grid has points to repeat",
            "Use the grid sampler, or drop `repeats`.",
        )
    if registry.walks_grid(entry.name):
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
        # `sweeps.spec.sweep_scope` says why.
        budgets = draft.privacy.epsilon
    space = Space.over(draft.systems, budgets, sound(draft, problems))
    points = (read_point(space, one, f"search.first.{i}", problems) for i, one in enumerate(draft.search.first))
    return tuple(point for point in points if point is not None)


def _check_learning(
    entry: Learning, search: Search, systems: Mapping[str, Knobs], objectives: int, problems: Problems
) -> None:
    if len(systems) > 1 and not search.stratified and not entry.mixes_systems:
        mixing = registry.names(lambda one: not isinstance(one, Learning) or one.mixes_systems)
        problems.add(
            "search.sampler",
            entry.name,
            "one system: it has no conditional knobs",
            f"Use {registry.one_of(mixing)} to mix systems, or add `stratified: true`: one sampler for each system.",
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
