"""Numbers do not move: what is computed now is what was frozen, or the difference is listed with its reason."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore import calibrate
from dpcore.gradients import clipped as releases
from tests.corpus import compare, doors, freeze
from tests.corpus.compare import Difference


def unexplained(found: list[Difference]) -> list[str]:
    known = compare.known_differences()
    return [str(one) for one in found if not any(entry.covers(one) for entry in known)]


@pytest.mark.parametrize("part", freeze.CHEAP)
def test_numbers_do_not_move(part):
    assert unexplained(compare.compared(part, freeze.PARTS[part]())) == []


@pytest.mark.corpus
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", [part for part in freeze.PARTS if part not in freeze.CHEAP])
def test_no_number_of_a_sweep_a_source_or_a_publication_moves(part):
    assert unexplained(compare.compared(part, freeze.PARTS[part]())) == []


@pytest.mark.corpus
@pytest.mark.timeout(3000)
def test_every_listed_difference_is_one():
    known = compare.known_differences()
    parts = {entry.where.split(" > ")[0] for entry in known}
    found = [one for part in parts for one in compare.compared(part, freeze.PARTS[part]())]
    assert [entry.where for entry in known if not any(entry.covers(one) for one in found)] == []


def test_every_listed_difference_has_a_reason():
    assert [entry.where for entry in compare.known_differences() if len(entry.reason) < 30] == []


def test_every_system_source_example_and_paper_is_frozen():
    words = {part: {name.split(" / ")[0] for name in compare.frozen(part)[1]} for part in freeze.PARTS}
    systems = {name.split(",")[0].strip() for name in words["fits"]} & {name.split(",")[0] for name in words["plans"]}
    assert systems >= set(doors.SYSTEMS) - OUTSIDE
    assert {name.split()[0] for name in words["sources"]} >= set(doors.SOURCES) - {"table"}
    assert {path.stem for path in doors.EXAMPLES.glob("*.yaml")} - LATER <= words["specs"] & words["sweeps"]
    assert set(doors.PAPERS) <= words["claims"] & {name.split("-")[0] for name in words["published"]}


OUTSIDE: set[str] = set()
"""Systems that were registered after the corpus was frozen."""
LATER = {"mnist-record"}
"""Examples likewise."""


# What the corpus would find


SYSTEM = "noisy-sgd"


def moved(part: str) -> set[str]:
    """Where the first system of gradients differs in a part."""
    found = compare.compared(part, freeze.PARTS[part](SYSTEM))
    return {one.where for one in found if one.now != compare.ABSENT}


def test_a_noise_multiplier_that_is_rounded_is_found(monkeypatch):
    # By more than another machine may differ.
    solve = calibrate.solve
    monkeypatch.setattr(calibrate, "solve", lambda *args, **kwargs: math.ceil(solve(*args, **kwargs) * 1e3) / 1e3)
    found = moved("plans")
    assert "plans > noisy-sgd / add-remove / noise > plan > config > noise_multiplier" in found
    assert "plans > noisy-sgd / add-remove / noise > plan > claim > epsilon" in found


def test_another_divisor_is_found(monkeypatch):
    right = releases.noisy_mean_gradient

    def slightly_more(*args, expected_batch_size, **kwargs):
        return right(*args, expected_batch_size=expected_batch_size * (1 + 1e-4), **kwargs)

    assert moved("fits") == set()
    monkeypatch.setattr(releases, "noisy_mean_gradient", slightly_more)
    assert any(where.startswith("fits > noisy-sgd / two steps > arrays") for where in moved("fits"))


@pytest.mark.parametrize(
    ("frozen", "now"),
    [(1.0, math.nextafter(1.0, 2.0)), ({"a": 1}, {}), ({}, {"a": 1}), ([1, 2], [2, 1]), (1, True), ("a", "b")],
)
def test_on_its_own_machine_the_last_digit_counts(frozen, now):
    assert compare._Walk(exact=True).differences("x", frozen, now) != []


def test_elsewhere_an_array_may_differ_by_a_millionth_and_no_more():
    values = np.linspace(1, 2, 50)
    at, near, far = (freeze.array(one) for one in (values, values * (1 + 1e-9), values * (1 + 1e-5)))
    assert compare._Walk(exact=False).differences("x", at, near) == []
    assert compare._Walk(exact=False).differences("x", at, far) != []
    assert [one.near for one in compare._Walk(exact=True).differences("x", at, near)] == [True]
