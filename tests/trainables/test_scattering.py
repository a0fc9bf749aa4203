"""The scattering map against convolutions written out as sums, and against numbers that kymatio gave."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
import torch

from trainables.features.scattering import CHANNELS, Scattering

SIDE = 8
PADDED = SIDE + 8


def picture(side: int) -> np.ndarray:
    """A picture by a formula, so that another program can be asked about it."""
    y, x = np.mgrid[:side, :side]
    return ((np.sin(0.7 * x + 0.3 * y) + np.cos(0.45 * y * x / side)) / 4 + 0.5).astype(np.float32)


def gabor(width: float, angle: float, frequency: float, slant: float) -> np.ndarray:
    """The periodic filter at each pixel of the padded image, one after the other."""
    found = np.zeros((PADDED, PADDED), dtype=complex)
    for i in range(PADDED):
        for j in range(PADDED):
            for down in range(-3, 4):
                for right in range(-3, 4):
                    y, x = i + down * PADDED, j + right * PADDED
                    along, across = math.cos(angle) * y + math.sin(angle) * x, math.cos(angle) * x - math.sin(angle) * y
                    size = math.exp(-(along**2 + slant**2 * across**2) / (2 * width**2))
                    found[i, j] += size * cmath.exp(1j * frequency * along)
    return found * slant / (2 * math.pi * width**2)


def morlet(scale: int, direction: int) -> np.ndarray:
    angle = (3 - direction) * math.pi / 8
    wave, envelope = (gabor(0.8 * 2**scale, angle, f, 0.5) for f in (0.75 * math.pi / 2**scale, 0.0))
    return wave - wave.sum() / envelope.sum() * envelope


def convolved(values: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """sum_v values[v] kernel[u - v], indices modulo the side."""
    side, found = len(values), np.zeros(values.shape, dtype=complex)
    places = np.arange(side)
    for i in range(side):
        for j in range(side):
            found[i, j] = (values * kernel[np.ix_((i - places) % side, (j - places) % side)]).sum()
    return found


def halved_phi(phi: np.ndarray) -> np.ndarray:
    """phi at every second pixel, cut off at the frequencies that are left: by its Fourier sums."""
    half, axis = PADDED // 2, phi.real.sum(0) / math.sqrt(phi.real.sum())
    low = [k if k < half // 2 else k + half for k in range(half)]
    spectrum = [sum(axis[n] * cmath.exp(-2j * math.pi * k * n / PADDED) for n in range(PADDED)) for k in low]
    row = [
        sum(spectrum[k] * cmath.exp(2j * math.pi * k * n / half) for k in range(half)).real / half for n in range(half)
    ]
    return np.outer(row, row)


def by_sums(image: np.ndarray) -> np.ndarray:
    x, phi = np.pad(image.astype(float), 4, mode="reflect"), gabor(1.6, 0.0, 0.0, 1.0)
    half = halved_phi(phi)
    first, second = ([morlet(scale, one) for one in range(8)] for scale in (0, 1))
    fine = [np.abs(convolved(x, one)) for one in first]
    coarse = [np.abs(convolved(x, one))[::2, ::2] for one in second]
    crossed = [np.abs(convolved(u, one))[::2, ::2] for u in fine for one in second]
    rows = [convolved(one, phi)[4:-4:4, 4:-4:4] for one in (x, *fine)]
    rows += [convolved(one, half)[2:-2:2, 2:-2:2] for one in (*coarse, *crossed)]
    return np.stack(rows).real


def test_it_is_what_sums_say() -> None:
    image = picture(SIDE)
    said = Scattering(SIDE, SIDE)(torch.from_numpy(image)[None])[0].numpy()
    assert said.shape == (CHANNELS, 2, 2) == (81, 2, 2)
    assert np.abs(said - by_sums(image)).max() < 2e-6


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
    """Sums of absolute values of the filters are at most 1: bounds of the features are public, not measured."""
    assert all(np.abs(morlet(scale, one)).sum() < 1 for scale in (0, 1) for one in range(8))
    worst = torch.stack(
        [torch.ones(28, 28), (torch.arange(784).reshape(28, 28) % 2).float(), torch.rand(28, 28).round()]
    )
    assert float(Scattering(28, 28)(worst).max()) <= 1 + 1e-5
