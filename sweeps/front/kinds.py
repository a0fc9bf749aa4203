"""What a panel mixes, told apart: its points by system and by the status of their claims, each kind's own front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.guarantee import Status
from sweeps.front.panels import FrontAxis, Panel
from sweeps.front.pareto import nondominated


@dataclass(frozen=True, slots=True, eq=False)
class SystemPoints:
    """The points of one system whose claims have one status.

    name     the system; with the status where the panel has several
    system   position of the system among the panel's, for a colour
    members  (points,), True for its own
    own      indices of the points that none of its own dominates over two objectives, along the first of them
    """

    name: str
    system: int
    status: Status
    members: NDArray[np.bool_]
    own: NDArray[np.intp]


def kinds(panel: Panel, objectives: Sequence[FrontAxis], across: int, up: int) -> list[SystemPoints]:
    """The kinds of a panel, by name; `across` and `up` are the two objectives that are drawn."""
    of_point = [(record.system, panel.status(i)) for i, record in enumerate(panel.records)]
    systems = sorted({system for system, _ in of_point})
    statuses = {status for _, status in of_point}
    maximize = [objectives[axis].goal == "maximize" for axis in (across, up)]
    found = []
    for system, status in sorted(set(of_point)):
        members = np.array([kind == (system, status) for kind in of_point])
        mine = np.flatnonzero(members)
        best = mine[nondominated(panel.compared[mine][:, [across, up]], maximize)]
        found.append(
            SystemPoints(
                name=f"{system} ({status})" if len(statuses) > 1 else system,
                system=systems.index(system),
                status=status,
                members=members,
                own=best[np.argsort(panel.values[best, across], kind="stable")],
            )
        )
    return found
