"""What a Pareto front is made of: its objectives, and one panel of points for each kind of claim."""

from __future__ import annotations

import gc
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from dpcore.checks import InvalidValue
from dpcore.guarantee import STANDING, Guarantee, Status, delta_text
from sweeps.privacy.ledger import Assumptions, Procedure, compared_epsilon
from sweeps.privacy.release import Published, PublishedStore
from sweeps.privacy.totals import Total, joint_totals, lines, sentences, totals
from sweeps.privacy.wording import Quote, legend, metric_quotes, quote_of_claim
from sweeps.spec.sections import Reference, SweepSpec
from sweeps.store.records import DECIDED, EPSILON, SweepRecord, TrialState, sweep_of
from sweeps.util.text import closest
from trainables.metrics import STANDARD_ERROR

Floats = NDArray[np.float64]


SPREAD = (
    "± is one standard error, of the validation records as a sample and of the noise of a private release; points are "
    "ranked by scores shrunk towards those of their system and budget (`sweeps explain shrunk`)"
)


@dataclass(frozen=True, slots=True)
class FrontAxis:
    """One axis and its direction: a reported metric, or a number of `sweeps.store.records.DECIDED`."""

    metric: str
    goal: Literal["maximize", "minimize"]

    @classmethod
    def parse(cls, text: str) -> FrontAxis:
        """Read "METRIC:maximize" or "METRIC:minimize". Raises InvalidValue."""
        metric, separator, goal = text.rpartition(":")
        if not separator or goal not in ("maximize", "minimize"):
            raise InvalidValue(
                "objective", text, "METRIC:maximize or METRIC:minimize", "For example accuracy:maximize."
            )
        return cls(metric, goal)  # type: ignore[arg-type]

    @property
    def too_good(self) -> float:
        """What no measurement yields."""
        return math.inf if self.goal == "maximize" else -math.inf

    @property
    def axis(self) -> str:
        """What stands at the axis."""
        return f"{self.metric} ({'higher' if self.goal == 'maximize' else 'lower'} is better)"


def parse_reference(text: str) -> tuple[str, Reference]:
    """Read "METRIC=VALUE": where an axis of the hypervolume ends, a public value. Raises InvalidValue."""
    metric, separator, value = text.rpartition("=")
    try:
        return metric, Reference(value=float(value if separator and metric else "nan"))
    except ValueError as error:
        raise InvalidValue("reference", text, "METRIC=VALUE, a finite value", "For example loss=2.3.") from error


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """The points that share one label, and which of them no other dominates.

    label        what all guarantees here have in common: notion, adjacency, delta, unit, and the accountants and
                 statuses that occur
    records      one trial per point
    values       (points, objectives), in the objectives' own units, as they are printed
    errors       (points, objectives), standard errors of these values; 0 of what is known
    compared     the same as dominance and hypervolume take them: epsilon by `compared_epsilon`, scores with an
                 error shrunk (below)
    compared_errors  standard errors of those
    on_front     (points,), True when no point of the panel dominates it
    hypervolume  volume that the front dominates up to the front's references; None without
                 a reference for each objective, or when it would take too long (more than three objectives, many
                 points)
    """

    label: Mapping[str, Any]
    records: Sequence[Published]
    values: Floats
    errors: Floats
    compared: Floats
    compared_errors: Floats
    on_front: NDArray[np.bool_]
    hypervolume: float | None

    @property
    def claims(self) -> list[Guarantee]:
        """Of its points."""
        return claims_of(self.records)

    @property
    def kind(self) -> str:
        """The label in words, without the status."""
        label = self.label
        kind = f"{label['notion']}, {label['adjacency']}, per {label['unit']}, delta {delta_text(label['delta'])}"
        return f"{kind}, by {label['accountant']}"

    @property
    def title(self) -> str:
        """The label in words."""
        return f"{self.kind}, status: {self.label['status']}"

    def alike(self, index: int, objectives: Sequence[FrontAxis]) -> list[int]:
        """Numbers of the trials that may be as good as a point: no worse in any objective, or not told apart in it."""
        if not self.compared_errors.any():
            return []
        may = np.ones(len(self.records), dtype=bool)
        for column, one in enumerate(objectives):
            values, errors = self.compared[:, column], self.compared_errors[:, column]
            sign = 1.0 if one.goal == "maximize" else -1.0
            with np.errstate(invalid="ignore"):
                lost = sign * (values[index] - values)
            may &= ~(lost > APART * np.hypot(errors, errors[index]))
        may[index] = False
        return [self.records[int(i)].number for i in np.flatnonzero(may)]

    def order(self) -> NDArray[np.intp]:
        """Front points first, then the others, each sorted by the first objective, then by trial number."""
        numbers = np.array([record.number for record in self.records])
        return np.lexsort((numbers, self.values[:, 0], ~self.on_front))

    def order_of_front(self) -> list[int]:
        """Its front points alone, in that order."""
        return [int(i) for i in self.order()[: int(self.on_front.sum())]]


@dataclass(frozen=True, slots=True, eq=False)
class Front:
    """The front of a sweep, one panel per label.

    excluded     {reason: trials left out}
    reference    {metric: where its axis ends for the hypervolume}, for the objectives that have one
    heading      what stands above every claim of the sweep (`PublishedStore.heading`); mostly empty
    totals       of all trials together, and of the sweeps that the search started from; empty when not asked for
    assumptions  what the statuses rest on: those of the points and of the totals, numbered for the whole view
    is_joint     whether the points are of several sweeps
    """

    objectives: tuple[FrontAxis, ...]
    panels: tuple[Panel, ...]
    excluded: Mapping[str, int]
    reference: Mapping[str, Reference]
    sweep: str = ""
    heading: str = ""
    totals: tuple[Total, ...] = ()
    assumptions: Assumptions = field(default_factory=Assumptions)
    is_joint: bool = False

    @property
    def note(self) -> str:
        """The totals in words, for below the panels."""
        return sentences(lines(self.totals, self.assumptions))

    @property
    def procedure(self) -> Procedure | None:
        """All trials together; None when it was not asked for, or not counted."""
        return self.totals[0].procedure if self.totals else None

    def statuses(self, panel: Panel) -> list[str]:
        """The status of each point, with the assumptions that it rests on."""
        claims = panel.claims
        known = {(claim.standing, claim.assumptions): claim for claim in claims}
        said = {key: self.assumptions.status(claim) for key, claim in known.items()}
        return [said[claim.standing, claim.assumptions] for claim in claims]

    def quotes(self, panel: Panel) -> list[Quote]:
        """How the epsilon of each point may be quoted."""
        return [quote_of_claim(claim) for claim in panel.claims]

    def legend(self) -> list[str]:
        """How the numbers on the front may be quoted, in lines for below the panels."""
        records = [panel.records[int(i)] for panel in self.panels for i in np.flatnonzero(panel.on_front)]
        said = legend(
            map(quote_of_claim, claims_of(records)), metric_quotes(records, [one.metric for one in self.objectives])
        )
        return [SPREAD, *said] if any(panel.errors.any() for panel in self.panels) else said

    @property
    def left_out(self) -> str:
        """Which trials are in no panel, in words; empty where all are."""
        if not self.excluded:
            return ""
        left = ", ".join(f"{count} {reason}" for reason, count in self.excluded.items())
        asked = "; --as-refuted draws refuted ones too" if str(Status.REFUTED) in self.excluded else ""
        return f"{left}{asked}"

    @property
    def empty(self) -> str:
        """What stands where there is no panel."""
        finished = self.excluded.keys() - {str(one) for one in TrialState if one is not TrialState.COMPLETE}
        return "No finished trial that is drawn." if finished else "No finished trial yet."

    def title(self, panel: Panel) -> str:
        """The panel's label in words; with what its one status rests on, where it has one."""
        found = set(self.statuses(panel))
        return f"{panel.kind}, status: {found.pop()}" if len(found) == 1 else panel.title

    def keys(self) -> list[str]:
        """Keys of all front points, in the order of `Panel.order`."""
        return [panel.records[i].key for panel in self.panels for i in panel.order() if panel.on_front[i]]

    def footer(self, panel: Panel) -> str:
        """What stands under a panel in every form: how many points, the hypervolume and its corner."""
        volume = "not computed (too many points for so many objectives)"
        if bare := [one.metric for one in self.objectives if one.metric not in self.reference]:
            volume = (
                f"needs a reference for {', '.join(bare)}: --reference {bare[0]}=VALUE, or a spec's front.reference"
            )
        elif panel.hypervolume is not None:
            ends = [(one.metric, self.reference[one.metric]) for one in self.objectives]
            corner = "; ".join(f"{metric} {end.value:.4g}, {end.source}" for metric, end in ends)
            volume = f"{panel.hypervolume:.4g} (up to {corner})"
        average = [one.metric for one in self.objectives if one.metric.startswith("bayesian_epsilon")]
        apart = f". {', '.join(average)}: average-case, no part of the claim above" if average else ""
        whose = Counter(sweep_of(panel.records[int(i)].key) for i in np.flatnonzero(panel.on_front))
        each = f" ({', '.join(f'{count} of {name}' for name, count in whose.items())})" if self.is_joint else ""
        on_front = f"{int(panel.on_front.sum())} of {len(panel.records)} trials on the front{each}"
        return f"{on_front}, hypervolume {volume}{apart}"


# Exact Pareto fronts and hypervolumes over any objectives, epsilon among them, that never mix what cannot be
# compared.
#
# Dominance   x dominates y when it is at least as good in every objective and better in one. Equal points do not
#             dominate each other, so duplicates of a front point are all on the front.
# Epsilon     is compared as `compared_epsilon` says: the budget that noise was solved for, else on a public grid.
# Infinities  compare as the extended reals do (an epsilon of infinity is the worst one). NaN, and an infinitely good
#             value, which no measurement yields, are left out and counted.
# Source      Kung, Luccio & Preparata (1975), JACM 22, for the front; Guerreiro & Fonseca (2018), IEEE TEVC 22, for
#             the hypervolume; both by moocore.

LABELS = ("notion", "adjacency", "delta", "unit", "status")
"""What two points must share to stand on the same axes; claims that stand share them, each under its own status."""
_LABELS_OF = attrgetter(*LABELS)

HYPERVOLUME_WORK = 3e8
"""Largest n^(d-2) for which a hypervolume in d >= 4 dimensions is computed (about ten seconds)."""


REFUTED_STATUS = str(Status.REFUTED)
"""Why a trial is left out."""


class MixedGuarantees(InvalidValue):
    """Points whose guarantees differ in kind were asked to share axes."""


def sweep_front(
    store: PublishedStore,
    *sweeps: str,
    objectives: Sequence[FrontAxis] | None = None,
    mix: Collection[str] = (),
    reference: Mapping[str, Reference] | None = None,
    total: bool = False,
    as_refuted: bool = False,
) -> Front:
    """The front of one sweep, or of several on the same records.

    objectives  those of the specs, which then have to be the same in all of them
    mix         labels of claims (`LABELS`) that may differ: one panel for each combination
    reference   goes before the specs' own; an axis on which these differ has none
    as_refuted  as that of `front`
    total       count all trials together too, for the note, where that takes well under a second

    Raises UnknownSweep, InvalidValue for no name or one that stands twice, ShareNoAxes where records, validation or
    objectives differ, MixedGuarantees where claims do.
    """
    records = [store.sweep(name) for name in sweeps]
    if len({one.name for one in records}) < max(len(sweeps), 1):
        raise InvalidValue("sweeps", list(sweeps), "one sweep or more, each of them once")
    is_joint = len(records) > 1
    if is_joint:
        _same_records(records)
    chosen = list(objectives or ()) or _same_objectives(records)
    first, *others = [one.references for one in records]
    ends = {
        metric: end
        for metric, end in first.items()
        if all(metric in one and one[metric].value == end.value for one in others)
    }
    # Records hold no cycles: looking for some among 30,000 while they are read takes as long as all else.
    collecting = gc.isenabled()
    gc.disable()
    try:
        trials = {one.name: store.trials(one.name) for one in records}
        found = front(
            [trial for listed in trials.values() for trial in listed],
            chosen,
            mix=mix,
            reference={**ends, **(reference or {})},
            sweep=BETWEEN.join(trials if is_joint else sweeps),
            as_refuted=as_refuted,
        )
    finally:
        if collecting:
            gc.enable()
    headings = {name: store.heading(name, listed) for name, listed in trials.items()}
    alike = len(set(headings.values())) == 1
    heading = "; ".join(f"{name}: {heading}" for name, heading in headings.items() if heading)
    found = replace(found, heading=next(iter(headings.values())) if alike else heading, is_joint=is_joint)
    if not total:
        return found
    counted = joint_totals(store, trials) if is_joint else totals(store, *next(iter(trials.items())))
    claims = [*_claims(found.panels), *(claim for one in counted for claim in one.claims())]
    return replace(found, totals=counted, assumptions=Assumptions.of(claims))


def spec_objectives(spec: SweepSpec) -> list[FrontAxis]:
    """The objectives of a recorded spec."""
    return [FrontAxis(one.metric, one.goal) for one in spec.objectives]  # type: ignore[arg-type]


def axis_of(text: str, spec: SweepSpec) -> FrontAxis:
    """Read "METRIC", whose goal is the spec's or its system's own, or "METRIC:maximize". Raises InvalidValue."""
    goal = goals_of(spec).get(text)
    return FrontAxis.parse(text if goal is None else f"{text}:{goal}")


def goals_of(spec: SweepSpec) -> dict[str, str]:
    """{metric: maximize or minimize} of every number that a sweep of this spec may report."""
    from trainables.publishing import declared
    from trainables.registry import SYSTEMS

    found: dict[str, str] = {}
    for system in spec.systems:
        if system in SYSTEMS:
            found |= {name: str(one.goal) for name, one in declared(SYSTEMS[system]).items() if one.goal is not None}
    return found | {one.metric: one.goal for one in spec.objectives if one.goal}


def rankable(records: Iterable[Published], objectives: Sequence[FrontAxis]) -> int:
    """How many of `records` have a value in every objective: those that a front or a ranking can hold."""
    return sum(_values(record, objectives)[1] is None for record in records)


def front(
    records: Iterable[Published],
    objectives: Sequence[FrontAxis],
    *,
    mix: Collection[str] = (),
    reference: Mapping[str, Reference] | None = None,
    sweep: str = "",
    may_be_empty: bool = False,
    as_refuted: bool = False,
) -> Front:
    """The exact front of the complete ones of `records`; the others are counted in `excluded`.

    mix        labels (of `LABELS`) that may differ: one panel is drawn for each combination
    reference  {metric: where its axis ends}, for the hypervolume; without one for each objective there is none
    may_be_empty  a front without points is an answer too, where finished trials report no objective
    as_refuted  draw trials whose claim is refuted too, in a panel of that name where `mix` has "status"; else they are
                on no front, since nothing that they report may be quoted

    Raises MixedGuarantees when the points differ in a label that is not in `mix`, InvalidValue for objectives that
    no trial reports, unless the front may be empty.
    """
    _check(objectives, mix)
    reference = reference or {}
    ends = {one.metric: reference[one.metric] for one in objectives if one.metric in reference}
    groups: dict[tuple[Any, ...], tuple[list[Published], list[list[float]]]] = defaultdict(lambda: ([], []))
    excluded: Counter[str] = Counter()
    candidates, seen = 0, Counter[str]()
    for record in records:
        if record.state is not TrialState.COMPLETE:
            excluded[str(record.state)] += 1
            continue
        claim = record.guarantee
        if not as_refuted and claim is not None and claim.status is Status.REFUTED:
            excluded[REFUTED_STATUS] += 1
            continue
        candidates += 1
        values, problem = _values(record, objectives)
        if claim is None or problem is not None:
            excluded[problem or "without a guarantee"] += 1
            seen.update(record.metrics.keys())
            continue
        members, rows = groups[label_of(claim)]
        members.append(record)
        rows.append(values)
    if candidates and not groups and not may_be_empty:
        reasons = ", ".join(f"{count} x {reason}" for reason, count in excluded.items())
        reported = ", ".join(sorted(seen)) or "nothing"
        raise InvalidValue(
            "objectives",
            [one.metric for one in objectives],
            "objectives that finished trials report",
            f"Found: {reasons}. Reported: {reported}, epsilon.",
        )
    _refuse_mixture({label: members for label, (members, _) in groups.items()}, mix)
    panels = tuple(
        _panel(_shared(label, members), members, np.array(rows), objectives, ends)
        for label, (members, rows) in sorted(groups.items(), key=lambda item: tuple(map(str, item[0])))
    )
    return Front(
        objectives=tuple(objectives),
        panels=panels,
        excluded=dict(excluded),
        reference=ends,
        sweep=sweep,
        assumptions=Assumptions.of(_claims(panels)),
    )


def _claims(panels: Iterable[Panel]) -> list[Guarantee]:
    # In the order of trials: every view of a sweep gives a sentence the same number.
    return claims_of(sorted((record for panel in panels for record in panel.records), key=attrgetter("number")))


def claims_of(records: Iterable[Published]) -> list[Guarantee]:
    """Of those that have one."""
    return [record.guarantee for record in records if record.guarantee is not None]


def label_of(claim: Guarantee) -> tuple[Any, ...]:
    """What a point shares with all others on its axes, in the order of `LABELS`."""
    *shared, status = _LABELS_OF(claim)
    return (*shared, STANDING[0] if status in STANDING else status)


def _shared(label: tuple[Any, ...], members: Sequence[Published]) -> dict[str, Any]:
    claims = claims_of(members)
    statuses = {claim.standing: claim.status for claim in claims}
    found = " or ".join(sorted(statuses, key=lambda text: (list(Status).index(statuses[text]), text)))
    # Several may count on one axis: where one cannot bound a composition, another does (dpcore.accounting.headline).
    accountants = " or ".join(sorted({claim.accountant for claim in claims}))
    return dict(zip(LABELS, label, strict=True)) | {"accountant": accountants, "status": found}


def nondominated(values: Floats, maximize: Sequence[bool]) -> NDArray[np.bool_]:
    """(n,) mask of the rows of `values` (n, d) that no other row dominates; equal rows stand or fall together.

    Values may be infinite but not NaN.
    """
    from moocore import is_nondominated

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

    Rows that do not beat the reference in every objective add nothing. `reference` is finite.
    """
    from moocore import hypervolume as exact

    signs = np.where(maximize, -1.0, 1.0)
    corner = signs * np.asarray(reference, dtype=float)
    points = signs * values
    points = points[(points < corner).all(axis=1)]
    if not len(points):
        return 0.0
    return float(exact(points, ref=corner)) if points.shape[1] > 1 else float(corner[0] - points.min())


def _check(objectives: Sequence[FrontAxis], mix: Collection[str]) -> None:
    metrics = [one.metric for one in objectives]
    if not metrics or len(set(metrics)) < len(metrics):
        raise InvalidValue("objectives", metrics, "at least one, each named once")
    for name in mix:
        if name not in LABELS:
            raise InvalidValue("mix", name, f"one of {', '.join(LABELS)}", closest(name, LABELS))


def _values(record: Published, objectives: Sequence[FrontAxis]) -> tuple[list[float], str | None]:
    if record.guarantee is None:
        return [], "without a guarantee"
    values = []
    for one in objectives:
        value = record.metric(one.metric)
        if value is None:
            return [], f"without {one.metric}"
        if not math.isfinite(value) and (value != value or value == one.too_good):
            return [], f"{one.metric} not a finite number"
        values.append(value)
    return values, None


def _refuse_mixture(groups: Mapping[tuple[Any, ...], Sequence[Published]], mix: Collection[str]) -> None:
    for position, name in enumerate(LABELS):
        if name in mix or len({label[position] for label in groups}) < 2:
            continue
        found: dict[str, set[str]] = defaultdict(set)
        for label, members in groups.items():
            for sweep in {sweep_of(one.key) for one in members}:
                found[sweep].add(str(label[position]))
        said = {sweep: sorted(values) for sweep, values in found.items()}
        whose = "; ".join(f"{sweep}: {' and '.join(values)}" for sweep, values in said.items())
        raise MixedGuarantees(
            name,
            whose if len(said) > 1 else next(iter(said.values())),
            f"one {name} on the axes of a front, since epsilons of different kinds cannot be compared",
            f"Draw one labelled panel each with --mix {','.join([*mix, name])}.",
        )


def _panel(
    label: Mapping[str, Any],
    records: list[Published],
    values: Floats,
    objectives: Sequence[FrontAxis],
    reference: Mapping[str, Reference],
) -> Panel:
    maximize = [one.goal == "maximize" for one in objectives]
    errors = np.zeros(values.shape)
    for column, one in enumerate(objectives):
        if one.metric not in DECIDED:
            name = one.metric + STANDARD_ERROR
            errors[:, column] = [record.metrics.get(name, 0.0) for record in records]
    compared, compared_errors = _compared(records, values, errors, objectives)
    on_front = nondominated(compared, maximize)
    kept = compared[on_front]
    volume = None
    dimensions = len(objectives)
    feasible = dimensions < 4 or float(len(kept)) ** (dimensions - 2) <= HYPERVOLUME_WORK
    if feasible and len(reference) == dimensions:
        volume = hypervolume(kept, maximize, [reference[one.metric].value for one in objectives])
    return Panel(label, records, values, errors, compared, compared_errors, on_front, volume)


def _compared(
    records: Sequence[Published], values: Floats, errors: Floats, objectives: Sequence[FrontAxis]
) -> tuple[Floats, Floats]:
    compared, left = values.copy(), errors.copy()
    for column, one in enumerate(objectives):
        if one.metric == EPSILON:
            compared[:, column] = [compared_epsilon(claim) for claim in claims_of(records)]
        elif errors[:, column].any():
            compared[:, column], left[:, column] = shrink_alike(values[:, column], errors[:, column], family(records))
    return compared, left


def family(records: Iterable[Published]) -> list[tuple[str, str, float | None]]:
    """Of each trial what its like share, towards whose mean its scores are shrunk: sweep, system and budget."""
    return [(sweep_of(record.key), record.system, record.target_epsilon) for record in records]


# What a panel mixes, told apart: its points by sweep, system and status of their claims, each kind's own front.


@dataclass(frozen=True, slots=True, eq=False)
class SystemPoints:
    """The points of one system of one sweep whose claims have one status.

    name     the system; the sweep where the panel has several, with the system where it has several too; with the
             status where the panel has several
    system   position of sweep and system among the panel's, for a colour
    members  (points,), True for its own
    own      indices of the points that none of its own dominates over two objectives, along the first of them
    """

    name: str
    system: int
    status: Status
    members: NDArray[np.bool_]
    own: NDArray[np.intp]


def kinds(panel: Panel, objectives: Sequence[FrontAxis], across: int, up: int) -> list[SystemPoints]:
    """The kinds of a panel, by name; `across` and `up` are the two objectives that are drawn."""
    claims = panel.claims
    of_point = [(sweep_of(one.key), one.system, claim.status) for one, claim in zip(panel.records, claims, strict=True)]
    sources = sorted({(sweep, system) for sweep, system, _ in of_point})
    sweeps, systems = ({source[part] for source in sources} for part in (0, 1))
    statuses = {status for _, _, status in of_point}
    maximize = [objectives[axis].goal == "maximize" for axis in (across, up)]
    found = []
    for sweep, system, status in sorted(set(of_point)):
        members = np.array([kind == (sweep, system, status) for kind in of_point])
        name = system if len(sweeps) == 1 else sweep if len(systems) == 1 else f"{sweep}: {system}"
        mine = np.flatnonzero(members)
        best = mine[nondominated(panel.compared[mine][:, [across, up]], maximize)]
        found.append(
            SystemPoints(
                name=f"{name} ({claims[mine[0]].standing})" if len(statuses) > 1 else name,
                system=sources.index((sweep, system)),
                status=status,
                members=members,
                own=best[np.argsort(panel.values[best, across], kind="stable")],
            )
        )
    return found


# Several sweeps on one front: what they must share, whose each point is, and what all of them promise together.

BETWEEN = ", "
"""Between the names of sweeps that share a front."""


class ShareNoAxes(InvalidValue):
    """Sweeps whose numbers cannot be compared were asked onto one front."""


def _same_records(records: Sequence[SweepRecord]) -> None:
    unread = [one.name for one in records if not one.fingerprints.get("data")]
    if unread:
        raise ShareNoAxes(
            "sweeps",
            BETWEEN.join(unread),
            "sweeps that have read their records: of these nobody knows whether they are the same",
            "Run it first.",
        )
    _same(
        records,
        lambda one: one.fingerprints["data"],
        "sweeps on the same records, by their recorded fingerprints",
        "Neither their scores nor their epsilons compare, and their totals protect different people.",
    )
    _same(
        records,
        lambda one: _validations(one.spec.data.options()),
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
    _same(
        records,
        lambda one: sorted(named[one.name]),
        f"sweeps with the same objectives ({'; '.join(f'{name}: {axes}' for name, axes in named.items())})",
        f"Name axes that all of them report: {' '.join(f'--objective {axis}' for axis in axes)}.",
    )
    return listed[records[0].name]


def _same(records: Sequence[SweepRecord], value_of: Callable[[SweepRecord], Any], expected: str, remedy: str) -> None:
    """Raises ShareNoAxes."""
    values = {one.name: value_of(one) for one in records}
    first = next(iter(values))
    other = next((name for name, value in values.items() if value != values[first]), None)
    if other is not None:
        raise ShareNoAxes("sweeps", f"{first}{BETWEEN}{other}", expected, remedy)


# How an axis of a front is divided, alike in the picture and in the chart.

FEW = 8
"""Distinct values up to which each has a tick of its own: the budgets of a sweep."""
NEIGHBOURS = 1.15
"""Ratio of neighbours whose labels do not overlap."""


def log_ticks(compared: Floats) -> list[float] | None:
    """Ticks of a logarithmic axis; None where these values need none (not all above 0, or close together).

    compared  (points,), as dominance takes them: calibrated epsilons are their budgets there
    """
    finite = compared[np.isfinite(compared)]
    if not len(finite) or finite.min() <= 0 or finite.max() <= 4 * finite.min():
        return None
    distinct = np.unique(finite)
    if len(distinct) <= FEW and (distinct[1:] >= NEIGHBOURS * distinct[:-1]).all():
        return [float(value) for value in distinct]
    decades = range(math.floor(math.log10(finite.min())), math.ceil(math.log10(finite.max())) + 1)
    return [digit * 10.0**decade for decade in decades for digit in (1, 2, 5)]


# Scores with errors, shrunk towards the mean of their like, so that the luckiest of many is not announced as it looks.
#
# The score of the best of many noisy trials overstates what that trial is worth (the winner's curse). Each score y_i
# has a known standard error s_i, and the true scores of trials that are alike are taken to spread normally around one
# mean:
#
#     y_i ~ N(theta_i, s_i^2)      theta_i ~ N(m, t^2)
#     shrunk_i = B_i m + (1 - B_i) y_i,      B_i = s_i^2 / (s_i^2 + t^2)
#
# m is the mean weighted by 1 / (s_i^2 + t^2), and t^2 solves sum_i (y_i - m)^2 / (s_i^2 + t^2) = n - 1, or is 0 where
# the scores spread less than their errors alone would. The error of a shrunk score is sqrt((1 - B_i) s_i^2 + B_i^2
# var(m)).
#
# Source  Efron & Morris (1975), JASA 70, section 1 (the rule, with known unequal errors); Paule & Mandel (1982), J.
# Res. NBS 87 (t^2); Morris (1983), JASA 78, equation 1.17 (the error of m). `python -m tests.benchmarks.chosen` shows
# what it gains. What is computed from released scores is post-processing: it costs no privacy.

FEWEST = 4
"""Scores that are alike, below which their spread is not known: they are then compared with those of the sweep."""

APART = 1.96
"""Two scores are told apart where they differ by more standard errors of their difference: 5% of equal pairs are."""


def shrink(scores: Floats, errors: Floats) -> tuple[Floats, Floats]:
    """Shrunk scores and their standard errors [n] of trials that are alike; n >= 1, errors >= 0.

    Scores without an error (0) stay as they are. Fewer than `FEWEST` are returned as they came.
    """
    if len(scores) < FEWEST or not errors.any():
        return scores, errors
    spread = _spread(scores, errors)
    variances = errors**2 + spread
    if not variances.all():
        return scores, errors
    weights = 1 / variances
    mean = float(weights @ scores / weights.sum())
    pulled = errors**2 / variances
    shrunk = pulled * mean + (1 - pulled) * scores
    return shrunk, np.sqrt((1 - pulled) * errors**2 + pulled**2 / weights.sum())


def _spread(scores: Floats, errors: Floats) -> float:
    """t^2 of Paule & Mandel."""

    def surplus(spread: float) -> float:
        weights = 1 / (errors**2 + spread)
        mean = weights @ scores / weights.sum()
        return float(weights @ (scores - mean) ** 2) - (len(scores) - 1)

    # Where some errors are 0 the sum has no value at 0: the smallest spread that matters stands for it.
    least = 1e-9 * float(np.max(errors)) ** 2
    if surplus(least) <= 0:
        return 0.0 if errors.all() else least
    # There the sum is at most n / 4.
    most = 4 * float(np.ptp(scores)) ** 2 + least
    return float(brentq(surplus, least, most))


def shrink_alike(
    scores: Sequence[float] | Floats, errors: Sequence[float] | Floats, alike: Sequence[Hashable]
) -> tuple[Floats, Floats]:
    """`shrink` within each group of `alike` that has `FEWEST` scores; all others together, if they are as many.

    scores  [n]; those that are infinite stay as they are
    errors  [n], 0 where none is known
    alike   [n], equal for trials that are compared with each other: a budget and the family of a system
    """
    shrunk, left = np.array(scores, dtype=np.float64), np.array(errors, dtype=np.float64)
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for row, group in enumerate(alike):
        if math.isfinite(shrunk[row]) and math.isfinite(left[row]):
            groups[group].append(row)
    large = [rows for rows in groups.values() if len(rows) >= FEWEST]
    small = [row for rows in groups.values() if len(rows) < FEWEST for row in rows]
    for rows in [*large, small]:
        if rows:
            shrunk[rows], left[rows] = shrink(shrunk[rows], left[rows])
    return shrunk, left
