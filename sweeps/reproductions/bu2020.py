"""Bu, Dong, Long & Su (2020), Tables 1-4: each row is one sweep of one trial, packaged beside this module.

Claims about accounting are computed from the rows' settings alone, without data or training.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from dpcore.accountants.rdp import BU2020_ORDERS, RDPAccountant
from dpcore.accounting import headline
from dpcore.adjacency import Adjacency
from dpcore.calibrate import sampled_gaussian
from dpcore.gdp_dual import eps_gdp
from sweeps.release.rounding import epsilon_text
from sweeps.reproductions.claims import Claim, Result, Say
from sweeps.reproductions.effort import Effort
from sweeps.reproductions.files import Missing, needing, section
from sweeps.reproductions.sweeping import on_public_records, swept

if TYPE_CHECKING:
    from sweeps.process.workspace import Workspace
    from sweeps.spec.model import SweepSpec

PRINTED = 0.005 + 1e-9
"""Two printed digits hold when ours rounds to them."""
DIGITS = "Recomputed from the printed setting, to the printed digits."
MA_TOLERANCE = 0.01
"""Relative. The paper's order list does not reproduce its own last digits in rows 3 to 6 of Table 1."""

TITLE = "Deep learning with Gaussian differential privacy (Bu, Dong, Long & Su 2020)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a published table: a sweep of one trial.

    rate       the paper's sampling rate, exact, as (numerator, denominator)
    published  printed numbers by name: the metric, mu, epsilon_clt, epsilon_ma
    """

    id: str
    table: str
    data: Mapping[str, Any]
    system: str
    knobs: Mapping[str, Any]
    metric: str
    delta: float
    rate: tuple[int, int]
    published: Mapping[str, float]
    quick: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """The rows, and how far a trained metric may be from the printed one."""

    agreement: Mapping[str, float]
    rows: tuple[Row, ...]


def load() -> Reproduction:
    """The packaged rows."""
    raw = yaml.safe_load(files(__package__).joinpath("bu2020.yaml").read_text(encoding="utf-8"))
    rows = [
        Row(
            id=row["id"],
            table=table["name"],
            data=table["data"],
            system=table["system"],
            knobs={**table["knobs"], **row["knobs"]},
            metric=table["metric"],
            delta=float(table["delta"]),
            rate=(int(table["rate"][0]), int(table["rate"][1])),
            published=row["published"],
            quick=row.get("quick", False),
            note=row.get("note", ""),
        )
        for table in raw["tables"]
        for row in table["rows"]
    ]
    return Reproduction(agreement=raw["agreement"], rows=tuple(rows))


def spec_of(row: Row, data: Path, repeats: int = 1) -> SweepSpec:
    """The sweep behind a row, on the files below `data`. Raises SpecErrors."""
    from sweeps.spec import load_spec

    return load_spec(
        on_public_records(
            {
                "name": f"bu2020-{row.id}",
                "data": section(row.data, data),
                "systems": {row.system: dict(row.knobs)},
                "privacy": {"epsilon": row.published["epsilon_ma"], "delta": row.delta, "solve": "none"},
                "objectives": [{"metric": row.metric}],
                "search": {"sampler": "grid", "trials": repeats, "repeats": repeats},
            }
        )
    )


def accounting_claims(rows: Sequence[Row]) -> list[Claim]:
    """mu, the CLT's, the moments accountant's and the PLD's epsilon of every row, from its settings alone."""
    return [claim for row in rows for claim in _accounting(row)]


def _accounting(row: Row) -> list[Claim]:
    noise, epochs = float(row.knobs["noise_multiplier"]), float(row.knobs["epochs"])
    rate = row.rate[0] / row.rate[1]
    # The paper's CLT takes the fractional epochs / p, accountants count whole steps.
    mu = rate * math.sqrt(epochs / rate * math.expm1(1 / noise**2))
    steps = -(-int(epochs) * row.rate[1] // row.rate[0])
    event = sampled_gaussian(noise, rate, steps)
    clt = eps_gdp(mu, row.delta)
    moments = RDPAccountant(Adjacency.ADD_REMOVE, orders=BU2020_ORDERS, conversion="old").compose(event)
    ma = moments.epsilon(row.delta)
    pld = headline(event, row.delta, Adjacency.ADD_REMOVE)
    name, printed = f"{row.table}, {row.id}", row.published
    lower = pld.epsilon_lower or 0.0
    return [
        _printed(f"{name}: mu", printed["mu"], mu),
        _printed(f"{name}: epsilon by the CLT", printed["epsilon_clt"], clt),
        Claim(
            claim=f"{name}: epsilon by the moments accountant",
            published=printed["epsilon_ma"],
            ours=round(ma, 4),
            holds=abs(ma - printed["epsilon_ma"]) <= max(PRINTED, MA_TOLERANCE * printed["epsilon_ma"]),
            note="Recomputed with the paper's own orders.",
        ),
        Claim(
            claim=f"{name}: the CLT's epsilon is an upper bound",
            published=printed["epsilon_clt"],
            ours=f"PLD [{epsilon_text(lower, up=False, digits=6)}, {epsilon_text(pld.epsilon, digits=6)}]",
            holds=True if clt >= pld.epsilon else False if clt < lower else None,
            note="Our certified upper bound is not above it."
            if clt >= pld.epsilon
            else "The certified lower bound is above it: the CLT is no guarantee."
            if clt < lower
            else "Undecided within the PLD's tolerance.",
        ),
    ]


def _printed(claim: str, published: float, ours: float) -> Claim:
    return Claim(
        claim=claim, published=published, ours=round(ours, 4), holds=abs(ours - published) <= PRINTED, note=DIGITS
    )


def training_claim(reproduction: Reproduction, row: Row, metrics: Mapping[str, float]) -> Claim:
    """The trained metric beside the printed one."""
    printed, ours = row.published[row.metric], metrics.get(row.metric)
    if ours is None:
        return Claim(
            claim=f"{row.table}, {row.id}: {row.metric}", published=printed, ours=None, holds=None, note="no result"
        )
    tolerance = reproduction.agreement[row.metric]
    return Claim(
        claim=f"{row.table}, {row.id}: {row.metric} within {tolerance:g}",
        published=printed,
        ours=round(ours, 4),
        holds=abs(ours - printed) <= tolerance,
        note=row.note or "Trained with other seeds than the paper's.",
    )


def reproduce(data: Path | None, workspace: Workspace, effort: Effort, say: Say) -> Result:
    """Tables 1-4. `effort.quick` trains the rows marked quick (seconds to a minute each); there is one grid.

    With `effort.repeats`, a row's metric is the mean over that many trainings.
    """
    reproduction = load()
    result = Result(paper="bu2020", title=TITLE, claims=accounting_claims(reproduction.rows))
    for row in reproduction.rows:
        if data is None or (effort.quick and not row.quick):
            _leave(row, "no --data DIR" if data is None else "--quick", result)
            continue
        say(f"{row.table}, {row.id}")
        try:
            with needing(row.data, data, result, say):
                trials = swept(spec_of(row, data, effort.repeats or 1), workspace)
        except Missing as missing:
            _leave(row, str(missing), result)
            continue
        trained = [trial.metrics[row.metric] for trial in trials if row.metric in trial.metrics]
        metrics = {row.metric: sum(trained) / len(trained)} if trained else {}
        result.claims.append(training_claim(reproduction, row, metrics))
    return result


def _leave(row: Row, why: str, result: Result) -> None:
    result.cut.append(f"{row.table}, {row.id}: not trained ({why})")
    result.claims.append(
        Claim(
            claim=f"{row.table}, {row.id}: {row.metric}",
            published=row.published[row.metric],
            ours=None,
            holds=None,
            note=f"not trained ({why})",
        )
    )
