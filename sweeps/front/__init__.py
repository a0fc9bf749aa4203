"""Pareto fronts: what is on them, and every form in which they are read."""

from sweeps.front.panels import Front, FrontAxis
from sweeps.front.pareto import MixedGuarantees, front, sweep_front

__all__ = ["Front", "FrontAxis", "MixedGuarantees", "front", "sweep_front"]
