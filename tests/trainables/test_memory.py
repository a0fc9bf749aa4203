"""Peak memory of one launch, not of all that its process ran before."""

import numpy as np

from trainables import memory


def test_a_launch_does_not_inherit_the_peak_of_the_one_before():
    memory.forget_peak()
    before = memory.peak_mb()
    held = np.ones(40 << 20)
    large = memory.peak_mb()
    assert large > before + 300
    del held
    # The kernel counts pages in batches.
    assert memory.peak_mb() > large - 10
    memory.forget_peak()
    assert memory.peak_mb() < large - 250
