"""What the paper says of its figures, as checks on curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sweeps.reproductions.claims import Claim
from sweeps.reproductions.vandermaaten2020.results import Curve

SLACK = 0.005
"""Accuracies closer than half a point are called equal."""

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


def _lead(one: Curve, other: Curve, place: float) -> float | None:
    """By how much one curve is above another, beyond two standard errors and SLACK; 0 within, None if not run there."""
    a, b = one.at(place), other.at(place)
    if a is None or b is None:
        return None
    slack = max(SLACK, 2 * math.hypot(one.error_at(place), other.error_at(place)))
    return a - b if abs(a - b) > slack else 0.0


def _best(curves: Curves, label: str, place: float) -> bool | None:
    """Whether a curve leads all others there; None if some other is as good."""
    leads = [_lead(curves[label], other, place) for name, other in curves.items() if name != label]
    known = [lead for lead in leads if lead is not None]
    return False if any(lead < 0 for lead in known) else (True if all(lead > 0 for lead in known) else None)


def _best_at(curves: Curves, place: float, among: tuple[str, ...] | None = None) -> str:
    named = {label: one.at(place) for label, one in curves.items() if among is None or label in among}
    values = {label: value for label, value in named.items() if value is not None}
    return max(values, key=lambda label: values[label])


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _votes_lead(votes: str) -> Callable[[Panels], Answer | None]:
    def check(panels: Panels) -> Answer | None:
        curves = panels.epsilon_pure
        if votes not in curves or len(curves) < 2:
            return None
        others = (*(label for label in curves if label not in (VOTES, PUBLISHED)), votes)
        places = curves[votes].axis
        won = [place for place in places if _best_at(curves, place, others) == votes]
        told = f"best at {len(won)} of {len(places)} epsilons ({', '.join(f'{one:g}' for one in won) or 'none'})"
        return 2 * len(won) > len(places), told

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
        over = [
            f"{place:g}"
            for place in curves[low].axis
            if any((_lead(curves[low], curves[high], place) or 0.0) > 0 for high in highs)
        ]
        return not over, "everywhere" if not over else f"not at {', '.join(over)}"

    return check


def _sgd_best(panels: Panels) -> Answer | None:
    curves = panels.epsilon_gaussian
    if SGD not in curves or len(curves) < 2:
        return None
    lost = []
    for place in curves[SGD].axis:
        best = _best_at(curves, place)
        if (_lead(curves[best], curves[SGD], place) or 0.0) > 0:
            told = f"{_percent(curves[best].at(place))} against {_percent(curves[SGD].at(place))}"
            lost.append(f"{best} leads at {place:g} ({told})")
    return not lost, "; ".join(lost) or "at every epsilon"


def _gaussian_helps(label: str) -> Callable[[Panels], Answer | None]:
    def check(panels: Panels) -> Answer | None:
        pure, gaussian = panels.epsilon_pure.get(label), panels.epsilon_gaussian.get(label)
        if pure is None or gaussian is None:
            return None
        pairs = [(place, pure.at(place), gaussian.at(place)) for place in pure.axis]
        told = ", ".join(f"{place:g}: {_percent(a)} -> {_percent(b)}" for place, a, b in pairs)
        return all(a is not None and b is not None and b >= a - SLACK for _, a, b in pairs), told

    return check


def _crossing(curves: Curves, votes: str) -> tuple[bool, float | None]:
    """Whether votes lead at the smallest budget, and the first budget at which loss perturbation is ahead."""
    places = curves[votes].axis
    ahead = []
    for place in places:
        mine, other = curves[votes].at(place), curves[LOSS].at(place)
        ahead.append(mine is not None and other is not None and mine > other)
    behind = next((place for place, leads in zip(places, ahead, strict=True) if not leads), None)
    return ahead[0], behind


def _votes_lose_with_the_budget(votes: str) -> Callable[[Panels], Answer | None]:
    def check(panels: Panels) -> Answer | None:
        curves = panels.budget_pure
        if votes not in curves or LOSS not in curves:
            return None
        leads, behind = _crossing(curves, votes)
        smallest = curves[votes].axis[0]
        told = f"{'leads' if leads else 'trails'} at B={smallest:g}; " + (
            "never overtaken" if behind is None else f"loss perturbation is ahead from B={behind:g}"
        )
        return leads and behind is not None, told

    return check


def _crossing_moves_left(panels: Panels) -> Answer | None:
    curves = panels.budget_pure
    if PUBLISHED not in curves or VOTES not in curves or LOSS not in curves:
        return None
    _, published = _crossing(curves, PUBLISHED)
    _, corrected = _crossing(curves, VOTES)
    if published is None or corrected is None:
        return None
    return corrected <= published, f"B={published:g} as published, B={corrected:g} corrected"


def _never_trail_votes(panels: Panels) -> Answer | None:
    curves = panels.budget_gaussian
    if any(label not in curves for label in (VOTES, LOSS, SGD)):
        return None
    trails = [
        f"{label} at B={place:g}"
        for label in (LOSS, SGD)
        for place in curves[VOTES].axis
        if (_lead(curves[VOTES], curves[label], place) or 0.0) > 0
    ]
    return not trails, "; ".join(trails) or "at every budget"


def _good_at_tiny_delta(panels: Panels) -> Answer | None:
    curves = panels.delta
    if any(label not in curves for label in (LOSS, SGD, MODEL)):
        return None
    losses = {label: curves[label].mean[-1] - curves[label].mean[0] for label in (LOSS, SGD, MODEL)}
    told = ", ".join(
        f"{label} {_percent(curves[label].mean[0])}, {100 * loss:.1f} below its best" for label, loss in losses.items()
    )
    return all(loss <= 0.1 for loss in losses.values()), f"at delta {curves[LOSS].axis[0]:g}: {told}"


def _votes_gain_most(panels: Panels) -> Answer | None:
    curves = panels.delta
    if VOTES not in curves or len(curves) < 3:
        return None
    gains = {label: one.mean[-1] - one.mean[0] for label, one in curves.items()}
    return max(gains, key=lambda label: gains[label]) == VOTES, ", ".join(
        f"{label} {100 * gain:+.1f}" for label, gain in gains.items()
    )


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
    gains = {label: curves[label].mean[-1] - curves[label].mean[0] for label in (VOTES, LOSS, MODEL)}
    last = {label: curves[label].mean[-1] for label in (VOTES, LOSS, MODEL)}
    overtaken = [label for label in (LOSS, MODEL) if last[label] > last[VOTES]]
    told = ", ".join(f"{label} {100 * gain:+.1f} to {_percent(last[label])}" for label, gain in gains.items())
    return overtaken == [LOSS, MODEL], told


def _low_dimension_helps(panels: Panels) -> Answer | None:
    curves = panels.dimension
    if LOSS not in curves or MODEL not in curves:
        return None
    told = []
    holds = True
    for label in (LOSS, MODEL):
        one = curves[label]
        holds &= max(one.mean[:-1]) > one.mean[-1] + SLACK
        told.append(f"{label} " + ", ".join(f"d={d:g}: {_percent(a)}" for d, a in zip(one.axis, one.mean, strict=True)))
    return holds, "; ".join(told)


def _classes_hurt(panels: Panels) -> Answer | None:
    curves = panels.classes
    if len(curves) < 3:
        return None
    told = [f"{label} " + ", ".join(_percent(value) for value in one.mean) for label, one in curves.items()]
    return all(one.mean[0] > one.mean[-1] for one in curves.values()), "; ".join(told)


def _classes_keep_the_ranking(panels: Panels) -> Answer | None:
    curves = panels.classes
    if len(curves) < 3:
        return None
    rankings = [_ranking(curves, place) for place in curves[VOTES].axis]
    told = "; ".join(f"c={place:g}: {' > '.join(one)}" for place, one in zip(curves[VOTES].axis, rankings, strict=True))
    return len(set(rankings)) == 1, told


def _ranking(curves: Curves, place: float) -> tuple[str, ...]:
    return tuple(sorted(curves, key=lambda label: -(curves[label].at(place) or 0.0)))


def _interior(one: Curve | None) -> Answer | None:
    if one is None or len(one.axis) < 3:
        return None
    best = max(range(len(one.mean)), key=lambda i: one.mean[i])
    told = ", ".join(f"{place:g}: {_percent(value)}" for place, value in zip(one.axis, one.mean, strict=True))
    return 0 < best < len(one.mean) - 1, told


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


def held(panels: Panels) -> list[Claim]:
    """Each statement with its answer; what the scope left out is not tried."""
    out = []
    for statement, (check, note) in CHECKS.items():
        answer = check(panels)
        if answer is None:
            out.append(Claim(claim=statement, published="holds", ours=None, holds=None, note="not run in this scope"))
        else:
            open_ = "" if answer[0] is not None else "undecided at two standard errors"
            told = "; ".join(filter(None, (note, open_)))
            out.append(Claim(claim=statement, published="holds", ours=answer[1], holds=answer[0], note=told))
    return out
