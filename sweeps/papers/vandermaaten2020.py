"""van der Maaten & Hannun (2020), "The trade-offs of private prediction": Figures 1-6, linear models on MNIST.

The paper prints its figures without numbers that survived; its statements about them are orderings and crossings, and
those are the claims here. Regularisation is chosen by the best accuracy on the validation records, as the paper does
(it ignores what that leaks; so do the figures, and each trial's claim holds for that trial alone). As in the paper,
loss perturbation and DP-SGD count a record added or removed, the other methods a record replaced.

    curves  trials as points of a figure, and figures as curves
    rules   what decides a statement about curves
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import stdev
from typing import Any

from dpcore.mechanisms import noisy_vote
from sweeps import papers
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import TrialRecord

# Trials as points, one method at one setting, and the points of a figure as curves.

PAPER = papers.Paper.load("vandermaaten2020")
METHODS: Mapping[str, str] = PAPER.printed["methods"]
"""Words of the paper, by system."""
LOSS, MODEL, SGD, LOGITS, VOTES = METHODS.values()
PUBLISHED: str = PAPER.printed["published"]
MODELS = 256
"""Parts of subsample-and-aggregate where nothing else is said (recalled)."""
WIDTH, CLASSES = 784, 10


def points_of(spec: SweepSpec, trials: Iterable[TrialRecord]) -> list[papers.Row]:
    """The accuracies of one sweep; trials without one (infeasible ones) have no point.

    part     name of the sweep without the paper's
    delta    0 for pure noise and standard composition, else that of the sweep
    models   parts of subsample-and-aggregate, else 0; queries likewise of what answers some
    others   the remaining knobs, over which the best mean is taken
    answers  how many answers the accuracy was taken over
    """
    from sweeps.spec.parse import public_facts

    facts = public_facts(spec)
    shared = {
        "part": spec.name.removeprefix("vandermaaten2020-"),
        "n": facts.n,
        "dimension": spec.data.options().get("dimension", WIDTH),
        "classes": facts.classes or 0,
    }
    points = []
    for trial in (one for one in trials if "accuracy" in one.metrics):
        known: dict[str, Any] = {"queries": 0, "models": 0, "regularisation": 0.0, **trial.config}
        pure = known.get("noise") == "pure" or known.get("composition") == "standard"
        own = {
            "method": METHODS[trial.system],
            "delta": 0.0 if pure else spec.privacy.delta,
            "epsilon": trial.target_epsilon or 0.0,
            "queries": known["queries"],
            "models": known["models"],
            "weight": float(known["regularisation"]),
            "others": tuple(known.get(name) for name in ("learning_rate", "clip_norm")),
            "accuracy": float(trial.metrics["accuracy"]),
            "answers": trial.config.get("queries", facts.n_validation),
        }
        points.append(papers.Row(**shared, **own))
    return points


@dataclass(frozen=True, slots=True)
class MeanAccuracy(papers.Uncertain):
    """Of the repeats of one setting.

    error   over the repeats, but no less than that of as many answers, which is all that one run has
    spread  standard deviation over the repeats; NaN of one run alone
    """

    spread: float

    @classmethod
    def over(cls, points: Sequence[papers.Row]) -> MeanAccuracy:
        """Of at least one point."""
        values = [point.accuracy for point in points]
        mean, answers = sum(values) / len(values), sum(point.answers for point in points)
        # One answer of either kind more, since ten of ten are no certainty.
        smoothed = (mean * answers + 1) / (answers + 2)
        error = math.sqrt(smoothed * (1 - smoothed) / max(1, answers))
        if len(values) == 1:
            return cls(mean, error, math.nan)
        spread = stdev(values)
        return cls(mean, max(spread / math.sqrt(len(values)), error), spread)

    @property
    def shown_error(self) -> float:
        """The standard deviation."""
        return self.spread

    def __str__(self) -> str:
        """Mean and standard deviation, in per cent."""
        mean, spread = 100 * self.value, 100 * self.spread
        return f"{mean:.1f}" if math.isnan(spread) else f"{mean:.1f} ({spread:.1f})"


Curve = dict[float, MeanAccuracy]
"""The best mean over regularisation (and the like) along one axis, in its order."""
Curves = dict[str, Curve]
"""By method."""
Panels = dict[str, Curves]
"""By the names of the paper's file; empty where nothing was run."""


def curve_of(points: Iterable[papers.Row], axis: Callable[[papers.Row], float]) -> Curve:
    """Points along `axis`; knobs that are no axis take their best mean."""
    repeats: dict[tuple[float, Any], list[papers.Row]] = defaultdict(list)
    for point in points:
        repeats[axis(point), (point.weight, point.others)].append(point)
    best: Curve = {}
    for (place, _), group in repeats.items():
        mean = MeanAccuracy.over(group)
        if place not in best or mean.value > best[place].value:
            best[place] = mean
    return dict(sorted(best.items()))


def _by_method(points: Sequence[papers.Row], axis: str, least: int = 1) -> Curves:
    """One curve for each method that has points, at `least` places."""
    curves = {
        label: curve_of((point for point in points if point.method == label), lambda p: float(getattr(p, axis)))
        for label in METHODS.values()
    }
    return {label: one for label, one in curves.items() if len(one) >= least}


def _of_parts(points: Iterable[papers.Row], *parts: str) -> list[papers.Row]:
    return [point for point in points if point.part.startswith(parts)]


def panels_of(points: Sequence[papers.Row]) -> Panels:
    """All figures as curves; and `model_noise`, which is no figure: model sensitivity with pure and Gaussian noise."""
    pure, gaussian = ([p for p in points if (p.delta == 0) is without] for without in (True, False))
    pure_at_one, gaussian_at_one = ([p for p in some if p.epsilon == 1.0] for some in (pure, gaussian))
    first, first_gaussian = _first(pure, pure=True), _first(gaussian, pure=False)
    votes = (p for p in _of_parts(pure_at_one, "fig1", "fig6") if p.method == VOTES)
    models = curve_of(votes, lambda p: p.models)
    both = {"pure": first.get(MODEL), "gaussian": first_gaussian.get(MODEL)}
    return {
        "epsilon_pure": first,
        "epsilon_gaussian": first_gaussian,
        "budget_pure": _second(pure, first, pure=True),
        "budget_gaussian": _second(gaussian, first_gaussian, pure=False),
        "delta": _along(gaussian_at_one, "fig3", "delta", "fig1-gaussian"),
        "size": _along(pure_at_one, "fig4", "n"),
        "dimension": _along(pure_at_one, "fig5a", "dimension"),
        "classes": _along(pure_at_one, "fig5b", "classes"),
        "weight": _by_method(_of_parts(pure_at_one, "fig1"), "weight", least=2),
        "models": {VOTES: models} if len(models) > 1 else {},
        "model_noise": {name: one for name, one in both.items() if one is not None},
    }


def _first(points: Sequence[papers.Row], *, pure: bool) -> Curves:
    """Figure 1: accuracy along epsilon, at B = 100."""
    shown = _of_parts(points, "fig1")
    curves = _by_method(shown, "epsilon")
    if pure:
        # beta = epsilon/B is what the corrected rule allows at twice the epsilon.
        curves[PUBLISHED] = curve_of((p for p in shown if p.method == VOTES), lambda p: p.epsilon / 2)
    places = curves.get(LOSS)
    if places is None:
        return curves
    return {label: {at: mean for at, mean in one.items() if at in places} for label, one in curves.items()}


def _second(points: Sequence[papers.Row], horizontal: Curves, *, pure: bool) -> Curves:
    """Figure 2: accuracy along the budget of queries at epsilon 1; what is trained once is a horizontal line."""
    shown = {at: [p for p in _of_parts(points, "fig2") if p.epsilon == at] for at in (1.0, 2.0)}
    curves = _by_method(shown[1.0], "queries")
    if pure:
        curves[PUBLISHED] = curve_of((p for p in shown[2.0] if p.method == VOTES), lambda p: p.queries)
    if VOTES not in curves:
        return {}
    fixed = {label: horizontal[label] for label in (LOSS, MODEL, SGD) if 1.0 in horizontal.get(label, {})}
    return curves | {label: dict.fromkeys(curves[VOTES], one[1.0]) for label, one in fixed.items()}


def _along(points: Sequence[papers.Row], figure: str, axis: str, first: str = "fig1-pure") -> Curves:
    """One of Figures 3 to 5: its own sweeps, and the point that Figure 1 has already; votes of the usual number."""
    if not _of_parts(points, figure):
        return {}
    own = [p for p in _of_parts(points, figure, first, "fig1-trained") if p.models in (0, MODELS)]
    return _by_method(own, axis, least=2)


# What the paper says of its figures, as rules on curves: each decides at two standard errors, or not at all.
#
# Errors are taken as independent. Methods are tested on the same records, so that they err together: the true error
# of a difference is rather smaller.

SLACK = 0.005
"""Accuracies closer than half a point are called equal."""
GOOD = 0.1
"""Points of accuracy lost at the smallest delta that still count as good."""
DECIDED = {
    True: "at two standard errors",
    False: "contradicted at two standard errors, by what was run: `cut` lists what is smaller than the paper's",
    None: "undecided at two standard errors",
}


def hold(run: papers.Reproduction, panels: Panels, why: str = papers.NOT_RUN) -> None:
    """Every sentence about the figures; one whose curves were not run, or too few of them, is not tried for `why`."""
    for sentence in PAPER.printed["sentences"]:
        own = dict(sentence)
        claim, note = own.pop("claim"), own.pop("note", "")
        # A function of this module, which decides by the curves of one panel, those that it is about first.
        rule: Callable[..., papers.Yes] = globals()[own.pop("rule")]
        curves, of, least = panels.get(own.pop("panel"), {}), own.pop("of", ()), own.pop("least", 1)
        if len(curves) < max(least, 1) or not all(len(curves.get(name, ())) > 0 for name in of):
            run.untried(claim, why)
            continue
        holds = rule(curves, *of, **own)
        told = "; ".join(f"{name} {_span(one)}" for name, one in curves.items() if not of or name in of)
        run.claim(claim, "holds", told, holds, "; ".join(filter(None, (note, DECIDED[holds]))))


def _span(one: Curve) -> str:
    """Its ends, in per cent of accuracy."""
    (start, first), *_ = one.items()
    *_, (stop, last) = one.items()
    return f"{first} at {start:g}" + (f", {last} at {stop:g}" if len(one) > 1 else "")


def _lead(one: Curve, other: Curve, place: float) -> papers.Yes:
    """Whether a curve is above another there; None if too little tells, or one was not run."""
    return papers.above(one[place], other[place], SLACK) if place in one and place in other else None


def _best(curves: Curves, label: str, place: float) -> papers.Yes:
    """Whether a curve leads all others that were run there, those with the other beta left out."""
    left_out = (label, PUBLISHED, VOTES if label == PUBLISHED else "")
    rivals = [one for name, one in curves.items() if name not in left_out and place in one]
    return papers.every(_lead(curves[label], other, place) for other in rivals)


def _gain(one: Curve) -> papers.Uncertain:
    """From the first place of the axis to the last."""
    first, *_, last = one.values()
    return last - first


# Rules, each of one curve or several of a panel


def most_places(curves: Curves, votes: str) -> papers.Yes:
    """Best at most places."""
    best = [_best(curves, votes, place) for place in curves[votes]]
    won, open_ = best.count(True), best.count(None)
    return True if 2 * won > len(best) else None if 2 * (won + open_) > len(best) else False


def best_at_first(curves: Curves, label: str) -> papers.Yes:
    """Best at the first place."""
    return _best(curves, label, next(iter(curves[label])))


def below(curves: Curves, low: str, *highs: str, at: slice = slice(None)) -> papers.Yes:
    """Below several others, everywhere."""
    return papers.every(_lead(curves[high], curves[low], place) for place in list(curves[low])[at] for high in highs)


def overtaken_at_last(curves: Curves, label: str, *others: str) -> papers.Yes:
    """Behind the others at the last place."""
    return below(curves, label, *others, at=slice(-1, None))


def never_behind(curves: Curves, *labels: str, rivals: Sequence[str] = ()) -> papers.Yes:
    """No rival (by default all others) leads by more than SLACK, at any place of the last curve's axis."""
    return papers.every(
        papers.at_most(curves[rival][place] - curves[label][place], SLACK)
        for label in labels
        for rival in rivals or curves
        for place in curves[labels[-1]]
        if label not in (rival, *rivals) and place in curves[label] and place in curves[rival]
    )


def _crossing(curves: Curves, votes: str) -> tuple[float, float]:
    """The first budgets at which votes may be behind loss perturbation, and at which they are; infinite for none."""
    ahead = {place: _lead(curves[votes], curves[LOSS], place) for place in curves[votes]}
    maybe = (place for place, leads in ahead.items() if leads is not True)
    surely = (place for place, leads in ahead.items() if leads is False)
    return next(maybe, math.inf), next(surely, math.inf)


def lose_with_the_budget(curves: Curves, votes: str, loss: str) -> papers.Yes:
    """Votes lead at the smallest budget, and are overtaken."""
    maybe, surely = _crossing(curves, votes)
    overtaken = True if math.isfinite(surely) else None if math.isfinite(maybe) else False
    return papers.every((_lead(curves[votes], curves[loss], next(iter(curves[votes]))), overtaken))


def crossing_moves_left(curves: Curves, published: str, corrected: str, _: str) -> papers.Yes:
    """Votes are overtaken at fewer queries with the corrected beta."""
    before, after = _crossing(curves, published), _crossing(curves, corrected)
    if after[1] <= before[0] < math.inf:
        return True
    return False if after[0] > before[1] else None


def good_at_first(curves: Curves, *labels: str) -> papers.Yes:
    """Within GOOD of their accuracy at the last place."""
    return papers.every(papers.at_most(_gain(curves[label]), GOOD) for label in labels)


def gains_most(curves: Curves, label: str) -> papers.Yes:
    """From the first place to the last."""
    gains = {name: _gain(one) for name, one in curves.items()}
    return papers.every(papers.above(gains[label], gain, SLACK) for name, gain in gains.items() if name != label)


def fewer_help(curves: Curves, *labels: str) -> papers.Yes:
    """Better somewhere before the last place than there."""
    return papers.every(_peak(curves[label], ends=1) for label in labels)


def best_inside(curves: Curves, label: str) -> papers.Yes:
    """Best neither at the first place nor at the last; undecided where nothing lies between."""
    return _peak(curves[label], ends=2) if len(curves[label]) > 2 else None


def _peak(one: Curve, ends: int) -> papers.Yes:
    """Better somewhere before the last place than there, and, of two ends, than at the first."""
    *inside, last = one.values()
    outside = [last, inside.pop(0)] if ends == 2 else [last]
    best = max(inside, key=lambda found: found.value)
    return papers.every(papers.above(best, end, SLACK) for end in outside)


def more_hurt(curves: Curves) -> papers.Yes:
    """Better at the first place than at the last, all of them."""
    return papers.every(papers.above(papers.Uncertain(0.0, 0.0), _gain(one), SLACK) for one in curves.values())


def same_ranking(curves: Curves, label: str) -> papers.Yes:
    """Of any two, the same one leads everywhere."""
    answers = []
    for one, other in combinations(curves.values(), 2):
        leads = [_lead(one, other, place) for place in curves[label]]
        both = papers.every(leads), papers.every(map(papers.opposite, leads))
        answers.append(True if True in both else None if None in both else False)
    return papers.every(answers)


FIGURES = PAPER.printed["figures"]
"""Panels in the paper's order: title and horizontal axis."""
DELTA = 1e-5
RESNET = (
    "Figure 7 (ResNet-20 on CIFAR-10): a training of hours on a GPU; run noisy-sgd with `model: resnet20` by itself"
)


def reproduce(run: papers.Reproduction) -> None:
    """Figures 1 to 6. `effort.repeats` (2 by default) averages each point over that many trainings and noises."""
    run.result.cut.append(RESNET)
    for queries in (1, 10, 100, 1000):
        run.hold("temperature", temperature(queries))
    if why := run.part({"source": "mnist"}, lambda data: _figures(run, data)):
        run.result.cut.append(f"Figures 1-6: not run ({why})")
        hold(run, {}, f"not run ({why})")


def temperature(queries: int) -> dict[str, float]:
    """beta = epsilon/B as in the released experiments, beside the largest beta that is proved, at delta = 0."""
    printed = 1 / queries
    spent = queries * noisy_vote.loss_per_query(printed, MODELS, CLASSES)
    proved = noisy_vote.beta_for_loss(printed, MODELS, CLASSES)
    return {"queries": queries, "models": MODELS, "printed": round(printed, 6), "proved": proved, "spent": spent}


def parts(sizes: papers.Values, data: Path) -> Iterator[dict[str, Any]]:
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
                yield from (papers.filled(one, {**values, "each": each, "large": large}) for one in group["sweeps"])


def cut(sizes: papers.Values) -> list[str]:
    """What these sizes leave out, beside the full paper grid."""
    rest = "Figure 4 above 60,000 records: InfiMNIST is not at hand"
    if sizes["limit"] is not None:
        rest = f"Figure 1 on {sizes['limit']} training records of 60000; Figures 2-6 not run (--quick)"
    return [*PAPER.cut(sizes), rest]


def _figures(run: papers.Reproduction, data: Path) -> None:
    sizes = PAPER.sized(run.effort)
    points: list[papers.Row] = []
    for part in parts(sizes, data):
        run.say(f"{part['name']}: {', '.join(part['systems'])}")
        points += points_of(*run.trained(part))
    panels = panels_of(points)
    run.result.cut += cut(sizes)
    hold(run, panels)
    drawn = {name: panels[name] for name in FIGURES if panels[name]}
    run.result.tables += [table(name, curves) for name, curves in drawn.items()]
    if drawn:
        shown = [picture(name, curves) for name, curves in drawn.items()]
        run.draw("reproductions/vandermaaten2020", "figures.png", shown, columns=3, size=(6, 4.2))


def table(name: str, curves: Curves) -> papers.ResultTable:
    """The numbers behind a picture: mean by method and place, and the standard deviation of several runs."""
    title, axis = FIGURES[name]
    places = sorted({place for one in curves.values() for place in one})
    rows = [[f"{at:g}", *(str(one.get(at, "")) for one in curves.values())] for at in places]
    return papers.ResultTable(f"{title}: accuracy in % (sd)", (axis, *curves), rows)


def picture(name: str, curves: Curves) -> papers.Panel:
    """Accuracy by method along the figure's axis."""
    title, axis = FIGURES[name]
    colours = {method: {"color": f"C{number}"} for number, method in enumerate((*METHODS.values(), PUBLISHED))}
    styles = colours | {PUBLISHED: {**colours[PUBLISHED], "linestyle": "--"}}
    return papers.Panel(title=title, x=axis, y="accuracy", curves=curves, styles=styles, log="x", limits=(0.0, 1.0))
