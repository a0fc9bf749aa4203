"""Lu et al. 2021: printed tables by formula, statements against known curves, and a small run on real data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpcore.papers.lu2021 import Counting
from sweeps.papers import Claim, Effort, Row, lu2021
from tests.sweeps.test_papers import claims_of
from trainables.planning import NOISE_MAX


def test_baselines_that_are_noise_alone_are_not_launched(tmp_path: Path) -> None:
    sizes = lu2021.PAPER.sized(Effort()) | {"private": {"zcdp": [100.0], "naive": [1.0, 1000.0]}}
    one = lu2021.sized(lu2021.SETS[0], sizes)
    noises = lu2021.baseline_noises(one, sizes)
    assert noises[Counting.NAIVE, 1.0] > NOISE_MAX > noises[Counting.NAIVE, 1000.0] > noises[Counting.ZCDP, 100.0]
    launched = lu2021.beside(one, sizes, tmp_path, noises)["systems"]["noisy-adam"]["noise_multiplier"]
    assert launched == sorted([noises[Counting.ZCDP, 100.0], noises[Counting.NAIVE, 1000.0]])


# Statements


def held(*found: lu2021.SetResult) -> list[Claim]:
    return claims_of(lu2021.PAPER, lambda run: lu2021.hold(run, found))


def as_published(classes: int = 30) -> lu2021.SetResult:
    """Curves that do what the paper says."""
    one = Row(**vars(lu2021.SETS[0]) | {"name": "purchase", "classes": classes})
    points = []
    for method, end in ((lu2021.GAUSSIAN, 10.0), (lu2021.LAPLACE, 100.0)):
        for epsilon in lu2021.PAPER.sized(Effort())["epsilons"]:
            share = 1.0 if classes == 2 and epsilon > 1 else min(1.0, epsilon / (10.0 if classes == 2 else end))
            leak = min(0.36, epsilon * 0.9)
            points.append(
                lu2021.CurvePoint(method=method, epsilon=epsilon, claimed=1e9, loss=0.5 * (1 - share), leak=leak)
            )
    sgd = [lu2021.CurvePoint(method="DP-SGD (rdp)", epsilon=e, claimed=e, loss=0.9, leak=0.0) for e in (1.0, 10.0)]
    return lu2021.SetResult(
        set=one,
        original=(1.0, 0.6068),
        convexified=(0.9916, 0.6484),
        leak=0.36,
        stability=10.85,
        answers=12_000,
        points=[*points, *sgd],
        untrained=[("DP-SGD (naive)", 0.01, 1e6)],
    )


@pytest.mark.parametrize("classes", [2, 30])
def test_published_curves_satisfy_every_statement(classes: int) -> None:
    made = held(as_published(classes))
    assert len(made) >= 14
    assert [claim.claim for claim in made if not claim.holds] == []


def moved(method: str, epsilon: float, **change: float) -> lu2021.SetResult:
    base = as_published()
    points = [
        replace(point, **change) if (point.method, point.epsilon) == (method, epsilon) else point
        for point in base.points
    ]
    return replace(base, points=points)


@pytest.mark.parametrize(
    ("measured", "failing"),
    [
        (moved(lu2021.GAUSSIAN, 0.01, loss=0.9), ["about half", "no more than Laplace"]),
        (moved(lu2021.GAUSSIAN, 50.0, loss=0.2), ["Acc_Loss falls", "loses no accuracy"]),
        (moved(lu2021.LAPLACE, 0.01, leak=0.2), ["at most exp(epsilon) - 1"]),
        (moved(lu2021.LAPLACE, 1000.0, leak=0.1), ["leak returns"]),
        (moved("DP-SGD (rdp)", 1.0, loss=0.1), ["than DP-SGD"]),
        (replace(as_published(), leak=0.8), ["Priv_Leak without noise", "leak returns", "leak returns"]),
        (replace(as_published(), convexified=(0.9916, 0.5)), ["test accuracy", "tests as well"]),
    ],
    ids=["plateau", "bump", "leak at small epsilon", "leak at large epsilon", "better DP-SGD", "leak", "accuracy"],
)
def test_each_statement_fails_where_it_is_wrong(measured: lu2021.SetResult, failing: list[str]) -> None:
    broken = [claim.claim for claim in held(measured) if not claim.holds]
    assert len(broken) == len(failing), broken
    assert all(text in name for text, name in zip(failing, broken, strict=True)), broken


def test_the_sets_that_the_paper_excepts_are_held_to_the_exception() -> None:
    excepted = replace(as_published(), set=Row(**vars(as_published().set) | {"name": "adult", "row": "US Adult"}))
    better = replace(moved("DP-SGD (rdp)", 10.0, loss=-0.2), set=excepted.set)
    found = [next(claim for claim in held(one) if "an exception" in claim.claim).holds for one in (excepted, better)]
    assert found == [False, True]
