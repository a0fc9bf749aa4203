"""What the paper says of its figures, as checks on curves: each decides at two standard errors, or not at all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from sweeps.reproductions.claims import Claim
from sweeps.reproductions.vandermaaten2020.comparing import SLACK, Estimate, above, at_most, every, some
from sweeps.reproductions.vandermaaten2020.results import Curve

GOOD = 0.1
"""Points of accuracy lost at the smallest delta that still count as good."""

LOSS, MODEL, SGD = "loss perturbation", "model sensitivity", "DP-SGD"
LOGITS, VOTES = "prediction sensitivity", "subsample-and-aggregate"
PUBLISHED = "subsample-and-aggregate, beta as published"

Curves = dict[str, Curve]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """Curves by figure and method; empty where nothing was run."""

    epsilon_pure: Curves
    epsilon_gaussian: Curves
    budget_pure: Curves
    budget_gaussian: Curves
    delta: Curves
    size: Curves
    dimension: Curves
    classes: Curves
    weight: Curves
    models: Curve

    def all(self) -> Iterator[tuple[str, str, Curves]]:
        """(title, axis, curves) in the paper's order."""
        yield "Figure 1a, delta 0", "epsilon", self.epsilon_pure
        yield "Figure 1b, delta 1e-5", "epsilon", self.epsilon_gaussian
        yield "Figure 2a, epsilon 1, delta 0", "queries", self.budget_pure
        yield "Figure 2b, epsilon 1, delta 1e-5", "queries", self.budget_gaussian
        yield "Figure 3, epsilon 1", "delta", self.delta
        yield "Figure 4, epsilon 1, delta 0", "training records", self.size
        yield "Figure 5a, epsilon 1, delta 0", "dimensions", self.dimension
        yield "Figure 5b, epsilon 1, delta 0", "classes", self.classes
        yield "Figure 6a, epsilon 1, delta 0", "lambda", {label: one for label, one in self.weight.items() if one.axis}
        yield "Figure 6b, epsilon 1, delta 0", "models", {VOTES: self.models} if len(self.models.axis) > 1 else {}


Answer = tuple[bool | None, str]
"""Whether the statement holds (None: it is undecided at two standard errors), and the numbers that decide it."""


def _lead(one: Curve, other: Curve, place: float) -> bool | None:
    """Whether a curve is above another there; None if too little tells, or one was not run."""
    a, b = one.estimate(place), other.estimate(place)
    return None if a is None or b is None else above(a, b)


def _best(curves: Curves, label: str, place: float) -> bool | None:
    """Whether a curve leads all others that were run there."""
    others = [other for name, other in curves.items() if name != label and place in other.axis]
    return every(_lead(curves[label], other, place) for other in others)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _places(places: Sequence[float]) -> str:
    return ", ".join(f"{one:g}" for one in places) or "none"


def _gain(one: Curve) -> Estimate:
    """From the first place of the axis to the last."""
    first, *_, last = one.estimates()
    return last - first


def _votes_lead(votes: str) -> Callable[[Panels], Answer | None]:
    def check(panels: Panels) -> Answer | None:
        curves = panels.epsilon_pure
        if votes not in curves or len(curves) < 2:
            return None
        rivals = {label: one for label, one in curves.items() if label == votes or label not in (VOTES, PUBLISHED)}
        best = {place: _best(rivals, votes, place) for place in curves[votes].axis}
        won, open_ = ([place for place, is_best in best.items() if is_best is answer] for answer in (True, None))
        told = f"best at {len(won)} of {len(best)} epsilons ({_places(won)})"
        told += f", undecided at {_places(open_)}" if open_ else ""
        if 2 * len(won) > len(best):
            return True, told
        return (None if 2 * (len(won) + len(open_)) > len(best) else False), told

    return check


def _loss_best_at_smallest(panels: Panels) -> Answer | None:
    curves = {label: one for label, one in panels.epsilon_pure.items() if label != PUBLISHED}
    if LOSS not in curves:
        return None
    place = curves[LOSS].axis[0]
    told = ", ".join(f"{label} {_percent(one.at(place))}" for label, one in curves.items())
    return _best(curves, LOSS, place), f"at epsilon {place:g}: {told}"


def _below(low: str, highs: tuple[str, ...], figure: str) -> Callable[[Panels], Answer | None]:
    def check(panels: Panels) -> Answer | None:
        curves: Curves = getattr(panels, figure)
        if low not in curves or any(high not in curves for high in highs):
            return None
        below = {place: every(_lead(curves[high], curves[low], place) for high in highs) for place in curves[low].axis}
        over, open_ = ([place for place, is_below in below.items() if is_below is answer] for answer in (False, None))
        told = [f"not at {_places(over)}"] if over else []
        told += [f"undecided at {_places(open_)}"] if open_ else []
        return every(below.values()), "; ".join(told) or "everywhere"

    return check


def _never_behind(curves: Curves, label: str, rivals: Iterable[str], places: Sequence[float]) -> Answer:
    """Whether no rival is above `label` by more than SLACK at any place where both were run."""
    answers: list[bool | None] = []
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


def _sgd_best(panels: Panels) -> Answer | None:
    curves = panels.epsilon_gaussian
    if SGD not in curves or len(curves) < 2:
        return None
    holds, told = _never_behind(curves, SGD, [label for label in curves if label != SGD], curves[SGD].axis)
    return holds, told or "at every epsilon"


def _gaussian_helps(label: str) -> Callable[[Panels], Answer | None]:
    def check(panels: Panels) -> Answer | None:
        pure, gaussian = panels.epsilon_pure.get(label), panels.epsilon_gaussian.get(label)
        if pure is None or gaussian is None:
            return None
        pairs = [(pure.estimate(place), gaussian.estimate(place)) for place in pure.axis]
        told = ", ".join(
            f"{place:g}: {_percent(pure.at(place))} -> {_percent(gaussian.at(place))}" for place in pure.axis
        )
        return every(at_most(a - b, SLACK) if a and b else None for a, b in pairs), told

    return check


def _crossing(curves: Curves, votes: str) -> tuple[float, float]:
    """The first budgets at which votes may be behind loss perturbation, and at which they are; infinite for none."""
    ahead = {place: _lead(curves[votes], curves[LOSS], place) for place in curves[votes].axis}
    return (
        next((place for place, leads in ahead.items() if leads is not True), math.inf),
        next((place for place, leads in ahead.items() if leads is False), math.inf),
    )


def _votes_lose_with_the_budget(votes: str) -> Callable[[Panels], Answer | None]:
    def check(panels: Panels) -> Answer | None:
        curves = panels.budget_pure
        if votes not in curves or LOSS not in curves:
            return None
        smallest = curves[votes].axis[0]
        leads = _lead(curves[votes], curves[LOSS], smallest)
        maybe, surely = _crossing(curves, votes)
        told = f"{'leads' if leads else 'undecided' if leads is None else 'trails'} at B={smallest:g}; "
        if math.isfinite(surely):
            told += f"loss perturbation is ahead from B={surely:g}"
        else:
            told += f"undecided from B={maybe:g}" if math.isfinite(maybe) else "never overtaken"
        overtaken = True if math.isfinite(surely) else None if math.isfinite(maybe) else False
        return every((leads, overtaken)), told

    return check


def _crossing_moves_left(panels: Panels) -> Answer | None:
    curves = panels.budget_pure
    if PUBLISHED not in curves or VOTES not in curves or LOSS not in curves:
        return None
    published, corrected = _crossing(curves, PUBLISHED), _crossing(curves, VOTES)
    told = ", ".join(
        f"{_between(*found)} {name}" for name, found in (("as published", published), ("corrected", corrected))
    )
    if corrected[1] <= published[0] < math.inf:
        return True, told
    return (False if corrected[0] > published[1] else None), told


def _between(maybe: float, surely: float) -> str:
    if maybe == math.inf:
        return "no crossing"
    if maybe == surely:
        return f"B={maybe:g}"
    return f"B from {maybe:g}" + (f" to {surely:g}" if math.isfinite(surely) else "")


def _never_trail_votes(panels: Panels) -> Answer | None:
    curves = panels.budget_gaussian
    if any(label not in curves for label in (VOTES, LOSS, SGD)):
        return None
    found = [_never_behind(curves, label, [VOTES], curves[VOTES].axis) for label in (LOSS, SGD)]
    return every(holds for holds, _ in found), "; ".join(told for _, told in found if told) or "at every budget"


def _good_at_tiny_delta(panels: Panels) -> Answer | None:
    curves = panels.delta
    if any(label not in curves for label in (LOSS, SGD, MODEL)):
        return None
    losses = {label: _gain(curves[label]) for label in (LOSS, SGD, MODEL)}
    told = ", ".join(
        f"{label} {_percent(curves[label].mean[0])}, {100 * loss.value:.1f} below its best"
        for label, loss in losses.items()
    )
    answer = every(at_most(loss, GOOD) for loss in losses.values())
    return answer, f"at delta {curves[LOSS].axis[0]:g}: {told}"


def _votes_gain_most(panels: Panels) -> Answer | None:
    curves = panels.delta
    if VOTES not in curves or len(curves) < 3:
        return None
    gains = {label: _gain(one) for label, one in curves.items()}
    told = ", ".join(f"{label} {100 * gain.value:+.1f}" for label, gain in gains.items())
    return every(above(gains[VOTES], gain) for label, gain in gains.items() if label != VOTES), told


def _few_records(panels: Panels) -> Answer | None:
    curves = panels.size
    if VOTES not in curves or len(curves) < 3:
        return None
    place = curves[VOTES].axis[0]
    told = ", ".join(f"{label} {_percent(one.at(place))}" for label, one in curves.items())
    return _best(curves, VOTES, place), f"at n={place:g}: {told}"


def _overtaken_with_more_records(panels: Panels) -> Answer | None:
    curves = panels.size
    if any(label not in curves for label in (VOTES, LOSS, MODEL)):
        return None
    told = ", ".join(
        f"{label} {100 * _gain(curves[label]).value:+.1f} to {_percent(curves[label].mean[-1])}"
        for label in (VOTES, LOSS, MODEL)
    )
    last = curves[VOTES].axis[-1]
    return every(_lead(curves[label], curves[VOTES], last) for label in (LOSS, MODEL)), told


def _low_dimension_helps(panels: Panels) -> Answer | None:
    curves = panels.dimension
    if LOSS not in curves or MODEL not in curves:
        return None
    told = []
    answers = []
    for label in (LOSS, MODEL):
        one = curves[label]
        *fewer, whole = one.estimates()
        answers.append(above(max(fewer, key=lambda found: found.value), whole))
        told.append(f"{label} " + ", ".join(f"d={d:g}: {_percent(a)}" for d, a in zip(one.axis, one.mean, strict=True)))
    return every(answers), "; ".join(told)


def _classes_hurt(panels: Panels) -> Answer | None:
    curves = panels.classes
    if len(curves) < 3:
        return None
    told = [f"{label} " + ", ".join(_percent(value) for value in one.mean) for label, one in curves.items()]
    ends = [(one.estimates()[0], one.estimates()[-1]) for one in curves.values()]
    return every(above(few, many) for few, many in ends), "; ".join(told)


def _classes_keep_the_ranking(panels: Panels) -> Answer | None:
    curves = panels.classes
    if len(curves) < 3:
        return None
    places = curves[VOTES].axis
    told = "; ".join(f"c={place:g}: {' > '.join(_ranking(curves, place))}" for place in places)
    pairs = [[_lead(one, other, place) for place in places] for one, other in combinations(curves.values(), 2)]
    return every(some((every(leads), every(_not(lead) for lead in leads))) for leads in pairs), told


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _ranking(curves: Curves, place: float) -> tuple[str, ...]:
    return tuple(sorted(curves, key=lambda label: -(curves[label].at(place) or 0.0)))


def _interior(one: Curve | None) -> Answer | None:
    if one is None or len(one.axis) < 3:
        return None
    first, *inside, last = one.estimates()
    best = max(inside, key=lambda found: found.value)
    told = ", ".join(f"{place:g}: {_percent(value)}" for place, value in zip(one.axis, one.mean, strict=True))
    return every((above(best, first), above(best, last))), told


CHECKS: dict[str, tuple[Callable[[Panels], Answer | None], str]] = {
    "F1a: S&A best for most epsilons (beta as published)": (_votes_lead(PUBLISHED), ""),
    "F1a: S&A best for most epsilons (beta corrected)": (_votes_lead(VOTES), "beta as published spends twice epsilon"),
    "F1a: loss perturbation best at the smallest epsilon": (_loss_best_at_smallest, ""),
    "F1a: model sensitivity below S&A and loss perturbation": (_below(MODEL, (VOTES, LOSS), "epsilon_pure"), ""),
    "F1a: prediction sensitivity poor": (_below(LOGITS, (VOTES, LOSS), "epsilon_pure"), "below both"),
    "F1b: DP-SGD best throughout": (_sgd_best, ""),
    "F1b: Gaussian noise helps model sensitivity": (_gaussian_helps(MODEL), ""),
    "F1b: prediction sensitivity poor": (_below(LOGITS, (LOSS, SGD), "epsilon_gaussian"), "below both"),
    "F2a: S&A leads for small B, loss perturbation overtakes (beta as published)": (
        _votes_lose_with_the_budget(PUBLISHED), "the paper's crossing point is lost",
    ),
    "F2a: S&A leads for small B, loss perturbation overtakes (beta corrected)": (
        _votes_lose_with_the_budget(VOTES), "",
    ),
    "F2a: the correction moves the crossing to fewer queries": (_crossing_moves_left, "derived, not published"),
    "F2b: loss perturbation and DP-SGD never trail S&A": (_never_trail_votes, ""),
    "F3: loss perturbation, DP-SGD, model sensitivity good at tiny delta": (
        _good_at_tiny_delta, "within ten points of their accuracy at the largest delta",
    ),
    "F3: S&A gains most from delta": (_votes_gain_most, ""),
    "F4: S&A best at small n": (_few_records, ""),
    "F4: loss perturbation and model sensitivity overtake S&A at large n": (
        _overtaken_with_more_records, "60,000 records here, 1,000,000 in the paper",
    ),
    "F5a: fewer dimensions help loss perturbation, model sensitivity": (_low_dimension_helps, "on public axes"),
    "F5b: more classes hurt everyone": (_classes_hurt, ""),
    "F5b: the ranking does not depend on the number of classes": (_classes_keep_the_ranking, "or largely so"),
    "F6a: a best lambda inside the range, model sensitivity": (lambda panels: _interior(panels.weight.get(MODEL)), ""),
    "F6a: a best lambda inside the range, prediction sensitivity": (
        lambda panels: _interior(panels.weight.get(LOGITS)), "",
    ),
    "F6b: a best M inside the range": (lambda panels: _interior(panels.models), ""),
}  # fmt: skip

STATEMENTS = tuple(CHECKS)
DECIDED = {
    True: "at two standard errors",
    False: "contradicted at two standard errors, by what was run: `cut` lists what is smaller than the paper's",
    None: "undecided at two standard errors",
}
"""What each verdict rests on."""


def held(panels: Panels) -> list[Claim]:
    """Each statement with its answer; what the scope left out is not tried."""
    out = []
    for statement, (check, note) in CHECKS.items():
        answer = check(panels)
        if answer is None:
            out.append(Claim(claim=statement, published="holds", ours=None, holds=None, note="not run in this scope"))
        else:
            told = "; ".join(filter(None, (note, DECIDED[answer[0]])))
            out.append(Claim(claim=statement, published="holds", ours=answer[1], holds=answer[0], note=told))
    return out
