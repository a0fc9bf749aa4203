"""A front as a table, csv, parquet, json, html or png: all the same rows in the same order."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.front.csv_text import csv_text
from sweeps.front.panels import Front, Panel
from sweeps.release.comparing import compared_epsilon
from sweeps.release.quoting import quote_of_claim
from sweeps.store.records import EPSILON, TARGET_EPSILON, sweep_of

COMPARED = "compared_epsilon"
_RESTS_ON = ("rests_on", "assumptions")
FORMATS = ("table", "csv", "parquet", "json", "html", "png")
SUFFIXES = {"": "table", ".txt": "table", **{f".{form}": form for form in FORMATS if form != "table"}}
_KIND = ("delta", "notion", "adjacency", "unit", "status", "accountant")
_GUARANTEE = (EPSILON, TARGET_EPSILON, COMPARED, "quote", "quote_as", *_KIND)


def rows(front: Front, everything: bool = False) -> Iterator[dict[str, Any]]:
    """One flat row per front point (per point when `everything`): key, number, guarantee, objectives, knobs, metrics.

    sweep             whose trial it is, of a front of several
    epsilon           of the claim
    target_epsilon    the budget that it was held to
    compared_epsilon  what the claim counts as in dominance and hypervolume
    quote             whether its epsilon may be quoted (`sweeps.release.quoting.Verdict`)
    quote_as          with which words, or why not
    heading           what stands above every claim of the sweep, where anything does: rows travel alone
    rests_on          the status with its assumptions counted
    assumptions       those in full, numbered as in every other form
    knob.<name>, metric.<name>  of a knob, and of a metric that is no objective
    """
    for panel in front.panels:
        yield from _rows(front, panel, everything)


def _rows(front: Front, panel: Panel, everything: bool) -> Iterator[dict[str, Any]]:
    names = [one.metric for one in front.objectives]
    statuses = front.statuses(panel)
    in_full: dict[str, str] = {}
    for index in panel.order():
        on_front = bool(panel.on_front[index])
        if not on_front and not everything:
            break
        record = panel.records[index]
        claim = record.guarantee
        assert claim is not None
        row: dict[str, Any] = {"key": record.key, "number": record.number, "on_front": on_front}
        row |= {"sweep": sweep_of(record.key)} if front.is_joint else {}
        row.update(zip(names, panel.values[index].tolist(), strict=True))
        row[EPSILON] = claim.epsilon
        row.setdefault(TARGET_EPSILON, record.target_epsilon)
        row[COMPARED] = compared_epsilon(claim)
        quote = quote_of_claim(claim)
        row |= {"quote": str(quote.verdict), "quote_as": str(quote)}
        row |= {name: str(getattr(claim, name)) for name in _KIND} | {"delta": claim.delta}
        if front.heading:
            row["heading"] = front.heading
        row["rests_on"] = status = statuses[index]
        if status not in in_full:
            in_full[status] = " ".join(front.assumptions.lines_of(claim))
        row["assumptions"] = in_full[status]
        row.update((f"knob.{name}", value) for name, value in record.config.items() if name != TARGET_EPSILON)
        row.update((f"metric.{name}", value) for name, value in record.metrics.items() if name not in row)
        yield row


def render(front: Front, form: str, everything: bool = False) -> str | bytes:
    """The front in one of `FORMATS`: bytes for parquet and png, else text. Raises InvalidValue."""
    if form == "table":
        from rich.console import Console

        from sweeps.front.terminal import table

        buffer = io.StringIO()
        Console(file=buffer, width=120).print(table(front))
        return buffer.getvalue()
    if form == "csv":
        return to_csv(front, everything)
    if form == "json":
        return to_json(front, everything)
    if form == "parquet":
        return to_parquet(front, everything)
    if form == "png":
        from sweeps.front.picture import to_png

        return to_png(front)
    if form == "html":
        from sweeps.report.page import front_page

        return front_page(front)
    raise InvalidValue("format", form, f"one of {', '.join(FORMATS)}")


def to_csv(front: Front, everything: bool = False) -> str:
    """Comma-separated values with a header; an infinite epsilon is `inf`, an absent knob empty.

    A text that a spreadsheet would compute begins with an apostrophe.
    """
    listed = list(rows(front, everything))
    return csv_text(_columns(front, listed), listed)


def to_json(front: Front, everything: bool = False) -> str:
    """One JSON object; an infinite number is the string "inf" or "-inf" (JSON has no infinity)."""
    points = [
        # The sentences stand once, beside the panels.
        [
            {n: _plain(value) for n, value in row.items() if n != "assumptions"}
            for row in _rows(front, panel, everything)
        ]
        for panel in front.panels
    ]
    content = {
        "sweep": front.sweep,
        "heading": front.heading,
        "note": front.note,
        "procedure": None if front.procedure is None else front.procedure.to_dict(),
        "started_from": [total.to_dict() for total in front.totals[1:]],
        "quotes": front.legend(),
        "assumptions": list(front.assumptions.sentences),
        "objectives": [{"metric": one.metric, "goal": one.goal} for one in front.objectives],
        "log10": list(front.log10),
        "reference": {metric: {"value": end.value, "source": end.source} for metric, end in front.reference.items()},
        "excluded": dict(front.excluded),
        "panels": [
            {
                "label": dict(panel.label),
                "trials": len(panel.records),
                "hypervolume": panel.hypervolume,
                "points": listed,
            }
            for panel, listed in zip(front.panels, points, strict=True)
        ],
    }
    return json.dumps(content, indent=None if sum(map(len, points)) > 1000 else 2, allow_nan=False)


def to_parquet(front: Front, everything: bool = False) -> bytes:
    """An Apache Parquet file; a knob that is a number in one trial and text in another is kept as text."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    listed = list(rows(front, everything))
    columns = {name: _typed([row.get(name) for row in listed]) for name in _columns(front, listed)}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue().to_pybytes())


def _columns(front: Front, listed: list[dict[str, Any]]) -> list[str]:
    whose = ["sweep"] if front.is_joint else []
    fixed = ["key", "number", "on_front", *whose, *(one.metric for one in front.objectives), *_GUARANTEE, *_RESTS_ON]
    return list(dict.fromkeys([*fixed, *(name for row in listed for name in row)]))


def _typed(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) <= 1:
        return values
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    return [None if value is None else str(value) for value in values]


def _plain(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return None if isinstance(value, float) and math.isnan(value) else value
