"""What is certified about an event by somebody other than the privacy-loss accountant, against its answer.

Lower ends: Google's dp_accounting, rounded optimistically, where its grid is small enough and delta above the round-off
that it does not charge; one part of the composition alone, exactly. Upper ends: dp_accounting, rounded
pessimistically, and our Renyi accountant. An upper end of ours below a lower end, or a lower end of ours above an upper
one, is a contradiction.
"""

from __future__ import annotations

import math
from typing import Any

import mpmath
from dp_accounting.pld import privacy_loss_distribution as theirs
from dp_accounting.privacy_accountant import NeighboringRelation

from dpcore.accountants.pld.pairs import SampledGaussianPair, dominating_pair
from dpcore.accountants.registry import make
from dpcore.events import Adjacency, Event, Gaussian, PoissonSampled, PureDP, phases

THEIR_ROUND_OFF = 1e-9
"""Deltas below it they do not tell: their transform's round-off is in no bound of theirs."""
THEIR_LARGEST_GRID, THEIR_LARGEST_RANGE = 100_000, 1_000_000
"""Losses of a grid, and of a whole composition."""
LARGEST_INTERVAL = 0.1
"""Of epsilon: a coarser grid says nothing."""
SLACK = 1e-9
"""Relative: the rounding of the comparison itself."""


def contradictions(
    event: Event, adjacency: Adjacency, *, asked: str, at: float, upper: float, lower: float | None
) -> dict[str, Any]:
    """Whose ends were compared (`asked`), and which of them contradict (`contradicts`).

    asked         "delta": `upper` and `lower` are deltas, `at` is the epsilon; else they are epsilons at the delta `at`
    upper, lower  our certified ends; lower None where there is none
    """
    compared: list[str] = []
    wrong: list[str] = []

    def below(name: str, end: float | None) -> None:
        """`end` is a certified lower end of the truth."""
        if end is None:
            return
        compared.append(name)
        if upper < end * (1 - SLACK):
            wrong.append(f"{name}: at least {end!r}, ours at most {upper!r}")

    def above(name: str, end: float | None) -> None:
        """`end` is a certified upper end of the truth."""
        if end is None or lower is None or math.isinf(end):
            return
        compared.append(name)
        if lower > end * (1 + SLACK):
            wrong.append(f"{name}: at most {end!r}, ours at least {lower!r}")

    by_delta = asked == "delta"
    below("one part alone", _one_part(event, adjacency, at, by_delta=by_delta))
    renyi = make("rdp", adjacency)
    if renyi.supports(event):
        composed = renyi.compose(event)
        above("rdp", composed.delta(at) if by_delta else composed.epsilon(at))
    reach = at if by_delta else upper
    for name, pessimistic, compare in (
        ("dp_accounting's lower end", False, below),
        ("dp_accounting's upper end", True, above),
    ):
        compare(name, _theirs(event, adjacency, at, reach, by_delta=by_delta, pessimistic=pessimistic))
    return {"asked": compared, "contradicts": wrong}


def _one_part(event: Event, adjacency: Adjacency, at: float, *, by_delta: bool) -> float | None:
    """The exact delta or epsilon of the plain Gaussians alone, to 40 digits: the rest can only add to it."""
    precision = mpmath.mpf(0)
    with mpmath.workdps(40):
        for part, count in phases(event).items():
            pair = dominating_pair(part, adjacency)
            if isinstance(pair, SampledGaussianPair) and pair.rate == 1.0:
                precision += count / mpmath.mpf(pair.noise_multiplier) ** 2
        if not precision:
            return None
        mu = mpmath.sqrt(precision)

        def delta(epsilon: Any) -> Any:
            return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)

        if by_delta:
            return float(max(delta(mpmath.mpf(at)), 0))
        low, high = mpmath.mpf(0), mu * mu / 2 + mu * 20 + 1
        if delta(low) <= at:
            return 0.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if delta(middle) > at else (low, middle)
        return float(low)


def _range(event: Event, adjacency: Adjacency) -> float:
    """From the least to the largest privacy loss of a composition, in nats, as far as their grids reach."""
    total = 0.0
    for part, count in phases(event).items():
        pair = dominating_pair(part, adjacency)
        assert pair is not None
        low, high = pair.loss_range(1e-22)
        total += count * (high - low)
    return total


def _theirs(
    event: Event, adjacency: Adjacency, at: float, reach: float, *, by_delta: bool, pessimistic: bool
) -> float | None:
    """dp_accounting's end; None where it does not speak.

    reach  about the largest epsilon of interest: it decides their grid
    """
    if (not by_delta and at < THEIR_ROUND_OFF) or not 0 < reach < 1e4:
        return None
    interval = max(1e-4, 4 * reach / THEIR_LARGEST_GRID)
    if not pessimistic:
        # Rounded optimistically nothing of a composition is cut off: its whole range has to fit.
        interval = max(interval, _range(event, adjacency) / THEIR_LARGEST_RANGE)
    if interval > LARGEST_INTERVAL * reach:
        return None
    relation = (
        NeighboringRelation.REPLACE_ONE if adjacency is Adjacency.REPLACE_ONE else NeighboringRelation.ADD_OR_REMOVE_ONE
    )
    whole = None
    for part, count in phases(event).items():
        match part:
            case Gaussian() | PoissonSampled(event=Gaussian()):
                plain = part if isinstance(part, Gaussian) else part.event
                assert isinstance(plain, Gaussian)
                one = theirs.from_gaussian_mechanism(
                    plain.noise_multiplier,
                    pessimistic_estimate=pessimistic,
                    value_discretization_interval=interval,
                    sampling_prob=part.rate if isinstance(part, PoissonSampled) else 1.0,
                    use_connect_dots=False,
                    neighboring_relation=relation,
                )
            case PureDP(epsilon=epsilon):
                spent = epsilon * (2 if adjacency is Adjacency.REPLACE_ONE else 1)
                one = theirs.from_randomized_response(
                    2 / (1 + math.exp(spent)),
                    2,
                    pessimistic_estimate=pessimistic,
                    value_discretization_interval=interval,
                )
            case _:
                return None
        composed = one.self_compose(count)
        whole = composed if whole is None else whole.compose(composed)
    if whole is None:
        return None
    if by_delta:
        found = float(whole.get_delta_for_epsilon(at))
        return found if found > THEIR_ROUND_OFF else None
    return float(whole.get_epsilon_for_delta(at))
