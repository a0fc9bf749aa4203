"""Tables and the picture behind the statements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpcore.membership import published_bound, repaired_bound, trivial_bound, vacuity_thresholds
from sweeps.records import TrialRecord
from sweeps.release.rounding import epsilon_text
from sweeps.reproductions.claims import Table
from sweeps.reproductions.wu2020.parts import HIDDEN
from sweeps.reproductions.wu2020.published import METRICS, TABLE_1, TABLE_2
from sweeps.reproductions.wu2020.results import LAST, Measurements

COLUMNS = ("attack AUC", "attack F1", "attack accuracy", "train", "test")
SAMPLERS = ("sgld", "psgld", "sghmc")
PROTECTED = ("clipped-sgld", "dp-sgld")


def tables(found: Measurements, widths: Sequence[int]) -> list[Table]:
    """Table 1 for every width, the bounds on leakage, and the protected relatives."""
    return [*(_table_1(found, hidden) for hidden in widths), *_bounds(found, widths), *_protected(found, widths)]


def _table_1(found: Measurements, hidden: int) -> Table:
    rows = []
    for row in TABLE_1:
        cells: list[object] = [row.name, found.trainings(row.system, hidden)]
        for metric in METRICS:
            cells.append(f"{getattr(row, metric):.3f} | {found.row(row, hidden, metric) or 'no result'}")
        rows.append(cells)
    extra: list[object] = ["SGHMC", found.trainings("sghmc", hidden)]
    rows.append(extra + [f"- | {found.mean('sghmc', hidden, LAST + metric) or 'no result'}" for metric in METRICS])
    title = f"Table 1, German Credit, {hidden} hidden units: published | ours, mean +- standard error over splits"
    return Table(title, ("method", "trainings", *COLUMNS), rows)


def _bounds(found: Measurements, widths: Sequence[int]) -> list[Table]:
    rows = []
    for hidden in widths:
        for system in SAMPLERS:
            largest = found.mean(system, hidden, LAST + "loss_bound")
            leaked = [found.mean(system, hidden, name) for name in ("mpl", "mpl_bound", "ensemble_mpl_bound")]
            if largest is None or None in leaked:
                continue
            bound = largest.value
            bounds = (published_bound(bound), repaired_bound(bound), trivial_bound(bound))
            verdict = "vacuous" if bounds[0] > 0.5 else "says something"
            rows.append((f"{system}, {hidden}", bound, *bounds, *(str(one) for one in leaked), verdict))
    title = (
        "Leakage Mpl of members at prior 1/2, membership-only: estimated from the last 20 iterates, which lie close "
        "together and understate it, and only if the sampler has converged. Theorem 1 is vacuous from B = "
        f"{vacuity_thresholds()[1]:.4f}"
    )
    of_b = ("largest loss B", "Theorem 1", "repaired", "any algorithm")
    columns = ("sampler, width", *of_b, "Mpl", "eq. 7", "eq. 9", "Theorem 1 is")
    return [Table(title, columns, rows)] if rows else []


def _protected(found: Measurements, widths: Sequence[int]) -> list[Table]:
    rows = []
    for hidden in widths:
        for system in ("sgd", "sgld", *PROTECTED):
            metric = "accuracy" if system in PROTECTED else LAST + "accuracy"
            accuracy = found.mean(system, hidden, metric)
            if accuracy is not None:
                leaked = found.mean(system, hidden, "membership_auc")
                epsilon = epsilon_text(found.epsilons[system])
                rows.append((f"{system}, {hidden}", str(accuracy), str(leaked or "not measured"), epsilon))
    title = "What differential privacy costs and buys: the claim at delta 0.001 (inf: nothing is claimed)"
    columns = ("system, width", "test accuracy", "attack AUC, 300 + 300", "epsilon")
    return [Table(title, columns, rows)] if rows else []


def image_table(found: Measurements, trials: Sequence[TrialRecord], part: dict[str, Any]) -> Table:
    """The ResNet-18's runs beside Table 2."""
    source = part["data"]["source"]
    steps = max((trial.step for trial in trials), default=0)
    rows = []
    for row in TABLE_2:
        if row.system not in part["systems"]:
            continue
        cells = [f"{getattr(row, metric):.3f} | {found.row(row, HIDDEN, metric) or 'no result'}" for metric in METRICS]
        rows.append([row.name, *cells])
    return Table(f"ResNet-18: Table 2 (IDC, 100 epochs) | ours ({source}, {steps} steps)", ("method", *COLUMNS), rows)


def plots(found: Measurements, hidden: int, folder: Path) -> list[Path]:
    """Attack AUC against test accuracy: ours with two standard errors, the printed runs as crosses."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(figsize=(8, 5.5))
    for number, row in enumerate(TABLE_1):
        colour = f"C{number // 2 if row.system != 'rmsprop' else 7}"
        across, up = (found.row(row, hidden, metric) for metric in ("attack_auc", "accuracy"))
        axes.plot(row.attack_auc, row.accuracy, "x", color=colour)
        axes.annotate(
            row.name,
            (row.attack_auc, row.accuracy),
            xytext=(6, -3),
            textcoords="offset points",
            fontsize=7,
            color=colour,
            alpha=0.7,
        )
        if across is None or up is None:
            continue
        axes.errorbar(
            across.value, up.value, xerr=2 * across.error, yerr=2 * up.error, color=colour, capsize=2,
            marker="o" if row.ensemble else "s", ms=5, label=row.name,
        )  # fmt: skip
    axes.set_xlabel("attack AUC (0.5: the attacker guesses)")
    axes.set_ylabel("test accuracy")
    axes.set_title(f"German Credit, {hidden} hidden units; crosses: published, one run each")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    path = folder / "table-1.png"
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return [path]
