"""A sweep that is given more than it began with: what may be asked, what is recorded of it, and what it will cost.

The spec that a sweep began with stays as it was recorded. What it goes on under is that spec and its extensions; the
sampler is given the number of trials that it began with, so that no proposal depends on how often it was extended;
and which proposal added budgets hold from.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from dpcore.checks import InvalidValue
from dpcore.rounding import budget_text
from sweeps.budget.sweep_budget import budget_of
from sweeps.control.extension_costs import cost_of
from sweeps.control.shared_budget import SharedBudget
from sweeps.planning.plan import exhausted, infeasible_in_a_row
from sweeps.process.words import say
from sweeps.records import Extension, SweepRecord, SweepState, TrialRecord, TrialState
from sweeps.release.policy import Release
from sweeps.release.rounding import count_text
from sweeps.search import samplers
from sweeps.search.grid import SearchGrid
from sweeps.search.space import Space
from sweeps.search.turns import widened
from sweeps.spec import SweepSpec
from sweeps.spec.sections import LARGEST_BUDGET, with_budgets
from sweeps.store import Lease, Store

LARGEST = 10_000_000
"""As of `search.trials`."""
EARLIER_DEFAULT = "tpe"
"""What a spec without `search.sampler` meant before it meant `auto`."""


def extended(spec: SweepSpec, extensions: Iterable[Extension]) -> SweepSpec:
    """The spec with everything that was asked for later."""
    extensions = tuple(extensions)
    spec = widened(spec, extensions)
    for one in extensions:
        if one.trials is not None:
            spec = _with_shares(spec).model_copy(
                update={"search": spec.search.model_copy(update={"trials": one.trials})}
            )
        if one.hours is not None:
            spec = spec.model_copy(update={"limits": spec.limits.model_copy(update={"hours": one.hours})})
    return spec


def _with_shares(spec: SweepSpec) -> SweepSpec:
    """The spec whose budget for the whole sweep, if it has one, stays spread over as many trials as it began with."""
    privacy = spec.privacy
    if privacy.scope != "sweep" or privacy.shares is not None:
        return spec
    return spec.model_copy(update={"privacy": privacy.model_copy(update={"shares": spec.search.trials})})


def begun(spec: SweepSpec, before: SweepSpec, extensions: Sequence[Extension]) -> SweepSpec:
    """A spec that is given at a resume, without what the sweep was extended by: it may state any of its totals.

    What `sampler: auto` comes to was resolved when the sweep began, and stays; so does the sampler of a spec that names
    none, where that meant another one then.

    Raises InvalidValue for `auto` where the sweep began with a sampler by name: nothing was resolved.
    """
    search, began = spec.search, before.search
    if search.resolved is None:
        if "sampler" not in search.model_fields_set and began.sampler == EARLIER_DEFAULT:
            search = search.model_copy(update={"sampler": began.sampler})
        if search.sampler == began.sampler:
            search = search.model_copy(update={"resolved": began.resolved})
        elif samplers.is_automatic(search.sampler):
            raise InvalidValue(
                "search.sampler",
                search.sampler,
                f"{began.sampler}, with which the sweep began: what `auto` comes to is chosen when a sweep begins",
                f"Write `sampler: {began.sampler}`, or start a new sweep with --name.",
            )
        spec = spec.model_copy(update={"search": search})
    if spec.search.chosen is None and spec.search.chosen_from and spec.search.chosen_from == began.chosen_from:
        known = {"chosen": began.chosen, "first": began.first}
        spec = spec.model_copy(update={"search": spec.search.model_copy(update=known)})
    if spec.search.trials in [one.trials for one in extensions]:
        spec = spec.model_copy(update={"search": spec.search.model_copy(update={"trials": before.search.trials})})
    if spec.limits.hours is not None and spec.limits.hours in [one.hours for one in extensions]:
        spec = spec.model_copy(update={"limits": spec.limits.model_copy(update={"hours": before.limits.hours})})
    totals = [before.privacy.epsilon]
    for one in extensions:
        totals.append(tuple(sorted((*totals[-1], *one.epsilon))))
    if spec.privacy.epsilon in totals:
        spec = with_budgets(spec, before.privacy.epsilon)
    return spec


def asked(
    recorded: SweepRecord,
    spec: SweepSpec,
    records: Sequence[TrialRecord],
    trials: int | None,
    hours: float | None = None,
    epsilon: Sequence[float] = (),
) -> Extension | None:
    """The extension that a wish for `trials` and `hours` in all, and for more budgets, comes to; None where that is
    what there is anyway.

    spec     what the sweep goes on under, earlier extensions included
    records  all of its trials

    Raises InvalidValue where the sweep's policies allow none, its space has no more points, its hours are over, or no
    trial is left for a new budget.
    """
    launched = sum(one.state is not TrialState.INFEASIBLE and one.request is None for one in records)
    added = _more_budgets(recorded, spec, epsilon)
    proposed = _proposed(spec, records) if added else 0
    wider = extended(spec, [Extension(epsilon=added, proposed=proposed, launched=launched, at=0.0)])
    more = None if trials is None or trials == spec.search.trials else _more_trials(recorded, wider, records, trials)
    if added and more is None:
        if launched >= spec.search.trials:
            raise InvalidValue(
                "epsilon",
                _listed(added),
                f"trials to spend it on: all {spec.search.trials} of sweep {recorded.name!r} are launched",
                "Add --trials N, N in all.",
            )
        if not _has_points(wider, records, spec.search.trials):
            raise _dry(recorded, records, "epsilon", _listed(added))
    longer = None if hours is None or hours == spec.limits.hours else _more_hours(recorded, spec, hours)
    if recorded.state is SweepState.OUT_OF_HOURS and longer is None:
        raise InvalidValue(
            "hours",
            hours,
            f"more than the {spec.limits.hours:g} that sweep {recorded.name!r} had",
            f"It goes on with `sweeps resume {recorded.name} --hours H`, H in all.",
        )
    if more is None and longer is None and not added:
        return None
    return Extension(trials=more, hours=longer, epsilon=added, proposed=proposed, launched=launched, at=time.time())


def _more_budgets(recorded: SweepRecord, spec: SweepSpec, epsilon: Sequence[float]) -> tuple[float, ...]:
    had = spec.privacy.epsilon
    for place, one in enumerate(epsilon):
        if isinstance(one, bool) or not isinstance(one, int | float) or not 0 < one <= LARGEST_BUDGET:
            raise InvalidValue("epsilon", one, f"a number above 0, at most {LARGEST_BUDGET:g}")
        if one in had or one in epsilon[:place]:
            raise InvalidValue(
                "epsilon",
                one,
                f"a budget besides {_listed(had)}, which sweep {recorded.name!r} has, each once",
                "What it has it keeps: leave it out.",
            )
        _check_open(recorded, spec, "epsilon", one, f"the budgets {_listed(had)}")
    return tuple(sorted(float(one) for one in epsilon))


def _proposed(spec: SweepSpec, records: Sequence[TrialRecord]) -> int:
    """How many proposals the sampler is past: as it counts them, without known points (`sweeps.search.proposer`)."""
    last = max((one.number for one in records if one.request is None), default=-1)
    enqueued = sum(one.request is not None and one.number < last for one in records)
    return max(0, last + 1 - len(spec.search.first) - enqueued)


def _check_open(recorded: SweepRecord, spec: SweepSpec, name: str, value: float, what: str) -> None:
    spread = name == "trials" and (spec.privacy.scope, spec.privacy.release) == ("sweep", "all")
    if spread and recorded.state is not SweepState.OUT_OF_BUDGET:
        # What more of them cost was fixed before the first one: they run as far as its budget goes.
        return
    if not Release.of(spec).policy.at_once or spec.privacy.scope != "trial":
        raise InvalidValue(
            name,
            value,
            f"{what}: the budget and the one release of sweep {recorded.name!r} are those of the trials that it began "
            "with",
            "Start a new sweep.",
        )


def _has_points(spec: SweepSpec, records: Sequence[TrialRecord], trials: int) -> bool:
    """Whether the space has not run dry for so many trials."""
    if samplers.walks_grid(spec.search.sampler):
        return sum(one.request is None for one in records) < _grid_points(spec)
    wider = extended(spec, [Extension(trials=trials, launched=0, at=0.0)])
    return not exhausted(wider, len(records), infeasible_in_a_row(records))


def _grid_points(spec: SweepSpec) -> int:
    return spec.search.repeats * len(SearchGrid.of(Space.of(spec))) + len(spec.search.first)


def _dry(recorded: SweepRecord, records: Sequence[TrialRecord], name: str, value: object) -> InvalidValue:
    return InvalidValue(
        name,
        value,
        f"none: the space of sweep {recorded.name!r} ran dry after {len(records)} proposals",
        "Start a new sweep over a wider space.",
    )


def _listed(budgets: Sequence[float]) -> str:
    return ", ".join(map(budget_text, budgets))


def _more_hours(recorded: SweepRecord, spec: SweepSpec, hours: float) -> float:
    if spec.selection is not None:
        expected = f"none: sweep {recorded.name!r} ends at the deadline that was announced, which nothing moves"
        raise InvalidValue("hours", hours, expected, "Start a new sweep.")
    least = spec.limits.hours or 0.0
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not least < hours < float("inf"):
        raise InvalidValue(
            "hours",
            hours,
            f"a number above {least:g}" + (f", which sweep {recorded.name!r} has now" if least else ""),
            "It is the new number of hours in all.",
        )
    return float(hours)


def _more_trials(recorded: SweepRecord, spec: SweepSpec, records: Sequence[TrialRecord], trials: int) -> int:
    current = spec.search.trials
    if isinstance(trials, bool) or not isinstance(trials, int) or not current <= trials <= LARGEST:
        raise InvalidValue(
            "trials",
            trials,
            f"a whole number from {current}, which sweep {recorded.name!r} has now, to {LARGEST}",
            "It is the new number of trials in all. A sweep can be extended, never cut: what was launched is spent.",
        )
    _check_open(recorded, spec, "trials", trials, f"{current}")
    if samplers.walks_grid(spec.search.sampler) and trials > (points := _grid_points(spec)):
        raise InvalidValue(
            "trials",
            trials,
            f"at most {points}, all points of the grid, each as often as search.repeats says",
            "Start a new sweep over a wider grid.",
        )
    if not _has_points(spec, records, trials):
        raise _dry(recorded, records, "trials", trials)
    return trials


def check_budget_left(
    store: Store,
    recorded: SweepRecord,
    spec: SweepSpec,
    trials: Mapping[str, TrialRecord],
    extension: Extension | None,
) -> None:
    """Before more trials of a sweep with one budget: that what is left of it would hold any of those that it planned.

    spec    what it goes on under, without the extension
    trials  of it, by key

    A launch of early stopping takes a part of its plan, so that some may always fit. Raises InvalidValue (trials).
    """
    if extension is None or extension.trials is None or budget_of(spec) is None or spec.early_stopping is not None:
        return
    shared = SharedBudget()
    shared.open_filter(spec, trials, store.ledger(recorded.name), store.calibrations())
    plans = [one.plan for one in trials.values() if one.plan is not None]
    assert shared.filter is not None
    if plans and not any(shared.filter.admits(plan, 0, plan.steps) for plan in plans):
        raise InvalidValue(
            "trials",
            extension.trials,
            f"{spec.search.trials}: the budget of sweep {recorded.called!r} is spent, and what is left holds none "
            f"of the {count_text(len(plans), 'trial')} that it planned",
            "Start a new sweep.",
        )


def grown(store: Store, lease: Lease, spec: SweepSpec, extension: Extension) -> SweepSpec:
    """Record an extension, say what it is and what all trials will have released; what the sweep now goes on under.

    spec  what it went on under before
    """
    if extension.hours is not None:
        # Before: a kill between the two asks for the extension again, where the other order would refuse it.
        store.set_state(lease, SweepState.STOPPED)
    store.extend(lease, extension)
    more = extended(spec, [extension])
    if extension.hours is not None:
        before = "no limit of" if spec.limits.hours is None else f"{spec.limits.hours:g}"
        say(f"Sweep {lease.sweep!r} is given {extension.hours:g} hours in all; it had {before} hours.")
    if extension.trials is not None:
        say(f"Sweep {lease.sweep!r} is extended from {spec.search.trials} to {more.search.trials} trials in all.")
    if extension.epsilon:
        said, had = _listed(extension.epsilon), _listed(spec.privacy.epsilon)
        say(f"Sweep {lease.sweep!r} is given epsilon {said} besides {had}, for trials that are proposed from now on.")
    if (extension.trials is not None or extension.epsilon) and (cost := cost_of(store, lease.sweep, more, extension)):
        say(f"What it costs: {cost}")
    return more
