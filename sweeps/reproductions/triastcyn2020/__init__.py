"""Triastcyn & Faltings (2020), "Bayesian differential privacy for machine learning": Figures 1-5 and Table 1.

    formulas    what needs no data: Theorems 3 and 4, Figures 1 and 5, attack success, Table 1's arithmetic
    training    Table 1's sweeps on MNIST, CIFAR-10, Abalone and Adult
    distances   Figures 2-4, from the weights that those sweeps end with

Every run states its ordinary epsilon and its Bayesian one; they are different notions and never share a column.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.reproductions.claims import Result, Say
from sweeps.reproductions.effort import Effort, reduced
from sweeps.reproductions.files import Missing, needing, section
from sweeps.reproductions.sweeping import swept
from sweeps.reproductions.triastcyn2020 import distances, formulas, plots, training

if TYPE_CHECKING:
    from sweeps.process.workspace import Workspace

TITLE = "Bayesian differential privacy for machine learning (Triastcyn & Faltings 2020)"
PAIRS = 300
"""Pairs of gradients a side in Figure 2."""
FIGURES = {"mnist-whole": "MNIST", "cifar10": "CIFAR-10"}
"""Parts whose last weights Figures 2-4 look at."""


def reproduce(data: Path | None, workspace: Workspace, effort: Effort, say: Say) -> Result:
    """See `sweeps.reproductions`."""
    folder = workspace.folder("triastcyn2020-plots")
    say("Theorems 3 and 4, Figures 1 and 5")
    claims, tables, (free, clipped, orders) = formulas.without_data(effort.quick)
    result = Result(paper="triastcyn2020", title=TITLE, claims=claims, tables=tables)
    if smaller := reduced(formulas.sizes(effort.quick), formulas.sizes(quick=False)):
        result.cut.append(f"Without data: {'; '.join(smaller)} (--quick)")
    steps = {"Figure 1, no clip for BDP": free, "Figure 1(d), clipped at the noise": clipped}
    result.plots += [
        plots.curves(folder / "figure-1.png", steps, "steps", "epsilon", x_log=True),
        plots.curves(folder / "figure-5.png", {"Figure 5": orders}, "order", "epsilon", x_log=True, top=1e3),
    ]
    settings: dict[str, list[training.Setting]] = {}
    for part in training.PARTS:
        why = "no --data DIR" if data is None else "--quick" if effort.quick and part.quick is None else ""
        if why or data is None:
            _leave(part, why, result)
            continue
        say(f"Table 1, {part.name}")
        try:
            with needing(part.data, data, result, say):
                found = training.settings_of(swept(training.spec_of(part, data, effort), workspace))
        except Missing as missing:
            _leave(part, str(missing), result)
            continue
        result.cut += training.cut(part, effort)
        settings[part.id] = found
        result.claims += training.claims_of(part, found)
        result.tables.append(training.table_of(part, found))
    if data is None or not settings:
        result.cut.append("Figures 2-4: not looked at, nothing was trained")
        return result
    named = {part.name: settings[part.id] for part in training.PARTS if part.id in settings}
    result.plots += [
        plots.trade_off(folder / "table-1.png", named),
        plots.percentiles(folder / "percentiles.png", named),
    ]
    _figures(data, workspace, say, settings, result)
    return result


def _leave(part: training.Part, why: str, result: Result) -> None:
    result.claims += training.not_tried(part, why)
    result.cut.append(f"Table 1, {part.name}: not trained ({why})")


def _figures(
    data: Path,
    workspace: Workspace,
    say: Say,
    settings: dict[str, list[training.Setting]],
    result: Result,
) -> None:
    """Figures 2-4 from the last weights of the least noisy runs."""
    folder = workspace.folder("triastcyn2020-plots")
    several = []
    for part in training.PARTS:
        if part.id not in FIGURES:
            continue
        if part.id not in settings:
            result.cut.append(f"Figures 2-4, {FIGURES[part.id]}: not looked at, its part was not trained")
            continue
        say(f"Figures 2-4, {FIGURES[part.id]}")
        record, options = settings[part.id][-1].record, section(part.data, data)
        try:
            with needing(part.data, data, result, say):
                several.append(distances.measured(FIGURES[part.id], record, options, workspace, PAIRS))
        except Missing:
            continue
        result.claims += distances.figure_2_claims(several[-1])
    if not several:
        return
    clipped, free, claims, table = distances.figures_3_and_4(several[0])
    result.claims += claims
    result.tables.append(table)
    lines = {"Figure 3, clipped": clipped, "Figure 4, no clip for BDP": free}
    result.plots += [
        plots.histograms(folder / "figure-2.png", several),
        plots.curves(folder / "figures-3-4.png", lines, "noise over clip", "epsilon", x_log=True),
    ]
