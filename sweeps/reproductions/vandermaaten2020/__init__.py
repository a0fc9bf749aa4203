"""van der Maaten & Hannun (2020), "The trade-offs of private prediction": Figures 1-6, linear models on MNIST.

The paper prints its figures without numbers that survived; its statements about them are orderings and crossings, and
those are the claims here. Regularisation is chosen by the best accuracy on the validation records, as the paper does
(it ignores what that leaks; so do the figures, and each trial's claim holds for that trial alone). As in the paper,
loss perturbation and DP-SGD count a record added or removed, the other methods a record replaced.

    curves  trials as points of a figure, and figures as curves
    rules   what decides a statement about curves
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpcore.mechanisms import soft_vote
from sweeps.reproductions.paper import spec_of
from sweeps.reproductions.pictures import Axes, Series
from sweeps.reproductions.result import ResultTable
from sweeps.reproductions.run import Reproduction
from sweeps.reproductions.templates import Values
from sweeps.reproductions.vandermaaten2020.curves import (
    CLASSES,
    METHODS,
    MODELS,
    PAPER,
    PUBLISHED,
    Curves,
    Panels,
    Point,
    panels_of,
    points_of,
)
from sweeps.reproductions.vandermaaten2020.rules import deciding

FIGURES = PAPER.printed["figures"]
"""Panels in the paper's order: title and horizontal axis."""
DELTA = 1e-5
RESNET = (
    "Figure 7 (ResNet-20 on CIFAR-10): a training of hours on a GPU; run noisy-sgd with `model: resnet20` by itself"
)


def reproduce(run: Reproduction) -> None:
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


def parts(sizes: Values, data: Path) -> Iterator[dict[str, Any]]:
    """Specs of grid sweeps, most telling first. Names end in the figure's number and the point on its axis."""
    # For loss perturbation: below 1e-3 the noise of the objective alone decides the minimiser.
    enough = [weight for weight in sizes["weights"] if weight >= 1e-3] or sizes["weights"]
    both = sorted({multiple * epsilon for epsilon in sizes["epsilons"] for multiple in (1, 2)})
    values = {**sizes, "path": str(data.absolute()), "both": both, "tilted": enough[: max(1, len(enough) - 1)]}
    for group in PAPER.sweeps:
        for each in sizes[group["each"]] if "each" in group else [None]:
            # A delta above 1/n has to be allowed.
            large = PAPER.printed["large_delta"] if each and each > DELTA else None
            if sizes.get(group.get("when"), True):
                yield from (spec_of(one, {**values, "each": each, "large": large}) for one in group["sweeps"])


def cut(sizes: Values) -> list[str]:
    """What these sizes leave out, beside the full paper grid."""
    rest = "Figure 4 above 60,000 records: InfiMNIST is not at hand"
    if sizes["limit"] is not None:
        rest = f"Figure 1 on {sizes['limit']} training records of 60000; Figures 2-6 not run (--quick)"
    return [*PAPER.cut(sizes), rest]


def _figures(run: Reproduction, data: Path) -> None:
    sizes = PAPER.sized(run.effort)
    points: list[Point] = []
    for part in parts(sizes, data):
        run.say(f"{part['name']}: {', '.join(part['systems'])}")
        points += points_of(*run.trained(part))
    panels = panels_of(points)
    run.result.cut += cut(sizes)
    run.hold("figures", deciding(panels))
    run.result.tables += tables(panels)
    drawn = [_axes(title, axis, panels[name]) for name, (title, axis) in FIGURES.items() if panels[name]]
    run.draw("reproductions/vandermaaten2020", "figures.png", drawn, columns=3, size=(6, 4.2))


def tables(panels: Panels) -> list[ResultTable]:
    """The numbers behind the pictures: mean by method and place, and the standard deviation of several runs."""
    found = []
    for name, (title, axis) in FIGURES.items():
        if curves := panels[name]:
            rows = [
                [f"{at:g}", *(one[at].cell() if at in one else "" for one in curves.values())] for at in _places(curves)
            ]
            found.append(ResultTable(f"{title}: accuracy in % (sd)", (axis, *curves), rows))
    return found


def _places(curves: Curves) -> list[float]:
    return sorted({place for one in curves.values() for place in one})


def _axes(title: str, axis: str, curves: Curves) -> Axes:
    lines = []
    for number, label in enumerate((*METHODS.values(), PUBLISHED)):
        if (one := curves.get(label)) is not None:
            style = {"color": f"C{number}", "linestyle": "--" if label == PUBLISHED else "-", "marker": "o", "ms": 3}
            mean, spread = [mean.value for mean in one.values()], [mean.spread for mean in one.values()]
            lines.append(Series(label, list(one), mean, style, up=spread))
    return Axes(title=title, x=axis, y="accuracy", lines=lines, log="x", places=_places(curves), limits=(0.0, 1.0))
