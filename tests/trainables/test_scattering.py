"""The scattering map against numbers that kymatio gave."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from trainables.features.scattering import Scattering


def picture(side: int) -> np.ndarray:
    """A picture by a formula, so that another program can be asked about it."""
    y, x = np.mgrid[:side, :side]
    return ((np.sin(0.7 * x + 0.3 * y) + np.cos(0.45 * y * x / side)) / 4 + 0.5).astype(np.float32)


KYMATIO = {
    (0, 0, 0): 0.9222289,
    (0, 3, 4): 0.3753201,
    (1, 2, 5): 0.04466228,
    (6, 0, 6): 0.01665622,
    (9, 1, 1): 0.07811563,
    (16, 6, 3): 0.03671938,
    (17, 3, 3): 0.004526218,
    (40, 5, 0): 0.001810931,
    (80, 6, 6): 0.003660459,
}


@pytest.mark.parametrize("place", KYMATIO)
def test_it_says_what_kymatio_says(place: tuple[int, int, int]) -> None:
    """kymatio 0.3.0, Scattering2D(J=2, shape=(28, 28)); it writes pi as 3.1415, and its filters are complex64."""
    said = Scattering(28, 28)(torch.from_numpy(picture(28))[None])[0]
    assert float(said[place]) == pytest.approx(KYMATIO[place], rel=2e-4)


def test_channels_of_a_picture_stand_one_after_the_other() -> None:
    pictures = torch.from_numpy(np.stack([picture(12), picture(12).T]))
    together = Scattering(12, 12)(pictures[None])
    assert torch.equal(together[0], Scattering(12, 12)(pictures).flatten(0, 1))


def test_no_number_exceeds_those_of_the_image() -> None:
    """Bounds of the features are public, not measured."""
    worst = torch.stack(
        [torch.ones(28, 28), (torch.arange(784).reshape(28, 28) % 2).float(), torch.rand(28, 28).round()]
    )
    assert float(Scattering(28, 28)(worst).max()) <= 1 + 1e-5
