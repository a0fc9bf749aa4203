"""The figures of van der Maaten & Hannun 2020: statements against known curves, and a small run on real data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from sweeps.papers import Claim, Row
from sweeps.papers.vandermaaten2020 import LOSS, MODEL, PAPER, SGD, VOTES, MeanAccuracy, hold, panels_of, table
from tests.sweeps.test_papers import claims_of

POINT = {"part": "fig1-pure", "method": MODEL, "delta": 0.0, "epsilon": 1.0, "queries": 0, "n": 60_000}
POINT |= {"dimension": 784, "classes": 10, "models": 0, "weight": 0.1, "others": (), "accuracy": 0.5, "answers": 10_000}


def point(**given: Any) -> Row:
    return Row(**POINT | given)


def panel(levels: dict[str, tuple[float, float]]) -> list[Row]:
    """Two epsilons of Figure 1a, by method."""
    points = []
    for method, accuracies in levels.items():
        for epsilon, accuracy in zip((1.0, 2.0), accuracies, strict=True):
            models = 256 if method == "subsample-and-aggregate" else 0
            points.append(point(method=method, epsilon=epsilon, accuracy=accuracy, models=models))
    return points


def claims(points: list[Row]) -> list[Claim]:
    return claims_of(PAPER, lambda run: hold(run, panels_of(points)))


def of_model(*points: Row) -> MeanAccuracy:
    return panels_of(points)["epsilon_pure"][MODEL][1.0]


def answer(points: list[Row], statement: str) -> bool | None:
    (claim,) = [claim for claim in claims(points) if claim.claim == statement]
    return claim.holds


def test_the_best_mean_over_regularisation_is_shown_not_the_best_run() -> None:
    lucky = [point(weight=0.5, accuracy=value) for value in (0.9, 0.1)]
    steady = [point(weight=0.1, accuracy=value) for value in (0.6, 0.6)]
    mean = of_model(*lucky, *steady)
    assert (mean.value, mean.spread) == (0.6, 0.0)


def test_a_lead_that_few_answers_cannot_tell_is_undecided() -> None:
    levels = {"loss perturbation": (0.53, 0.9), "prediction sensitivity": (0.1, 0.1), "model sensitivity": (0.5, 0.8)}
    statement = "F1a: loss perturbation best at the smallest epsilon"
    assert answer(panel(levels), statement) is True
    few = [Row(**vars(one) | {"answers": 100}) for one in panel(levels)]
    assert answer(few, statement) is None
    worse = panel(levels | {"model sensitivity": (0.6, 0.8)})
    assert answer(worse, statement) is False


def test_one_run_has_the_error_of_its_answers_and_no_deviation() -> None:
    one = of_model(point(accuracy=0.8))
    assert math.isnan(one.spread)
    assert one.error == pytest.approx(math.sqrt(0.8 * 0.2 / 10_000), rel=1e-3)
    (row,) = table("epsilon_pure", panels_of([point(accuracy=0.8)])["epsilon_pure"]).rows
    assert row[1] == "80.0"
    # Ten right answers of ten are no certainty.
    assert of_model(point(accuracy=1.0, answers=10)).error > 0.08


ENOUGH, FEW = 10_000, 40


def along(part: str, axis: str, levels: dict[str, tuple[float, ...]], places: tuple[float, ...], answers: int, **more):  # type: ignore[no-untyped-def]
    """Points of one figure: a method's accuracies at the places of an axis."""
    found = []
    for method, accuracies in levels.items():
        models = 256 if method == VOTES else 0
        for place, accuracy in zip(places, accuracies, strict=True):
            given = {"models": models, "part": part, **more, axis: place}
            found.append(point(method=method, accuracy=accuracy, answers=answers, **given))
    return found


def at_deltas(answers: int, votes: float = 0.2) -> list[Row]:
    levels = {LOSS: (0.80, 0.85), SGD: (0.80, 0.85), MODEL: (0.80, 0.82), VOTES: (0.30, 0.30 + votes)}
    return along("fig3-x", "delta", levels, (1e-8, 1e-3), answers)


def with_classes(answers: int) -> list[Row]:
    return along("fig5b-x", "classes", {LOSS: (0.9, 0.8), MODEL: (0.7, 0.6), VOTES: (0.8, 0.7)}, (2, 5), answers)


def with_budgets(answers: int) -> list[Row]:
    fixed = along("fig1-trained", "epsilon", {LOSS: (0.6,)}, (1.0,), answers)
    corrected = along("fig2-pure", "queries", {VOTES: (0.8, 0.5, 0.3)}, (10, 100, 1000), answers)
    published = along("fig2-pure", "queries", {VOTES: (0.9, 0.7, 0.5)}, (10, 100, 1000), answers, epsilon=2.0)
    return fixed + corrected + published


def with_weights(answers: int) -> list[Row]:
    return along("fig1-pure", "weight", {MODEL: (0.6, 0.7, 0.65)}, (0.01, 0.1, 0.5), answers)


@pytest.mark.parametrize(
    ("made", "statement", "turned_round"),
    [
        (with_budgets, "F2a: S&A leads for small B, loss perturbation overtakes (beta corrected)", False),
        (with_budgets, "F2a: the correction moves the crossing to fewer queries", True),
        (at_deltas, "F3: loss perturbation, DP-SGD, model sensitivity good at tiny delta", True),
        (at_deltas, "F3: S&A gains most from delta", False),
        (with_classes, "F5b: more classes hurt everyone", False),
        (with_classes, "F5b: the ranking does not depend on the number of classes", True),
        (with_weights, "F6a: a best lambda inside the range, model sensitivity", False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_statements_decide_at_two_standard_errors_and_fall_where_they_are_wrong(
    made: Callable[[int], list[Row]], statement: str, turned_round: bool | None
) -> None:
    """With few answers an error tells nothing; of errors in their place the third column is true."""
    assert (answer(made(ENOUGH), statement), answer(made(FEW), statement)) == (True, None)
    turned = [Row(**vars(one) | {"accuracy": 1 - one.accuracy}) for one in made(ENOUGH)]
    assert answer(turned, statement) is turned_round


def test_the_published_temperature_is_the_corrected_one_at_twice_epsilon() -> None:
    points = panel({"loss perturbation": (0.5, 0.5), "subsample-and-aggregate": (0.4, 0.7)})
    curves = panels_of(points)["epsilon_pure"]
    assert curves["subsample-and-aggregate, beta as published"][1.0].value == 0.7
    assert curves["subsample-and-aggregate"][1.0].value == 0.4
