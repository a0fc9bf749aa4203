"""What needs no data: Table I as numbers, Table VI and the OARO column by formula, and the refuted theorems."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import stats

from dpcore.convexified import counterexamples
from dpcore.convexified.one_neuron import Noise
from dpcore.convexified.published import Bound, chain
from sweeps.reproductions.paper import Paper
from sweeps.reproductions.result import ResultTable
from sweeps.reproductions.run import Reproduction

PAPER = Paper.load("lu2021")
HIDDEN, REGULARISER = 128, 0.0005
"""Table IV: an L2 weight of 0.001 is 2 lambda."""
PURCHASE = "Only a width of 594 gives these numbers; Table III says 600."


@dataclass(frozen=True, slots=True)
class SetRow:
    """One line of Tables III, V and VI; see the paper's file."""

    name: str
    inputs: int
    classes: int
    records: int
    chain: str
    train: float
    test: float
    gap: float
    leak: float
    oaro: str


ROWS = {row[0]: SetRow(*row) for row in PAPER.printed["rows"]}


def without_data(run: Reproduction) -> None:
    """Everything that shapes, formulas and counterexamples decide."""
    for row in ROWS.values():
        run.hold("table_vi", by_formula(row))
    rows = list(ROWS.values())[: PAPER.printed["overfitted"]]
    for name, kind, one, other, printed in PAPER.printed["correlations"]:
        columns = ([float(getattr(row, column)) for row in rows] for column in (one, other))
        recomputed = float(getattr(stats, kind)(*columns)[0])
        run.hold("correlation", {"name": name, "printed": printed, "recomputed": recomputed})
    for noise in Noise:
        found = counterexamples.one_neuron_distinguisher(noise=noise, trials=2000)
        run.hold("theorem_6", {"noise": noise, "claimed": found.claimed, "measured": found.measured})
    net = counterexamples.xor_network(1000.0)
    values = {
        "weight": counterexamples.single_weight(),
        "moved": counterexamples.risk_averse_minimiser(),
        "mean": counterexamples.risk_averse_minimiser(1e-9, 1000, 0.01),
        "lipschitz": counterexamples.output_layer_gradient(),
        "net": net,
        "ends": (net.at_weights + net.at_opposite) / 2,
        "midpoint": round(net.at_midpoint, 4),
    }
    run.hold("theorems", values)
    run.result.tables.append(_table_i())


def by_formula(row: SetRow) -> dict[str, str]:
    """A row's numbers from its shape."""
    found = chain((row.inputs, HIDDEN), row.classes, row.records, REGULARISER)
    # The paper took the exponential of the rounded Dz.
    values = (found.lipschitz, found.weight, found.logit, math.expm1(2 * round(found.logit, 4)))
    return {
        "name": row.name,
        "printed": row.chain,
        "chain": " ".join(f"{value:.4f}" for value in values),
        "printed_oaro": row.oaro,
        "oaro": f"{found.stability:.4f}",
        "width": PURCHASE if row.name.startswith("Purchase") else "",
    }


def _table_i() -> ResultTable:
    """The five bounds for the MNIST network: 10,000 records of 784 pixels, Adam's step 0.001 as a constant one."""
    rows = []
    for bound in Bound:
        if bound is Bound.CHAUDHURI_BINARY:
            rows.append([str(bound), "two classes only", "", ""])
            continue
        found = chain((784, HIDDEN), 10, 10_000, REGULARISER, bound=bound, input_norm=28.0, step_size=0.001)
        rows.append([str(bound), f"{found.weights:.4g}", f"{found.logit:.4g}", f"{found.probability:.4g}"])
    return ResultTable(
        "Table I on the MNIST network (none of them bounds this system)", ("bound", "D2W", "Dz", "Dp"), rows
    )
