"""What sections have to be beside each other: one table of values that may not stand, and the rules that compute.

A rule is a generator of problems (path, value, expected, remedy). Its parameters name what of a draft it looks at: it
is asked only where all of that is right by itself, so that one mistake raises no others.

    name, data, ...   the sections as they were read
    kind              of the privacy section (`sweeps.spec.sections.PRIVACY`), as it was written
    written           the privacy section as it was written, which may be wrong elsewhere than where a rule looks
    knobs             {system: its knobs}, of the systems that are right
    chosen            these systems
    facts, part       of the data: what is public of them, and the part of the records that is asked for, if any;
                      facts_or_none is None where the data are wrong
    asked             (path, metric) of each that a trial has to report
    relations         the constraints, if all of them are right; else none
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from math import prod
from typing import Any, Literal

from pydantic import BaseModel

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from sweeps.search import samplers
from sweeps.search.samplers import AUTO, Independent, Learning
from sweeps.search.space import SearchGrid, Space, read_point
from sweeps.spec.domains import Constraint, Domain, Knobs, as_number
from sweeps.spec.hyperparameters import spelled_out
from sweeps.spec.problems import Problems
from sweeps.spec.sections import (
    BUDGET_AXES,
    FIXED_SAMPLERS,
    MOST,
    TARGET_EPSILON,
    Data,
    EarlyStopping,
    ExecutionOptions,
    FrontOptions,
    Limits,
    ObjectiveOptions,
    Pretrained,
    Privacy,
    Reference,
    Resources,
    Search,
    Selection,
    TotalPrivacy,
    Tracking,
    beyond,
    direction,
    learns,
    weight_places,
)
from sweeps.spec.sweep_budget import law_of, trial_budgets
from sweeps.util.files import check_tracking_uri
from sweeps.util.text import did_you_mean
from trainables.adaptation import AS_BUILT
from trainables.data import SOURCES
from trainables.data.source import FeaturedSource
from trainables.data.splits import PART, PartSplit
from trainables.data.table import TABLE
from trainables.hooks import ReleasesModel
from trainables.measures.quality import GROUPED, QUALITY, own_function, own_metrics
from trainables.planning import check_unit, check_weights
from trainables.publishing import MEASURES, OWN_METRICS, declared, measured, missing, natural_worst
from trainables.system import DatasetSpec, Dependence, Metric, Scalar, System, traits_of
from trainables.validation.histogram_bins import reported
from trainables.validation.planning import check_private

Draft = Mapping[str, Any]
Found = Iterator[tuple[str, object, str, str]]
Asked = Sequence[tuple[str, str]]

BROKEN = object()
"""In a draft, what is wrong by itself."""
FINAL = ("public", "holdout")
"""Scopes of a final run."""
GRID_LIMIT = 1_000_000
"""Largest grid that is enumerated."""
RUNG_OBJECTIVES = 3
"""Most objectives of early stopping: a thousand points of four take seconds at every launch."""
STALL_INTERVALS = 3
"""Intervals between two checkpoints that a limit on stalls has to be longer than."""
SEALED_KINDS = ("sealed", "first")


# Values that may not stand beside a kind of privacy: {path: expected}. They may be left out, or be one of `_MAY`.

_CLOCK = "null: what ends a trial by the clock may depend on its records. The deadline alone ends all"
_TUNED = "privacy.scope: public beside it, or holdout"
_MAY: Mapping[str, tuple[object, ...]] = {
    "search.sampler": ("random", "auto"),
    "search.trials": (1,),
    "resources.workers": (1,),
}
_BESIDE_SEALED = {
    "early_stopping.method": "null: which trials go on would follow from others; the price is that of independent ones",
    "curve": "null: of a sealed trial nothing is released but the winner's end",
    "search.sampler": "random: the price of the best holds for independent draws from a prior that no result changes",
    "search.warm_start": "null: the prior is fixed in public, and results of another sweep are none of it",
    "search.first": "none: a point that is tried first is no draw from the prior",
    "search.stratified": "false: whose turn it is would tell the winner's place among the trials",
    "search.resolved": "null: no method is chosen",
    "limits.hours": _CLOCK,
    "limits.trial_minutes": _CLOCK,
    "limits.stall_seconds": _CLOCK,
    "resources.workers": "1: a sealed trial is trained by one process",
}
_BESIDE_FINAL = {
    "early_stopping.method": "null: a final run is one trial",
    "search.trials": "1: the one final run, with what search.chosen_from found",
    "search.sampler": "none: a final run searches nothing",
    "search.warm_start": "null: a final run learns from no sweep, and takes its point from search.chosen_from",
    "search.stratified": "false: there is one trial",
    "search.resolved": "null: nothing is searched",
}
_ASKED_FOR = "left out without privacy.scope: sweep and release: best, or first, or front"
_BESIDE_OTHERS = {"search.chosen_from": _TUNED, "search.chosen": _TUNED}
_BESIDE_BEST = _BESIDE_SEALED | _BESIDE_OTHERS
_ONE_ORDER = {"selection.orders": "none without release: front: one order decides here"}
_NO_TARGET = {"selection.target": "left out without release: first: the best leaves, whatever it has reached"}
BESIDE: Mapping[str, Mapping[str, str]] = {
    "trial": _BESIDE_OTHERS | {"selection": _ASKED_FOR},
    "total": _BESIDE_OTHERS | {"selection": _ASKED_FOR},
    "best": _BESIDE_BEST | _ONE_ORDER | _NO_TARGET,
    "front": _BESIDE_BEST | _NO_TARGET,
    "first": _BESIDE_BEST | _ONE_ORDER,
    "final": _BESIDE_FINAL | {"selection": _ASKED_FOR},
}
"""By the kind of the privacy section, of a sealed search by its release."""


def _beside(draft: Draft) -> Found:
    kind = draft["kind"] if draft["kind"] not in SEALED_KINDS else draft["written"]["release"]
    for path, expected in BESIDE[kind].items():
        section, *names = path.split(".")
        value = reduce(lambda one, name: getattr(one, name, None), names, draft[section])
        may = _MAY.get(path, ())
        if draft[section] is not BROKEN and value not in (may or (None, (), False)):
            remedy = f"Write `{names[-1]}: {may[0]}`." if may else "Leave it out."
            written = value.model_dump(exclude_unset=True) if isinstance(value, BaseModel) else value
            yield path, list(written) if isinstance(written, tuple) else written, expected, remedy


def _refused(call: Callable[..., object], *arguments: object, at: str = "") -> Found:
    """What `call` refuses by InvalidValue.  at  goes before the name"""
    try:
        call(*arguments)
    except InvalidValue as error:
        yield f"{at}{error.name}", error.value, error.expected, error.remedy


# Rules of the privacy section.


def budgets_differ(privacy: Privacy) -> Found:
    """A repeated budget would be drawn more often."""
    if len(set(privacy.epsilon)) < len(privacy.epsilon):
        yield "privacy.epsilon", list(privacy.epsilon), "each budget once", ""


def delta_is_small(written: Mapping[str, Any], facts: DatasetSpec) -> Found:
    """delta above 1/n allows the release of a whole record. A delta that is no number was reported already."""
    delta = written.get("delta")
    number = as_number(delta)
    if number is None or isinstance(written.get("allow_large_delta"), str):
        return
    if 1 / facts.n < number < 1:
        remedy = "Lower it, or set `allow_large_delta` to the reason why a whole record may leak."
        yield "privacy.delta", delta, f"at most 1/n = {1 / facts.n:.3g} for n={facts.n} {facts.counted}", remedy


def units_are_bounded(privacy: Privacy, facts: DatasetSpec, chosen: Sequence[System]) -> Found:
    """A claim per anything but a record needs data that say whose records are whose, and systems that bound the whole
    of them; one on weighted records needs systems that clip after the weight. Private validation records are read by a
    noised histogram alone, which not every system reports by."""
    for system in chosen:
        yield from _refused(check_unit, system, facts, privacy.unit)
        yield from _refused(check_weights, system, facts)
        yield from _refused(check_private, system, facts)


def total_is_enforced(privacy: Privacy, search: Search, early_stopping: EarlyStopping | None) -> Found:
    """A budget of the whole sweep: its spread, and the order of its filter."""
    if not isinstance(privacy, TotalPrivacy):
        return
    if privacy.spread == "halving" and early_stopping is None:
        expected = "equal or front-loaded without early_stopping: it counts on rungs that most trials never reach"
        yield "privacy.spread", "halving", expected, "Add `early_stopping: {method: asha}`, or choose equal."
    if (privacy.order is None) != (privacy.filter == "gdp"):
        yield (
            "privacy.order",
            privacy.order,
            "an order above 1 with filter: renyi, fixed before the first trial, and none with gdp",
            "For example `filter: renyi`, `order: 8`." if privacy.order is None else "Drop it, or use filter: renyi.",
        )
    else:
        for path, value, expected, _ in _refused(trial_budgets, privacy, search, early_stopping, at="privacy."):
            yield path, value, expected, "A higher order leaves more."


def steering_is_covered(kind: str, written: Mapping[str, Any], asked: Asked, chosen: Sequence[System]) -> Found:
    """Nothing chooses trials by what a total, the price of a selection, or the claim of a final run does not cover."""
    sealed = kind in SEALED_KINDS
    if not (sealed or kind == "total" or written.get("scope") == "holdout"):
        return
    expected = "a metric of the model, which the claim of all that leaves covers: times and memory depend on the "
    expected += "records, and would choose trials by them" if not sealed else "records, and the plan is alike for all"
    for path, metric in asked:
        named = [OWN_METRICS.get(metric), *(declared(one, [metric]).get(metric) for one in chosen)]
        side = any(one is not None and one.depends is Dependence.SIDE_CHANNEL for one in named)
        if metric in OWN_METRICS if sealed else side and path.startswith("objectives"):
            yield path, metric, expected, "Drop it." if sealed else "List it under `report`."


# Rules of the data: parts that are held out or judged on, and the population.


def test_records_are_scored(
    data: Data, facts: DatasetSpec, privacy: Privacy, kind: str, chosen: Sequence[System]
) -> Found:
    """Test records are read for a model that is released; private ones in parallel with training, in no total and at
    no price of a selection."""
    source = SOURCES.get(data.source)
    held = source.held_out(data.options()) if isinstance(source, FeaturedSource) else None
    if held is None:
        return
    if chosen and not any(isinstance(one, ReleasesModel) for one in chosen):
        expected = "a system whose model may be released: of others there is none to be scored"
        yield "data.test", data.options()["test"], expected, "Drop it, or sweep noisy-sgd, say."
    uncounted = kind in ("total", *SEALED_KINDS) or privacy.adjacency is not Adjacency.ADD_REMOVE
    if held.private and uncounted:
        expected = "public with scope: sweep or under replace-one: no filter, no price of a selection and no plan "
        remedy = "Declare the test records public if that is true, or drop them."
        yield "data.test.records", "private", expected + "counts a private reading there", remedy


def part_is_read_by_one(data: Data, part: PartSplit | None, privacy: Privacy) -> Found:
    """Who reads which part: the sweep that tunes one, the final run of a holdout the other. One record that replaces
    another may change both parts."""
    holds = privacy.scope == "holdout"
    if (holds or part is not None) and privacy.adjacency is not Adjacency.ADD_REMOVE:
        expected = "add-remove where the records are parted: one that replaces another may change both parts"
        yield "privacy.adjacency", str(privacy.adjacency), expected, "Use add-remove, or leave data.part out."
    if holds and (part is None or part.use != "final"):
        id_ = ", id: COLUMN" if data.source == TABLE.name else ""
        yield (
            PART,
            None if part is None else str(part.use),
            "the part that did not tune, with scope: holdout: a run on all records is another release of those that "
            "tuned, and adds to what they were charged",
            f"Write `part: {{use: final, share: 0.2{id_}}}` in data, with the share that tuned.",
        )
    elif part is not None and part.use == "final" and not holds:
        expected = "tuning, or privacy.scope: holdout beside it"
        yield f"{PART}.use", "final", expected, "The final run names the sweep that tuned."


def population_counts_all(data: Data, written: Mapping[str, Any], facts_or_none: DatasetSpec | None) -> Found:
    """The ledger of a population counts all releases of its sweeps: what no epsilon covers has no place in it, nor have
    exact scores on public validation or test records of its own source."""
    if data.population is None:
        return
    for path, reason in {
        "data.records_are_public": data.records_are_public,
        "privacy.allow_raw_measures": written.get("allow_raw_measures"),
        "privacy.allow_unprotected": written.get("allow_unprotected"),
    }.items():
        if reason:
            expected = f"left out beside data.population: {data.population}, whose ledger counts all that is released"
            yield path, reason, expected, "Leave the population out where its records need no protection."
    options, facts = data.options(), facts_or_none
    parts = {name: options[name] for name in ("validation", "test") if isinstance(options.get(name), Mapping)}
    own = [name for name, part in parts.items() if part.get("records") == "public" and not part.get("path")]
    public = {f"data.{name}.records": "public" for name in own}
    if facts is not None and "validation" not in parts and facts.n_validation and facts.private_validation is None:
        public["data.source"] = data.source
    for path, value in public.items():
        expected = f"private beside data.population: {data.population}, whose ledger would show nothing for "
        remedy = "Declare data.validation and data.test private, or name separate files (path, n) of people outside of "
        remedy += "the population; or leave the population out where its records need no protection."
        yield path, value, expected + "exact scores on records of its own", remedy


# Rules of metrics: that every trial reports them, and that a claim covers them.


def goal_of(metric: str, chosen: Sequence[System]) -> Literal["maximize", "minimize"] | None:
    """The direction that the metric itself calls better; None where it says none.

    Raises KeyError for a metric that nobody reports.
    """
    reported = {one.name: one for system in reversed(chosen) for one in system.metrics} | dict(OWN_METRICS)
    return reported[metric].goal if metric in reported else measured([metric])[metric].goal


def metrics_are_reported(
    asked: Asked, objectives: Sequence[ObjectiveOptions], chosen: Sequence[System], facts_or_none: DatasetSpec | None
) -> Found:
    """Every chosen system must report every metric, or it must be measured: a trial without a value has no rank."""
    metrics = [metric for _, metric in asked]
    for i, (path, metric) in enumerate(asked):
        if (of_histogram := _only_reports(metric, chosen, facts_or_none)) is not None:
            names = ", ".join(sorted(of_histogram))
            remedy = "Choose one (data.validation.bins decides between loss and auc of several classes), or declare "
            remedy += "data.validation.records: public if that is true."
            yield path, metric, f"one of {names}: what a noised histogram of these validation records says", remedy
            continue
        if metrics.index(metric) < i:
            yield path, metric, "each metric once", ""
        lacking = list(_unreported(path, metric, chosen, facts_or_none))
        yield from lacking
        if lacking or i >= len(objectives) or not (chosen or metric in OWN_METRICS or metric in MEASURES):
            continue
        goal, better = objectives[i].goal, goal_of(metric, chosen)
        if goal is None and better is None:
            remedy = "Only its author knows which way it is better."
            yield f"objectives.{i}.goal", None, f"maximize or minimize beside {metric}", remedy
        elif goal is not None and better not in (None, goal):
            yield f"objectives.{i}.goal", goal, f"{better}: that is the better {metric}", ""


def _unreported(path: str, metric: str, chosen: Sequence[System], facts: DatasetSpec | None) -> Found:
    """Why a chosen system neither reports `metric`, nor it can be measured of it."""
    reporting = {system.name: {one.name for one in system.metrics} for system in chosen}
    silent = [system for system in chosen if metric not in reporting[system.name]]
    if metric in OWN_METRICS or not silent:
        return
    if metric not in MEASURES and not own_metrics([metric]):
        known = set(OWN_METRICS).union(MEASURES, *reporting.values())
        expected = f"a metric that {', '.join(system.name for system in silent)} reports"
        yield path, metric, expected, did_you_mean(metric, known - {metric})
        return
    why = {system.name: reason for system in silent if (reason := missing(metric, system, facts))}
    for name, reason in why.items():
        yield path, metric, f"a metric that can be measured of {name}: {reason}", "Drop it, or that system."
    if not why and metric not in MEASURES:
        yield from _refused(own_function, path, metric)


def _only_reports(metric: str, chosen: Sequence[System], facts: DatasetSpec | None) -> frozenset[str] | None:
    """What reports on private validation records say, if `metric` is judged on them and is not among that."""
    if facts is None or facts.private_validation is None:
        return None
    found = [one for system in chosen if (one := declared(system, [metric]).get(metric)) is not None]
    said = reported(facts, facts.private_validation.bins)
    judged = any(one.depends is Dependence.VALIDATION for one in found)
    return said if judged and metric not in said else None


def metrics_fit_the_data(asked: Asked, facts: DatasetSpec, chosen: Sequence[System]) -> Found:
    """A metric may need validation records, groups, or another kind of target."""
    for path, name in asked:
        for system in chosen:
            metric = declared(system, [name]).get(name)
            if metric is not None and (lacking := _lacking(metric, facts)):
                yield path, name, f"{lacking[0]}, for {system.name}", lacking[1]


def _lacking(metric: Metric, facts: DatasetSpec) -> tuple[str, str] | None:
    """What would have to be, and what to do; None where nothing is missing."""
    name = facts.dataset
    if metric.depends is Dependence.VALIDATION and not facts.n_validation:
        return f"validation records: {name} has none", "Declare data.validation, or choose another objective."
    if metric.tasks is not None and facts.task not in metric.tasks:
        remedy = "Choose another objective; `sweeps systems` lists them."
        return f"a metric of a {facts.task}, which {name} is: no trial would report it", remedy
    if metric.name in GROUPED and facts.groups is None:
        remedy = "Declare data.groups: {column: NAME, categories: [...]} (source table), or drop it."
        return f"groups: {name} declares none", remedy
    return None


def _may_be_raw(metric: Metric, system: System, knobs: Mapping[str, Scalar | Domain]) -> bool:
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
    return tuple(metric.name for metric in system.metrics if _may_be_raw(metric, system, knobs))


def _raw_asked(asked: Asked, knobs: Mapping[str, Knobs], chosen: Sequence[System]) -> dict[str, tuple[System, Metric]]:
    """{path: a system and its metric} of each that is asked for and may read raw records."""
    found: dict[str, tuple[System, Metric]] = {}
    for path, name in asked:
        for system in chosen:
            metric = declared(system, [name]).get(name)
            if metric is not None and _may_be_raw(metric, system, spelled_out(knobs, system.name)):
                found.setdefault(path, (system, metric))
    return found


def raw_metrics_have_a_reason(
    data: Data,
    privacy: Privacy,
    search: Search,
    early_stopping: EarlyStopping | None,
    asked: Asked,
    knobs: Mapping[str, Knobs],
    chosen: Sequence[System],
) -> Found:
    """Metrics that read training records outside of every claim need a reason; what would learn from them would carry
    training records on."""
    reason, raw = privacy.raw_because, _raw_asked(asked, knobs, chosen)
    if data.records_are_public is not None:
        if reason is not None:
            expected = "left out beside data.records_are_public: public records leave nothing uncovered"
            yield "privacy.allow_raw_measures", reason, expected, "Keep the one that is true."
    elif reason is None:
        for path, (system, metric) in raw.items():
            yield (
                path,
                metric.name,
                f"a metric that a claim covers; of {system.name} this one depends on: {metric.released}",
                "Drop it; or say in data.records_are_public why these records are public, or in "
                "privacy.allow_raw_measures why it is released uncovered.",
            )
    elif names := ", ".join(metric.name for path, (_, metric) in raw.items() if path.startswith("objectives")):
        fixed = samplers.one_of(FIXED_SAMPLERS)
        expected = f"{fixed} with {names}, and no early stopping: what came later would carry training records on"
        remedy = "Drop that objective, or what learns from it."
        if learns(search.sampler):
            yield "search.sampler", search.sampler, expected, remedy
        if early_stopping is not None:
            yield "early_stopping.method", early_stopping.method, expected, remedy


# Rules of the selection: what its price does not cover is refused.


def selection_is_asked_for(kind: str, selection: Selection | None) -> Found:
    """A private selection has its section."""
    if kind in SEALED_KINDS and selection is None:
        remedy = "Add `selection: {deadline_minutes: 45}`, long enough for search.trials trials."
        yield "selection", None, "when the winner leaves, announced before the search", remedy


def selection_has_a_law(kind: str, selection: Selection | None, search: Search) -> Found:
    """The number of trials has a law with a price."""
    if kind in SEALED_KINDS and selection is not None:
        yield from _refused(law_of, selection, search.trials)


def selection_has_one_order(kind: str, written: Mapping[str, Any], objectives: Sequence[ObjectiveOptions]) -> Found:
    """Which trial is best is a total order, fixed in public; so is what the best of a sweep that tuned is chosen by."""
    if len(objectives) < 2 or kind not in ("final", *SEALED_KINDS) or written.get("release") == "front":
        return
    remedy = "Keep the one that decides; `report` lists what else is told"
    remedy += "." if kind == "final" else "; or `release: front`, the best by each of several orders."
    expected = "one objective: which trial is best has to be a total order, fixed in public"
    yield "objectives", [one.metric for one in objectives], expected, remedy


def target_is_met(
    kind: str, selection: Selection | None, objectives: Sequence[ObjectiveOptions], chosen: Sequence[System]
) -> Found:
    """`release: first` has a public target of its one objective."""
    if selection is None or kind != "first" or len(objectives) != 1:
        return
    (objective,), target = objectives, selection.target
    if target is None:
        remedy = "Add `target: {metric: accuracy, at_least: 0.9}`, say, not chosen by these records."
        expected = "what a trial has to reach to leave, public and fixed before the search"
        yield "selection.target", None, expected, remedy
        return
    if target.metric != objective.metric:
        remedy = "Name the objective; `report` lists what else the winner tells."
        yield "selection.target.metric", target.metric, f"the objective, {objective.metric}", remedy
    bounds = {name: getattr(target, name) for name in ("at_least", "at_most") if getattr(target, name) is not None}
    try:
        goal = objective.goal or goal_of(objective.metric, chosen)
    except KeyError:
        return
    wanted = "at_most" if goal == "minimize" else "at_least"
    if goal is not None and [*bounds] != [wanted]:
        expected = f"{wanted} alone: objective {objective.metric} is to {goal}"
        yield "selection.target", bounds, expected, f"Write {wanted}."


def orders_differ(
    kind: str, written: Mapping[str, Any], selection: Selection | None, objectives: Sequence[ObjectiveOptions]
) -> Found:
    """`release: front` has several orders that rank trials differently, and a law with a rule for them."""
    if selection is None or kind not in SEALED_KINDS or written["release"] != "front":
        return
    orders = selection.orders
    known = {one.metric for one in objectives}
    for place, order in enumerate(orders):
        if not order or not order.keys() <= known:
            expected = f"a weight for some of the objectives, {', '.join(sorted(known))}"
            yield f"selection.orders[{place}]", order, expected, "Add the metric to `objectives`."
            return
    count = len(orders) or len(objectives)
    if not 2 <= count <= MOST or len(set(map(direction, orders))) < len(orders):
        path = "selection.orders" if orders else "objectives"
        given = list(orders) if orders else [one.metric for one in objectives]
        remedy = "Of one order use `release: best`. Each further order makes every trial dearer."
        expected = f"2 to {MOST} orders that differ, in more than their scale: the best trial by each leaves"
        yield path, given, expected, remedy
    if selection.count in ("binomial", "poisson"):
        expected = "geometric, logarithmic or tnb: of other laws the winners of several orders have no rule"
        yield "selection.count", selection.count, expected, "Use geometric."


# Rules of a final run.


def final_run_has_its_point(kind: str, written: Mapping[str, Any], search: Search) -> Found:
    """A final run takes its point from a sweep that tuned."""
    if kind != "final":
        return
    if search.chosen_from is None:
        expected = f"the sweep that tuned, with scope: {written['scope']}"
        yield "search.chosen_from", None, expected, "Add `chosen_from: NAME`, a sweep of this store that has ended."
    if search.first and search.chosen is None:
        expected = "none: the point of a final run is that of search.chosen_from"
        yield "search.first", list(search.first), expected, "Drop it."


# Rules of the search: samplers, early stopping, points and relations against the space.


def early_stopping_settles_ties(early_stopping: EarlyStopping | None, objectives: Sequence[ObjectiveOptions]) -> Found:
    """Early stopping ranks by few objectives."""
    if early_stopping is not None and len(objectives) > RUNG_OBJECTIVES:
        expected = f"at most {RUNG_OBJECTIVES} objectives (there are {len(objectives)}): volumes settle ties, and take "
        remedy = "Drop `early_stopping`, or an objective."
        yield "early_stopping.method", early_stopping.method, expected + "too long", remedy


def sampler_fits(search: Search, knobs: Mapping[str, Knobs]) -> Found:
    """Each sampler has what it can use, and nothing that it would ignore."""
    try:
        entry, several = samplers.sampler(search.sampler), len(knobs) > 1 and not search.stratified
    except InvalidValue as error:
        yield error.name, error.value, error.expected, error.remedy
        return
    grid = samplers.walks_grid(entry.name)
    ignored = {
        "warm_start": isinstance(entry, Independent),
        "resolved": entry.name != AUTO,
        "stratified": grid,
        "repeats": not grid,
    }
    for name, is_ignored in ignored.items():
        value = getattr(search, name)
        if is_ignored and value != Search.model_fields[name].default:
            expected = f"left out with {entry.name}, which would ignore it"
            yield f"search.{name}", value, expected, f"Drop `{name}`, or use another sampler."
    path, entry = "search.sampler", samplers.sampler(search.resolved or entry.name)
    if search.resolved is not None:
        path = "search.resolved"
    if isinstance(entry, Learning) and several and not entry.mixes_systems:
        mixing = samplers.one_of(samplers.names(lambda one: not isinstance(one, Learning) or one.mixes_systems))
        other = "Drop `resolved`" if search.resolved is not None else f"Use {mixing} to mix systems"
        remedy = f"{other}, or add `stratified: true`: one sampler for each system."
        yield path, entry.name, "one system: it has no conditional knobs", remedy


def grid_is_finite(search: Search, knobs: Mapping[str, Knobs], relations: Sequence[str], privacy: Privacy) -> Found:
    """A grid has points, and not too many."""
    if not samplers.walks_grid(search.sampler) or not knobs:
        return
    every = [(f"systems.{system}.{name}", knob) for system, some in knobs.items() for name, knob in some.items()]
    ranges = [(path, one) for path, one in every if isinstance(one, Domain) and not one.separate and one.points is None]
    for path, knob in ranges:
        expected = "`points` or `choice`, since a grid cannot hold a continuous range"
        yield f"{path}.{knob.kind}", [knob.low, knob.high], expected, "Add `points: 5` beside it, for example."
    if ranges:
        return
    space = Space.over(knobs, privacy.epsilon, relations)
    # Without conditions and relations: counting what they leave walks the whole grid.
    size = sum(prod(one.grid_size for one in branch.searched.values()) for branch in space.branches)
    if size > GRID_LIMIT:
        yield "search.sampler", search.sampler, f"at most {GRID_LIMIT} grid points, not {size}", "Use fewer points."
    elif not len(SearchGrid.of(space)):
        yield "constraints", ", ".join(relations), "relations that hold together at some point", "Widen the grid."


def relations_speak_of_knobs(constraints: Sequence[str], knobs: Mapping[str, Knobs], chosen: Sequence[System]) -> Found:
    """Each relation speaks of knobs of one system, all of them numbers that are known before a trial is planned."""
    found: set[str] = set()
    for i, text in enumerate(constraints):
        path = f"constraints.{i}"
        try:
            one = Constraint.parse(text)
        except InvalidValue as error:
            yield path, text, error.expected, ""
            continue
        if one.text in found:
            yield path, text, "each relation once", ""
        found.add(one.text)
        if knobs:
            yield from _wrong_names(path, one, knobs, chosen)


def _wrong_names(path: str, one: Constraint, knobs: Mapping[str, Knobs], chosen: Sequence[System]) -> Found:
    systems = {name: spelled_out(knobs, name) for name in knobs}
    known = {name for some in systems.values() for name in some}
    names = one.names - {TARGET_EPSILON}
    for name in sorted(names - known):
        expected = f"knobs of the sweep with a value before a trial is planned, which {name} is not"
        solved = name == "noise_multiplier" and any(name in system.solves.values() for system in chosen)
        yield path, one.text, expected, "`limits.noise_multiplier` bounds it." if solved else did_you_mean(name, known)
    if names - known:
        return
    together = [some for some in systems.values() if names and names <= some.keys()]
    if not together:
        listed = ", ".join(sorted(names)) or "numbers alone"
        yield path, one.text, f"a relation of knobs that one system has together, not of {listed}", ""
    for name in sorted(names):
        values = [v for some in together for v in getattr(some[name], "values", (some[name],))]
        if any(isinstance(value, bool | str) for value in values):
            remedy = "With `when`, a knob depends on what is no number."
            yield path, one.text, f"knobs that are numbers, which {name} is not", remedy


def first_points_are_of_the_space(
    search: Search,
    privacy: Privacy,
    early_stopping: EarlyStopping | None,
    knobs: Mapping[str, Knobs],
    relations: Sequence[str],
) -> Found:
    """Known points are points of the space, and no more than trials."""
    if knobs:
        problems = Problems()
        first_points(search, privacy, early_stopping, knobs, relations, problems)
        yield from ((one.path, one.value, one.expected, one.remedy) for one in problems.errors)
        if len(search.first) > search.trials:
            expected = f"at least {len(search.first)}, the points of search.first"
            yield "search.trials", search.trials, expected, ""


def first_points(
    search: Search,
    privacy: Privacy,
    early_stopping: EarlyStopping | None,
    knobs: Mapping[str, Knobs],
    relations: Iterable[str],
    problems: Problems,
) -> tuple[dict[str, Scalar], ...]:
    """`search.first`, each point complete; problems of those that are none are noted."""
    try:
        budgets = trial_budgets(privacy, search, early_stopping)
    except InvalidValue:
        budgets = privacy.epsilon
    space = Space.over(knobs, budgets, tuple(relations))
    points = (read_point(space, one, f"search.first.{i}", problems) for i, one in enumerate(search.first))
    return tuple(point for point in points if point is not None)


# Rules of running.


def workers_are_of_use(resources: Resources, execution: ExecutionOptions, chosen: Sequence[System]) -> Found:
    """Several workers, and half precision, are for systems that train by sums of clipped gradients."""
    others = ", ".join(system.name for system in chosen if not traits_of(system).workers)
    for path, value, plain in (
        ("resources.workers", resources.workers, 1),
        ("execution.precision", execution.precision, "float32"),
    ):
        if value != plain and others:
            yield path, value, f"{plain} with {others}: it forms no clipped gradients of a net", "Leave it out."
    for short, long, alone in (("cpus", "cpus_per_worker", 1.0), ("gpus", "gpus_per_worker", 0.0)):
        given, each = getattr(resources, short), getattr(resources, long)
        if given != alone and (resources.workers > 1 or (each is not None and each != given)):
            expected = f"`{long}` alone, which says what each process occupies"
            yield f"resources.{short}", given, expected, f"Use {long}."


def curve_has_points(curve: int | None, chosen: Sequence[System]) -> Found:
    """A curve needs a system that trains in steps and reports between them."""
    if curve is not None and chosen and not any(traits_of(one).curve for one in chosen):
        others = ", ".join(system.name for system in chosen)
        remedy = "Drop it: `early_stopping` has them report at the end of each rung."
        yield "curve", curve, f"null with {others}, which reports at the end of a launch alone", remedy


def stalls_are_longer_than_silence(limits: Limits, execution: ExecutionOptions) -> Found:
    """A worker that does all that is asked of it writes its records once in `checkpoint_seconds`, and not sooner."""
    least = STALL_INTERVALS * execution.checkpoint_seconds
    if limits.stall_seconds is not None and limits.stall_seconds < least:
        times = f"{STALL_INTERVALS} times execution.checkpoint_seconds"
        expected = f"at least {least:g}, {times}: between two checkpoints workers are silent"
        remedy = "Give it longer than the longest start, step and evaluation, or lower checkpoint_seconds."
        yield "limits.stall_seconds", limits.stall_seconds, expected, remedy


def tracking_has_a_place(tracking: Tracking) -> Found:
    """MLflow's place, before anything is sent to it."""
    if tracking.uri is not None:
        yield from _refused(check_tracking_uri, "tracking.uri", tracking.uri)


# Where the volume under a front ends: what the spec says, else what is public beforehand, never what was observed.
#
# A reference that depended on the results would move with them: two sweeps, or one at two times, could not be
# compared.


def references_are_of_metrics(front: FrontOptions, asked: Asked, chosen: Sequence[System]) -> Found:
    """A reference of a metric that no system reports is a slip of the pen."""
    known = set(OWN_METRICS).union(MEASURES, *(declared(one, [name for _, name in asked]) for one in chosen))
    for name, one in front.reference.items():
        if chosen and name not in known:
            expected = f"a metric that {', '.join(system.name for system in chosen)} reports"
            yield f"front.reference.{name}", one.value, expected, did_you_mean(name, known)


def references(
    given: FrontOptions,
    privacy: Privacy,
    limits: Limits,
    chosen: Sequence[System],
    facts: DatasetSpec,
    asked: Collection[str],
) -> FrontOptions:
    """With every reference that follows from budgets, limits and what the systems report of such a task; given ones go
    before.

    asked  metrics that the spec names: of `trainables.measures.quality` no other is ever reported
    """
    found = dict.fromkeys(BUDGET_AXES, beyond(privacy.epsilon))
    if limits.work is not None:
        found["work"] = Reference(value=limits.work, source="limits.work", derived=True)
    for metric in {name: one for system in chosen for name, one in declared(system, asked).items()}.values():
        told = metric.name in asked or metric.name not in (*QUALITY, *GROUPED)
        told = told and (metric.tasks is None or facts.task in metric.tasks)
        if told and (worst := natural_worst(metric, facts)) is not None:
            found[metric.name] = Reference(value=worst[0], source=worst[1], derived=True)
    own = {name: one for name, one in given.reference.items() if not one.derived}
    return FrontOptions(reference=dict(sorted((found | own).items())))


def weights_are_public(knobs: Mapping[str, Knobs], pretrained: Mapping[str, Pretrained]) -> Found:
    """No epsilon counts what weights bring that trials start from: somebody says that it is nobody's secret."""
    used = weight_places(knobs)
    for place in used:
        if place not in pretrained:
            expected = f"name, licence and public_because of the weights in {place}: no epsilon counts what they bring"
            remedy = f"Write them as `pretrained: {{{place}: {{name: ..., licence: ..., public_because: ...}}}}`."
            yield f"pretrained.{place}", None, expected, remedy
    for place in pretrained.keys() - set(used):
        expected = "a folder or a file of weights that a model starts from (`hf:FOLDER`, `timm:FOLDER`, `weights:`)"
        yield f"pretrained.{place}", pretrained[place].name, expected, did_you_mean(place, used)


def adapters_have_a_rank(knobs: Mapping[str, Knobs]) -> Found:
    """Without one there are none, and the whole model would be trained."""
    for system, own in knobs.items():
        if own.get("lora.rank") == 0 and (own["lora.targets"], own["lora.alpha"]) != (AS_BUILT.targets, AS_BUILT.alpha):
            expected = "the rank of the adapters that lora.targets and lora.alpha are of"
            yield f"systems.{system}.lora.rank", 0, expected, "Write it beside them, as `rank: 4`."


RULES: tuple[Callable[..., Found], ...] = tuple(
    one
    for name, one in list(vars().items())
    if inspect.isfunction(one) and one.__annotations__.get("return") == "Found" and not name.startswith("_")
)
"""Every generator of problems above, in the order of their messages."""


def check(draft: Draft, problems: Problems) -> None:
    """Notes everything by which sections do not go together."""
    for found in _beside(draft):
        problems.add(*found)
    for rule in RULES:
        arguments = {name: draft[name] for name in inspect.signature(rule).parameters}
        if not any(one is BROKEN for one in arguments.values()):
            for found in rule(**arguments):
                problems.add(*found)
