"""What the paper says of its figures, as rules on curves: each decides at two standard errors, or not at all.

Errors are taken as independent. Methods are tested on the same records, so that they err together: the true error of a
difference is rather smaller.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

from sweeps.reproductions.statements import Judged
from sweeps.reproductions.uncertain import Answer, Uncertain, Yes, above, at_most, every, opposite
from sweeps.reproductions.vandermaaten2020.curves import LOSS, PUBLISHED, VOTES, Curve, Curves, Panels

SLACK = 0.005
"""Accuracies closer than half a point are called equal."""
GOOD = 0.1
"""Points of accuracy lost at the smallest delta that still count as good."""
DECIDED = {
    True: "at two standard errors",
    False: "contradicted at two standard errors, by what was run: `cut` lists what is smaller than the paper's",
    None: "undecided at two standard errors",
}


def deciding(panels: Panels) -> dict[str, Callable[..., Judged | None]]:
    """The rules by name, as statements call them."""
    rules: Sequence[Callable[..., Answer | None]] = (
        most_places, best_at_first, below, never_behind, gaussian_helps, lose_with_the_budget, crossing_moves_left,
        good_at_first, gains_most, overtaken_at_last, fewer_help, more_hurt, same_ranking, best_inside,
    )  # fmt: skip
    return {rule.__name__: partial(_decide, panels, rule) for rule in rules}


def _decide(
    panels: Panels,
    rule: Callable[..., Answer | None],
    *,
    panel: str,
    of: Sequence[str] = (),
    least: int = 1,
    **given: Any,
) -> Judged | None:
    """A rule on one panel and the curves that it is about; None where one of them was not run, or too few."""
    curves = panels[panel]
    if len(curves) < least or any(label not in curves for label in of):
        return None
    answer = rule(curves, *of, **given)
    return answer and Judged(answer[1], answer[0], DECIDED[answer[0]])


def _lead(one: Curve, other: Curve, place: float) -> Yes:
    """Whether a curve is above another there; None if too little tells, or one was not run."""
    return above(one[place], other[place], SLACK) if place in one and place in other else None


def _best(curves: Curves, label: str, place: float) -> Yes:
    """Whether a curve leads all others that were run there."""
    others = [other for name, other in curves.items() if name != label and place in other]
    return every(_lead(curves[label], other, place) for other in others)


def _ends(one: Curve) -> tuple[Uncertain, Uncertain]:
    """At the first place of the axis and at the last."""
    first, *_, last = one.values()
    return first, last


def _gain(one: Curve) -> Uncertain:
    """From the first place of the axis to the last."""
    first, last = _ends(one)
    return last - first


def _highest(found: Iterable[Uncertain]) -> Uncertain:
    return max(found, key=lambda one: one.value)


# Words


def _percent(found: Uncertain | None) -> str:
    return "-" if found is None else f"{100 * found.value:.1f}"


def _places(found: Mapping[float, Yes], answer: Yes) -> str:
    """The places with this answer, or nothing."""
    return ", ".join(f"{place:g}" for place, one in found.items() if one is answer)


def _along(one: Curve, name: str = "") -> str:
    return ", ".join(f"{name}{place:g}: {_percent(mean)}" for place, mean in one.items())


# Rules


def most_places(curves: Curves, votes: str) -> Answer:
    """Votes, with one beta, are best at most places."""
    rivals = {label: one for label, one in curves.items() if label == votes or label not in (VOTES, PUBLISHED)}
    best = {place: _best(rivals, votes, place) for place in curves[votes]}
    won, open_ = list(best.values()).count(True), list(best.values()).count(None)
    told = f"best at {won} of {len(best)} epsilons ({_places(best, True) or 'none'})"
    told += f", undecided at {_places(best, None)}" if open_ else ""
    return True if 2 * won > len(best) else None if 2 * (won + open_) > len(best) else False, told


def best_at_first(curves: Curves, label: str, *, where: str) -> Answer:
    """Best at the first place."""
    rivals, place = {name: one for name, one in curves.items() if name != PUBLISHED}, next(iter(curves[label]))
    there = ", ".join(f"{name} {_percent(one.get(place))}" for name, one in rivals.items())
    return _best(rivals, label, place), f"{where}{place:g}: {there}"


def below(curves: Curves, low: str, *highs: str) -> Answer:
    """Below several others, everywhere."""
    found = {place: every(_lead(curves[high], curves[low], place) for high in highs) for place in curves[low]}
    told = [f"{word} at {at}" for word, no in (("not", False), ("undecided", None)) if (at := _places(found, no))]
    return every(found.values()), "; ".join(told) or "everywhere"


def never_behind(curves: Curves, *labels: str, otherwise: str, rivals: Sequence[str] = ()) -> Answer:
    """No rival (by default all others) leads by more than SLACK, at any place of the last curve's axis."""
    answers: list[Yes] = []
    told = []
    for label in (one for one in labels if one not in rivals):
        own: list[Yes] = []
        for rival in rivals or [name for name in curves if name != label]:
            for place in (at for at in curves[labels[-1]] if at in curves[label] and at in curves[rival]):
                mine, other = curves[label][place], curves[rival][place]
                own.append(at_most(other - mine, SLACK))
                if own[-1] is False:
                    told.append(f"{rival} leads {label} at {place:g} ({_percent(other)} against {_percent(mine)})")
        if open_ := own.count(None):
            told.append(f"undecided in {open_} of {len(own)} comparisons with {label}")
        answers += own
    return every(answers), "; ".join(told) or otherwise


def gaussian_helps(curves: Curves, *noises: str) -> Answer:
    """Nowhere worse with Gaussian noise."""
    pure, gaussian = (curves[noise] for noise in noises)
    told = ", ".join(f"{at:g}: {_percent(one)} -> {_percent(gaussian.get(at))}" for at, one in pure.items())
    return every(at_most(one - gaussian[at], SLACK) if at in gaussian else None for at, one in pure.items()), told


def _crossing(curves: Curves, votes: str) -> tuple[float, float]:
    """The first budgets at which votes may be behind loss perturbation, and at which they are; infinite for none."""
    ahead = {place: _lead(curves[votes], curves[LOSS], place) for place in curves[votes]}
    maybe = (place for place, leads in ahead.items() if leads is not True)
    surely = (place for place, leads in ahead.items() if leads is False)
    return next(maybe, math.inf), next(surely, math.inf)


def lose_with_the_budget(curves: Curves, votes: str, loss: str) -> Answer:
    """Votes lead at the smallest budget, and are overtaken."""
    smallest = next(iter(curves[votes]))
    leads = _lead(curves[votes], curves[loss], smallest)
    maybe, surely = _crossing(curves, votes)
    overtaken: Yes = False
    told = "never overtaken"
    if math.isfinite(surely):
        overtaken, told = True, f"loss perturbation is ahead from B={surely:g}"
    elif math.isfinite(maybe):
        overtaken, told = None, f"undecided from B={maybe:g}"
    first = {True: "leads", None: "undecided", False: "trails"}[leads]
    return every((leads, overtaken)), f"{first} at B={smallest:g}; {told}"


def crossing_moves_left(curves: Curves, published: str, corrected: str, _: str) -> Answer:
    """Votes are overtaken at fewer queries with the corrected beta."""
    before, after = _crossing(curves, published), _crossing(curves, corrected)
    told = f"{_between(*before)} as published, {_between(*after)} corrected"
    if after[1] <= before[0] < math.inf:
        return True, told
    return (False if after[0] > before[1] else None), told


def _between(maybe: float, surely: float) -> str:
    if maybe == math.inf:
        return "no crossing"
    if maybe == surely:
        return f"B={maybe:g}"
    return f"B from {maybe:g}" + (f" to {surely:g}" if math.isfinite(surely) else "")


def good_at_first(curves: Curves, *labels: str) -> Answer:
    """Within GOOD of their accuracy at the last place."""
    losses = {label: _gain(curves[label]) for label in labels}
    told = (f"{one} {_percent(_ends(curves[one])[0])}, {_percent(loss)} below its best" for one, loss in losses.items())
    place = next(iter(curves[labels[0]]))
    return every(at_most(loss, GOOD) for loss in losses.values()), f"at delta {place:g}: {', '.join(told)}"


def gains_most(curves: Curves, label: str) -> Answer:
    """From the first place to the last."""
    gains = {name: _gain(one) for name, one in curves.items()}
    told = ", ".join(f"{name} {100 * gain.value:+.1f}" for name, gain in gains.items())
    return every(above(gains[label], gain, SLACK) for name, gain in gains.items() if name != label), told


def overtaken_at_last(curves: Curves, label: str, *others: str) -> Answer:
    """Behind the others at the last place."""
    ends = {name: (_gain(curves[name]), _ends(curves[name])[1]) for name in (label, *others)}
    told = ", ".join(f"{name} {100 * gain.value:+.1f} to {_percent(last)}" for name, (gain, last) in ends.items())
    return every(_lead(curves[other], curves[label], list(curves[label])[-1]) for other in others), told


def fewer_help(curves: Curves, *labels: str) -> Answer:
    """Better somewhere before the last place than there."""
    answers = []
    for label in labels:
        *fewer, whole = curves[label].values()
        answers.append(above(_highest(fewer), whole, SLACK))
    return every(answers), "; ".join(f"{label} {_along(curves[label], 'd=')}" for label in labels)


def more_hurt(curves: Curves) -> Answer:
    """Better at the first place than at the last, all of them."""
    told = (f"{label} " + ", ".join(map(_percent, one.values())) for label, one in curves.items())
    return every(above(*_ends(one), SLACK) for one in curves.values()), "; ".join(told)


def same_ranking(curves: Curves, label: str) -> Answer:
    """Of any two, the same one leads everywhere."""
    answers = []
    for one, other in combinations(curves.values(), 2):
        leads = [_lead(one, other, place) for place in curves[label]]
        # "Always or never" fails only where both fail.
        answers.append(opposite(every((opposite(every(leads)), opposite(every(map(opposite, leads)))))))
    return every(answers), "; ".join(f"c={place:g}: {_ranking(curves, place)}" for place in curves[label])


def _ranking(curves: Curves, place: float) -> str:
    return " > ".join(sorted(curves, key=lambda name: -(curves[name][place].value if place in curves[name] else 0.0)))


def best_inside(curves: Curves, label: str) -> Answer | None:
    """Best neither at the first place nor at the last; None where nothing lies between."""
    first, *inside, last = curves[label].values()
    if not inside:
        return None
    best = _highest(inside)
    return every((above(best, first, SLACK), above(best, last, SLACK))), _along(curves[label])
