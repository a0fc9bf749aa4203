"""A sweep that is given more than it began with: what may be asked, what is recorded of it, and what it will cost.

The spec that a sweep began with stays as it was recorded. What it goes on under is that spec and its extensions; the
sampler is given the number of trials that it began with, so that no proposal depends on how often it was extended.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from dpcore.checks import InvalidValue
from sweeps.control.planning import exhausted, infeasible_in_a_row
from sweeps.ledger.spending import choices_of
from sweeps.ledger.text import TOTAL_SHOWN_UP_TO
from sweeps.process.words import say
from sweeps.records import Extension, SweepRecord, SweepState, TrialRecord, TrialState
from sweeps.release.policy import Release
from sweeps.release.publisher import Publisher
from sweeps.search import registry
from sweeps.search.grid import SearchGrid
from sweeps.search.space import Space
from sweeps.spec import SweepSpec
from sweeps.store import Lease, Store

LARGEST = 10_000_000
"""As of `search.trials`."""
PLANS = 200
"""Of the trials so far, from which the cost of more of them is estimated."""


def extended(spec: SweepSpec, extensions: Iterable[Extension]) -> SweepSpec:
    """The spec with everything that was asked for later."""
    for one in extensions:
        if one.trials is not None:
            spec = spec.model_copy(update={"search": spec.search.model_copy(update={"trials": one.trials})})
        if one.hours is not None:
            spec = spec.model_copy(update={"limits": spec.limits.model_copy(update={"hours": one.hours})})
    return spec


def begun(spec: SweepSpec, before: SweepSpec, extensions: Sequence[Extension]) -> SweepSpec:
    """A spec that is given at a resume, without what the sweep was extended by: it may state any of its totals.

    What `sampler: auto` comes to was resolved when the sweep began, and stays.
    """
    if spec.search.sampler == before.search.sampler and spec.search.resolved is None:
        resolved = {"resolved": before.search.resolved}
        spec = spec.model_copy(update={"search": spec.search.model_copy(update=resolved)})
    if spec.search.trials in [one.trials for one in extensions]:
        spec = spec.model_copy(update={"search": spec.search.model_copy(update={"trials": before.search.trials})})
    if spec.limits.hours is not None and spec.limits.hours in [one.hours for one in extensions]:
        spec = spec.model_copy(update={"limits": spec.limits.model_copy(update={"hours": before.limits.hours})})
    return spec


def asked(
    recorded: SweepRecord,
    spec: SweepSpec,
    records: Sequence[TrialRecord],
    trials: int | None,
    hours: float | None = None,
) -> Extension | None:
    """The extension that a wish for `trials` and `hours` in all comes to; None where that is what there is anyway.

    spec     what the sweep goes on under, earlier extensions included
    records  all of its trials

    Raises InvalidValue where the sweep's policies allow none, its space has no more points, or its hours are over.
    """
    more = None if trials is None or trials == spec.search.trials else _more_trials(recorded, spec, records, trials)
    longer = None if hours is None or hours == spec.limits.hours else _more_hours(recorded, spec, hours)
    if recorded.state is SweepState.OUT_OF_HOURS and longer is None:
        raise InvalidValue(
            "hours",
            hours,
            f"more than the {spec.limits.hours:g} that sweep {recorded.name!r} had",
            f"It goes on with `sweeps resume {recorded.name} --hours H`, H in all.",
        )
    if more is None and longer is None:
        return None
    launched = sum(one.state is not TrialState.INFEASIBLE and one.request is None for one in records)
    return Extension(trials=more, hours=longer, launched=launched, at=time.time())


def _more_hours(recorded: SweepRecord, spec: SweepSpec, hours: float) -> float:
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
    if not Release.of(spec).policy.at_once or spec.privacy.scope != "trial":
        raise InvalidValue(
            "trials",
            trials,
            f"{current}: the budget and the one release of sweep {recorded.name!r} are those of the trials that it "
            "began with",
            "Start a new sweep.",
        )
    if registry.walks_grid(spec.search.sampler):
        points = spec.search.repeats * len(SearchGrid.of(Space.of(spec))) + len(spec.search.first)
        if trials > points:
            raise InvalidValue(
                "trials",
                trials,
                f"at most {points}, all points of the grid, each as often as search.repeats says",
                "Start a new sweep over a wider grid.",
            )
        dry = sum(one.request is None for one in records) >= points
    else:
        wider = extended(spec, [Extension(trials=trials, launched=0, at=0.0)])
        dry = exhausted(wider, len(records), infeasible_in_a_row(records))
    if dry:
        raise InvalidValue(
            "trials",
            trials,
            f"{current}: the space of sweep {recorded.name!r} ran dry after {len(records)} proposals",
            "Start a new sweep over a wider space.",
        )
    return trials


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
    if extension.trials is None:
        return more
    say(f"Sweep {lease.sweep!r} is extended from {spec.search.trials} to {more.search.trials} trials in all.")
    if cost := _cost(store, lease.sweep, more):
        say(f"What it costs: {cost}")
    return more


def _cost(store: Store, sweep: str, spec: SweepSpec) -> str:
    """The total of all trials, estimated from those that are there; empty where nothing tells it in seconds."""
    from sweeps.checking.estimates import estimated_total

    if spec.search.trials > TOTAL_SHOWN_UP_TO:
        return ""
    records = Publisher(store).trials(sweep)
    plans = [one.plan for one in records[-PLANS:] if one.plan is not None]
    estimate, _ = estimated_total(spec, plans, choices_of(store.sweep(sweep), records))
    return "" if estimate is None else str(estimate)
