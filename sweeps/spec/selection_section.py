"""A private selection against the rest of the spec: what its price does not cover is refused, with the reason."""

from __future__ import annotations

from dpcore.checks import InvalidValue
from sweeps.search import registry
from sweeps.spec.adapt_section import check_adapt
from sweeps.spec.draft import Draft
from sweeps.spec.orders import MOST, direction
from sweeps.spec.problems import Problems
from sweeps.spec.sections import AdaptOptions, Search, Selection
from trainables.data import SOURCES
from trainables.data.splits import HasTestRecords
from trainables.publishing import OWN_METRICS

INDEPENDENT = "random: the price of the best holds for independent draws from a prior that no result changes"


def selects(draft: Draft) -> bool:
    """Whether few trials leave under one budget for the search: the best, the first to meet a target, or a front."""
    release = draft.written_privacy.get("release")
    return draft.written_privacy.get("scope") == "sweep" and release in ("best", "first", "front")


def proposing(search: Search, selection: Selection) -> tuple[Search, Selection]:
    """The sections of a private selection with what `auto` and bounds that are not given come to."""
    if registry.is_sealed(search.sampler):
        return search, selection.model_copy(update={"adapt": selection.adapt or AdaptOptions()})
    # Where no result may lead the search.
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
    check_adapt(draft, problems)
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
        from sweeps.sealed.law import law_of  # scipy.optimize takes a while

        try:
            law_of(draft.selection, search.trials)
        except InvalidValue as error:
            problems.add(error.name, error.value, error.expected, error.remedy)
    if search.sampler not in ("random", "auto") and not registry.is_sealed(search.sampler):
        remedy = "Use random. With release: best, `adaptive` follows results within bounds that are priced."
        problems.add("search.sampler", search.sampler, INDEPENDENT, remedy)
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
    if isinstance(source, HasTestRecords) and (held := source.held_out(options)) is not None and held.private:
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
