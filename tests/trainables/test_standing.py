"""What a worker of a sealed search keeps between its slots comes back as it was written."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from trainables.sealed import Candidate, Standing, best_of

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4)
STATE = {
    "head.weight": WEIGHT.T,
    "head.every_other": WEIGHT[:, ::2],
    "steps": np.array(7, dtype=np.int64),
    "seen": np.array([True, False]),
    "nothing": np.zeros((0, 3)),
}
BEST = Candidate(slot=3, ranks=(0.5, -math.pi), metrics={"accuracy": 0.9858, "loss": 1 / 3}, state=STATE)

OTHER = Candidate(slot=5, ranks=(0.75, -4.0), metrics={"accuracy": 0.5}, state={"head.weight": WEIGHT})


def test_a_standing_comes_back_bit_by_bit() -> None:
    read = Standing.from_bytes(Standing(following=4, written=2, best=(BEST, OTHER)).to_bytes())
    assert (read.following, read.written) == (4, 2)
    first, other = read.best
    assert (first.slot, first.ranks, dict(first.metrics)) == (3, BEST.ranks, dict(BEST.metrics))
    assert (other.slot, other.ranks, list(other.state)) == (5, OTHER.ranks, ["head.weight"])
    assert first.state.keys() == STATE.keys()
    for name, value in STATE.items():
        came = first.state[name]
        assert (came.dtype, came.shape) == (value.dtype, value.shape)
        # A view of a transposed or strided tensor is written by its values, not by the memory behind it.
        assert np.array_equal(came, value)


@pytest.mark.parametrize("best", [(), (BEST,), (BEST, BEST), (OTHER, BEST)])
def test_the_same_standing_is_the_same_bytes(best: tuple[Candidate, ...]) -> None:
    one = Standing(following=1, written=0, best=best)
    assert one.to_bytes() == one.to_bytes()
    assert [found.slot for found in Standing.from_bytes(one.to_bytes()).best] == [found.slot for found in best]


def test_each_order_has_its_own_best_and_equal_ones_are_parted_by_their_slots() -> None:
    assert best_of() == ()
    assert [one.slot for one in best_of(BEST, OTHER)] == [3, 5]
    assert [one.slot for one in best_of(OTHER, BEST)] == [3, 5]
    equal = replace(BEST, slot=1)
    assert [one.slot for one in best_of(BEST, equal, OTHER)] == [1, 5]
