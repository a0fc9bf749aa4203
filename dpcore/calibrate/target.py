"""What a calibration has to meet, and who counts it."""

from __future__ import annotations

from dataclasses import dataclass

from dpcore import checks
from dpcore.accountants.registry import TOLERANCE, make
from dpcore.adjacency import Adjacency
from dpcore.rounding import epsilon_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What has to be met, and who counts it.

    epsilon     in nats, above 0
    delta       in (0, 1)
    accountant  a name in `dpcore.accountants.registry.ACCOUNTANTS`; by "pld" the headline counts, which names another
                accountant where the loss distribution cannot be bounded (`dpcore.accounting.headline`)
    tolerance   relative gap between bounds that the accountant is asked for

    Raises InvalidValue.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    accountant: str = "pld"
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        checks.positive_finite(epsilon=self.epsilon, tolerance=self.tolerance)
        checks.probability_open(delta=self.delta)
        make(self.accountant, self.adjacency, self.tolerance)


class CannotCalibrate(ValueError):
    """No value of the parameter meets the target. `nearest` is the value that comes closest, at `nearest_epsilon`."""

    def __init__(self, parameter: str, target: Target, nearest: float, nearest_epsilon: float, remedy: str) -> None:
        self.parameter, self.target, self.nearest, self.nearest_epsilon = parameter, target, nearest, nearest_epsilon
        spent = epsilon_text(nearest_epsilon, digits=6)
        super().__init__(
            f"epsilon={target.epsilon!r} at delta={target.delta!r}: expected a target that some {parameter} can meet, "
            f"but even {parameter}={nearest:g} spends epsilon {spent} ({target.accountant}, "
            f"{target.adjacency}). {remedy}"
        )
