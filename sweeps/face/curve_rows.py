"""Curves as flat rows: what tables, CSV and JSON of them have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sweeps.records import CurveReport
from sweeps.release.published import Published

COLUMNS = ("number", "key", "step", "share", "attempt")


def curve_rows(trials: Iterable[Published], curves: Mapping[str, Sequence[CurveReport]]) -> list[dict[str, Any]]:
    """One row for each point of these trials, in their order: the columns of `sweeps.face.tables.curves_table`."""
    rows = []
    for trial in trials:
        for one in curves.get(trial.key, ()):
            row = {"number": trial.number, "key": one.key, "step": one.step}
            row |= {"share": one.step / trial.planned_steps, "attempt": one.attempt}
            rows.append(row | {f"metric.{name}": value for name, value in one.metrics.items()})
    return rows


def curve_columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Those of every curve, then the metrics, each noise beside its metric."""
    return [*COLUMNS, *sorted({name for row in rows for name in row} - set(COLUMNS))]
