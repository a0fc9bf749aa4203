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

from sweeps.reproductions.statements import Estimate, Verdict, at_most
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

Yes = bool | None
Answer = tuple[Yes, str]
"""Whether the statement holds (None: it is undecided), and the numbers that decide it."""


def deciding(panels: Panels) -> dict[str, Callable[..., Verdict | None]]:
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
) -> Verdict | None:
    """A rule on one panel and the curves that it is about; None where one of them was not run, or too few."""
    curves = panels[panel]
    if len(curves) < least or any(label not in curves for label in of):
        return None
    answer = rule(curves, *of, **given)
    return answer and Verdict(answer[1], answer[0], DECIDED[answer[0]])


# Three values: yes, no, and None where the error is too large to tell.


def above(one: Estimate, other: Estimate) -> Yes:
    """Whether `one` is above `other` by more than SLACK; False if it is below by as much."""
    lead = one - other
    return None if abs(lead.value) <= max(SLACK, 2 * lead.error) else lead.value > 0


def every(answers: Iterable[Yes]) -> Yes:
    """Whether all hold: one that fails decides, one that is open leaves it open."""
    known = list(answers)
    return False if False in known else None if None in known else True


def opposite(answer: Yes) -> Yes:
    """No for yes, yes for no; what is open stays open."""
    return None if answer is None else not answer


def _lead(one: Curve, other: Curve, place: float) -> Yes:
    """Whether a curve is above another there; None if too little tells, or one was not run."""
    a, b = one.estimate(place), other.estimate(place)
    return None if a is None or b is None else above(a, b)


def _best(curves: Curves, label: str, place: float) -> Yes:
    """Whether a curve leads all others that were run there."""
    others = [other for name, other in curves.items() if name != label and place in other.axis]
    return every(_lead(curves[label], other, place) for other in others)


def _gain(one: Curve) -> Estimate:
    """From the first place of the axis to the last."""
    first, *_, last = one.estimates()
    return last - first


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _listed(found: Mapping[float, Yes], answer: Yes) -> str:
    """The places with this answer, or nothing."""
    return ", ".join(f"{place:g}" for place, one in found.items() if one is answer)


def _at(curves: Curves, place: float) -> str:
    return ", ".join(f"{label} {_percent(one.at(place))}" for label, one in curves.items())


def _along(one: Curve, name: str = "") -> str:
    return ", ".join(f"{name}{place:g}: {_percent(value)}" for place, value in zip(one.axis, one.mean, strict=True))


# Rules


def most_places(curves: Curves, votes: str) -> Answer:
    """Votes, with one beta, are best at most places."""
    rivals = {label: one for label, one in curves.items() if label == votes or label not in (VOTES, PUBLISHED)}
    best = {place: _best(rivals, votes, place) for place in curves[votes].axis}
    won, open_ = list(best.values()).count(True), list(best.values()).count(None)
    told = f"best at {won} of {len(best)} epsilons ({_listed(best, True) or 'none'})"
    told += f", undecided at {_listed(best, None)}" if open_ else ""
    if 2 * won > len(best):
        return True, told
    return (None if 2 * (won + open_) > len(best) else False), told


def best_at_first(curves: Curves, label: str, *, where: str) -> Answer:
    """Best at the first place."""
    rivals, place = {name: one for name, one in curves.items() if name != PUBLISHED}, curves[label].axis[0]
    return _best(rivals, label, place), f"{where}{place:g}: {_at(rivals, place)}"


def below(curves: Curves, low: str, *highs: str) -> Answer:
    """Below several others, everywhere."""
    found = {place: every(_lead(curves[high], curves[low], place) for high in highs) for place in curves[low].axis}
    told = [f"not at {over}"] if (over := _listed(found, False)) else []
    told += [f"undecided at {open_}"] if (open_ := _listed(found, None)) else []
    return every(found.values()), "; ".join(told) or "everywhere"


def never_behind(curves: Curves, *labels: str, otherwise: str, rivals: Sequence[str] = ()) -> Answer:
    """No rival (by default all others) leads by more than SLACK, at any place of the last curve's axis."""
    places, found = curves[labels[-1]].axis, []
    for label in labels:
        if label not in rivals:
            found.append(_behind(curves, label, rivals or [name for name in curves if name != label], places))
    return every(holds for holds, _ in found), "; ".join(told for _, told in found if told) or otherwise


def _behind(curves: Curves, label: str, rivals: Iterable[str], places: Sequence[float]) -> Answer:
    answers: list[Yes] = []
    told = []
    for rival in rivals:
        for place in places:
            mine, other = curves[label].estimate(place), curves[rival].estimate(place)
            if mine is None or other is None:
                continue
            answers.append(at_most(other - mine, SLACK))
            if answers[-1] is False:
                numbers = f"{_percent(other.value)} against {_percent(mine.value)}"
                told.append(f"{rival} leads {label} at {place:g} ({numbers})")
    open_ = answers.count(None)
    told += [f"undecided in {open_} of {len(answers)} comparisons with {label}"] if open_ else []
    return every(answers), "; ".join(told)


def gaussian_helps(curves: Curves, *noises: str) -> Answer:
    """Nowhere worse with Gaussian noise."""
    pure, gaussian = (curves[noise] for noise in noises)
    pairs = [(pure.estimate(place), gaussian.estimate(place)) for place in pure.axis]
    told = [f"{place:g}: {_percent(pure.at(place))} -> {_percent(gaussian.at(place))}" for place in pure.axis]
    return every(at_most(a - b, SLACK) if a and b else None for a, b in pairs), ", ".join(told)


def _crossing(curves: Curves, votes: str) -> tuple[float, float]:
    """The first budgets at which votes may be behind loss perturbation, and at which they are; infinite for none."""
    ahead = {place: _lead(curves[votes], curves[LOSS], place) for place in curves[votes].axis}
    return (
        next((place for place, leads in ahead.items() if leads is not True), math.inf),
        next((place for place, leads in ahead.items() if leads is False), math.inf),
    )


def lose_with_the_budget(curves: Curves, votes: str, loss: str) -> Answer:
    """Votes lead at the smallest budget, and are overtaken."""
    smallest = curves[votes].axis[0]
    leads = _lead(curves[votes], curves[loss], smallest)
    maybe, surely = _crossing(curves, votes)
    if math.isfinite(surely):
        overtaken, told = True, f"loss perturbation is ahead from B={surely:g}"
    elif math.isfinite(maybe):
        overtaken, told = None, f"undecided from B={maybe:g}"
    else:
        overtaken, told = False, "never overtaken"
    first = "leads" if leads else "undecided" if leads is None else "trails"
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
    told = [
        f"{label} {_percent(curves[label].mean[0])}, {100 * loss.value:.1f} below its best"
        for label, loss in losses.items()
    ]
    place = curves[labels[0]].axis[0]
    return every(at_most(loss, GOOD) for loss in losses.values()), f"at delta {place:g}: {', '.join(told)}"


def gains_most(curves: Curves, label: str) -> Answer:
    """From the first place to the last."""
    gains = {name: _gain(one) for name, one in curves.items()}
    told = ", ".join(f"{name} {100 * gain.value:+.1f}" for name, gain in gains.items())
    return every(above(gains[label], gain) for name, gain in gains.items() if name != label), told


def overtaken_at_last(curves: Curves, label: str, *others: str) -> Answer:
    """Behind the others at the last place."""
    told = [
        f"{name} {100 * _gain(curves[name]).value:+.1f} to {_percent(curves[name].mean[-1])}"
        for name in (label, *others)
    ]
    last = curves[label].axis[-1]
    return every(_lead(curves[other], curves[label], last) for other in others), ", ".join(told)


def fewer_help(curves: Curves, *labels: str) -> Answer:
    """Better somewhere before the last place than there."""
    answers = []
    for label in labels:
        *fewer, whole = curves[label].estimates()
        answers.append(above(max(fewer, key=lambda found: found.value), whole))
    return every(answers), "; ".join(f"{label} {_along(curves[label], 'd=')}" for label in labels)


def more_hurt(curves: Curves) -> Answer:
    """Better at the first place than at the last, all of them."""
    told = [f"{label} " + ", ".join(_percent(value) for value in one.mean) for label, one in curves.items()]
    ends = [(one.estimates()[0], one.estimates()[-1]) for one in curves.values()]
    return every(above(few, many) for few, many in ends), "; ".join(told)


def same_ranking(curves: Curves, label: str) -> Answer:
    """Of any two, the same one leads everywhere."""
    places, answers = curves[label].axis, []
    for one, other in combinations(curves.values(), 2):
        leads = [_lead(one, other, place) for place in places]
        # "Always or never" fails only where both fail.
        answers.append(opposite(every((opposite(every(leads)), opposite(every(map(opposite, leads)))))))
    return every(answers), "; ".join(f"c={place:g}: {_ranking(curves, place)}" for place in places)


def _ranking(curves: Curves, place: float) -> str:
    return " > ".join(sorted(curves, key=lambda name: -(curves[name].at(place) or 0.0)))


def best_inside(curves: Curves, label: str) -> Answer | None:
    """Best neither at the first place nor at the last; None where nothing lies between."""
    if len(curves[label].axis) < 3:
        return None
    first, *inside, last = curves[label].estimates()
    best = max(inside, key=lambda found: found.value)
    return every((above(best, first), above(best, last))), _along(curves[label])
