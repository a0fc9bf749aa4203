"""Exact Pareto fronts and hypervolumes over any objectives, epsilon among them, that never mix what cannot be compared.

Dominance   x dominates y when it is at least as good in every objective and better in one. Equal points do not
            dominate each other, so duplicates of a front point are all on the front.
Epsilon     is compared as `sweeps.release.comparing` says: the budget that noise was solved for, else on a public grid.
Infinities  compare as the extended reals do (an epsilon of infinity is the worst one). NaN, and an infinitely good
            value, which no measurement yields, are left out and counted.
Source      Kung, Luccio & Preparata (1975), JACM 22, for the front; Guerreiro & Fonseca (2018), IEEE TEVC 22, for
            the hypervolume; both by moocore.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from dpcore.guarantee import STANDING, Guarantee, Status
from sweeps.front.panels import AxisEnd, Floats, Front, FrontAxis, Panel
from sweeps.ledger.assumptions import Assumptions
from sweeps.ledger.totals import Total, totals
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.release.comparing import compared_epsilon
from sweeps.release.policy import Release
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher
from sweeps.store.records import EPSILON, TrialState
from sweeps.util.files import collector_paused

LABELS = ("notion", "adjacency", "delta", "unit", "status")
"""What two points must share to stand on the same axes; claims that stand share them, each under its own status."""

HYPERVOLUME_WORK = 3e8
"""Largest n^(d-2) for which a hypervolume in d >= 4 dimensions is computed (about ten seconds)."""


REFUTED = str(Status.REFUTED)
"""Why a trial is left out."""


class MixedGuarantees(InvalidValue):
    """Points whose guarantees differ in kind were asked to share axes."""


def sweep_front(
    store: Publisher,
    sweep: str,
    objectives: Sequence[FrontAxis] | None = None,
    *,
    mix: Collection[str] = (),
    reference: Mapping[str, AxisEnd] | None = None,
    log10: Collection[str] = (),
    total: bool = False,
    as_refuted: bool = False,
) -> Front:
    """The front of a sweep in the store, over the spec's objectives unless others are given. Raises InvalidValue.

    reference  goes before the spec's own
    as_refuted as that of `front`
    total      count all trials together too, for the note, where that takes well under a second
    """
    record = store.sweep(sweep)
    spec = record.spec
    chosen = list(objectives or ()) or spec_objectives(spec)
    ends = {**axis_ends(record.references), **(reference or {})}
    with collector_paused():
        trials = store.trials(sweep)
        found = front(trials, chosen, mix=mix, reference=ends, log10=log10, sweep=sweep, as_refuted=as_refuted)
    found = replace(found, heading=Release.recorded(spec).heading)
    if not total:
        return found
    return with_totals(found, totals(store, sweep, trials))


def with_totals(found: Front, counted: tuple[Total, ...]) -> Front:
    """The front with these totals under it."""
    claims = [*_claims(found.panels), *(claim for one in counted for claim in one.claims())]
    return replace(found, totals=counted, assumptions=Assumptions.of(claims))


def spec_objectives(spec: RecordedSpec) -> list[FrontAxis]:
    """The objectives of a recorded spec that may be seen, or epsilon alone where none may.

    Raises InvalidValue for one whose direction was never settled.
    """
    unseen = Release.recorded(spec).steered_by
    seen = [FrontAxis(metric, goal) for metric, goal in spec.objectives if metric not in unseen]  # type: ignore[arg-type]
    return seen or [FrontAxis(EPSILON, "minimize")]


def rankable(records: Iterable[Published], objectives: Sequence[FrontAxis]) -> int:
    """How many of `records` have a value in every objective: those that a front or a ranking can hold."""
    return sum(_values(record, objectives)[1] is None for record in records)


def axis_ends(references: Mapping[str, Mapping[str, Any]]) -> dict[str, AxisEnd]:
    """Recorded references; none where a spec was written before there were any."""
    return {metric: AxisEnd(one["value"], one["source"]) for metric, one in references.items()}


def front(
    records: Iterable[Published],
    objectives: Sequence[FrontAxis],
    *,
    mix: Collection[str] = (),
    reference: Mapping[str, AxisEnd] | None = None,
    log10: Collection[str] = (),
    states: Collection[TrialState] = (TrialState.COMPLETE,),
    sweep: str = "",
    may_be_empty: bool = False,
    as_refuted: bool = False,
) -> Front:
    """The exact front of `records`.

    mix        labels (of `LABELS`) that may differ: one panel is drawn for each combination
    reference  {metric: where its axis ends}, for the hypervolume; without one for each objective there is none
    log10      metrics whose axis is logarithmic for the hypervolume
    states     which trials take part; the others are counted in `excluded`
    may_be_empty  a front without points is an answer too, where finished trials report no objective
    as_refuted  draw trials whose claim is refuted too, in a panel of that name where `mix` has "status"; else they are
                on no front, since nothing that they report may be quoted

    Raises MixedGuarantees when the points differ in a label that is not in `mix`, InvalidValue for objectives that
    no trial reports, unless the front may be empty.
    """
    _check(objectives, mix, log10)
    reference = reference or {}
    ends = {one.metric: reference[one.metric] for one in objectives if one.metric in reference}
    groups: dict[tuple[Any, ...], tuple[list[Published], list[list[float]]]] = {}
    excluded: Counter[str] = Counter()
    candidates, seen = 0, Counter[str]()
    for record in records:
        if record.state not in states:
            excluded[str(record.state)] += 1
            continue
        if not as_refuted and record.guarantee is not None and record.guarantee.status is Status.REFUTED:
            excluded[REFUTED] += 1
            continue
        candidates += 1
        values, problem = _values(record, objectives)
        if problem is not None:
            excluded[problem] += 1
            seen.update(record.metrics.keys())
            continue
        guarantee = record.guarantee
        assert guarantee is not None
        label = label_of(guarantee)
        members = groups.get(label)
        if members is None:
            members = groups[label] = ([], [])
        members[0].append(record)
        members[1].append(values)
    if candidates and not groups and not may_be_empty:
        reasons = ", ".join(f"{count} x {reason}" for reason, count in excluded.items())
        reported = ", ".join(sorted(seen)) or "nothing"
        raise InvalidValue(
            "objectives",
            [one.metric for one in objectives],
            "objectives that finished trials report",
            f"Found: {reasons}. Reported: {reported}, epsilon.",
        )
    _refuse_mixture(list(groups), mix)
    panels = tuple(
        _panel(_shared(label, members), members, np.array(rows), objectives, ends, log10)
        for label, (members, rows) in sorted(groups.items(), key=lambda item: tuple(map(str, item[0])))
    )
    return Front(
        objectives=tuple(objectives),
        panels=panels,
        excluded=dict(excluded),
        reference=ends,
        log10=tuple(log10),
        sweep=sweep,
        assumptions=Assumptions.of(_claims(panels)),
    )


def _claims(panels: Iterable[Panel]) -> Iterator[Guarantee]:
    # In the order of trials: every view of a sweep gives a sentence the same number.
    records = sorted((record for panel in panels for record in panel.records), key=lambda record: record.number)
    return (record.guarantee for record in records if record.guarantee is not None)


def label_of(claim: Guarantee) -> tuple[Any, ...]:
    """What a point shares with all others on its axes, in the order of `LABELS`."""
    shared = [getattr(claim, name) for name in LABELS]
    return tuple([STANDING[0] if one in STANDING else one for one in shared])


def _shared(label: tuple[Any, ...], members: Sequence[Published]) -> dict[str, Any]:
    claims = [record.guarantee for record in members if record.guarantee is not None]
    statuses = {claim.standing: claim.status for claim in claims}
    found = " or ".join(sorted(statuses, key=lambda text: (list(Status).index(statuses[text]), text)))
    # Several may count on one axis: where one cannot bound a composition, another does (dpcore.accounting.headline).
    accountants = " or ".join(sorted({claim.accountant for claim in claims}))
    return dict(zip(LABELS, label, strict=True)) | {"accountant": accountants, "status": found}


def nondominated(values: Floats, maximize: Sequence[bool]) -> NDArray[np.bool_]:
    """(n,) mask of the rows of `values` (n, d) that no other row dominates; equal rows stand or fall together.

    Values may be infinite but not NaN (InvalidValue).
    """
    from moocore import is_nondominated

    if np.isnan(values).any():
        raise InvalidValue("values", "NaN", "numbers or infinities")
    if len(values) == 0:
        return np.zeros(0, dtype=bool)
    # Dominance depends on order alone, and ranks are finite: infinities need no care of their own.
    ranks = np.stack([np.unique(column, return_inverse=True)[1] for column in values.T], axis=1).astype(float)
    ranks[:, np.asarray(maximize)] *= -1
    if ranks.shape[1] == 1:
        return np.asarray(ranks[:, 0] == ranks[:, 0].min())
    return np.asarray(is_nondominated(ranks, keep_weakly=True), dtype=bool)


def hypervolume(values: Floats, maximize: Sequence[bool], reference: Sequence[float]) -> float:
    """Volume of what the rows of `values` (n, d) dominate up to `reference` (d,), in the product of the axes' units.

    Rows that do not beat the reference in every objective add nothing. `reference` must be finite (InvalidValue).
    """
    from moocore import hypervolume as exact

    signs = np.where(maximize, -1.0, 1.0)
    corner = signs * np.asarray(reference, dtype=float)
    if not np.isfinite(corner).all():
        raise InvalidValue("reference", list(reference), "finite values")
    points = signs * values
    points = points[(points < corner).all(axis=1)]
    if not len(points):
        return 0.0
    return float(exact(points, ref=corner)) if points.shape[1] > 1 else float(corner[0] - points.min())


def _check(objectives: Sequence[FrontAxis], mix: Collection[str], log10: Collection[str]) -> None:
    metrics = [one.metric for one in objectives]
    if not metrics or len(set(metrics)) < len(metrics):
        raise InvalidValue("objectives", metrics, "at least one, each named once")
    for name in mix:
        if name not in LABELS:
            raise InvalidValue("mix", name, f"one of {', '.join(LABELS)}")
    for name in log10:
        if name not in metrics:
            raise InvalidValue("log10", name, f"one of the objectives {', '.join(metrics)}")


def _values(record: Published, objectives: Sequence[FrontAxis]) -> tuple[list[float], str | None]:
    if record.guarantee is None:
        return [], "without a guarantee"
    values = []
    for one in objectives:
        value = record.metric(one.metric)
        if value is None:
            return [], f"without {one.metric}"
        if value != value or value == one.too_good:
            return [], f"{one.metric} not a finite number"
        values.append(value)
    return values, None


def _refuse_mixture(labels: list[tuple[Any, ...]], mix: Collection[str]) -> None:
    for position, name in enumerate(LABELS):
        found = sorted({str(label[position]) for label in labels})
        if len(found) > 1 and name not in mix:
            allowed = ",".join([*mix, name])
            raise MixedGuarantees(
                name,
                found,
                f"one {name} on the axes of a front, since epsilons of different kinds cannot be compared",
                f"Draw one labelled panel each with --mix {allowed}.",
            )


def _panel(
    label: Mapping[str, Any],
    records: list[Published],
    values: Floats,
    objectives: Sequence[FrontAxis],
    reference: Mapping[str, AxisEnd],
    log10: Collection[str],
) -> Panel:
    maximize = [one.goal == "maximize" for one in objectives]
    compared = _compared(records, values, objectives)
    on_front = nondominated(compared, maximize)
    kept = compared[on_front]
    volume = None
    dimensions = len(objectives)
    feasible = dimensions < 4 or float(len(kept)) ** (dimensions - 2) <= HYPERVOLUME_WORK
    if feasible and len(reference) == dimensions:
        scaled, corner = kept.copy(), [reference[one.metric].value for one in objectives]
        for column, one in enumerate(objectives):
            if one.metric in log10:
                if (scaled[:, column] <= 0).any() or corner[column] <= 0:
                    raise InvalidValue("log10", one.metric, "an objective whose values are all above 0")
                scaled[:, column], corner[column] = np.log10(scaled[:, column]), math.log10(corner[column])
        volume = hypervolume(scaled, maximize, corner)
    return Panel(label, records, values, compared, on_front, volume)


def _compared(records: Sequence[Published], values: Floats, objectives: Sequence[FrontAxis]) -> Floats:
    compared = values.copy()
    for column, one in enumerate(objectives):
        if one.metric == EPSILON:
            compared[:, column] = [compared_epsilon(record.guarantee) for record in records if record.guarantee]
    return compared
