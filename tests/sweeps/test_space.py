"""Domains and spaces: draws stay inside, grids are complete, configurations go round unchanged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.search.grid import SearchGrid
from sweeps.search.space import Space
from sweeps.spec.domains import Domain
from tests.sweeps.toys import spec_with

ends = st.tuples(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6)).map(sorted)
whole_ends = st.tuples(st.integers(1, 10_000), st.integers(1, 10_000)).map(sorted)
scalars = st.one_of(st.integers(-99, 99), st.text(min_size=1, max_size=5), st.floats(-9.5, 9.5).filter(lambda x: x % 1))
domains = st.one_of(
    st.builds(
        lambda kind, pair, points: Domain(kind=kind, low=pair[0], high=pair[1], points=points),
        st.sampled_from(["uniform", "log_uniform"]),
        ends,
        st.none() | st.integers(1, 9),
    ),
    st.builds(
        lambda kind, pair, points: Domain(kind=kind, low=pair[0], high=pair[1], points=points),
        st.sampled_from(["int_uniform", "int_log_uniform"]),
        whole_ends,
        st.none() | st.integers(1, 9),
    ),
    st.builds(
        lambda low, step, count: (
            Domain(kind="uniform", low=low / 8, high=round(low / 8 + step * count / 10, 6), step=step / 10)
            if low % 4 == 0
            else Domain(kind="int_uniform", low=low, high=low + step * count, step=step)
        ),
        st.integers(-100, 100),
        st.integers(1, 9),
        st.integers(0, 40),
    ),
    st.builds(
        lambda values: Domain(kind="choice", values=tuple(values)),
        st.lists(scalars, min_size=1, max_size=5, unique=True),
    ),
)


@given(domain=domains, u=st.floats(0, 1, exclude_max=True))
def test_every_draw_is_inside_and_survives_json(domain: Domain, u: float) -> None:
    value = domain.draw(u)
    assert domain.contains(value)
    again = json.loads(json.dumps(value))
    assert type(again) is type(value)
    assert again == value


@given(domain=domains)
def test_the_ends_are_reached_and_nothing_beyond(domain: Domain) -> None:
    first, last = domain.draw(0.0), domain.draw(1 - 1e-16)
    if domain.kind == "choice":
        assert (first, last) == (domain.values[0], domain.values[-1])
    else:
        assert first == pytest.approx(domain.low, rel=1e-9)
        assert last == pytest.approx(domain.high, rel=1e-9)


@given(domain=domains)
def test_a_grid_is_inside_without_repeats(domain: Domain) -> None:
    if domain.kind != "choice" and not domain.integer and domain.points is None and domain.step is None:
        with pytest.raises(ValueError, match="points"):
            domain.grid()
        return
    values = domain.grid()
    assert all(domain.contains(value) for value in values)
    assert len(set(values)) == len(values)
    if domain.points:
        assert len(values) <= domain.points
    if domain.kind != "choice" and len(values) > 1:
        assert (values[0], values[-1]) == (domain.low, domain.high)


MIXED: dict[str, Any] = {
    "systems": {
        "valley": {"rate": {"choice": [0.1, 1.0, 10.0]}, "depth": {"int_uniform": [1, 4]}},
        "hill": {"rate": {"log_uniform": [0.1, 10], "points": 3}, "mode": {"choice": ["plain", "adaptive"]}},
    },
    "privacy": {"epsilon": [4, 1], "delta": 1e-5},
}


def test_configs_are_flat_complete_and_canonical() -> None:
    space = Space.of(spec_with(**MIXED))
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        config = space.draw(rng)
        seen.add((config["system"], config["target_epsilon"]))
        assert list(config) == ["system", "target_epsilon", *sorted(set(config) - {"system", "target_epsilon"})]
        assert space.misfit(json.loads(json.dumps(config))) == ""
        assert "noise_multiplier" not in config
        assert config["batch_size"] == 10
        assert ("depth" in config) == (config["system"] == "valley")
    assert seen == {(system, epsilon) for system in ("hill", "valley") for epsilon in (1.0, 4.0)}


def walked(space: Space) -> Iterator[dict[str, Any]]:
    """Every grid point: systems and budgets outermost, the last knob innermost."""
    for branch in space.branches:
        for epsilon in space.epsilons:
            for values in product(*(domain.grid() for domain in branch.searched.values())):
                yield space.config(branch, epsilon, dict(zip(branch.searched, values, strict=True)))


def test_grid_points_are_found_without_walking() -> None:
    space = Space.of(spec_with(**MIXED))
    points = list(walked(space))
    grid = SearchGrid.of(space)
    assert len(points) == len(grid) == 2 * (3 * 2 + 3 * 4)
    assert [grid.point(i) for i in range(len(points))] == points
    assert len({json.dumps(point) for point in points}) == len(points)
    with pytest.raises(IndexError):
        grid.point(len(points))
