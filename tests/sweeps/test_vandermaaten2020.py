"""The figures of van der Maaten & Hannun 2020: statements against known curves, and a small run on real data."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from sweeps.reproductions import Effort, reproduce
from sweeps.reproductions.sweeping import full_grid
from sweeps.reproductions.vandermaaten2020 import figures
from sweeps.reproductions.vandermaaten2020.parts import Scope, parts
from sweeps.reproductions.vandermaaten2020.results import Point
from sweeps.workspace import Workspace

DATA = Path(os.environ.get("SWEEPS_DATA", Path(__file__).parents[3] / "shared" / "data"))
POINT = Point(
    part="fig1-pure",
    method="model sensitivity",
    delta=0.0,
    epsilon=1.0,
    queries=0,
    n=60_000,
    dimension=784,
    classes=10,
    models=0,
    weight=0.1,
    others=(),
    accuracy=0.5,
    answers=10_000,
)


def panel(levels: dict[str, tuple[float, float]]) -> list[Point]:
    """Two epsilons of Figure 1a, by method."""
    points = []
    for method, accuracies in levels.items():
        for epsilon, accuracy in zip((1.0, 2.0), accuracies, strict=True):
            models = 256 if method == "subsample-and-aggregate" else 0
            points.append(replace(POINT, method=method, epsilon=epsilon, accuracy=accuracy, models=models))
    return points


def answer(points: list[Point], statement: str) -> bool | None:
    (claim,) = [claim for claim in figures.claims(points) if claim.claim == statement]
    return claim.holds


def test_the_best_mean_over_regularisation_is_shown_not_the_best_run() -> None:
    lucky = [replace(POINT, weight=0.5, accuracy=value) for value in (0.9, 0.1)]
    steady = [replace(POINT, weight=0.1, accuracy=value) for value in (0.6, 0.6)]
    curve = figures.panels([*lucky, *steady]).epsilon_pure["model sensitivity"]
    assert curve.mean == (0.6,)
    assert curve.spread == (0.0,)


@pytest.mark.parametrize(
    ("levels", "holds"),
    [
        ({"loss perturbation": (0.5, 0.5), "subsample-and-aggregate": (0.6, 0.7)}, True),
        ({"loss perturbation": (0.65, 0.8), "subsample-and-aggregate": (0.6, 0.7)}, False),
    ],
)
def test_who_leads_is_read_from_the_curves(levels: dict[str, tuple[float, float]], holds: bool) -> None:
    assert answer(panel(levels), "F1a: S&A best for most epsilons (beta corrected)") is holds


def test_a_lead_that_few_answers_cannot_tell_is_undecided() -> None:
    levels = {"loss perturbation": (0.53, 0.9), "prediction sensitivity": (0.1, 0.1), "model sensitivity": (0.5, 0.8)}
    statement = "F1a: loss perturbation best at the smallest epsilon"
    assert answer(panel(levels), statement) is True
    few = [replace(point, answers=100) for point in panel(levels)]
    assert answer(few, statement) is None
    worse = panel(levels | {"model sensitivity": (0.6, 0.8)})
    assert answer(worse, statement) is False


def test_the_published_temperature_is_the_corrected_one_at_twice_epsilon() -> None:
    points = panel({"loss perturbation": (0.5, 0.5), "subsample-and-aggregate": (0.4, 0.7)})
    curves = figures.panels(points).epsilon_pure
    assert curves["subsample-and-aggregate, beta as published"].at(1.0) == 0.7
    assert curves["subsample-and-aggregate"].at(1.0) == 0.4


def test_what_was_not_run_is_not_answered() -> None:
    assert {claim.holds for claim in figures.claims([])} == {None}


def test_beta_as_published_does_not_hold_its_epsilon() -> None:
    """eps/B is refuted for every B; the proved beta lies between its half and itself."""
    claims = figures.temperatures()
    assert [claim.holds for claim in claims] == [False] * 4
    assert claims[2].published == 0.01
    assert all(0.5 * claim.published <= claim.ours < claim.published for claim in claims)


@pytest.mark.parametrize("effort", [Effort(), Effort(grid="paper"), Effort(quick=True)])
def test_every_part_is_a_valid_sweep(effort: Effort, tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    names = []
    for part in parts(Scope.of(effort), tmp_path):
        spec = full_grid(part)
        names.append(spec.name)
        assert spec.search.trials >= 2
    assert len(names) == len(set(names))


@pytest.mark.skipif(
    not (DATA / "mnist").is_dir(), reason=f"FIGURES NOT REPRODUCED: no folder {DATA}/mnist. Set SWEEPS_DATA to it."
)
def test_quick_runs_on_real_data_and_is_read_again(tmp_path: Path) -> None:
    effort = Effort(quick=True)
    result = reproduce("vandermaaten2020", DATA, Workspace.at(tmp_path), effort, print)
    tried = [claim for claim in result.claims if claim.claim.startswith("F1") and claim.holds is not None]
    assert len(tried) >= 7
    assert result.plots[0].stat().st_size > 10_000
    assert any("--quick" in line for line in result.cut)
    again = reproduce("vandermaaten2020", DATA, Workspace.at(tmp_path), effort, print)
    assert again.claims == result.claims


def test_every_size_below_the_full_grid_is_said_with_both_numbers() -> None:
    quick, coarse, paper = (Scope.of(one).cut() for one in (Effort(quick=True), Effort(), Effort(grid="paper")))
    assert "epochs of DP-SGD 2 instead of 20" in quick
    assert "votes elsewhere 32 instead of 256" in quick
    assert "epochs of DP-SGD 10 instead of 20" in coarse
    assert "clip norms of DP-SGD 0.3, 1 instead of 0.03, 0.1, 0.3, 1" in coarse
    assert "repeats 2 instead of 5" in coarse
    assert not [line for line in paper if "instead of" in line]
