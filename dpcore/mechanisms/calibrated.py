"""Noise for some equal releases of one query, together with what they guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic

from dpcore.events import Adjacency, Event, Repeated
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status
from dpcore.mechanisms.minimiser import MinimiserSensitivity
from dpcore.mechanisms.noise_families import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated(Generic[Family]):
    """`releases` adaptive answers, each with fresh `noise` on a query of L2 `sensitivity`."""

    noise: Family
    sensitivity: float
    releases: int
    guarantee: Guarantee

    @property
    def adjacency(self) -> Adjacency:
        """What `sensitivity` refers to."""
        return self.guarantee.adjacency

    @property
    def each(self) -> Event:
        """What one answer releases."""
        return self.noise.event(self.sensitivity, self.adjacency)

    @property
    def event(self) -> Event:
        """What all of them release."""
        return Repeated(event=self.each, count=self.releases)


def of_minimiser(
    sensitivity: MinimiserSensitivity,
    noise: Family,
    releases: int,
    *,
    epsilon: float,
    delta: float,
    accountant: str,
    theorem: str,
    unit: str = "record",
) -> Calibrated[Family]:
    """`Calibrated` whose status and assumptions are those of the minimiser's sensitivity."""
    return Calibrated(
        noise=noise,
        sensitivity=sensitivity.value,
        releases=releases,
        guarantee=Guarantee(
            epsilon=epsilon,
            delta=delta,
            adjacency=sensitivity.adjacency,
            unit=unit,
            accountant=accountant,
            status=Status(sensitivity.status),
            theorem=theorem,
            assumptions=(*sensitivity.assumptions, FLOATING_POINT),
        ),
    )
