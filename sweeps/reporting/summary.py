"""What is known of a sweep, gathered once: every screen, page, table and card renders this."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee, Status
from sweeps.audit import AuditRecord, audits_of
from sweeps.privacy import wording
from sweeps.privacy.heldout import declared_test, readings
from sweeps.privacy.ledger import HEADING, Assumptions, covers_search
from sweeps.privacy.population import now
from sweeps.privacy.release import Published, PublishedStore, Release
from sweeps.privacy.totals import earlier_lines, earlier_totals, summary_of, total_of
from sweeps.reporting import front as fronts
from sweeps.store import records
from sweeps.store.records import accepted, notes, tags
from sweeps.store.workspace import Workspace
from trainables.metrics import STANDARD_ERROR
from trainables.worker.attempt import CLAIM, Attempt, steps_among
from trainables.worker.files import Folder
from trainables.worker.redaction import shown_url


class ClaimRange(NamedTuple):
    """The smallest and the largest of the claims of `trials` trials of one system, which differ in epsilon alone."""

    system: str
    smallest: Guarantee
    largest: Guarantee
    trials: int

    @property
    def axes(self) -> tuple[object, ...]:
        """What epsilons have to share to be compared."""
        claim = self.largest
        return claim.notion, claim.adjacency, claim.delta, claim.unit


class SweepSummary:
    """A sweep with all that views show of it, read from the store at one time.

    heading       above every claim of the sweep; mostly empty
    counts        {state: trials}
    stopped       a line for each rule that ended trials before their last planned step
    ledger        steps, claims and the total
    started_from  totals of the sweeps whose results its search started from
    assumptions   what the statuses of its claims and totals rest on
    release       what may leave its trials, and what stands above every claim
    validation    what is done with the validation records, in one line; None without any
    declared_test  the same of test records; None without any
    tests         readings of test records for its trials, oldest first
    refuted       {system: the audit that refuted a claim of it}
    places        where its files and views are; empty where it was read without a workspace
    population    the state of its population's budget, in one line; None: nothing is to be said
    accepted      changes with which it went on
    notes, tags   of its people
    """

    def __init__(
        self, store: PublishedStore, name: str, workspace: Workspace | None = None, *, count_all: bool = False
    ) -> None:
        """Read a sweep. Raises UnknownSweep, StoreError.

        workspace  for `places`
        count_all  count the total however many attempts it has; else only where that takes well under a second
        """
        self.store, self.record = store, store.sweep(name)
        spec, self.name = self.record.spec, self.record.name
        self.trials, asked = store.trials(self.name), store.requests(self.name)
        self.heading, self.counts = store.heading(self.name), store.counts(self.name)
        self.stopped = list(wording.stopped_lines(self.trials, spec.early_stopping is not None))
        self.ledger = summary_of(store, self.record, self.trials, in_passing=not count_all)
        self.started_from = earlier_totals(store, spec)
        totals = (total_of(self.name, self.ledger), *self.started_from)
        counted = (claim for total in totals for claim in total.claims())
        self.assumptions = Assumptions.of([*fronts.claims_of(self.trials), *counted])
        self.release, self.validation = Release.of(spec), wording.recorded_text(spec)
        self.declared_test, self.tests = declared_test(spec), readings(store, self.name)
        self.refuted, self.population = store.refuted(self.name), now(spec, store)
        self.places: dict[str, str] = {}
        if workspace is not None:
            tracking = shown_url(workspace.tracking_uri)
            self.places = {"root": workspace.root, "report": str(workspace.report(self.name)), "tracking": tracking}
        self.accepted, self.notes, self.tags = accepted(asked), notes(asked), tags(asked)

    @property
    def is_sealed(self) -> bool:
        """Whether all but what was released stayed inside."""
        return self.record.spec.selection is not None

    @property
    def is_running(self) -> bool:
        """Whether more may come."""
        return self.record.state is not records.SweepState.FINISHED

    @cached_property
    def objectives(self) -> list[fronts.FrontAxis]:
        """Of the spec."""
        return fronts.spec_objectives(self.record.spec)

    @cached_property
    def front(self) -> fronts.Front:
        """Its front, with a panel for each kind of claim: kinds never share axes."""
        kinds = {
            fronts.label_of(trial.guarantee) for trial in self.in_state(records.TrialState.COMPLETE) if trial.guarantee
        }
        mix = [name for position, name in enumerate(fronts.LABELS) if len({kind[position] for kind in kinds}) > 1]
        found = fronts.front(
            self.trials, self.objectives, mix=mix, reference=self.record.references, sweep=self.name, may_be_empty=True
        )
        return replace(found, heading=self.heading, assumptions=self.assumptions)

    @cached_property
    def curves(self) -> Mapping[str, Sequence[records.CurveReport]]:
        """{key of a trial: what it reported at planned steps}."""
        return records.by_trial(self.store.curves(self.name))

    @cached_property
    def audits(self) -> Sequence[AuditRecord]:
        """Of its trials, from the sweep's own folder."""
        return audits_of(Path(self.record.root) / self.name)

    @cached_property
    def importances(self) -> Sequence[Importance]:
        """How much each hyperparameter matters (`sweeps.reporting.summary`)."""
        return importances(self.in_state(records.TrialState.COMPLETE), self.objectives)

    @cached_property
    def claims(self) -> Sequence[ClaimRange]:
        """Of its trials, by kind."""
        groups: dict[tuple[str, Guarantee], list[Guarantee]] = {}
        for trial in self.trials:
            if trial.guarantee is not None:
                kind = replace(trial.guarantee, epsilon=0.0, epsilon_lower=None, aimed_at=None)
                groups.setdefault((trial.system, kind), []).append(trial.guarantee)
        ranges = ((system, sorted(claims, key=lambda one: one.epsilon)) for (system, _), claims in groups.items())
        return [ClaimRange(system, claims[0], claims[-1], len(claims)) for system, claims in ranges]

    @property
    def standing_claims(self) -> list[ClaimRange]:
        """Those that are not refuted: what is refuted is in no range of numbers that stand."""
        return [one for one in self.claims if one.largest.status is not Status.REFUTED]

    @property
    def covers_search(self) -> bool:
        """Whether the claims that stand cover the search too."""
        return bool(self.standing_claims) and all(covers_search(one.largest) for one in self.standing_claims)

    @cached_property
    def released(self) -> Mapping[str, str]:
        """{metric: on what the published number depends, as its system says}."""
        from trainables.publishing import measured
        from trainables.registry import SYSTEMS

        names = {trial.system for trial in self.trials if trial.system in SYSTEMS}
        reported = {name for trial in self.trials for name in trial.metrics}
        asked = {metric.name: metric.released for metric in measured(reported).values()}
        return asked | {metric.name: metric.released for name in names for metric in SYSTEMS[name].metrics}

    def in_state(self, state: records.TrialState) -> list[Published]:
        """The trials in one state."""
        return [trial for trial in self.trials if trial.state is state]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "sweep": self.name,
            "heading": self.heading,
            "called": self.record.called,
            "state": self.record.state,
            "trials": dict(self.counts),
            "notes": self.notes,
            "tags": dict(self.tags),
            "validation_records": self.validation,
            "test_records": self.test_lines(),
            **({} if self.population is None else {"population": self.population}),
            "accepted": self.accepted,
            "stopped": self.stopped,
            "refuted": {system: found.trial for system, found in self.refuted.items()},
            "ledger": self.ledger.to_dict(),
            "started_from": [total.to_dict() for total in self.started_from],
            "assumptions": list(self.assumptions.sentences),
            **self.places,
        }

    def lines(self) -> Iterator[str]:
        """The whole account, with everything that its numbers rest on: what `sweeps show NAME --why` prints."""
        if self.heading:
            yield self.heading
        called = self.record.called
        began = "" if called == self.name else f" ({self.name} in keys and folders)"
        yield f"{called}{began}  {self.record.state}"
        yield f"trials   {', '.join(f'{count} {state}' for state, count in self.counts.items())}"
        if self.validation is not None:
            yield f"validation records: {self.validation}"
        yield from (f"{label.lower():8} {text}" for label, text in self.facts())
        yield from self._claimed()
        yield f"ledger   {wording.executed_text(self.ledger)}"
        yield from self._assumed()

    def facts(self) -> Iterator[tuple[str, str]]:
        """(label, text) of what ended trials, of what its people did and said, and of whose budget it draws on."""
        yield from (("Stopped", line) for line in self.stopped)
        yield from (("Accepted", line) for line in self.accepted)
        yield from (("Population", line) for line in filter(None, [self.population]))
        yield from (("Test", line) for line in self.test_lines())
        yield from (("Tags", f"{key}={value}") for key, value in self.tags.items())
        yield from (("Note", line) for line in self.notes)

    def claim_lines(self) -> Iterator[str]:
        """Of them what its claims are, with all that has to stand beside them."""
        if self.heading:
            yield self.heading
        yield from self._claimed()
        yield from self._assumed()

    def test_lines(self) -> list[str]:
        """The test records that it declares, and each reading of them; nothing without any."""
        if self.declared_test is None:
            return []
        return [str(self.declared_test), *(f"{one.trial}: {one}" for one in self.tests)]

    def _claimed(self) -> Iterator[str]:
        ledger, assumptions = self.ledger, self.assumptions
        yield from refuted_lines(self.refuted)
        yield from (f"claim    {line}" for line in wording.claim_lines(ledger.claims, assumptions))
        yield from (f"total    {line}" for line in wording.total_lines(ledger.procedure, ledger.uncounted, assumptions))
        yield from (f"total    {line}" for line in earlier_lines(self.started_from, assumptions))

    def _assumed(self) -> Iterator[str]:
        if self.assumptions.sentences:
            yield f"{HEADING}:"
            yield from (f"  {line}" for line in self.assumptions.lines())


def refuted_lines(refuted: Mapping[str, records.Refutation]) -> Iterator[str]:
    """What audits of a sweep refuted."""
    for system, by in refuted.items():
        yield (
            f"REFUTED  Audit {by.audit} refuted the claim of {by.trial}: publish no trial of {system}, whatever stands "
            "below. They run the same code."
        )


def best_trial(trials: Iterable[Published], objective: fronts.FrontAxis) -> Published | None:
    """The finished trial that is best by one objective; the first of equal ones. None whose claim is refuted.

    Scores with an error are compared as fronts compare them, shrunk towards those of their like. None where no finished
    trial with a claim that stands reports it.
    """
    sign = -1.0 if objective.goal == "maximize" else 1.0
    ranked = [
        trial
        for trial in trials
        if trial.state is records.TrialState.COMPLETE and not wording.is_refuted(trial)
        if (value := trial.metric(objective.metric)) is not None and value == value
    ]
    if not ranked:
        return None
    values = [float(trial.metric(objective.metric) or 0.0) for trial in ranked]
    errors = [trial.metrics.get(objective.metric + STANDARD_ERROR, 0.0) for trial in ranked]
    compared, _ = fronts.shrink_alike(values, errors, fronts.family(ranked))
    return min(zip(sign * compared, [one.number for one in ranked], ranked, strict=True), key=lambda one: one[:2])[2]


def list_summaries(workspace: Workspace) -> list[dict[str, Any]]:
    """Every sweep of the store: its name, its state, how many of its trials are in each state, its tags and notes."""
    store, found = PublishedStore.open(workspace), []
    for record in store.sweeps():
        asked = store.requests(record.name)
        said = {"tags": tags(asked), "notes": notes(asked)}
        found.append({"sweep": record.called, "state": record.state, **store.counts(record.name), **said})
    return found


# How far the running trials are: the steps that lie in their checkpoints, and at that pace the seconds to go.


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialProgress:
    """Where a running trial is.

    step          steps up to its newest checkpoint
    until         the step at which this launch ends: the last one, or the next rung
    seconds_left  to there, at the pace from the worker's start to that checkpoint; None before there is one
    node          the machine that it runs on; empty where its records do not say
    """

    step: int
    until: int
    seconds_left: float | None
    node: str = ""


def trial_progress(
    store: PublishedStore, workspace: Workspace, sweep: str, trials: Iterable[Published]
) -> dict[str, TrialProgress]:
    """{key: where it is} of those `trials` that are seen to run; without those whose files cannot be read from here."""
    running = {trial.key for trial in trials if trial.state is records.TrialState.RUNNING}
    if not running:
        return {}
    try:
        folder = workspace.of(store.sweep(sweep)).trials(sweep)
    except InvalidValue:
        # The records are on another machine.
        return {}
    # One entry of a running trial is open: its newest.
    newest = {entry.key: entry for entry in store.ledger(sweep) if entry.key in running}
    found = {key: _of(folder, entry) for key, entry in newest.items()}
    return {key: one for key, one in found.items() if one is not None}


def _of(trials: Folder, entry: records.LedgerEntry) -> TrialProgress | None:
    try:
        attempt = Attempt.of(trials, entry.key, entry.attempt)
        return replace(progress(entry, dict(attempt.signs())), node=attempt.node)
    except OSError:
        return None


def progress(entry: records.LedgerEntry, signs: Mapping[str, int]) -> TrialProgress:
    """Where a launch is by the files that its worker wrote.

    signs  {name: when it was written, in nanoseconds}, all by one clock
    """
    steps = [step for step in steps_among(signs) if step > entry.from_step]
    step = max(steps, default=entry.from_step)
    claimed = [at for name, at in signs.items() if name.partition(".")[0] == CLAIM]
    left = None
    if steps and claimed:
        seconds = (max(at for name, at in signs.items() if steps_among([name]) == [step]) - min(claimed)) / 1e9
        left = seconds / (step - entry.from_step) * (entry.to_step - step)
    return TrialProgress(step=step, until=entry.to_step, seconds_left=left)


# A trial as one flat row: what tables, CSV, JSON, conditions and orders of trials have in common.

_OWN = ("number", "key", "state", "reason", "system", "target_epsilon")
_CLAIM = ("epsilon", "notion", "delta", "adjacency", "unit", "accountant", "status")
_WORK = ("steps", "planned_steps", "attempts", "work", "proposed_at", "finished_at")
COLUMNS = (*_OWN, *_CLAIM, *_WORK)
"""Of every trial; empty where it has no such thing."""
_GROUPS = ("knob", "solved", "metric")


def trial_values(trial: Published) -> dict[str, Any]:
    """{column: value} of what this trial has, times in seconds; `knob.`, `solved.` and `metric.` before their names."""
    plan, claim = trial.plan, trial.guarantee
    row: dict[str, Any] = {name: getattr(trial, name) for name in _OWN} | {"state": str(trial.state)}
    row |= {f"knob.{name}": value for name, value in trial.knobs.items()}
    if plan is not None:
        row |= {f"solved.{name}": plan.config.get(name) for name in plan.solved}
    row |= {f"metric.{name}": value for name, value in trial.metrics.items() if name not in records.DECIDED}
    if claim is not None:
        values = {name: getattr(claim, name) for name in _CLAIM}
        row |= {name: one if isinstance(one, float | int) else str(one) for name, one in values.items()}
        quote = wording.quote_of_claim(claim)
        row |= {"quote": str(quote.verdict), "quote_as": str(quote)}
    row |= {"steps": trial.step, "planned_steps": trial.planned_steps, "attempts": trial.attempts}
    row["work"] = None if plan is None else plan.work
    return row | {"proposed_at": trial.proposed_at, "finished_at": trial.finished_at}


def value_in(row: Mapping[str, Any], name: str) -> Any:
    """What `name` is in a row of `trial_values`: a column, or a knob, solved value or metric, in that order, without
    the word before it; None where there is no such thing."""
    return next((row[key] for key in (name, *(f"{group}.{name}" for group in _GROUPS)) if key in row), None)


def trial_row(trial: Published, assumptions: Assumptions, running: TrialProgress | None = None) -> dict[str, Any]:
    """The columns of `sweeps.reporting.tables.trials_table` that this trial has.

    running  where it is, of a trial that runs
    """
    row = trial_values(trial)
    work, *times = (row.pop(name) for name in ("work", "proposed_at", "finished_at"))
    proposed, finished = (None if at is None else datetime.fromtimestamp(at, UTC) for at in times)
    if trial.guarantee is not None:
        row["status"] = assumptions.status(trial.guarantee)
    if running is not None:
        row |= {"at_step": running.step, "seconds_left": running.seconds_left, "node": running.node}
    return row | {"work": work, "proposed_at": proposed, "finished_at": finished}


def trial_rows(
    trials: Iterable[Published], running: Mapping[str, TrialProgress], assumptions: Assumptions
) -> list[dict[str, Any]]:
    """One row each."""
    return [trial_row(trial, assumptions, running.get(trial.key)) for trial in trials]


def row_columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Their columns: knobs, solved values and metrics each side by side, whichever trial had one first."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    claim = (*_CLAIM, "quote", "quote_as")
    work = (*_WORK, "at_step", "seconds_left", "node")

    def group(name: str) -> int:
        before, dot, _ = name.partition(".")
        return _GROUPS.index(before) + 1 if dot else 4 if name in claim else 5 if name in work else 0

    return sorted(names, key=group)


def assumptions_of(trials: Iterable[Published]) -> Assumptions:
    """What the claims of these trials rest on."""
    return Assumptions.of(fronts.claims_of(trials))


# Curves as flat rows: what tables, CSV and JSON of them have in common.

_POINT = ("number", "key", "step", "share", "attempt")
CLAIMED = ("status", "heading")
"""What a row says of the claim that its metrics stand beside: rows travel alone."""


def curve_rows(
    trials: Iterable[Published], curves: Mapping[str, Sequence[records.CurveReport]], heading: str = ""
) -> list[dict[str, Any]]:
    """One row for each point of these trials, in their order: the columns of `sweeps.reporting.tables.curves_table`.

    heading  what stands above every claim of the sweep; mostly empty
    """
    told, rows = list(trials), []
    assumptions = assumptions_of(told)
    for trial in told:
        claimed = {"status": "" if trial.guarantee is None else assumptions.status(trial.guarantee)}
        if heading:
            claimed["heading"] = heading
        for one in curves.get(trial.key, ()):
            row: dict[str, Any] = {"number": trial.number, "key": one.key, "step": one.step}
            row |= {"share": one.step / trial.planned_steps, "attempt": one.attempt}
            rows.append(row | {f"metric.{name}": value for name, value in one.metrics.items()} | claimed)
    return rows


def curve_columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Those of every point, the metrics, each error beside its metric, then what is claimed."""
    named = {name for row in rows for name in row}
    claimed = [name for name in CLAIMED if name in named]
    return [*_POINT, *sorted(named - {*_POINT, *CLAIMED}), *claimed]


# How much each knob matters: permutation importance of a random forest, on trials that the forest has not seen.
#
# Source  Breiman (2001), Machine Learning 45, section 10: how much the explained share of variance (R2) falls when one
# knob's column is shuffled. Held-out by cross-validation, so that a forest that has learnt nothing shows nothing.

MIN_TRIALS = 20
MAX_TRIALS = 2000
FOLDS = 4
REPEATS = 8


@dataclass(frozen=True, slots=True)
class Importance:
    """One system and one objective.

    r2       share of the variance of held-out trials that the forest explains; at or below 0 it has learnt nothing
    by_knob  {knob: mean fall of r2 when it is shuffled}, largest first; empty when r2 is at or below 0
    reason   why there is no figure, else ""
    """

    system: str
    metric: str
    trials: int
    r2: float
    by_knob: Mapping[str, float]
    reason: str = ""


def importances(finished: Sequence[Published], objectives: Sequence[fronts.FrontAxis]) -> list[Importance]:
    """One per system and measured objective; what the plan decides (epsilon, work) is left out."""
    systems = dict.fromkeys(trial.system for trial in finished)
    return [
        _importance(system, one.metric, [trial for trial in finished if trial.system == system])
        for system in systems
        for one in objectives
        if one.metric not in records.DECIDED
    ]


def _importance(system: str, metric: str, finished: Sequence[Published]) -> Importance:
    usable = [trial for trial in finished if math.isfinite(trial.metrics.get(metric, math.nan))][-MAX_TRIALS:]
    names = list(dict.fromkeys(name for trial in usable for name in trial.config if name != records.SYSTEM))
    varied = [name for name in names if len({trial.config.get(name) for trial in usable}) > 1]
    target = np.array([trial.metrics[metric] for trial in usable])
    few = f"needs {MIN_TRIALS} finished trials" if len(usable) < MIN_TRIALS else ""
    if few or not varied or np.ptp(target) == 0:
        return Importance(system, metric, len(usable), 0.0, {}, few or "no knob, or not the metric, varies")
    columns = np.stack([_column([trial.config.get(name) for trial in usable]) for name in varied], axis=1)
    r2, falls = _forest(columns, target)
    if r2 <= 0:
        return Importance(system, metric, len(usable), r2, {}, "the forest explains nothing of held-out trials")
    order = np.argsort(-falls)
    return Importance(system, metric, len(usable), r2, {varied[i]: float(falls[i]) for i in order})


def _forest(columns: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.inspection import permutation_importance
    from sklearn.model_selection import KFold

    scores, falls = [], []
    for train, held_out in KFold(FOLDS, shuffle=True, random_state=0).split(columns):
        forest = RandomForestRegressor(n_estimators=60, min_samples_leaf=2, random_state=0)
        forest.fit(columns[train], target[train])
        scores.append(forest.score(columns[held_out], target[held_out]))
        unseen = columns[held_out], target[held_out]
        shuffled = permutation_importance(forest, *unseen, n_repeats=REPEATS, random_state=0)
        falls.append(shuffled.importances_mean)
    return float(np.mean(scores)), np.mean(falls, axis=0)


def _column(values: Sequence[object]) -> np.ndarray:
    """Numbers as they are (a forest needs no scale), where the knob is not there below all of them; anything else as
    codes in order of appearance."""
    there = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if there and len(there) + values.count(None) == len(values):
        return np.array([min(there) - 1.0 if value is None else value for value in values], dtype=float)
    codes = {value: code for code, value in enumerate(dict.fromkeys(map(str, values)))}
    return np.array([codes[str(value)] for value in values], dtype=float)
