"""van der Maaten & Hannun (2020), "The trade-offs of private prediction": Figures 1-6, linear models on MNIST.

The paper prints its figures without numbers that survived; its statements about them are orderings and crossings, and
those are the claims here. Regularisation is chosen by the best accuracy on the validation records, as the paper does
(it ignores what that leaks; so do the figures, and each trial's claim holds for that trial alone). As in the paper,
loss perturbation and DP-SGD count a record added or removed, the other methods a record replaced.

    parts   which sweeps are run
    curves  trials as points of a figure, and figures as curves
    rules   what decides a statement about curves
"""

from __future__ import annotations

from pathlib import Path

from dpcore.mechanisms import soft_vote
from sweeps.reproductions.claims import Table
from sweeps.reproductions.pictures import Line, Panel
from sweeps.reproductions.run import Run
from sweeps.reproductions.vandermaaten2020.curves import (
    CLASSES,
    FIGURES,
    METHODS,
    MODELS,
    PUBLISHED,
    Curves,
    Panels,
    Point,
    panels_of,
    points_of,
)
from sweeps.reproductions.vandermaaten2020.parts import PAPER, Scope, parts
from sweeps.reproductions.vandermaaten2020.rules import deciding

RESNET = (
    "Figure 7 (ResNet-20 on CIFAR-10): a training of hours on a GPU; run noisy-sgd with `model: resnet20` by itself"
)


def reproduce(run: Run) -> None:
    """Figures 1 to 6. `effort.repeats` (2 by default) averages each point over that many trainings and noises."""
    run.result.cut.append(RESNET)
    for queries in (1, 10, 100, 1000):
        run.hold("temperature", temperature(queries))

    def left(why: str) -> None:
        run.result.cut.append(f"Figures 1-6: not run ({why})")
        run.hold("figures", {}, f"not run ({why})")

    run.part({"source": "mnist"}, lambda data: _figures(run, data), left)


def temperature(queries: int) -> dict[str, float]:
    """beta = epsilon/B as in the released experiments, beside the largest beta that is proved, at delta = 0."""
    printed = 1 / queries
    spent = queries * soft_vote.loss_per_query(printed, MODELS, CLASSES)
    proved = soft_vote.beta_for_loss(printed, MODELS, CLASSES)
    return {"queries": queries, "models": MODELS, "printed": round(printed, 6), "proved": proved, "spent": spent}


def _figures(run: Run, data: Path) -> None:
    scope = PAPER.scope(Scope, run.effort)
    points: list[Point] = []
    for part in parts(scope, data):
        run.say(f"{part['name']}: {', '.join(part['systems'])}")
        points += points_of(*run.trained(part))
    panels = panels_of(points)
    run.result.cut += scope.cut()
    run.hold("figures", deciding(panels))
    run.result.tables += tables(panels)
    drawn = [_panel(title, axis, panels[name]) for name, (title, axis) in FIGURES.items() if panels[name]]
    run.draw("reproductions/vandermaaten2020", "figures.png", drawn, columns=3, size=(6, 4.2))


def tables(panels: Panels) -> list[Table]:
    """The numbers behind the pictures: mean by method and place, and the standard deviation of several runs."""
    found = []
    for name, (title, axis) in FIGURES.items():
        if curves := panels[name]:
            rows = [[f"{place:g}", *(one.cell(place) for one in curves.values())] for place in _places(curves)]
            found.append(Table(f"{title}: accuracy in % (sd)", (axis, *curves), rows))
    return found


def _places(curves: Curves) -> list[float]:
    return sorted({place for one in curves.values() for place in one.axis})


def _panel(title: str, axis: str, curves: Curves) -> Panel:
    lines = []
    for number, label in enumerate((*METHODS.values(), PUBLISHED)):
        if one := curves.get(label):
            style = {"color": f"C{number}", "linestyle": "--" if label == PUBLISHED else "-", "marker": "o", "ms": 3}
            lines.append(Line(label, one.axis, one.mean, style, up=one.spread))
    return Panel(title=title, x=axis, y="accuracy", lines=lines, log="x", places=_places(curves), limits=(0.0, 1.0))
