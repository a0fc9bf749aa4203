"""Lu, Asghar, Kaafar, Webb & Dickinson (2021): DP for deep learning with convexified loss functions.

    shape_formulas  Tables I, V and VI from shapes alone, and the counterexamples to the paper's theorems
    parts           data sets, sizes and the sweeps behind the figures
    set_results     trials as points of a figure; DP-SGD's models under the shadow attack

Every epsilon on an axis is the paper's: of one answer, pure for Laplace noise and a mu for Gaussian noise, of the whole
training for DP-SGD. The trials behind it claim all their answers together; the tables show both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from scipy import stats

from dpcore.attacks import advantage_bound
from dpcore.convexified.metrics import plotted_leakage_bound
from sweeps.reproductions.lu2021.parts import SETS, Set, cut
from sweeps.reproductions.lu2021.set_results import GAUSSIAN, LAPLACE, CurvePoint, SetResult, measured
from sweeps.reproductions.lu2021.shape_formulas import PAPER, ROWS, without_data
from sweeps.reproductions.pictures import Axes, Series
from sweeps.reproductions.result import ResultTable
from sweeps.reproductions.run import Reproduction
from sweeps.reproductions.statements import untried
from sweeps.reproductions.templates import Values

CLOSE = 0.05
"""Accuracies and leaks that differ by no more agree."""
SLACK = 0.03
"""How far two losses may differ and count as equal, unless the answers are too few to tell."""
SIGMAS = 3.0
EXCEPTED = ("mnist", "adult")
"""Finding 3 names them: models that hardly leak without noise."""
ALLOWED = "What may be passed is two standard errors of the answers that were asked, and at least a fixed slack."
UNLIKE = (
    "Equal names are no equal privacy: a mu of one answer against (epsilon, delta) of all; and Algorithm 1 is refuted."
)


def reproduce(run: Reproduction) -> None:
    """Tables I, V, VI and Figures 2, 3, 10-12. `effort.repeats` averages over that many trainings (coarse: 2)."""
    without_data(run)
    sizes = PAPER.sized(run.effort)
    found: list[SetResult] = []
    if run.data is None:
        run.result.cut.append("Table V and Figures 3-13: not run (no --data DIR)")
    for one in SETS[: sizes["most"]] if run.data is not None else ():
        _train(run, one.sized(sizes), sizes, found)
    run.result.cut += cut(sizes, [one.set for one in found])
    if not found:
        why = "no --data DIR" if run.data is None else "no data set found"
        run.result.claims += [untried(claim, f"not run ({why})") for claim in PAPER.printed["untried"]]
        return
    hold(run, found)
    run.result.tables += tables(found)
    panels = [panel for one in found for panel in panels_of(one)]
    run.draw("reproductions/lu2021", "figures.png", panels, columns=2, size=(5.5, 3.6))


def _train(run: Reproduction, one: Set, sizes: Values, found: list[SetResult]) -> None:
    """One data set, if it can be had."""

    def made(data: Path) -> None:
        told = f"{one.records} records, {one.shadows} shadows, {one.epochs} epochs, {sizes['repeats']} draws"
        run.say(f"lu2021-{one.name}: {told}")
        found.append(measured(one, sizes, data, run))

    run.part(one.options, made, lambda why: run.result.cut.append(f"{one.row}: not run ({why})"))


def slack(one: SetResult) -> float:
    """`SLACK`, or two standard errors of the difference of two losses."""
    accuracy = max(one.convexified[1], 1e-3)
    return round(max(SLACK, 2 * math.sqrt(0.5 / one.answers) / accuracy), 4)


def hold(run: Reproduction, found: Sequence[SetResult]) -> None:
    """The statements, data set by data set, and those over all of them."""
    for one in found:
        _set(run, one)
    if len(found) < 3:
        return
    for group, attribute, few in (
        ("finding_1", "leak", list(found)),
        ("figure_2a", "stability", [one for one in found if one.convexified[1] > 0.5]),
    ):
        if len(few) > 2:
            rank = stats.spearmanr([getattr(one, attribute) for one in few], [one.gap for one in few])[0]
            run.hold(group, {"sets": len(few), "rank": float(rank)})


def _set(run: Reproduction, one: SetResult) -> None:
    """Table V's row and the figure of one data set."""
    row, curves = ROWS[one.set.row], one.curves()
    train, test = one.convexified
    times = row.records / one.set.records
    values: dict[str, Any] = {
        "row": row.name,
        "where": f"Figure {one.set.figure}, {row.name}",
        "printed": row,
        "train": train,
        "test": test,
        "leak": one.leak,
        "close": CLOSE,
        "slack": slack(one),
        "allowed": ALLOWED,
        "sizes": f"{one.set.records} records here, {row.records} in the paper.",
        "smaller": f"{one.set.records} records, as in the paper."
        if times == 1
        else f"{one.set.records} records: Dz, and with it the noise, is {times:.3g} times the paper's.",
        "chance": _chance(one),
    }
    run.hold("table_v", values)
    if one.original is not None:
        run.hold("original", {**values, "original": one.original[1], "enough": one.original[1] - CLOSE})
    laplace, gaussian = curves[LAPLACE], curves[GAUSSIAN]
    lowest = laplace[0].epsilon
    for method, curve in ((GAUSSIAN, gaussian), (LAPLACE, laplace)):
        rise = max((b.loss - a.loss for a, b in pairwise(curve)), default=0.0)
        own = {**values, "method": method, "lowest": lowest, "first": curve[0], "last": curve[-1], "rise": rise}
        run.hold("noise", own)
        enough = 100.0 if method == LAPLACE or one.set.name == "location" else 10.0
        if late := [point for point in curve if point.epsilon >= enough]:
            loss = max(point.loss for point in late)
            run.hold("gone", {**own, "from_epsilon": late[0].epsilon, "late_loss": loss})
        if method == LAPLACE:
            # Only a pure epsilon has this bound.
            run.hold("bounded", {**own, **_bound(curve[0], SIGMAS * math.sqrt(0.5 / one.answers))})
    at = {point.epsilon: point.loss for point in gaussian}
    # Where trials of one law failed, the other has nothing to be held against.
    if gaps := [point.loss - at[point.epsilon] for point in laplace if point.epsilon in at]:
        apart = {"apart": max(map(abs, gaps)), "more": max(0.0, -min(gaps)), "fewer": max(gaps)}
        run.hold("two_classes" if one.set.classes == 2 else "more_classes", values | apart)
    sgd = [point for point in one.points if point.method.startswith("DP-SGD")]
    pairs = [(mine, other) for other in sgd for mine in gaussian if mine.epsilon == other.epsilon]
    if pairs:
        better = [other for mine, other in pairs if other.loss < mine.loss - slack(one)]
        beaten = ", ".join(f"{other.method} at epsilon {other.epsilon:g}" for other in better)
        everywhere = f"more than {beaten}" if beaten else "at every point"
        told = {"pairs": len(pairs), "beaten": len(better), "somewhere": beaten or "at none", "unlike": UNLIKE}
        group = "excepted" if one.set.name in EXCEPTED else "against_sgd"
        run.hold(group, {**values, **told, "everywhere": everywhere})


def _chance(one: SetResult) -> str:
    """Why noise alone does not cost half of every model's accuracy."""
    if one.set.classes == 2:
        return "Two classes: a coin decides, so 1 - 1/(2 accuracy)."
    if one.convexified[1] < 0.5:
        return "A model that is mostly wrong gains by chance what it loses to noise."
    return "Noise alone leaves 1/classes of the answers right."


def _bound(point: CurvePoint, error: float) -> dict[str, Any]:
    """The attack against the claim that it is made under."""
    plotted, tight = plotted_leakage_bound(point.epsilon), advantage_bound(point.epsilon)
    more = " The attack contradicts the claimed epsilon." if point.leak > tight + error else ""
    bounds = {"plotted": plotted, "tight": tight, "may_leak": plotted + error}
    return {**bounds, "error": error, "sigmas": SIGMAS, "contradicted": more}


def tables(found: Sequence[SetResult]) -> list[ResultTable]:
    """Table V as measured, and the numbers behind each figure."""
    rows = [
        [one.set.row, *(f"{value:.4f}" for value in one.original or ())]
        + ([""] * 2 if one.original is None else [])
        + [f"{value:.4f}" for value in (*one.convexified, one.gap, one.leak, one.stability)]
        for one in found
    ]
    heads = ("data", "train (original)", "test", "train (convexified)", "test", "gap", "Priv_Leak", "OARO")
    out = [ResultTable("Table V, measured here", heads, rows)]
    for one in found:
        cells = [
            [point.method, f"{point.epsilon:g}", f"{point.claimed:.4g}", f"{point.loss:.4f}", f"{point.leak:.4f}"]
            for curve in one.curves().values()
            for point in curve
        ]
        cells += [[name, f"{epsilon:g}", "", f"noise {z:.4g}: not trained", ""] for name, epsilon, z in one.untrained]
        columns = ("method", "epsilon (paper)", "claimed by the trial", "Acc_Loss", "Priv_Leak")
        out.append(ResultTable(f"Figure {one.set.figure}, {one.set.row}", columns, cells))
    return out


def panels_of(one: SetResult) -> list[Axes]:
    """Acc_Loss and Priv_Leak along epsilon."""
    curves = {name: ([point.epsilon for point in curve], curve) for name, curve in one.curves().items()}
    dots = {"marker": "o", "ms": 3}
    losses = [Series(name, at, [point.loss for point in curve], dots) for name, (at, curve) in curves.items()]
    leaks = [Series(name, at, [point.leak for point in curve], dots) for name, (at, curve) in curves.items()]
    at = sorted({point.epsilon for point in one.points})
    capped = [min(plotted_leakage_bound(epsilon), one.leak) for epsilon in at]
    leaks.append(Series("exp(ε) - 1, cut at the baseline", at, capped, {"color": "k", "linestyle": "--", "lw": 1}))
    level = (one.leak, {"color": "grey", "lw": 0.8, "label": "without noise"})
    title, across = (
        f"Figure {one.set.figure}, {one.set.row}",
        "ε as the paper labels it (Algorithm 1: per answer, refuted)",
    )
    return [
        Axes(title=f"{title}: Acc_Loss", x=across, y="", lines=losses, log="x"),
        Axes(title=f"{title}: Priv_Leak", x=across, y="", lines=leaks, log="x", levels=[level]),
    ]
