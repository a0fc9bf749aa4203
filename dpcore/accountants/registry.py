"""Every accountant by the name that it prints. Adding one is one line here and a row in the contract exam."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpcore import checks
from dpcore.accountants.composition import AdvancedAccountant, NaiveAccountant, ZCDPAccountant
from dpcore.accountants.gdp import GDPAccountant, GDPCLTAccountant
from dpcore.accountants.pld import PLDAccountant
from dpcore.accountants.protocol import Accountant
from dpcore.accountants.rdp import RDPAccountant
from dpcore.events import Adjacency

TOLERANCE = 1e-3
"""Relative gap between upper and lower bound that claims and calibrations ask of an accountant that knows both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """How to open one accountant.

    open     from adjacency and tolerance; closed forms ignore the tolerance
    version  raised whenever its numbers may change: part of the key of every cached calibration
    """

    open: Callable[[Adjacency, float], Accountant]
    version: int = 1


ACCOUNTANTS: Mapping[str, Entry] = {
    "pld": Entry(open=lambda adjacency, tolerance: PLDAccountant(adjacency=adjacency, tolerance=tolerance), version=3),
    "gdp": Entry(open=lambda adjacency, _: GDPAccountant(adjacency)),
    "rdp": Entry(open=lambda adjacency, _: RDPAccountant(adjacency)),
    "gdp-clt": Entry(open=lambda adjacency, _: GDPCLTAccountant(adjacency)),
    "zcdp": Entry(open=lambda adjacency, _: ZCDPAccountant(adjacency)),
    "advanced": Entry(open=lambda adjacency, _: AdvancedAccountant(adjacency)),
    "naive": Entry(open=lambda adjacency, _: NaiveAccountant(adjacency)),
}


def make(name: str, adjacency: Adjacency, tolerance: float = TOLERANCE) -> Accountant:
    """An empty accountant. Raises InvalidValue for a name that is not in `ACCOUNTANTS`."""
    if name not in ACCOUNTANTS:
        raise checks.InvalidValue("accountant", name, "one of " + ", ".join(ACCOUNTANTS))
    return ACCOUNTANTS[name].open(adjacency, tolerance)
