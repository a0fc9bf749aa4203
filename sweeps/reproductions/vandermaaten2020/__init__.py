"""van der Maaten & Hannun (2020), "The trade-offs of private prediction": Figures 1-6, linear models on MNIST.

The paper prints its figures without numbers that survived; its statements about them are orderings and crossings, and
those are the claims here. Regularisation is chosen by the best accuracy on the validation records, as the paper does
(it ignores what that leaks; so do the figures, and each trial's claim holds for that trial alone). As in the paper,
loss perturbation and DP-SGD count a record added or removed, the other methods a record replaced.

    parts     which sweeps are run, and how fine
    results   trials as points of a figure
    figures   tables, pictures and the statements held against them
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sweeps.reproductions.claims import Claim, Result, Say
from sweeps.reproductions.effort import Effort
from sweeps.reproductions.files import Missing, needing
from sweeps.reproductions.sweeping import full_grid, swept
from sweeps.reproductions.vandermaaten2020 import figures
from sweeps.reproductions.vandermaaten2020.parts import Scope, parts
from sweeps.reproductions.vandermaaten2020.results import Point, points_of

if TYPE_CHECKING:
    from sweeps.process.workspace import Workspace

TITLE = "The trade-offs of private prediction (van der Maaten & Hannun 2020)"

RESNET = (
    "Figure 7 (ResNet-20 on CIFAR-10): a training of hours on a GPU; run noisy-sgd with `model: resnet20` by itself"
)


def reproduce(data: Path | None, workspace: Workspace, effort: Effort, say: Say) -> Result:
    """Figures 1 to 6. `effort.repeats` (2 by default) averages each point over that many trainings and noises."""
    result = Result(paper="vandermaaten2020", title=TITLE, claims=figures.temperatures(), cut=[RESNET])
    if data is None:
        return _without(result, "no --data DIR")
    scope = Scope.of(effort)
    points: list[Point] = []
    try:
        with needing({"source": "mnist"}, data, result, say):
            for part in parts(scope, data):
                say(f"{part['name']}: {', '.join(part['systems'])}")
                spec = full_grid(part)
                points += points_of(spec, swept(spec, workspace))
    except Missing as missing:
        return _without(result, str(missing))
    result.cut += scope.cut()
    result.claims += figures.claims(points)
    result.tables = figures.tables(points)
    result.plots = figures.plots(points, Path(workspace.root) / "reproductions" / "vandermaaten2020")
    return result


def _without(result: Result, why: str) -> Result:
    """Everything that needs the data, left out."""
    result.cut.append(f"Figures 1-6: not run ({why})")
    result.claims += [
        Claim(claim=statement, published="holds", ours=None, holds=None, note=f"not run ({why})")
        for statement in figures.STATEMENTS
    ]
    return result
