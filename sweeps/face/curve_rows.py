"""Curves as flat rows: what tables, CSV and JSON of them have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sweeps.face.trial_rows import assumptions_of
from sweeps.release.published import Published
from sweeps.store.records import CurveReport

_POINT = ("number", "key", "step", "share", "attempt")
CLAIMED = ("status", "heading")
"""What a row says of the claim that its metrics stand beside: rows travel alone."""


def curve_rows(
    trials: Iterable[Published], curves: Mapping[str, Sequence[CurveReport]], heading: str = ""
) -> list[dict[str, Any]]:
    """One row for each point of these trials, in their order: the columns of `sweeps.face.tables.curves_table`.

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
    """Those of every point, the metrics, each noise beside its metric, then what is claimed."""
    named = {name for row in rows for name in row}
    claimed = [name for name in CLAIMED if name in named]
    return [*_POINT, *sorted(named - {*_POINT, *CLAIMED}), *claimed]
