"""Numbers on the page for people: of a bound, what is printed is never below it."""

import re

import pytest

from sweeps.certificate.modes.filtered import RenyiRule
from tests.sweeps.certificate.documents import MADE

MU, TAU = 7.0000004, 1.0000004e-6
"""To six digits, 7 and 1e-06 are nearest, and too small."""


def printed(mode):
    return [float(one) for _, text in mode.lines() for one in re.findall(r"\d[\d.]*(?:e-\d+)?", text)]


def changed(name):
    """The arithmetic of a document with bounds that round down to the nearest."""
    mode = MADE[name]().mode
    match name:
        case "trial":
            return mode.model_copy(update={"profile": mode.profile.model_copy(update={"mu": MU, "tau": TAU})})
        case "filter":
            rule = mode.rule.model_copy(update={"mu_total": MU, "tau_total": TAU})
            (ledger,) = (one.model_copy(update={"sum": MU, "taus": TAU}) for one in mode.ledgers)
            return mode.model_copy(update={"rule": rule, "ledgers": (ledger,)})
        case "renyi":
            ledger = mode.ledgers[0].model_copy(update={"sum": MU, "taus": TAU})
            return mode.model_copy(update={"rule": RenyiRule(kind="renyi", order=8.0, budget=MU), "ledgers": (ledger,)})
        case "best":
            points = {"e1": MU, "e_hat": MU, "penalty": MU, "d1": TAU, "d_hat": TAU}
            return mode.model_copy(update=points)
        case _:
            return mode.model_copy(update={"mu": MU, "tau": TAU, "shift": MU})


@pytest.mark.parametrize("name", ["trial", "filter", "renyi", "best", "front"])
def test_no_mu_tau_or_point_is_printed_below_what_it_is(name):
    numbers = printed(changed(name))
    assert 7.00001 in numbers or 7.001 in numbers
    assert 1.00001e-6 in numbers
    assert not {7.0, 1e-6} & set(numbers)
