"""A trial as one flat row: what tables, CSV and JSON of trials have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sweeps.face.under_way import UnderWay
from sweeps.ledger.assumptions import Assumptions
from sweeps.release.published import Published
from sweeps.release.quoting import quote_of_claim
from sweeps.store.records import DECIDED

_CLAIM = ("notion", "delta", "adjacency", "unit", "accountant")
_WORK = ("steps", "planned_steps", "at_step", "seconds_left", "node", "work", "attempts", "proposed_at", "finished_at")
_GROUPS = ("", "knob", "solved", "metric", "claim", "work")


def trial_row(trial: Published, assumptions: Assumptions, running: UnderWay | None = None) -> dict[str, Any]:
    """The columns of `sweeps.face.tables.trials_table` that this trial has.

    running  where it is, of a trial that runs
    """
    plan, claim = trial.plan, trial.guarantee
    row: dict[str, Any] = {"number": trial.number, "key": trial.key, "state": str(trial.state), "reason": trial.reason}
    row |= {"system": trial.system, "target_epsilon": trial.target_epsilon}
    row |= {f"knob.{name}": value for name, value in trial.knobs.items()}
    if plan is not None:
        row |= {f"solved.{name}": plan.config.get(name) for name in plan.solved}
    row |= {f"metric.{name}": value for name, value in trial.metrics.items() if name not in DECIDED}
    if claim is not None:
        row |= {"epsilon": claim.epsilon} | {name: _plain(getattr(claim, name)) for name in _CLAIM}
        quote = quote_of_claim(claim)
        row |= {"status": assumptions.status(claim), "quote": str(quote.verdict), "quote_as": str(quote)}
    row |= {"steps": trial.step, "planned_steps": trial.planned_steps, "attempts": trial.attempts}
    if running is not None:
        row |= {"at_step": running.step, "seconds_left": running.seconds_left, "node": running.node}
    row["work"] = None if plan is None else plan.work
    return row | {"proposed_at": _time(trial.proposed_at), "finished_at": _time(trial.finished_at)}


def trial_rows(
    trials: Iterable[Published], running: Mapping[str, UnderWay], assumptions: Assumptions
) -> list[dict[str, Any]]:
    """One row each."""
    return [trial_row(trial, assumptions, running.get(trial.key)) for trial in trials]


def row_columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Their columns: knobs, solved values and metrics each side by side, whichever trial had one first."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [name for group in _GROUPS for name in names if _group(name) == group]


def assumptions_of(trials: Iterable[Published]) -> Assumptions:
    """What the claims of these trials rest on."""
    return Assumptions.of(trial.guarantee for trial in trials if trial.guarantee is not None)


def _group(name: str) -> str:
    before, dot, _ = name.partition(".")
    if dot:
        return before
    if name in (*_CLAIM, "epsilon", "status", "quote", "quote_as"):
        return "claim"
    return "work" if name in _WORK else ""


def _plain(value: Any) -> Any:
    return value if isinstance(value, float | int) else str(value)


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
