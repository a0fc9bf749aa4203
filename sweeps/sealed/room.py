"""Whether the models of a sealed search fit into what its workers always write: asked before it begins.

Later nobody could say it: that a model was too large tells that its trial ran.
"""

from __future__ import annotations

from dpcore.checks import InvalidValue
from sweeps.planning.rehearsal import Rehearsal
from sweeps.spec.sections import SweepSpec

BYTES_PER_WEIGHT = 12
"""Of a weight and two moments of it, in float32."""


def check_room(spec: SweepSpec, rehearsal: Rehearsal) -> None:
    """The largest model that was rehearsed fits. Raises InvalidValue; of no other sweep anything."""
    if spec.selection is None:
        return
    steps = [one.found.step for one in rehearsal.ran]
    weights = max((step.parameters for step in steps if step is not None), default=0)
    needed = BYTES_PER_WEIGHT * weights / 2**20
    if needed > spec.selection.megabytes:
        raise InvalidValue(
            "selection.megabytes",
            spec.selection.megabytes,
            f"at least {needed:.3g}, for a model of {weights} weights and what its optimiser keeps of each: a larger "
            "one never leaves",
            f"Write `megabytes: {-(-needed // 1):.0f}`: each worker writes as much at every announced time.",
        )
