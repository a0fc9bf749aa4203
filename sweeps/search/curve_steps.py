"""After which of its planned steps a trial reports: at the ends of its launches, and at the points of its curve.

All of them follow from the spec and the planned steps, which are public: what is measured when was fixed before the
first step, whoever is stopped, killed or resumed on the way.
"""

from __future__ import annotations

from collections.abc import Iterable

from sweeps.records import Reservation
from sweeps.search.rungs import stops
from sweeps.spec.model import SweepSpec
from trainables.capabilities import capabilities_of
from trainables.system import System


def report_steps(spec: SweepSpec, system: System, steps: int) -> tuple[int, ...]:
    """In order, for a trial of `system` with `steps` planned steps; the last is `steps`.

    Point k of n is after the share k / n of the steps, rounded up: a trial of few steps has fewer points. One of a
    system without a curve reports at the ends of its launches alone.
    """
    count = spec.curve if spec.curve is not None and capabilities_of(system).curve else 1
    points = (-(-steps * k // count) for k in range(1, count + 1))
    return tuple(sorted({*points, *stops(spec, steps)}))


def between(steps: Iterable[int], launch: Reservation) -> tuple[int, ...]:
    """Those of `steps` inside of a launch: at its end it reports anyway."""
    return tuple(step for step in steps if launch.from_step < step < launch.to_step)
