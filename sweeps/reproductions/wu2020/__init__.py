"""Wu et al. (2020), membership privacy of SGLD: Table 1 on German Credit, the theory's statements, the path of Table 2.

The paper's 400/300/300 split is one random draw, and an attack's AUC on 400 members and 300 others has a standard error
of about 0.022 by the draw alone. So every training here is repeated over public splits, methods are compared split by
split, and standard errors are those of split means.

The unprotected methods claim nothing: their epsilon is infinite, and the specs say why they may run.

    published   the printed numbers
    parts       which sweeps are run, and how many
    results     trials as means and standard errors over splits
    statements  what the paper says about Table 1, held against the results
    theory      what the paper proves, held against its own premises; needs no data
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.reproductions.claims import Claim, Result, Say
from sweeps.reproductions.effort import Effort
from sweeps.reproductions.files import Missing, needing
from sweeps.reproductions.sweeping import full_grid, swept
from sweeps.reproductions.wu2020 import figures, statements, theory
from sweeps.reproductions.wu2020.parts import Scope, credit, images
from sweeps.reproductions.wu2020.results import Measurements

if TYPE_CHECKING:
    from sweeps.process.workspace import Workspace

TITLE = "Characterizing membership privacy in stochastic gradient Langevin dynamics (Wu et al. 2020)"


def reproduce(data: Path | None, workspace: Workspace, effort: Effort, say: Say) -> Result:
    """Table 1 in full, the theory, and a few steps of the ResNet-18 behind Table 2.

    `effort.repeats` (2 by default) is the number of trainings on each split; the grid decides the number of splits.
    """
    result = Result(paper="wu2020", title=TITLE, claims=theory.claims(), tables=[theory.clipping()])
    scope = Scope.of(effort)
    try:
        if data is None:
            raise Missing("no --data DIR")
        with needing({"source": "german_credit"}, data, result, say):
            _credit(result, data, workspace, scope, say)
    except Missing as missing:
        result.cut.append(f"Table 1: not trained ({missing})")
        result.claims += statements.untried(f"not trained ({missing})")
    _images(result, data, workspace, scope, say)
    return result


def _credit(result: Result, data: Path, workspace: Workspace, scope: Scope, say: Say) -> None:
    found = Measurements()
    for split in range(scope.splits):
        say(f"German Credit, split {split + 1} of {scope.splits}")
        spec = full_grid(credit(scope, data, split))
        found.add(split, swept(spec, workspace))
    result.cut += scope.cut()
    result.claims += statements.claims(found, scope.hidden)
    result.tables += figures.tables(found, scope.widths)
    result.plots += figures.plots(found, scope.hidden, Path(workspace.root) / "reproductions" / "wu2020")


def _images(result: Result, data: Path | None, workspace: Workspace, scope: Scope, say: Say) -> None:
    part, note = images(scope, data)
    claim = "Table 2 (IDC, ResNet-18): SGLD leaks less than SGD (attack AUC)"
    try:
        if part is None or data is None:
            if scope.images != 0 and data is not None:
                say(f"{note[0]}: Table 2 is not trained")
            raise Missing(note[0])
        say(f"ResNet-18 on {part['data']['source']}")
        with needing(part["data"], data, result, say):
            trials = swept(full_grid(part), workspace)
    except Missing as missing:
        told = f"Table 2: ResNet-18 not run ({missing})"
        result.cut.append(told)
        result.claims.append(Claim(claim=claim, published="0.641 < 0.669", ours=None, holds=None, note=told))
        return
    result.cut += note
    found = Measurements()
    found.add(0, trials)
    result.tables.append(figures.image_table(found, trials, part))
    result.claims.append(statements.image_claim(claim, found, part, whole=scope.whole_images))


__all__ = ["TITLE", "reproduce"]
