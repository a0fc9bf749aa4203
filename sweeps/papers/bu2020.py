"""Bu, Dong, Long & Su (2020), Tables 1-4: each row is one sweep of one trial.

Claims about accounting are computed from the rows' settings alone, without data or training.
"""

from __future__ import annotations

import math
from pathlib import Path
from statistics import fmean
from typing import Any

from dpcore.accountants.rdp import BU2020_ORDERS, RDPAccountant
from dpcore.accounting import headline
from dpcore.calibrate import sampled_gaussian
from dpcore.events import Adjacency
from dpcore.gdp import eps_gdp
from dpcore.guarantee import epsilon_text
from sweeps.papers import Paper, Reproduction, Row, section

PAPER = Paper.load("bu2020")
PRINTED = 0.005 + 1e-9
"""Two printed digits hold when ours rounds to them."""
MA_TOLERANCE = 0.01
"""Relative. The paper's order list does not reproduce its own last digits in rows 3 to 6 of Table 1."""


PLAIN = {"quick": False, "note": "Trained with other seeds than the paper's."}
ROWS = [
    Row(**{**PLAIN, **table, **row, "knobs": {**table["knobs"], **row["knobs"]}})
    for table in PAPER.printed["tables"]
    for row in table["rows"]
]
"""Lines of the published tables, each a sweep of one trial: the table's settings, and its own over them."""


def reproduce(run: Reproduction) -> None:
    """Tables 1-4. With `effort.quick`, the rows marked quick are trained (seconds to a minute each); there is one grid.

    With `effort.repeats`, a row's metric is the mean over that many trainings.
    """
    for row in ROWS:
        accounting(run, row)
    for row in ROWS:
        _train(run, row)


def _train(run: Reproduction, row: Row) -> None:
    def made(data: Path) -> None:
        _, trials = run.trained(sweep_of(row, data, run.effort.repeats or 1))
        values = [trial.metrics[row.metric] for trial in trials if row.metric in trial.metrics]
        training(run, row, fmean(values) if values else None)

    if why := run.part(row.data, made, title=f"{row.name}, {row.id}", quick=row.quick):
        run.result.cut.append(f"{row.name}, {row.id}: not trained ({why})")
        training(run, row, None, f"not trained ({why})")


def sweep_of(row: Row, data: Path, repeats: int = 1) -> dict[str, Any]:
    """The sweep behind a row, on the files below `data`. Its budget is the printed MA epsilon, above the PLD's."""
    return {
        "name": f"bu2020-{row.id}",
        "data": section(row.data, data),
        "systems": {row.system: row.knobs},
        "privacy": {"epsilon": row.published["epsilon_ma"], "delta": row.delta, "solve": "none"},
        "objectives": [{"metric": row.metric}],
        "search": {"repeats": repeats},
    }


def accounting(run: Reproduction, row: Row) -> None:
    """mu, the CLT's, the moments accountant's and the PLD's epsilon of a row, beside the printed ones."""
    noise, epochs = float(row.knobs["noise_multiplier"]), float(row.knobs["epochs"])
    rate = row.rate[0] / row.rate[1]
    # The paper's CLT takes the fractional epochs / p, accountants count whole steps.
    mu = rate * math.sqrt(epochs / rate * math.expm1(1 / noise**2))
    clt = eps_gdp(mu, row.delta)
    event = sampled_gaussian(noise, rate, -(-int(epochs) * row.rate[1] // row.rate[0]))
    moments = RDPAccountant(Adjacency.ADD_REMOVE, orders=BU2020_ORDERS, conversion="old").compose(event)
    ma = moments.epsilon(row.delta)
    pld = headline(event, row.delta, Adjacency.ADD_REMOVE)
    lower = pld.epsilon_lower or 0.0
    bound, why = None, "Undecided within the PLD's tolerance."
    if clt >= pld.epsilon:
        bound, why = True, "Our certified upper bound is not above it."
    elif clt < lower:
        bound, why = False, "The certified lower bound is above it: the CLT is no guarantee."
    low, high = epsilon_text(lower, up=False, digits=6), epsilon_text(pld.epsilon, digits=6)
    values = {"where": f"{row.name}, {row.id}", "printed": row.published, "mu": mu, "clt": clt, "ma": ma}
    near = {"digits": PRINTED, "near": max(PRINTED, MA_TOLERANCE * row.published["epsilon_ma"])}
    run.hold("accounting", {**values, **near, "interval": f"PLD [{low}, {high}]", "bound": bound, "why": why})


def training(run: Reproduction, row: Row, trained: float | None, why: str = "no result") -> None:
    """The trained metric beside the printed one; None for `why`."""
    values = {"name": f"{row.name}, {row.id}: {row.metric}", "printed": row.published[row.metric], "ours": trained}
    near = {"agreement": PAPER.printed["agreement"][row.metric], "note": row.note}
    run.hold("training", {**values, **near}, why if trained is None else "")
