"""What a certificate says to a person: the claim for one of them, and events without the names of our values."""

from __future__ import annotations

import math

import pytest

from dpcore.events import Adjacency, Gaussian, PoissonSampled, event_text
from sweeps.certificate.page import for_one
from tests.sweeps.front_records import claiming


@pytest.mark.parametrize(
    ("epsilon", "factor", "right"),
    [(0.0, "1 times", "50.1%"), (math.log(3), "3 times", "75.1%"), (5.0, "148.4", "99.4%")],
)
def test_what_it_means_for_one(epsilon: float, factor: str, right: str):
    """At even odds a guess is right (e^epsilon + delta) / (1 + e^epsilon) of the time, rounded up: delta is above 0."""
    claim = claiming(0, epsilon=epsilon).guarantee
    assert claim is not None
    said = for_one(claim)
    assert f"at most {factor}" in said
    assert f"at most {right}" in said


def test_an_event_is_told_by_its_fields():
    step = PoissonSampled(rate=0.1, event=Gaussian(noise_multiplier=2.5, adjacency=Adjacency.ADD_REMOVE))
    assert event_text(step) == "poisson-sampled (rate 0.1, noise_multiplier 2.5, adjacency add-remove)"
