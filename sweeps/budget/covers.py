"""The least Gaussian that covers an event up to a public tau: what adds up in the filter of a sweep or a population."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import MutableMapping
from functools import lru_cache

from dpcore.accountants.gdp import GDPAccountant
from dpcore.accountants.pld import PLDAccountant
from dpcore.events import Adjacency, Event, Gaussian, phases, to_dict
from dpcore.selection import EventProfile, GDPCharge, covering_mu, is_covered

TOLERANCE = 2e-3
"""Of a mu that covers, relative and from above."""
ROUGH = 1e-2
"""Of the deltas that it covers: those that decide are told far more closely, and of the others a few are dear."""
ROUND_UP = 1 + 1e-12


def cover(event: Event, adjacency: Adjacency, tau: float, known: MutableMapping[str, float]) -> GDPCharge:
    """The mu of an event, and the tau that stands beside it where it is not Gaussian itself; mu may be infinite.

    known  {question: answer}, which is asked first, and told; an answer counts where it is shown to cover

    Raises UnsupportedEvent for what no accountant counts as a curve, and as the accountants do.
    """
    parts = phases(event)
    if not parts:
        return GDPCharge(0.0)
    if all(isinstance(part, Gaussian) for part in parts):
        # Exact, and nothing stands beside it (Dong, Roth & Su 2022, corollary 2).
        return GDPCharge(GDPAccountant(adjacency).compose(event).mu * ROUND_UP)
    question = _question(event, adjacency, tau)
    mu = known.get(question)
    # What somebody kept is no proof: the next launch rests on it, and with it the total of the sweep.
    if mu is None or not shown_to_cover(event, mu, tau, adjacency):
        mu = covering_mu(EventProfile(event, adjacency, tolerance=ROUGH), tau, TOLERANCE)
        if math.isfinite(mu):
            known[question] = mu
    return GDPCharge(mu, tau)


@lru_cache(maxsize=4096)
def shown_to_cover(event: Event, mu: float, tau: float, adjacency: Adjacency) -> bool:
    """Whether a Gaussian of this mu is shown to cover an event that is none itself, up to tau: at points of its own,
    not at those that whoever found it looked at."""
    if not (0 < mu < math.inf and tau):
        return False
    accountant = PLDAccountant(adjacency=adjacency)
    if not accountant.supports(event):
        return False
    start = accountant.compose(event).epsilon_estimate(tau)
    return 0 < start < math.inf and is_covered(EventProfile(event, adjacency).along().delta, 1.01 * start, mu, tau)


def _question(event: Event, adjacency: Adjacency, tau: float) -> str:
    counted = sorted(json.dumps([to_dict(part), count], sort_keys=True) for part, count in phases(event).items())
    asked = json.dumps(["covering-mu/1", counted, str(adjacency), tau, TOLERANCE, ROUGH])
    return f"covering-mu:{hashlib.sha256(asked.encode()).hexdigest()}"
