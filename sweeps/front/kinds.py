"""What a panel mixes, told apart: its points by sweep, system and status of their claims, each kind's own front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.guarantee import Status
from sweeps.front.panels import FrontAxis, Panel
from sweeps.front.pareto import nondominated
from sweeps.store.records import sweep_of


@dataclass(frozen=True, slots=True, eq=False)
class SystemPoints:
    """The points of one system of one sweep whose claims have one status.

    name     the system; the sweep where the panel has several, with the system where it has several too; with the
             status where the panel has several
    system   position of sweep and system among the panel's, for a colour
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
    of_point = [(sweep_of(one.key), one.system, panel.status(i)) for i, one in enumerate(panel.records)]
    sources = sorted({(sweep, system) for sweep, system, _ in of_point})
    sweeps, systems = ({source[part] for source in sources} for part in (0, 1))
    statuses = {status for _, _, status in of_point}
    maximize = [objectives[axis].goal == "maximize" for axis in (across, up)]
    found = []
    for sweep, system, status in sorted(set(of_point)):
        members = np.array([kind == (sweep, system, status) for kind in of_point])
        name = system if len(sweeps) == 1 else sweep if len(systems) == 1 else f"{sweep}: {system}"
        mine = np.flatnonzero(members)
        best = mine[nondominated(panel.compared[mine][:, [across, up]], maximize)]
        found.append(
            SystemPoints(
                name=f"{name} ({panel.standing(int(mine[0]))})" if len(statuses) > 1 else name,
                system=sources.index((sweep, system)),
                status=status,
                members=members,
                own=best[np.argsort(panel.values[best, across], kind="stable")],
            )
        )
    return found
