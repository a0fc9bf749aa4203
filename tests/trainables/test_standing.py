"""What a worker of a sealed search keeps between its slots comes back as it was written."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainables.sealed.standing import Candidate, Standing

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4)
STATE = {
    "head.weight": WEIGHT.T,
    "head.every_other": WEIGHT[:, ::2],
    "steps": np.array(7, dtype=np.int64),
    "seen": np.array([True, False]),
    "nothing": np.zeros((0, 3)),
}
BEST = Candidate(slot=3, rank=(0.5, -math.pi), metrics={"accuracy": 0.9858, "loss": 1 / 3}, state=STATE)


def test_a_standing_comes_back_bit_by_bit() -> None:
    read = Standing.from_bytes(Standing(following=4, written=2, best=BEST).to_bytes())
    assert (read.following, read.written) == (4, 2)
    assert read.best is not None
    assert (read.best.slot, read.best.rank, dict(read.best.metrics)) == (3, BEST.rank, dict(BEST.metrics))
    assert read.best.state.keys() == STATE.keys()
    for name, value in STATE.items():
        came = read.best.state[name]
        assert (came.dtype, came.shape) == (value.dtype, value.shape)
        # A view of a transposed or strided tensor is written by its values, not by the memory behind it.
        assert np.array_equal(came, value)


@pytest.mark.parametrize("best", [None, BEST])
def test_the_same_standing_is_the_same_bytes(best: Candidate | None) -> None:
    one = Standing(following=1, written=0, best=best)
    assert one.to_bytes() == one.to_bytes()
    assert (Standing.from_bytes(one.to_bytes()).best is None) == (best is None)
