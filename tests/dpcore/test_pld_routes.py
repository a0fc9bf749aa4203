"""The exam that every route of the privacy-loss accountant sits: it is reached, and agrees with those behind it."""

from dataclasses import replace
from pathlib import Path

import pytest

from dpcore.accountants.pld import Bounds, ToleranceNotReached, routes
from dpcore.accountants.pld.bounds import DELTA_FLOOR, Asked
from dpcore.accountants.pld.pairs import ReplacedSampledGaussian, SampledGaussianPair, SampledRandomisedResponse

PAGE = Path(routes.__file__).with_name("README.md").read_text(encoding="utf-8").splitlines()
UNLIKE = tuple((SampledRandomisedResponse(1.0, 0.05 + 0.11 * i), 1) for i in range(20))
SAMPLED = ((SampledGaussianPair(0.02, 1.1), 400),)
RARE = ((SampledGaussianPair(0.0001, 0.45), 30),)

REACHED = {
    "exact sums of randomised responses": ((((SampledRandomisedResponse(0.3, 0.5), 40),), 1e-5, 0.5),),
    "laws that hardly overlap": ((((ReplacedSampledGaussian(0.14, 0.84), 2_976_870),), None, 0.6),),
    "nearly certain answers": ((((SampledRandomisedResponse(1.0, 45.0), 2), *SAMPLED), 1e-6, 90.0),),
    "plain Gaussians": ((((SampledGaussianPair(1.0, 3.0), 4),), 1e-5, 1.0),),
    "total variation": ((((SampledGaussianPair(1e-4, 0.4), 100),), 0.02, None),),
    "a single step": ((((SampledGaussianPair(0.1, 0.9), 1),), 1e-6, 0.3),),
    "Chernoff's bound": (
        (SAMPLED, None, 4.0),
        # Just below the largest loss of adding a record, 2.110: no sum tells this, and a grid takes a quarter second.
        (((SampledGaussianPair(0.0037619574363088226, 0.74712), 560),), None, 2.0194),
        ((*SAMPLED, (SampledRandomisedResponse(0.1, 1.0), 3)), None, 5.0),
    ),
    "sum over frequencies": ((SAMPLED, 1e-6, 1.0), (((ReplacedSampledGaussian(0.02, 1.1), 400),), 1e-6, 1.0)),
    "rounded randomised responses": ((UNLIKE, 1e-6, None),),
    "grid of losses": ((RARE, 1e-8, None),),
    "sum over more frequencies": ((((SampledGaussianPair(4.34e-05, 0.693), 10208),), 0.00069, None),),
    "large grid of losses": ((((SampledGaussianPair(1.0188e-4, 0.906), 50012),), 1.96e-11, None),),
}
"""By route: compositions, with a delta and an epsilon at which this route is the first that tells; None where not."""


OF_THE_SECOND = {"Chernoff's bound"}
"""Routes that tell a direction only where it is known what the other one needs."""


def answers(parts, at, *, epsilon, second=False):
    """What each route says on its own, in order; of those that tell one direction, the first direction's answer, or
    the second's when it is known what the first needs."""
    asked = Asked(at) if epsilon else Asked(at, 1e-3, DELTA_FLOOR)
    directions = routes._epsilon_directions(parts, asked) if epsilon else routes._delta_directions(parts, asked)
    direction = None
    if second:
        first, other = directions
        known = routes._of_directions([first], [route.delta for route in routes.ONE_DIRECTION if route.delta])[0]
        direction = other._replace(known=known.upper)
    for route in (*routes.WHOLE, *routes.ONE_DIRECTION):
        tell = route.epsilon if epsilon else route.delta
        if tell is None:
            continue
        if route in routes.WHOLE:
            found = tell(parts, asked)
        else:
            direction = direction or next(iter(directions))
            try:
                found = tell(direction)
            except ToleranceNotReached as refusal:
                found = refusal.best
        if found is not None:
            yield route.name, found


ASKED = [
    (route.name, parts, at, epsilon)
    for route in (*routes.WHOLE, *routes.ONE_DIRECTION)
    for parts, delta, at_epsilon in REACHED[route.name]
    for at, epsilon in ((delta, True), (at_epsilon, False))
    if at is not None
]


@pytest.mark.parametrize(
    ("name", "parts", "at", "epsilon"), ASKED, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_route_is_reached_and_agrees_with_all_behind_it(name, parts, at, epsilon):
    (first, found), *others = answers(parts, at, epsilon=epsilon, second=name in OF_THE_SECOND)
    assert first == name
    for _, other in others:
        assert found.lower <= other.upper * (1 + 1e-12) + DELTA_FLOOR
        assert other.lower <= found.upper * (1 + 1e-12) + DELTA_FLOOR
    whole = (routes.epsilon_bounds if epsilon else routes.delta_bounds)(parts, at, 1e-3)
    assert whole.upper >= found.upper
    assert whole.lower >= found.lower


def test_the_page_is_the_table_of_routes():
    """In order, each with what it is asked for, when it applies, what it costs, certifies and rests on."""
    rows = [
        [str(number), route.name, " and ".join(word for word in ("epsilon", "delta") if getattr(route, word))]
        for number, route in enumerate((*routes.WHOLE, *routes.ONE_DIRECTION), 1)
    ]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE if line.startswith("| ")]
    said = [row for row in table if row[0].isdigit()]
    assert [row[:3] for row in said] == rows
    assert all(len(row) == 7 and all(row) for row in said)


def test_a_route_that_answers_wrongly_fails_the_exam(monkeypatch):
    """The mutant: a sum over frequencies that takes its lower end for its upper one, a percent too low."""
    right = routes.inversion.epsilon_bounds

    def wrong(direction):
        found = right(direction)
        return found and Bounds(0.98 * found.lower, 0.99 * found.lower)

    broken = [replace(route, epsilon=wrong) if route.epsilon is right else route for route in routes.ONE_DIRECTION]
    monkeypatch.setattr(routes, "ONE_DIRECTION", tuple(broken))
    with pytest.raises(AssertionError):
        test_a_route_is_reached_and_agrees_with_all_behind_it("sum over frequencies", SAMPLED, 1e-6, True)


def test_a_route_that_nobody_reaches_fails_the_exam():
    """A newcomer without a setting of its own is named."""
    assert {route.name for route in (*routes.WHOLE, *routes.ONE_DIRECTION)} == REACHED.keys()
    assert all(REACHED.values())
