"""Table 1's trainings: each data set one or two ordinary sweeps over the noise, and what their trials say."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore.accountants.bayesian import attack_success
from dpcore.guarantee import Notion
from sweeps.reproductions.data_sets import Missing, section
from sweeps.reproductions.effort import FULL, Effort, reduced
from sweeps.reproductions.paper import spec_of
from sweeps.reproductions.pictures import Axes, Series
from sweeps.reproductions.result import ResultTable
from sweeps.reproductions.run import Reproduction
from sweeps.reproductions.triastcyn2020.formulas import DELTA, DELTA_MU, FAILURE, ORDERS, PAPER
from trainables.registry import SYSTEMS

if TYPE_CHECKING:
    from sweeps.records import TrialRecord

AGREEMENT = 0.02
"""Two points of accuracy: the paper prints whole per cents of one run."""
PERCENTILES = {
    "99.999%": "bayesian_epsilon",
    "99%": "bayesian_epsilon_p99",
    "90%": "bayesian_epsilon_p90",
    "50%": "bayesian_epsilon_p50",
}
_ACCOUNTING = {
    "bayesian_orders": ",".join(map(str, ORDERS)),
    "bayesian_delta": DELTA_MU,
    "estimate_failure": FAILURE,
    "percentile_delta": DELTA,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One sweep; see the paper's file."""

    id: str
    name: str
    data: Mapping[str, Any]
    system: str
    knobs: Mapping[str, Any]
    paper: Mapping[str, Any]
    published: Mapping[str, float]
    quick: Mapping[str, Any] | None = None
    note: str = ""
    delta: float = DELTA

    def at(self, effort: Effort) -> dict[str, Any]:
        """The knobs of an effort."""
        return {**self.knobs, **({"quick": self.quick or {}, "paper": self.paper}.get(effort.name, {}))}


PARTS = [Part(**one) for one in PAPER.printed["parts"]]


@dataclass(frozen=True, slots=True)
class GridPoint:
    """All trials of one point of a grid, averaged.

    knobs      what was varied
    metrics    means; `epsilon` is the ordinary one, infinite where the claim is in another notion
    record     one of the trials, for its weights
    """

    knobs: Mapping[str, Any]
    metrics: Mapping[str, float]
    trials: int
    record: TrialRecord = field(repr=False)


def sweep_of(part: Part, data: Path, effort: Effort) -> dict[str, Any]:
    """The sweep behind a part."""
    known = {parameter.name for parameter in SYSTEMS[part.system].parameters}
    accounting = {name: one for name, one in _ACCOUNTING.items() if name in known}
    values = {**PAPER.sized(effort), **asdict(part), "effort": effort.name, "data": section(part.data, data)}
    return spec_of(PAPER.sweeps, {**values, "knobs": {**accounting, **part.at(effort)}})


def cut(part: Part, effort: Effort) -> list[str]:
    """What of the part's grid an effort leaves out, with both numbers."""
    ours, full = (PAPER.sized(one)["repeats"] for one in (effort, FULL))
    each = "trainings of each"
    told = reduced({**part.at(effort), each: min(ours, full)}, {**part.at(FULL), each: full})
    return [f"Table 1, {part.name}: {'; '.join(told)}"] if told else []


def settings_of(records: Sequence[TrialRecord]) -> list[GridPoint]:
    """Finished trials by configuration, in the order of their ordinary epsilon. Raises Missing where there is none."""
    groups: dict[str, list[TrialRecord]] = defaultdict(list)
    for record in records:
        if record.metrics:
            groups[repr(sorted(record.config.items()))].append(record)
    if not groups:
        raise Missing("no trial has a result")
    names = [name for name in records[0].config if len({record.config.get(name) for record in records}) > 1]
    varied = names or [name for name in ("noise_multiplier", "learning_rate") if name in records[0].config][:1]
    points = [
        GridPoint(
            knobs={name: own[0].config[name] for name in sorted(varied)},
            metrics={name: float(np.mean([_ordinary(one)[name] for one in own])) for name in own[0].metrics},
            trials=len(own),
            record=own[0],
        )
        for own in groups.values()
    ]
    return sorted(points, key=lambda one: (one.metrics["epsilon"], one.metrics["bayesian_epsilon"]))


def _ordinary(record: TrialRecord) -> Mapping[str, float]:
    """The trial's metrics, its epsilon infinite unless its claim is one of ordinary differential privacy."""
    assert record.guarantee is not None
    return record.metrics if record.guarantee.notion is Notion.DP else {**record.metrics, "epsilon": math.inf}


def table_of(part: Part, settings: Sequence[GridPoint]) -> ResultTable:
    """Both epsilons of every run, never in one column."""
    names = list(settings[0].knobs)
    bayesian = tuple(f"Bayesian {share}" for share in PERCENTILES)
    columns = (*names, "steps", "accuracy", "DP epsilon", "its attack", *bayesian, "its attack")
    rows = [
        (
            *(one.knobs[name] for name in names),
            int(one.metrics["steps_taken"]),
            one.metrics["accuracy"],
            one.metrics["epsilon"],
            attack_success(one.metrics["epsilon"]),
            *(one.metrics[metric] for metric in PERCENTILES.values()),
            attack_success(one.metrics["bayesian_epsilon"]),
        )
        for one in settings
    ]
    return ResultTable(f"Table 1, {part.name} ({part.system})", columns, rows)


def hold(run: Reproduction, part: Part, settings: Sequence[GridPoint]) -> None:
    """What the part's row of Table 1 states."""
    ordinary, bayesian = "epsilon", "bayesian_epsilon"
    values: dict[str, Any] = {"name": part.name, **part.published}
    for kind, metric, other in (("Bayesian", bayesian, ordinary), ("ordinary", ordinary, bayesian)):
        if kind.lower() not in part.published:
            continue
        limit, least = part.published[kind.lower()], part.published["private"] - AGREEMENT
        within = [one.metrics for one in settings if one.metrics[metric] <= limit and one.metrics["steps_taken"] > 0]
        best = max(within, key=lambda one: one["accuracy"], default=None)
        found: dict[str, Any] = {"accuracy": "none", "enough": None, "note": "no run of the grid is within it"}
        if best is not None:
            note = f"{kind} {best[metric]:.3g}, the other notion {best[other]:.3g}. {part.note}"
            found = {"accuracy": best["accuracy"], "enough": best["accuracy"] >= least, "note": note}
        run.hold("private", {**values, "kind": kind, "limit": limit, **found})
    if "ordinary" in part.published:
        example = max(settings, key=lambda one: one.metrics[ordinary] / one.metrics[bayesian]).metrics
        smaller = sum(one.metrics[bayesian] < one.metrics[ordinary] for one in settings)
        most = {"most_ordinary": example[ordinary], "most_bayesian": example[bayesian]}
        run.hold("below", {**values, **most, "smaller": smaller, "settings": len(settings)})


Parts = Mapping[str, Sequence[GridPoint]]
"""Settings by the name of their part."""


def trade_off(parts: Parts) -> list[Axes]:
    """Table 1: accuracy against each epsilon, on panels of their own notion."""
    panels = []
    for metric, title in (
        ("epsilon", "ordinary DP, delta 1e-5"),
        ("bayesian_epsilon", "Bayesian (average-case), delta 1e-10"),
    ):
        lines = []
        for position, (name, settings) in enumerate(parts.items()):
            points = sorted((one.metrics[metric], one.metrics["accuracy"]) for one in settings)
            if math.isfinite(points[0][0]):
                style = {"color": f"C{position}", "marker": "o", "ms": 4, "lw": 0.8}
                across, up = zip(*points, strict=True)
                lines.append(Series(name, across, up, style))
        panels.append(Axes(title=title, x="epsilon", y="validation accuracy", lines=lines, log="x"))
    return panels


def percentiles(parts: Parts) -> list[Axes]:
    """The percentile curve of each part's least noisy run, and the attack success that each epsilon allows."""
    shares = [1 - float(share.rstrip("%")) / 100 for share in PERCENTILES]
    grid = [float(one) for one in np.geomspace(0.05, 30, 200)]
    curves, dots, levels = [], [Series("", grid, [attack_success(one) for one in grid], {"color": "k", "lw": 0.8})], []
    for position, (name, settings) in enumerate(parts.items()):
        run, colour = settings[-1].metrics, {"color": f"C{position}"}
        epsilons = [run[metric] for metric in PERCENTILES.values()]
        curves.append(Series(name, shares, epsilons, {**colour, "marker": "o", "ms": 4}))
        average, ordinary = run["bayesian_epsilon"], run["epsilon"]
        dots.append(Series("", [average], [attack_success(average)], {**colour, "marker": "o"}))
        if math.isfinite(ordinary):
            levels.append((ordinary, {**colour, "ls": ":", "lw": 0.8}))
            dots.append(Series("", [ordinary], [attack_success(ordinary)], {**colour, "marker": "s", "mfc": "none"}))
    outside, title = "share of the population left outside", "attack success (dots: Bayesian, squares: DP)"
    everybody = "epsilon at delta 1e-5 for all but a share (dotted: DP, for everybody)"
    return [
        Axes(title=everybody, x=outside, y="epsilon", lines=curves, log="xy", levels=levels),
        Axes(title=title, x="epsilon", y="P(A)", lines=dots, log="x"),
    ]
