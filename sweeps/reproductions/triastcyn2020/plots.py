"""The figures, one PNG each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpcore.accountants.bayesian import attack_success
from sweeps.reproductions.triastcyn2020.formulas import Curve
from sweeps.reproductions.triastcyn2020.training import PERCENTILES, Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sweeps.reproductions.triastcyn2020.distances import Measured


def curves(
    path: Path, panels: Mapping[str, Sequence[Curve]], x: str, y: str, *, x_log: bool = False, top: float | None = None
) -> Path:
    """Lines, one panel beside the other, epsilon on a logarithmic axis."""
    figure, axes = _axes(len(panels))
    for axis, (title, lines) in zip(axes, panels.items(), strict=True):
        for line in lines:
            axis.plot(line.x, line.y, "k--" if line.label.startswith("DP") else "-", label=line.label)
        axis.set(title=title, xlabel=x, ylabel=y, yscale="log", xscale="log" if x_log else "linear")
        if top is not None:
            axis.set_ylim(top=top)
        axis.legend(fontsize=7)
    return _saved(figure, path)


def histograms(path: Path, several: Sequence[Measured]) -> Path:
    """Figure 2: distances of pairs, from training records and from others."""
    figure, axes = _axes(len(several))
    for axis, found in zip(axes, several, strict=True):
        top = float(np.quantile(np.concatenate([found.training, found.held_out]), 0.99))
        bins = np.linspace(0, top, 40).tolist()
        axis.hist(np.minimum(found.training, top), bins=bins, alpha=0.5, label="train")
        axis.hist(np.minimum(found.held_out, top), bins=bins, alpha=0.5, label="test")
        axis.set(title=found.name, xlabel="distance of a pair's gradients (last bin: the rest)", ylabel="pairs")
        axis.legend(fontsize=7)
    return _saved(figure, path)


def trade_off(path: Path, parts: Mapping[str, Sequence[Setting]]) -> Path:
    """Table 1: accuracy against each epsilon, on panels of their own notion."""
    figure, axes = _axes(2)
    for axis, metric, title in (
        (axes[0], "epsilon", "ordinary DP, delta 1e-5"),
        (axes[1], "bayesian_epsilon", "Bayesian (average-case), delta 1e-10"),
    ):
        for position, (name, settings) in enumerate(parts.items()):
            points = sorted((one.metrics[metric], one.metrics["accuracy"]) for one in settings)
            if math.isfinite(points[0][0]):
                axis.plot(*zip(*points, strict=True), "o-", ms=4, lw=0.8, label=name, color=f"C{position}")
        axis.set(title=title, xlabel="epsilon", ylabel="validation accuracy", xscale="log")
        axis.legend(fontsize=6)
    return _saved(figure, path)


def percentiles(path: Path, parts: Mapping[str, Sequence[Setting]]) -> Path:
    """The percentile curve of each part's least noisy run, and the attack success that each epsilon allows."""
    figure, axes = _axes(2)
    shares = [1 - float(share.rstrip("%")) / 100 for share, _ in PERCENTILES]
    for name, settings in parts.items():
        run = settings[-1].metrics
        epsilons = [run[metric] for _, metric in PERCENTILES]
        (line,) = axes[0].plot(shares, epsilons, "o-", ms=4, label=name)
        axes[1].plot(run["bayesian_epsilon"], attack_success(run["bayesian_epsilon"]), "o", color=line.get_color())
        if math.isfinite(run["epsilon"]):
            axes[0].axhline(run["epsilon"], color=line.get_color(), ls=":", lw=0.8)
            axes[1].plot(run["epsilon"], attack_success(run["epsilon"]), "s", color=line.get_color(), mfc="none")
    axes[0].set(
        title="epsilon at delta 1e-5 for all but a share (dotted: DP, for everybody)",
        xlabel="share of the population left outside",
        ylabel="epsilon",
        xscale="log",
        yscale="log",
    )
    axes[0].legend(fontsize=6)
    grid = np.geomspace(0.05, 30, 200)
    axes[1].plot(grid, [attack_success(float(one)) for one in grid], "k-", lw=0.8)
    axes[1].set(title="attack success (dots: Bayesian, squares: DP)", xlabel="epsilon", ylabel="P(A)", xscale="log")
    return _saved(figure, path)


def _axes(count: int) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6 * count, 4.2), dpi=130, layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def _saved(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    for axis in figure.axes:
        axis.title.set_fontsize(9)
    figure.savefig(path)
    return path
