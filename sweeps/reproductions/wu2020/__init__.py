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
from sweeps.reproductions.sweeping import full_grid, swept
from sweeps.reproductions.wu2020 import figures, statements, theory
from sweeps.reproductions.wu2020.parts import Scope, credit, images
from sweeps.reproductions.wu2020.results import Measurements

if TYPE_CHECKING:
    from sweeps.workspace import Workspace

TITLE = "Characterizing membership privacy in stochastic gradient Langevin dynamics (Wu et al. 2020)"


def reproduce(data: Path | None, workspace: Workspace, effort: Effort, say: Say) -> Result:
    """Table 1 in full, the theory, and a few steps of the ResNet-18 behind Table 2.

    `effort.repeats` (2 by default) is the number of trainings on each split; the grid decides the number of splits.
    """
    result = Result(paper="wu2020", title=TITLE, claims=theory.claims(), tables=[theory.clipping()])
    scope = Scope.of(effort)
    result.cut += scope.cut()
    if data is None or not (data / "german_credit").is_dir():
        why = "no --data DIR" if data is None else f"no folder german_credit in {data}"
        result.cut.append(f"Table 1: not trained ({why})")
        result.claims += statements.untried(f"not trained ({why})")
    else:
        found = Measurements()
        for split in range(scope.splits):
            say(f"German Credit, split {split + 1} of {scope.splits}")
            spec = full_grid(credit(scope, data, split))
            found.add(split, swept(spec, workspace))
        result.claims += statements.claims(found, scope.hidden)
        result.tables += figures.tables(found, scope.widths)
        result.plots += figures.plots(found, scope.hidden, Path(workspace.root) / "reproductions" / "wu2020")
    _images(result, data, workspace, scope, say)
    return result


def _images(result: Result, data: Path | None, workspace: Workspace, scope: Scope, say: Say) -> None:
    part, note = images(scope, data)
    result.cut += note
    claim = "Table 2 (IDC, ResNet-18): SGLD leaks less than SGD (attack AUC)"
    if part is None:
        result.claims.append(Claim(claim=claim, published="0.641 < 0.669", ours=None, holds=None, note="; ".join(note)))
        return
    say(f"ResNet-18 on {part['data']['source']}")
    trials = swept(full_grid(part), workspace)
    found = Measurements()
    found.add(0, trials)
    result.tables.append(figures.image_table(found, trials, part))
    result.claims.append(statements.image_claim(claim, found, part, whole=scope.whole_images))


__all__ = ["TITLE", "reproduce"]
