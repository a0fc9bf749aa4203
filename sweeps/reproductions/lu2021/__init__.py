"""Lu, Asghar, Kaafar, Webb & Dickinson (2021): DP for deep learning with convexified loss functions.

    printed    Tables I, V and VI from shapes alone, and the counterexamples to the paper's theorems
    parts      data sets, sizes and the sweeps behind the figures
    results    trials as points of a figure; DP-SGD's models under the shadow attack
    figures    tables, pictures and the paper's statements held against the points

Every epsilon on an axis is the paper's: of one answer, pure for Laplace noise and a mu for Gaussian noise, of the whole
training for DP-SGD. The trials behind it claim all their answers together; the tables show both.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.reproductions.claims import Result, Say
from sweeps.reproductions.effort import Effort
from sweeps.reproductions.files import Missing, needing
from sweeps.reproductions.lu2021 import figures, printed
from sweeps.reproductions.lu2021.parts import Scope
from sweeps.reproductions.lu2021.results import measured

if TYPE_CHECKING:
    from sweeps.process.workspace import Workspace

TITLE = "A differentially private framework with convexified loss functions (Lu et al. 2021)"


def reproduce(data: Path | None, workspace: Workspace, effort: Effort, say: Say) -> Result:
    """Tables I, V, VI and Figures 2, 3, 10-12. `effort.repeats` averages over that many trainings (coarse: 2)."""
    result = Result(paper="lu2021", title=TITLE, claims=printed.claims(), tables=[printed.table_i()])
    scope = Scope.of(effort)
    if data is None:
        result.cut += ["Table V and Figures 3-13: not run (no --data DIR)", *scope.cut([])]
        result.claims += figures.untried("no --data DIR")
        return result
    found = []
    for one in scope.sets():
        try:
            with needing(one.options, data, result, say):
                say(
                    f"lu2021-{one.name}: {one.records} records, {one.shadows} shadows, {one.epochs} epochs, "
                    f"{scope.draws} draws"
                )
                found.append(measured(one, scope, data, workspace))
        except Missing as missing:
            result.cut.append(f"{one.row}: not run ({missing})")
    result.cut += scope.cut([one.set for one in found])
    if not found:
        result.claims += figures.untried("no data set found")
        return result
    result.claims += figures.claims(found)
    result.tables += figures.tables(found)
    result.plots = figures.plots(found, Path(workspace.root) / "reproductions" / "lu2021")
    return result
