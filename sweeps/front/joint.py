"""Several sweeps on one front: what they must share, whose each point is, and what all of them promise together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dpcore.checks import InvalidValue
from dpcore.guarantee import Status
from sweeps.front.panels import AxisEnd, Front, FrontAxis
from sweeps.front.pareto import (
    LABELS,
    MixedGuarantees,
    axis_ends,
    front,
    label_of,
    spec_objectives,
    sweep_front,
    with_totals,
)
from sweeps.ledger.totals import joint_totals
from sweeps.release.policy import Release
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher
from sweeps.store.records import EPSILON, SweepRecord, TrialState

BETWEEN = ", "
"""Between the names of sweeps that share a front."""


class ShareNoAxes(InvalidValue):
    """Sweeps whose numbers cannot be compared were asked onto one front."""


def joint_front(
    store: Publisher,
    sweeps: Sequence[str],
    objectives: Sequence[FrontAxis] | None = None,
    *,
    mix: Collection[str] = (),
    reference: Mapping[str, AxisEnd] | None = None,
    as_refuted: bool = False,
) -> Front:
    """The front of one sweep, or of several on the same records, with the total over all their trials.

    objectives  those of the specs, which then have to be the same in all of them
    mix         labels of claims (`sweeps.front.pareto.LABELS`) that may differ: one panel for each combination
    reference   goes before the specs' own; an axis on which these differ has none
    as_refuted  draw trials whose claim is refuted too

    Raises UnknownSweep, InvalidValue for no name or one that stands twice, ShareNoAxes where records, validation or
    objectives differ, MixedGuarantees where claims do.
    """
    if len(sweeps) == 1:
        [name] = sweeps
        return sweep_front(store, name, objectives, mix=mix, reference=reference, total=True, as_refuted=as_refuted)
    records = [store.sweep(name) for name in sweeps]
    if len({one.name for one in records}) < max(len(sweeps), 1):
        raise InvalidValue("sweeps", list(sweeps), "one sweep or more, each of them once")
    _same_records(records)
    chosen = list(objectives or ()) or _same_objectives(records)
    trials = {one.name: store.trials(one.name) for one in records}
    _same_claims(trials, mix, as_refuted)
    found = front(
        [trial for listed in trials.values() for trial in listed],
        chosen,
        mix=mix,
        reference={**_references(records), **(reference or {})},
        sweep=BETWEEN.join(trials),
        as_refuted=as_refuted,
    )
    return with_totals(replace(found, heading=_heading(records), is_joint=True), joint_totals(store, trials))


def _same_records(records: Sequence[SweepRecord]) -> None:
    unread = [one.name for one in records if not one.fingerprints.get("data")]
    if unread:
        raise ShareNoAxes(
            "sweeps",
            BETWEEN.join(unread),
            "sweeps that have read their records: of these nobody knows whether they are the same",
            "Run it first.",
        )
    _shared(
        records,
        lambda one: one.fingerprints["data"],
        "sweeps on the same records, by their recorded fingerprints",
        "Neither their scores nor their epsilons compare, and their totals protect different people.",
        hidden=True,
    )
    _shared(
        records,
        lambda one: _validations(one.spec.canonical.get("data", {})),
        "sweeps whose specs declare their validation records alike",
        "Scores on other validation records, or under other noise, do not compare.",
    )


def _validations(data: Mapping[str, Any]) -> list[Any]:
    """What a data section declares of validation records, that of data within data (`projected`) too."""
    inner = [found for value in data.values() if isinstance(value, Mapping) for found in _validations(value)]
    return [data["validation"], *inner] if data.get("validation") is not None else inner


def _same_objectives(records: Sequence[SweepRecord]) -> list[FrontAxis]:
    listed = {one.name: spec_objectives(one.spec) for one in records}
    named = {name: [f"{axis.metric}:{axis.goal}" for axis in axes] for name, axes in listed.items()}
    common = [axis for axis in next(iter(named.values())) if all(axis in axes for axes in named.values())]
    axes = dict.fromkeys([*common, f"{EPSILON}:minimize"])
    _shared(
        records,
        lambda one: sorted(named[one.name]),
        "sweeps with the same objectives",
        f"Name axes that all of them report: {' '.join(f'--objective {axis}' for axis in axes)}.",
    )
    return listed[records[0].name]


def _shared(
    records: Sequence[SweepRecord],
    value_of: Callable[[SweepRecord], Any],
    expected: str,
    remedy: str,
    hidden: bool = False,
) -> None:
    """Raises ShareNoAxes, with what each has, unless that is `hidden`."""
    values = {one.name: value_of(one) for one in records}
    first = next(iter(values))
    other = next((name for name, value in values.items() if value != values[first]), None)
    if other is not None:
        told = "" if hidden else f" ({first}: {values[first]}; {other}: {values[other]})"
        raise ShareNoAxes("sweeps", f"{first}{BETWEEN}{other}", f"{expected}{told}", remedy)


def _same_claims(trials: Mapping[str, Sequence[Published]], mix: Collection[str], as_refuted: bool) -> None:
    """Raises MixedGuarantees, by sweep, where one has claims of another kind than the others."""
    labels = {
        name: {
            label_of(one.guarantee)
            for one in listed
            if one.state is TrialState.COMPLETE
            and one.guarantee is not None
            and (as_refuted or one.guarantee.status is not Status.REFUTED)
        }
        for name, listed in trials.items()
    }
    for position, label in enumerate(LABELS):
        found = {name: sorted({str(one[position]) for one in kinds}) for name, kinds in labels.items() if kinds}
        if label not in mix and len({tuple(values) for values in found.values()}) > 1:
            raise MixedGuarantees(
                label,
                "; ".join(f"{name}: {' and '.join(values)}" for name, values in found.items()),
                f"one {label} in all sweeps of a front, since epsilons of different kinds cannot be compared",
                f"Draw one labelled panel each with --mix {','.join([*mix, label])}.",
            )


def _references(records: Sequence[SweepRecord]) -> dict[str, AxisEnd]:
    """Where axes end: only an end that all specs have is one of theirs."""
    first, *others = [axis_ends(one.references) for one in records]

    def is_shared(metric: str, end: AxisEnd) -> bool:
        return all(metric in one and one[metric].value == end.value for one in others)

    return {metric: end for metric, end in first.items() if is_shared(metric, end)}


def _heading(records: Sequence[SweepRecord]) -> str:
    headings = {one.name: Release.recorded(one.spec).heading for one in records}
    if len(set(headings.values())) == 1:
        return headings[records[0].name]
    return "; ".join(f"{name}: {heading}" for name, heading in headings.items() if heading)
