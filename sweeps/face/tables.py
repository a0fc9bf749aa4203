"""Published trials, fronts and ledgers as pandas tables: one row each, one number a cell, nothing rounded."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from sweeps.front.export import rows
from sweeps.front.panels import Front
from sweeps.ledger.assumptions import Assumptions
from sweeps.records import DECIDED, LedgerEntry
from sweeps.release.published import Published

_CLAIM = ("notion", "delta", "adjacency", "unit", "accountant")


def trials_table(trials: Iterable[Published]) -> pd.DataFrame:
    """One row a trial, in order of number, indexed by it.

    key, state, reason     its name everywhere; where it stands, and why
    system, target_epsilon what was proposed, with `knob.<name>` for each hyperparameter
    solved.<name>          what the calibration chose, the noise multiplier for example
    metric.<name>          as reported last
    epsilon, delta, ...    its claim, empty before the first report; `status` counts its assumptions, whose sentences
                           are in `.attrs["assumptions"]`, the first of them number 1
    steps, planned_steps, work, attempts, proposed_at, finished_at   times in UTC
    """
    listed = list(trials)
    assumptions = Assumptions.of(trial.guarantee for trial in listed if trial.guarantee is not None)
    table = pd.DataFrame([_trial(trial, assumptions) for trial in listed])
    if table.empty:
        return pd.DataFrame(columns=["key", "state", "reason", "system", "target_epsilon"]).rename_axis("number")
    # Knobs, solved values and metrics each side by side, whichever trial had one first.
    order = [name for group in _GROUPS for name in table.columns if _group(name) == group]
    table = table[order].set_index("number")
    table.attrs["assumptions"] = list(assumptions.sentences)
    return table


_GROUPS = ("", "knob", "solved", "metric", "claim", "work")


def _group(name: str) -> str:
    before, dot, _ = name.partition(".")
    if dot:
        return before
    if name in (*_CLAIM, "epsilon", "status"):
        return "claim"
    return "work" if name in ("steps", "planned_steps", "work", "attempts", "proposed_at", "finished_at") else ""


def _trial(trial: Published, assumptions: Assumptions) -> dict[str, Any]:
    plan, claim = trial.plan, trial.guarantee
    row: dict[str, Any] = {"number": trial.number, "key": trial.key, "state": str(trial.state), "reason": trial.reason}
    row |= {"system": trial.system, "target_epsilon": trial.target_epsilon}
    row |= {f"knob.{name}": value for name, value in trial.knobs.items()}
    if plan is not None:
        row |= {f"solved.{name}": plan.config.get(name) for name in plan.solved}
    row |= {f"metric.{name}": value for name, value in trial.metrics.items() if name not in DECIDED}
    if claim is not None:
        row |= {"epsilon": claim.epsilon} | {name: _plain(getattr(claim, name)) for name in _CLAIM}
        row["status"] = assumptions.status(claim)
    row |= {"steps": trial.step, "planned_steps": trial.planned_steps, "attempts": trial.attempts}
    row["work"] = None if plan is None else plan.work
    return row | {"proposed_at": _time(trial.proposed_at), "finished_at": _time(trial.finished_at)}


def front_table(front: Front, everything: bool = False) -> pd.DataFrame:
    """One row a point of the front (of every ranked trial with `everything`), best of the first objective first.

    Columns as `sweeps.front.export.rows` names them; `.attrs` has the heading and the sentences that statuses rest on.
    """
    table = pd.DataFrame(list(rows(front, everything)))
    table.attrs |= {"heading": front.heading, "assumptions": list(front.assumptions.sentences), "note": front.note}
    return table


def ledger_table(entries: Iterable[LedgerEntry]) -> pd.DataFrame:
    """One row a launch: steps [from_step, to_step) reserved, up to which they may have run, and how many are charged.

    `executed_to` is empty while a launch has not been settled: then all that it reserved counts.
    """
    return pd.DataFrame(
        [
            {
                "key": entry.key,
                "attempt": entry.attempt,
                "from_step": entry.from_step,
                "to_step": entry.to_step,
                "executed_to": entry.executed_to,
                "charged": entry.steps_spent,
            }
            for entry in entries
        ],
        columns=["key", "attempt", "from_step", "to_step", "executed_to", "charged"],
    ).astype({"executed_to": "Int64"})


def _plain(value: Any) -> Any:
    return value if isinstance(value, float | int) else str(value)


def _time(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
