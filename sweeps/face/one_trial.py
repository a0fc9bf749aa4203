"""One trial whole, as `sweeps show NAME TRIAL` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dpcore.checks import InvalidValue
from dpcore.events import Event, blocks, to_dict
from dpcore.guarantee import Guarantee
from dpcore.rounding import delta_text, epsilon_text
from sweeps.execution.end import QUOTES
from sweeps.face.curve_rows import curve_rows
from sweeps.face.trial_rows import trial_row
from sweeps.face.under_way import UnderWay, under_way
from sweeps.ledger.assumptions import HEADING, Assumptions
from sweeps.release.policy import Release
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher
from sweeps.release.quoting import Quote, dependence, quote_of_claim, quote_of_metric
from sweeps.release.rounding import claim_text, count_text
from sweeps.store.records import (
    DECIDED,
    EPSILON,
    TARGET_EPSILON,
    AttemptRecord,
    CurveReport,
    LedgerEntry,
    Refutation,
    TrialState,
)
from sweeps.util.log import LOG
from sweeps.util.workspace import Workspace
from trainables.metrics import Dependence
from trainables.validation.declaration import NOISE_SD
from trainables.worker.attempt import ERROR, Attempt
from trainables.worker.files import NotAFolder
from trainables.worker.redaction import shown_url

_EVENTS = 5
"""Different steps of a plan that are written out."""

_DEPENDS = {
    Dependence.PUBLIC: "of public facts",
    Dependence.RELEASED: "of what its claim covers",
    Dependence.SIDE_CHANNEL: "of the machine: no claim covers it",
    Dependence.RAW: "of training records, outside of every claim",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch of a trial: the steps that it may have run, and how it ended.

    ended  None where the sweep holds its results back
    """

    charged: LedgerEntry
    ended: AttemptRecord | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        entry, ended = self.charged, self.ended
        out: dict[str, Any] = {"attempt": entry.attempt, "from_step": entry.from_step, "to_step": entry.to_step}
        out["charged"] = entry.steps_spent
        if ended is not None:
            out |= {"outcome": str(ended.outcome), "reason": ended.reason, "seconds": ended.seconds}
            out |= {"started_at": ended.started_at, "ended_at": ended.ended_at}
        return out

    def __str__(self) -> str:
        entry, ended = self.charged, self.ended
        text = f"steps {entry.from_step:,} to {entry.to_step:,}, {count_text(entry.steps_spent, 'step')} charged"
        if ended is None:
            return text
        took = f", {ended.seconds:.3g} s" if ended.seconds else ""
        return f"{ended.outcome}: {text}{took}{f' ({ended.reason})' if ended.reason else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialShown:
    """One trial with all that may be seen of it.

    running      where it is, if it runs
    curve        what it told of itself at planned steps
    depends      {metric: on what the number depends}
    heading      what stands above every claim of the sweep; mostly empty
    refuted      the audit that refuted the claim of its system; None without one
    assumptions  what the statuses of its claims rest on
    files        {what: where it is}, of those that are there
    """

    trial: Published
    launches: Sequence[Launch]
    running: UnderWay | None
    curve: Sequence[CurveReport]
    depends: Mapping[str, Dependence]
    heading: str
    refuted: Refutation | None
    assumptions: Assumptions
    files: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: its row, its plan, each report, each launch."""
        trial, plan = self.trial, self.trial.plan
        return {
            **trial_row(trial, self.assumptions, self.running),
            "heading": self.heading,
            "refuted_by_audit_of": None if self.refuted is None else self.refuted.trial,
            "quotes": {name: quote.to_dict() for name, quote in self.quotes().items()},
            "plan": None if plan is None else plan.to_dict(),
            "violations": dict(trial.violations),
            "reports": {str(step): _measured(metrics) for step, metrics in trial.reports.items()},
            "curve": curve_rows([trial], {trial.key: self.curve}),
            "depends": {name: str(one) for name, one in self.depends.items()},
            "claim": None if trial.guarantee is None else trial.guarantee.to_dict(),
            "launches": [one.to_dict() for one in self.launches],
            "files": dict(self.files),
        }

    def lines(self) -> Iterator[str]:
        """For people."""
        trial = self.trial
        if self.heading:
            yield self.heading
        yield f"{trial.key}  {trial.state}"
        if trial.reason:
            yield f"reason   {trial.reason}"
        if self.refuted is not None:
            yield f"REFUTED  {self.refuted.sentence(trial.key)} Publish no trial of {trial.system}."
        yield f"system   {trial.system}"
        yield f"knobs    {_values(trial.knobs) or 'none'}"
        yield from self._planned()
        if trial.proposed_at:
            finished = "" if trial.finished_at is None else f", finished {_time(trial.finished_at)}"
            yield f"times    proposed {_time(trial.proposed_at)}{finished}"
        yield from (f"launch {one.charged.attempt} {one}" for one in self.launches)
        if self.running is not None:
            left = self.running.seconds_left
            pace = "" if left is None else f", about {left:.0f} s left"
            where = f" on {self.running.node}" if self.running.node else ""
            yield f"running  at step {self.running.step:,} of {self.running.until:,}{where}{pace}"
        yield from self._reported()
        if trial.guarantee is None:
            failed = trial.state is TrialState.FAILED
            yield f"claim    none{', and its launches count in the total' if failed else ' yet'}: nothing was reported"
        else:
            yield f"claim    {claim_text(trial.guarantee, self.assumptions.status(trial.guarantee))}"
            quote = quote_of_claim(trial.guarantee)
            yield f"quote    {quote.said}: {quote.sentence}"
            yield f"theorem  {trial.guarantee.theorem}"
        yield from (f"{what:8} {place}" for what, place in self.files.items())
        if "error" in self.files:
            yield f"  {QUOTES}"
        if self.assumptions.sentences:
            yield f"{HEADING}:"
            yield from (f"  {line}" for line in self.assumptions.lines())

    def quotes(self) -> dict[str, Quote]:
        """{number: how it may be quoted}: of its epsilon, and of each metric that it measured."""
        trial = self.trial
        claimed = {} if trial.guarantee is None else {EPSILON: quote_of_claim(trial.guarantee)}
        measured = [name for name in trial.metrics if name not in DECIDED]
        return claimed | {name: quote_of_metric(name, self.depends.get(name), trial) for name in measured}

    def _planned(self) -> Iterator[str]:
        plan = self.trial.plan
        if plan is None:
            yield "plan     none: it was infeasible by public numbers, never launched, and spent nothing"
            return
        solved = {name: plan.config.get(name) for name in plan.solved}
        yield f"solved   {_values(solved) or 'nothing'}"
        yield f"plan     {plan.description}; {count_text(plan.steps, 'step')}, work {plan.work:,.6g}"
        yield f"steps    {_steps(plan.event())}"
        yield f"planned  {claim_text(plan.guarantee, self.assumptions.status(plan.guarantee))}"
        for claim in plan.beside:
            yield f"beside   {claim_text(claim, self.assumptions.status(claim))}"

    def _reported(self) -> Iterator[str]:
        trial, quotes = self.trial, self.quotes()
        for name, value in trial.metrics.items():
            if name not in DECIDED:
                yield f"metric   {name} {value:.6g}{self._origin(name)}; {quotes[name].said}"
        if len(self.curve) > 1 or trial.state is TrialState.RUNNING:
            for one in self.curve:
                share = f"{one.step:,} of {trial.planned_steps:,} steps ({one.step / trial.planned_steps:.0%})"
                yield f"curve    {share}: {_with_noise(one.metrics)}"

    def _origin(self, name: str) -> str:
        found = self.depends.get(name)
        if found is Dependence.VALIDATION:
            plan = self.trial.plan
            noised = plan is not None and plan.validation is not None
            return f" (of validation records, {'noised and within the claim' if noised else 'treated as public'})"
        return "" if found is None else f" ({_DEPENDS[found]})"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def trial_shown(store: Publisher, workspace: Workspace, sweep: str, trial: Published) -> TrialShown:
    """Read what belongs to one trial. Raises UnknownSweep, StoreError."""
    attempts = {one.attempt: one for one in store.attempts_of(sweep, trial.key)}
    claims: list[Guarantee] = [] if trial.guarantee is None else [trial.guarantee]
    claims += [] if trial.plan is None else [trial.plan.guarantee, *trial.plan.beside]
    return TrialShown(
        trial=trial,
        launches=[Launch(charged=one, ended=attempts.get(one.attempt)) for one in store.ledger_of(trial.key)],
        running=under_way(store, workspace, sweep, [trial]).get(trial.key),
        curve=store.curves(sweep, [trial.key]),
        depends=_depends(trial),
        heading=Release.recorded(store.sweep(sweep).spec).heading,
        refuted=store.refuted(sweep).get(trial.system),
        assumptions=Assumptions.of(claims),
        # What an attempt left behind says how it ended.
        files=_files(store, workspace, sweep, trial) if attempts else {},
    )


def _depends(trial: Published) -> dict[str, Dependence]:
    found = {name: dependence(trial, name) for name in trial.metrics if name not in DECIDED}
    return {name: one for name, one in found.items() if one is not None}


def _files(store: Publisher, workspace: Workspace, sweep: str, trial: Published) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        folder = Attempt.of(workspace.of(store.sweep(sweep)).trials(sweep), trial.key, max(trial.attempts, 1)).folder
        names: Sequence[str] = folder.names() if trial.attempts else ()
    except (InvalidValue, OSError, NotAFolder):
        # On another machine, or gone.
        names = ()
    if names:
        found["files"] = shown_url(folder.url)
    if ERROR in names:
        found["error"] = f"the whole text is in {shown_url(folder.url)}/{ERROR}"
    log = workspace.folder(sweep) / LOG
    return found | ({"log": str(log)} if log.exists() else {})


def _steps(event: Event) -> str:
    parts = []
    for one, count in blocks(event):
        fields = to_dict(one)
        parts.append(f"{count:,} x {fields.pop('kind')} ({_values(_flat(fields))})")
    more = len(parts) - _EVENTS
    return "; ".join(parts[:_EVENTS]) + (f"; and {more} more" if more > 0 else "")


def _flat(fields: Mapping[str, Any]) -> dict[str, object]:
    out: dict[str, object] = {}
    for name, value in fields.items():
        if isinstance(value, Mapping):
            out |= _flat({inner: one for inner, one in value.items() if inner != "kind"})
        else:
            out[name] = value
    return out


def _measured(metrics: Mapping[str, float]) -> dict[str, float]:
    """Without what is a claim's: an epsilon never stands alone."""
    return {name: value for name, value in metrics.items() if name not in DECIDED}


def _values(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {_value(name, value)}" for name, value in values.items())


def _value(name: str, value: object) -> str:
    """Six digits; of what an event or a budget spends none is below it."""
    if not isinstance(value, float):
        return str(value)
    if name in (EPSILON, TARGET_EPSILON):
        return epsilon_text(value, digits=6)
    return delta_text(value) if name == "delta" else f"{value:.6g}"


def _with_noise(metrics: Mapping[str, float]) -> str:
    """Each metric with the standard deviation of its noise, where it has any."""
    return ", ".join(
        f"{name} {value:.6g}" + (f" (noise sd {metrics[name + NOISE_SD]:.2g})" if name + NOISE_SD in metrics else "")
        for name, value in metrics.items()
        if not name.endswith(NOISE_SD)
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
