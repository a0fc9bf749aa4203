"""Pareto fronts: what is on them, and every form in which they are read."""

from sweeps.front.panels import Front, Objective
from sweeps.front.pareto import MixedGuarantees, front, sweep_front

__all__ = ["Front", "MixedGuarantees", "Objective", "front", "sweep_front"]
