"""Figures 1 to 6 as curves, tables and pictures, and the paper's statements held against them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from dpcore.mechanisms import soft_vote
from sweeps.reproductions.claims import Claim, Table
from sweeps.reproductions.vandermaaten2020.parts import MODELS
from sweeps.reproductions.vandermaaten2020.results import METHODS, Curve, Point, by_method, curve, default_votes
from sweeps.reproductions.vandermaaten2020.statements import (
    LOSS,
    MODEL,
    PUBLISHED,
    SGD,
    STATEMENTS,
    VOTES,
    Panels,
    held,
)

__all__ = ["STATEMENTS", "claims", "plots", "tables", "temperatures"]

CLASSES = 10


def temperatures() -> list[Claim]:
    """beta = epsilon/B as in the released experiments, beside the largest beta that is proved, at delta = 0."""
    out = []
    for queries in (1, 10, 100, 1000):
        published, proved = 1 / queries, soft_vote.beta_for_loss(1.0 / queries, MODELS, CLASSES)
        spent = queries * soft_vote.loss_per_query(published, MODELS, CLASSES)
        out.append(
            Claim(
                claim=f"S&A at epsilon 1, B={queries}, M={MODELS}: beta = epsilon/B spends epsilon 1",
                published=round(published, 6),
                ours=round(proved, 6),
                holds=spent <= 1,
                note=f"It spends epsilon {spent:.4g}: one record moves two counts. Ours is the largest proved beta.",
            )
        )
    return out


def claims(points: Sequence[Point]) -> list[Claim]:
    """Every statement about the figures that were run."""
    return held(panels(points))


def panels(points: Sequence[Point]) -> Panels:
    """All figures as curves, by method."""
    epsilons = {False: _first(points, pure=False), True: _first(points, pure=True)}
    return Panels(
        epsilon_pure=epsilons[True],
        epsilon_gaussian=epsilons[False],
        budget_pure=_second(points, pure=True, horizontal=epsilons[True]),
        budget_gaussian=_second(points, pure=False, horizontal=epsilons[False]),
        delta=_along(points, "fig3", lambda p: p.delta, lambda p: p.delta > 0 and p.epsilon == 1.0, first="gaussian"),
        size=_along(points, "fig4", lambda p: p.n, lambda p: p.delta == 0 and p.epsilon == 1.0),
        dimension=_along(points, "fig5a", lambda p: p.dimension, lambda p: p.delta == 0 and p.epsilon == 1.0),
        classes=_along(points, "fig5b", lambda p: p.classes, lambda p: p.delta == 0 and p.epsilon == 1.0),
        weight=_weights(points),
        models=curve(
            points,
            VOTES,
            lambda p: p.models,
            lambda p: p.method == VOTES and p.delta == 0 and p.epsilon == 1.0 and p.part.startswith(("fig1", "fig6")),
        ),
    )  # fmt: skip


def _first(points: Sequence[Point], *, pure: bool) -> dict[str, Curve]:
    """Figure 1: accuracy along epsilon, at B = 100."""

    def shown(point: Point) -> bool:
        return point.part.startswith("fig1") and (point.delta == 0) is pure

    curves = by_method(points, lambda p: p.epsilon, shown)
    if pure:
        # beta = epsilon/B is what the corrected rule allows at twice the epsilon.
        curves[PUBLISHED] = curve(points, PUBLISHED, lambda p: p.epsilon / 2, lambda p: shown(p) and p.method == VOTES)
    if LOSS not in curves:
        return curves
    return {label: one.only(curves[LOSS].axis) for label, one in curves.items()}


def _weights(points: Sequence[Point]) -> dict[str, Curve]:
    """Figure 6a: accuracy along lambda."""

    def shown(point: Point) -> bool:
        return point.part.startswith("fig1") and point.delta == 0 and point.epsilon == 1.0

    curves = by_method(points, lambda p: p.weight, shown)
    return {label: one for label, one in curves.items() if len(one.axis) > 1}


def _second(points: Sequence[Point], *, pure: bool, horizontal: dict[str, Curve]) -> dict[str, Curve]:
    """Figure 2: accuracy along the budget of queries at epsilon 1; what is trained once is a horizontal line."""

    def shown(point: Point, epsilon: float = 1.0) -> bool:
        return point.part.startswith("fig2") and (point.delta == 0) is pure and point.epsilon == epsilon

    curves = by_method(points, lambda p: p.queries, shown)
    if pure:
        curves[PUBLISHED] = curve(points, PUBLISHED, lambda p: p.queries, lambda p: shown(p, 2.0) and p.method == VOTES)
    if VOTES not in curves:
        return {}
    budgets = curves[VOTES].axis
    for label in (LOSS, MODEL, SGD):
        if label in horizontal and 1.0 in horizontal[label].axis:
            curves[label] = horizontal[label].level(1.0, budgets)
    return curves


def _along(
    points: Sequence[Point],
    prefix: str,
    axis: Callable[[Point], float],
    where: Callable[[Point], bool],
    first: str = "pure",
) -> dict[str, Curve]:
    """One of Figures 3 to 5: its own sweeps, and the point that Figure 1 has already."""
    starts = (prefix, f"fig1-{first}", "fig1-trained")
    if not any(point.part.startswith(prefix) for point in points):
        return {}
    curves = by_method(points, axis, lambda p: p.part.startswith(starts) and where(p) and default_votes(p))
    return {label: one for label, one in curves.items() if len(one.axis) > 1}


def tables(points: Sequence[Point]) -> list[Table]:
    """The numbers behind the pictures: mean by method and place, and the standard deviation of several runs."""
    found = []
    for title, axis, curves in panels(points).all():
        if not curves:
            continue
        places = sorted({place for one in curves.values() for place in one.axis})
        rows = []
        for place in places:
            cells = [f"{place:g}"]
            for one in curves.values():
                index = one.axis.index(place) if place in one.axis else None
                cells.append("" if index is None else _cell(one.mean[index], one.spread[index]))
            rows.append(cells)
        found.append(Table(f"{title}: accuracy in % (sd)", (axis, *curves), rows))
    return found


def _cell(mean: float, spread: float) -> str:
    return f"{100 * mean:.1f}" + ("" if math.isnan(spread) else f" ({100 * spread:.1f})")


def plots(points: Sequence[Point], folder: Path) -> list[Path]:
    """One picture with all figures that were run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    shown = [(title, axis, curves) for title, axis, curves in panels(points).all() if curves]
    if not shown:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    columns = 3
    rows = -(-len(shown) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(6 * columns, 4.2 * rows), squeeze=False)
    colours = {label: f"C{i}" for i, label in enumerate((*METHODS.values(), PUBLISHED))}
    for cell in axes.flat[len(shown) :]:
        cell.set_visible(False)
    for cell, (title, axis, curves) in zip(axes.flat, shown, strict=False):
        for label, one in curves.items():
            style = "--" if label == PUBLISHED else "-"
            cell.errorbar(
                one.axis,
                one.mean,
                yerr=one.spread,
                label=label,
                color=colours[label],
                linestyle=style,
                marker="o",
                ms=3,
            )
        cell.set_title(title)
        cell.set_xlabel(axis)
        cell.set_ylabel("accuracy")
        cell.set_xscale("log")
        cell.set_xticks(
            places := sorted({place for one in curves.values() for place in one.axis}), [f"{one:g}" for one in places]
        )
        cell.minorticks_off()
        cell.set_ylim(0, 1)
        cell.grid(alpha=0.3)
        cell.legend(fontsize=7)
    figure.tight_layout()
    path = folder / "figures.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return [path]
