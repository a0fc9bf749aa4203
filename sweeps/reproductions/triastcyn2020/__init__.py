"""Triastcyn & Faltings (2020), "Bayesian differential privacy for machine learning": Figures 1-5 and Table 1.

    formulas    what needs no data: Theorems 3 and 4, Figures 1 and 5, attack success, Table 1's arithmetic
    training    Table 1's sweeps on MNIST, CIFAR-10, Abalone and Adult
    distances   Figures 2-4, from the weights that those sweeps end with

Every run states its ordinary epsilon and its Bayesian one; they are different notions and never share a column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sweeps.reproductions.files import Missing, section
from sweeps.reproductions.run import Run
from sweeps.reproductions.statements import untried
from sweeps.reproductions.triastcyn2020 import distances, training
from sweeps.reproductions.triastcyn2020.formulas import PAPER, Scope, without_data

PAIRS = 300
"""Pairs of gradients a side in Figure 2."""
FIGURES = {"mnist-whole": "MNIST", "cifar10": "CIFAR-10"}
"""Parts whose last weights Figures 2-4 look at."""


def reproduce(run: Run) -> None:
    """Every figure and Table 1."""
    run.say("Theorems 3 and 4, Figures 1 and 5")
    scope, folder = PAPER.scope(Scope, run.effort), run.workspace.folder("triastcyn2020-plots")
    without_data(run, scope)
    if smaller := PAPER.cut(scope):
        run.result.cut.append(f"Without data: {'; '.join(smaller)} (--quick)")
    found: dict[str, Sequence[training.Setting]] = {}
    for part in training.PARTS:
        try:
            if run.data is not None:
                if run.effort.quick and part.quick is None:
                    raise Missing("--quick")
                run.say(f"Table 1, {part.name}")
            with run.needing(part.data) as data:
                _, trials = run.trained(training.spec_of(part, data, run.effort))
                settings = training.settings_of(trials)
        except Missing as missing:
            epsilons = " -> ".join(
                f"{part.published[one]:g}" for one in ("ordinary", "bayesian") if one in part.published
            )
            run.result.claims.append(untried(f"Table 1, {part.name}", f"not trained ({missing})", epsilons))
            run.result.cut.append(f"Table 1, {part.name}: not trained ({missing})")
            continue
        run.result.cut += training.cut(part, run.effort)
        found[part.id] = settings
        training.hold(run, part, settings)
        run.result.tables.append(training.table_of(part, settings))
    if not found:
        run.result.cut.append("Figures 2-4: not looked at, nothing was trained")
        return
    named = {part.name: found[part.id] for part in training.PARTS if part.id in found}
    run.draw(folder, "table-1.png", training.trade_off(named))
    run.draw(folder, "percentiles.png", training.percentiles(named))
    _figures(run, found)


def _figures(run: Run, found: Mapping[str, Sequence[training.Setting]]) -> None:
    """Figures 2-4 from the last weights of the least noisy runs."""
    several = []
    for part in training.PARTS:
        if part.id not in FIGURES:
            continue
        name = FIGURES[part.id]
        if part.id not in found:
            run.result.cut.append(f"Figures 2-4, {name}: not looked at, its part was not trained")
            continue
        run.say(f"Figures 2-4, {name}")
        try:
            with run.needing(part.data) as data:
                record, options = found[part.id][-1].record, section(part.data, data)
                several.append(distances.measured(name, record, options, run.workspace, PAIRS))
        except Missing:
            continue
        distances.figure_2(run, several[-1])
    if several:
        folder = run.workspace.folder("triastcyn2020-plots")
        values, panels, table = distances.figures_3_and_4(several[0])
        run.hold("figures_3_and_4", values)
        run.result.tables.append(table)
        run.draw(folder, "figure-2.png", [distances.histogram(one) for one in several])
        run.draw(folder, "figures-3-4.png", panels)
