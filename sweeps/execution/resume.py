"""How a sweep goes on: under which spec, from which state of its trials, and with what it is given besides."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice

from dpcore.checks import InvalidValue
from dpcore.guarantee import budget_text
from sweeps.execution.limits import SharedBudget
from sweeps.planning.estimate import estimated_total
from sweeps.planning.plan import draws, exhausted, feasible, infeasible_in_a_row
from sweeps.privacy.heldout import charged
from sweeps.privacy.ledger import count_text
from sweeps.privacy.release import PublishedStore, Release
from sweeps.privacy.totals import choices_by_results, choices_of
from sweeps.privacy.wording import TOTAL_SHOWN_UP_TO, recorded_text
from sweeps.search import samplers
from sweeps.search.samplers import widened
from sweeps.search.space import SearchGrid, Space
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import LARGEST_BUDGET, SweepSpec, TotalPrivacy, diff, learns, with_budgets
from sweeps.store.lease import Lease
from sweeps.store.records import Accepted, Extension, SweepRecord, SweepState, TrialRecord, TrialState, this_person
from sweeps.store.store import Store
from sweeps.util import fingerprint
from sweeps.util.log import say
from trainables.system import DatasetSpec


def effective_spec(recorded: SweepRecord, given: SweepSpec | None, accept: Collection[str]) -> SweepSpec:
    """What the sweep goes on under, but for its extensions.

    given   what it is to be compared with, if anything
    accept  "spec": it may differ, but for what the views state of all trials, and what a total rests on

    Raises Changed, InvalidValue.
    """
    try:
        before = load_spec(recorded.spec.canonical())
    except SpecErrors as refused:
        raise fingerprint.Changed(
            f"sweep {recorded.name!r} was started with a spec that is refused now:\n{refused}\n"
            "Its finished trials can be read. Start a new sweep."
        ) from refused
    if given is None:
        return before
    given = without_extensions(given, before, recorded.extensions)
    changes = "\n".join(f"  {one}" for one in diff(before, given))
    if before.selection is not None and (given.execution, given.resources) != (before.execution, before.resources):
        raise fingerprint.Changed(
            f"sweep {recorded.name!r}: execution and resources cannot change: the trials of a sealed search are "
            f"alike but for their configurations, and one that is run again is the same:\n{changes}\n"
            "Resume it without a spec, or start a new sweep with --name."
        )
    if given.digest == before.digest:
        return given
    if before.privacy.noise_source != given.privacy.noise_source:
        expected = f"{before.privacy.noise_source}, which the claims of sweep {recorded.name!r} name"
        remedy = "Start a new sweep with --name: one sweep draws all its noise from one source."
        raise InvalidValue("privacy.noise_source", given.privacy.noise_source, expected, remedy)
    changed = fixed_parts(before, given)
    if "spec" in accept:
        if changed:
            raise fingerprint.Changed(
                f"sweep {recorded.name!r}: {', '.join(changed)} cannot change: what views state above its claims and "
                f"of its total follows from the spec that it began with, for all of its trials:\n"
                f"{changes}\nStart a new sweep with --name."
            )
        return given
    going_on = "" if changed else ", or go on under the changed one with --accept spec"
    raise fingerprint.Changed(
        f"sweep {recorded.name!r} was started with another spec:\n{changes}\nStart a new sweep with --name{going_on}."
    )


def accept_spec(store: Store, recorded: SweepRecord, began: SweepSpec) -> None:
    """Put on record that a sweep goes on under another spec than it began with, or than it went on under last.

    began  what came of `effective_spec`
    """
    latest, asked = load_spec(recorded.spec.canonical()).digest, [one.wanted for one in store.requests(recorded.name)]
    for one in asked:
        latest = one.now if isinstance(one, Accepted) and one.what == "spec" else latest
    if began.digest != latest:
        store.ask(recorded.name, Accepted(what="spec", before=latest, now=began.digest), this_person())


def fixed_parts(before: SweepSpec, given: SweepSpec) -> list[str]:
    """What views read of the recorded spec, and would say falsely of trials under the given one."""
    changed = {
        "data.records_are_public and privacy.allow_raw_measures": Release.of(before) != Release.of(given),
        "search.sampler, from one that does not look at results to one that does,": not learns(before.search.sampler)
        and learns(given.search.sampler),
        "early_stopping": before.early_stopping != given.early_stopping,
        "privacy.epsilon (--epsilon adds to it)": before.privacy.epsilon != given.privacy.epsilon,
        "search.trials (--trials extends it)": before.search.trials != given.search.trials,
        "limits.hours (--hours extends it)": before.limits.hours != given.limits.hours,
        "data.validation": recorded_text(before) != recorded_text(given),
        "data.population": before.data.population != given.data.population,
        "privacy, where the whole sweep has one budget,": before.privacy != given.privacy
        and "sweep" in (before.privacy.scope, given.privacy.scope),
        "privacy.unit": before.privacy.unit != given.privacy.unit,
    }
    for name in ("first", "chosen_from", "warm_start"):
        changed[f"search.{name}"] = getattr(before.search, name) != getattr(given.search, name)
    changed["search.chosen_from"] |= before.search.chosen != given.search.chosen
    options, others = before.data.options(), given.data.options()
    changed |= {f"data.{name}": options.get(name) != others.get(name) for name in ("test", "part", "unit")}
    return [name for name, differs in changed.items() if differs] or mechanism_changes(before, given)


def mechanism_changes(before: SweepSpec, given: SweepSpec) -> list[str]:
    """What decides which mechanisms run and differs, where the total is a guarantee of those that were fixed first.

    Somebody who sees results and then narrows a domain or adds a constraint chooses mechanisms by results, as a sampler
    that learns does, and no total says that of what was accepted. Where results choose anyway, the total says so, and
    everything may change. Data may move, as long as every plan made for them stays.
    """
    if choices_by_results(before):
        return []
    changed = [one.path for one in diff(before, given) if one.meaning and one.path.split(".")[0] != "data"]
    if before.data != given.data and _planned_from(before) != _planned_from(given):
        changed.append("data, in what is declared of them,")
    return changed


def _planned_from(spec: SweepSpec) -> DatasetSpec:
    """The public facts without where the data lie, which is in their name and in what parts them."""
    facts = public_facts(spec)
    records = facts.private_validation
    if records is not None and records.parts:
        records = replace(records, parts="one rule")
    return replace(facts, dataset="", private_validation=records)


# A sweep that is given more than it began with: what may be asked, what is recorded of it, and what it will cost.
#
# The spec that a sweep began with stays as it was recorded. What it goes on under is that spec and its extensions;
# the sampler is given the number of trials that it began with, so that no proposal depends on how often it was
# extended; and which proposal added budgets hold from.

LARGEST = 10_000_000
"""As of `search.trials`."""


def extended(spec: SweepSpec, extensions: Iterable[Extension]) -> SweepSpec:
    """The spec with everything that was asked for later."""
    extensions = tuple(extensions)
    spec = widened(spec, extensions)
    for one in extensions:
        if one.trials is not None:
            if isinstance(spec.privacy, TotalPrivacy):
                # A budget for the whole sweep stays spread over as many trials as it began with.
                spec = _with(spec, "privacy", shares=spec.privacy.shares or spec.search.trials)
            spec = _with(spec, "search", trials=one.trials)
        if one.hours is not None:
            spec = _with(spec, "limits", hours=one.hours)
    return spec


def _with(spec: SweepSpec, section: str, **values: object) -> SweepSpec:
    return spec.model_copy(update={section: getattr(spec, section).model_copy(update=values)})


def without_extensions(spec: SweepSpec, before: SweepSpec, extensions: Sequence[Extension]) -> SweepSpec:
    """A spec that is given at a resume, without what the sweep was extended by: it may state any of its totals.

    What `sampler: auto` comes to, and what fits in memory, was resolved when the sweep began, and stays.

    Raises InvalidValue for `auto` where the sweep began with a sampler by name: nothing was resolved.
    """
    search, began = spec.search, before.search
    if search.resolved is None:
        if search.sampler == began.sampler:
            spec = _with(spec, "search", resolved=began.resolved)
        elif search.sampler == samplers.AUTO:
            resolved = "what `auto` comes to is chosen when a sweep begins"
            expected = f"{began.sampler}, with which the sweep began: {resolved}"
            remedy = f"Write `sampler: {began.sampler}`, or start a new sweep with --name."
            raise InvalidValue("search.sampler", search.sampler, expected, remedy)
    if spec.search.chosen is None and spec.search.chosen_from and spec.search.chosen_from == began.chosen_from:
        spec = _with(spec, "search", chosen=began.chosen, first=began.first)
    if spec.execution.microbatch is None:
        spec = _with(spec, "execution", microbatch=before.execution.microbatch)
    if spec.resources.concurrency is None:
        spec = _with(spec, "resources", concurrency=before.resources.concurrency)
    if spec.search.trials in [one.trials for one in extensions]:
        spec = _with(spec, "search", trials=before.search.trials)
    if spec.limits.hours is not None and spec.limits.hours in [one.hours for one in extensions]:
        spec = _with(spec, "limits", hours=before.limits.hours)
    totals = [before.privacy.epsilon]
    for one in extensions:
        totals.append(tuple(sorted((*totals[-1], *one.epsilon))))
    if spec.privacy.epsilon in totals:
        spec = with_budgets(spec, before.privacy.epsilon)
    return spec


def extension_for(
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
            expected = f"trials to spend it on: all {spec.search.trials} of sweep {recorded.name!r} are launched"
            raise InvalidValue("epsilon", _listed(added), expected, "Add --trials N, N in all.")
        _check_not_dry(recorded, wider, records, spec.search.trials, "epsilon", _listed(added))
    longer = None if hours is None or hours == spec.limits.hours else _more_hours(recorded, spec, hours)
    if recorded.state is SweepState.OUT_OF_HOURS and longer is None:
        expected = f"more than the {spec.limits.hours:g} that sweep {recorded.name!r} had"
        remedy = f"It goes on with `sweeps resume {recorded.name} --hours H`, H in all."
        raise InvalidValue("hours", hours, expected, remedy)
    if more is None and longer is None and not added:
        return None
    return Extension(trials=more, hours=longer, epsilon=added, proposed=proposed, launched=launched, at=time.time())


def _more_budgets(recorded: SweepRecord, spec: SweepSpec, epsilon: Sequence[float]) -> tuple[float, ...]:
    had = spec.privacy.epsilon
    for place, one in enumerate(epsilon):
        if isinstance(one, bool) or not isinstance(one, int | float) or not 0 < one <= LARGEST_BUDGET:
            raise InvalidValue("epsilon", one, f"a number above 0, at most {LARGEST_BUDGET:g}")
        if one in had or one in epsilon[:place]:
            expected = f"a budget besides {_listed(had)}, which sweep {recorded.name!r} has, each once"
            raise InvalidValue("epsilon", one, expected, "What it has it keeps: leave it out.")
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
        kept = f"the budget and the one release of sweep {recorded.name!r} are those of the trials that it began with"
        raise InvalidValue(name, value, f"{what}: {kept}", "Start a new sweep.")


def _check_not_dry(
    recorded: SweepRecord, spec: SweepSpec, records: Sequence[TrialRecord], trials: int, name: str, value: object
) -> None:
    """The space has not run dry for so many trials: an extension that launches nothing would take away the total."""
    wider = extended(spec, [Extension(trials=trials, launched=0, at=0.0)])
    dry = exhausted(wider, len(records), infeasible_in_a_row(records))
    if samplers.walks_grid(spec.search.sampler):
        dry = sum(one.request is None for one in records) >= _grid_points(spec)
    if dry:
        expected = f"none: the space of sweep {recorded.name!r} ran dry after {len(records)} proposals"
        raise InvalidValue(name, value, expected, "Start a new sweep over a wider space.")


def _grid_points(spec: SweepSpec) -> int:
    return spec.search.repeats * len(SearchGrid.of(Space.of(spec))) + len(spec.search.first)


def _listed(budgets: Sequence[float]) -> str:
    return ", ".join(map(budget_text, budgets))


def _more_hours(recorded: SweepRecord, spec: SweepSpec, hours: float) -> float:
    if spec.selection is not None:
        expected = f"none: sweep {recorded.name!r} ends at the deadline that was announced, which nothing moves"
        raise InvalidValue("hours", hours, expected, "Start a new sweep.")
    least = spec.limits.hours or 0.0
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not least < hours < float("inf"):
        expected = f"a number above {least:g}" + (f", which sweep {recorded.name!r} has now" if least else "")
        raise InvalidValue("hours", hours, expected, "It is the new number of hours in all.")
    return float(hours)


def _more_trials(recorded: SweepRecord, spec: SweepSpec, records: Sequence[TrialRecord], trials: int) -> int:
    current = spec.search.trials
    if isinstance(trials, bool) or not isinstance(trials, int) or not current <= trials <= LARGEST:
        expected = f"a whole number from {current}, which sweep {recorded.name!r} has now, to {LARGEST}"
        remedy = (
            "It is the new number of trials in all. A sweep can be extended, never cut: what was launched is spent."
        )
        raise InvalidValue("trials", trials, expected, remedy)
    _check_open(recorded, spec, "trials", trials, f"{current}")
    if samplers.walks_grid(spec.search.sampler) and trials > (points := _grid_points(spec)):
        expected = f"at most {points}, all points of the grid, each as often as search.repeats says"
        raise InvalidValue("trials", trials, expected, "Start a new sweep over a wider grid.")
    _check_not_dry(recorded, spec, records, trials, "trials", trials)
    return trials


def check_budget_left(
    store: Store,
    recorded: SweepRecord,
    spec: SweepSpec,
    trials: Mapping[str, TrialRecord],
    extension: Extension | None,
) -> None:
    """Before more trials of a sweep with one budget, or over a population: that what is left would hold any of those
    that it planned. An extension that launches nothing would take away the total of what ran.

    spec    what it goes on under, without the extension
    trials  of it, by key

    A launch of early stopping takes a part of its plan, so that some may always fit. Raises InvalidValue (trials).
    """
    if extension is None or extension.trials is None or spec.early_stopping is not None:
        return
    shared = SharedBudget.of(store, spec)
    shared.open_filter(spec, trials, store.ledger(recorded.name), store.calibrations())
    plans = [one.plan for one in trials.values() if one.plan is not None]
    if plans and not shared.holds_any(store, plans):
        whose = f"sweep {recorded.called!r}" if shared.population is None else f"population {shared.population.name!r}"
        spent = f"the budget of {whose} is spent"
        like = f"what is left holds no trial like the {count_text(len(plans), 'trial')} that it planned"
        expected = f"{spec.search.trials}: {spent}, and {like}"
        raise InvalidValue("trials", extension.trials, expected, "Start a new sweep.")


def record_extension(store: Store, lease: Lease, spec: SweepSpec, extension: Extension) -> SweepSpec:
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


# What all trials of an extended sweep will have released, estimated before any more of them runs.

PLANS = 200
"""Of the trials so far, from which the cost of more of them is estimated."""
NEW = 16
"""Draws at most that are planned for budgets that are new: a plan may take a second."""


def cost_of(store: Store, sweep: str, spec: SweepSpec, extension: Extension) -> str:
    """The total of all trials, estimated from those that are there; empty where nothing tells it in seconds.

    spec       what the sweep goes on under, the extension included
    extension  the last one, which is recorded by now
    """
    if spec.search.trials > TOTAL_SHOWN_UP_TO:
        return ""
    seen = PublishedStore(store)
    record, records = seen.sweep(sweep), seen.trials(sweep)
    plans = [one.plan for one in records if one.plan is not None][-PLANS:]
    if extension.epsilon and plans:
        # Those to come, by draws from the prior: of a grid those at the new budgets alone.
        space = Space.of(spec)
        if samplers.walks_grid(spec.search.sampler):
            space = replace(space, epsilons=extension.epsilon)
        later = list(feasible(spec, draws(spec, space, NEW), public_facts(spec), store.calibrations()))
        launched = min(extension.launched, spec.search.trials)
        plans = [*islice(cycle(plans), launched), *islice(cycle(later), spec.search.trials - launched)]
    estimate, _ = estimated_total(spec, plans, choices_of(record, records), charged(seen, record))
    return "" if estimate is None else str(estimate)
