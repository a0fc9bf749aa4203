"""Triastcyn & Faltings (2020), "Bayesian differential privacy for machine learning": Figures 1-5 and Table 1.

    formulas    what needs no data: Theorems 3 and 4, Figures 1 and 5, attack success, Table 1's arithmetic
    trainings   Table 1's sweeps on MNIST, CIFAR-10, Abalone and Adult
    distances   Figures 2-4, from the weights that those sweeps end with

Every run states its ordinary epsilon and its Bayesian one; they are different notions and never share a column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from sweeps.reproductions.data_sets import section
from sweeps.reproductions.run import Reproduction
from sweeps.reproductions.statements import untried
from sweeps.reproductions.triastcyn2020 import distances, trainings
from sweeps.reproductions.triastcyn2020.formulas import PAPER, without_data

PAIRS = 300
"""Pairs of gradients a side in Figure 2."""
FIGURES = {"mnist-whole": "MNIST", "cifar10": "CIFAR-10"}
"""Parts whose last weights Figures 2-4 look at."""


def reproduce(run: Reproduction) -> None:
    """Every figure and Table 1."""
    run.say("Theorems 3 and 4, Figures 1 and 5")
    sizes, folder = PAPER.sized(run.effort), run.workspace.folder("triastcyn2020-plots")
    without_data(run, sizes)
    if smaller := PAPER.cut(sizes):
        run.result.cut.append(f"Without data: {'; '.join(smaller)} (--quick)")
    found: dict[str, Sequence[trainings.GridPoint]] = {}
    for part in trainings.PARTS:
        _train(run, part, found)
    if not found:
        run.result.cut.append("Figures 2-4: not looked at, nothing was trained")
        return
    named = {part.name: found[part.id] for part in trainings.PARTS if part.id in found}
    run.draw(folder, "table-1.png", trainings.trade_off(named))
    run.draw(folder, "percentiles.png", trainings.percentiles(named))
    several: list[distances.Gradients] = []
    for part in (one for one in trainings.PARTS if one.id in FIGURES):
        _look(run, part, found, several)
    if several:
        values, panels, table = distances.figures_3_and_4(several[0])
        run.hold("figures_3_and_4", values)
        run.result.tables.append(table)
        run.draw(folder, "figure-2.png", [distances.histogram(one) for one in several])
        run.draw(folder, "figures-3-4.png", panels)


def _train(run: Reproduction, part: trainings.Part, found: dict[str, Sequence[trainings.GridPoint]]) -> None:
    """One part of Table 1, if its set can be had."""
    name = f"Table 1, {part.name}"

    def made(data: Path) -> None:
        _, trials = run.trained(trainings.sweep_of(part, data, run.effort))
        found[part.id] = trainings.settings_of(trials)
        run.result.cut += trainings.cut(part, run.effort)
        trainings.hold(run, part, found[part.id])
        run.result.tables.append(trainings.table_of(part, found[part.id]))

    def left(why: str) -> None:
        epsilons = (f"{part.published[one]:g}" for one in ("ordinary", "bayesian") if one in part.published)
        run.result.claims.append(untried(name, f"not trained ({why})", " -> ".join(epsilons)))
        run.result.cut.append(f"{name}: not trained ({why})")

    run.part(part.data, made, left, title=name, quick=part.quick is not None)


def _look(
    run: Reproduction,
    part: trainings.Part,
    found: Mapping[str, Sequence[trainings.GridPoint]],
    several: list[distances.Gradients],
) -> None:
    """Figures 2-4 from the last weights of a part's least noisy run."""
    name = FIGURES[part.id]
    if part.id not in found:
        run.result.cut.append(f"Figures 2-4, {name}: not looked at, its part was not trained")
        return

    def made(data: Path) -> None:
        record, options = found[part.id][-1].record, section(part.data, data)
        several.append(distances.gradients(name, record, options, run.workspace, PAIRS))
        distances.figure_2(run, several[-1])

    run.part(part.data, made, lambda why: None, title=f"Figures 2-4, {name}")
