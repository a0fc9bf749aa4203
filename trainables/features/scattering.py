"""Wavelet scattering of images: what stays of an image when it is moved a little, by fixed filters that nobody learnt.

Source   Mallat 2012; Bruna & Mallat 2013; Oyallon & Mallat 2015. Filters, padding and order of channels are those of
         kymatio (Andreux et al. 2020, BSD-3), which is not used itself: it needs a SciPy before 1.17.
Form     J = 2 scales, L = 8 directions, orders 0 to 2. With Morlet wavelets psi[j, l] and a Gaussian phi of 4 pixels,

             S0 = x * phi                                      1 channel
             S1 = |x * psi[j, l]| * phi                       16, j = 0, 1 and in each l = 0..7
             S2 = ||x * psi[0, l]| * psi[1, m]| * phi         64, l and in each m

         read at every fourth pixel: 81 channels of a quarter of the height and width. The image is continued by
         reflection, then periodically. |x * psi[1, l]| varies slowly enough to be kept at every second pixel, and phi
         is there cut off at the frequencies that are left.

No record's features depend on another, and no record had a part in the filters. B images, C channels, P x Q pixels.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

SCALES, DIRECTIONS = 2, 8
STRIDE = 2**SCALES
CHANNELS = 1 + SCALES * DIRECTIONS + DIRECTIONS**2
"""Of each channel of an image."""
_WIDTH, _FREQUENCY, _SLANT = 0.8, 3 * math.pi / 4, 4 / DIRECTIONS
_PERIODS = range(-2, 3)
"""Copies of a filter that are added up where it is longer than the image; further ones are zero in float32."""


class Scattering(nn.Module):
    """Images [B, height, width] or [B, C, height, width] to [B, 81 C, height / 4, width / 4], float32.

    height, width  multiples of 4 of at least 8
    """

    first: Tensor
    second: Tensor

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        sides = height + 2 * STRIDE, width + 2 * STRIDE
        banks = (np.stack([_wavelet(sides, scale, one) for one in range(DIRECTIONS)]) for scale in range(SCALES))
        for name, bank in zip(("first", "second"), banks, strict=True):
            self.register_buffer(name, torch.from_numpy(bank.astype(np.float32)), persistent=False)
        for level in range(SCALES):
            for axis, side in enumerate(sides):
                rows = torch.from_numpy(_low_pass(side, level).astype(np.float32))
                self.register_buffer(f"low_{level}_{axis}", rows, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        x_BCHW = images.unsqueeze(1) if images.ndim == 3 else images
        x_BCPQ = functional.pad(x_BCHW, (STRIDE, STRIDE, STRIDE, STRIDE), mode="reflect")
        spectrum = torch.fft.fft2(x_BCPQ)
        fine = torch.fft.ifft2(spectrum.unsqueeze(2) * self.first).abs()
        coarse = self._halved(spectrum.unsqueeze(2) * self.second)
        crossed = self._halved(torch.fft.fft2(fine).unsqueeze(3) * self.second)
        channels = (
            self._averaged(x_BCPQ, 0).unsqueeze(2),
            self._averaged(fine, 0),
            self._averaged(coarse, 1),
            self._averaged(crossed, 1).flatten(2, 3),
        )
        return torch.cat(channels, 2).flatten(1, 2)

    def _halved(self, spectrum: Tensor) -> Tensor:
        """Moduli, at every second pixel, of what has this spectrum."""
        height, width = spectrum.shape[-2] // 2, spectrum.shape[-1] // 2
        folded = spectrum.unflatten(-1, (2, width)).mean(-2).unflatten(-2, (2, height)).mean(-3)
        return torch.fft.ifft2(folded).abs()

    def _averaged(self, values: Tensor, level: int) -> Tensor:
        """`values` * phi at every fourth pixel of the image, without what was added around it."""
        rows, columns = getattr(self, f"low_{level}_0"), getattr(self, f"low_{level}_1")
        return rows @ (values @ columns.T)


def _wavelet(sides: tuple[int, int], scale: int, direction: int) -> NDArray[np.float64]:
    """The spectrum of psi[scale, direction], which is real: [P, Q]. Its value at frequency 0 is 0."""
    angle = (DIRECTIONS // 2 - 1 - direction) * math.pi / DIRECTIONS
    width, frequency = _WIDTH * 2**scale, _FREQUENCY / 2**scale
    wave, envelope = (_gabor(sides, width, angle, one) for one in (frequency, 0.0))
    found: NDArray[np.float64] = np.fft.fft2(wave - wave.sum() / envelope.sum() * envelope).real
    return found


def _gabor(sides: tuple[int, int], width: float, angle: float, frequency: float) -> NDArray[np.complex128]:
    """A Gaussian of this width along `angle` and wider by 1 / slant across, times a wave; continued periodically."""
    total = np.zeros(sides, dtype=np.complex128)
    for down in _PERIODS:
        for right in _PERIODS:
            y = np.arange(sides[0])[:, None] + down * sides[0]
            x = np.arange(sides[1])[None, :] + right * sides[1]
            along, across = math.cos(angle) * y + math.sin(angle) * x, math.cos(angle) * x - math.sin(angle) * y
            total += np.exp(-(along**2 + (_SLANT * across) ** 2) / (2 * width**2) + 1j * frequency * along)
    return total * _SLANT / (2 * math.pi * width**2)


def _low_pass(side: int, level: int) -> NDArray[np.float64]:
    """phi along one axis of values that stand at every (2^level)-th pixel: [side / 4 - 2, side / 2^level]."""
    width = _WIDTH * 2 ** (SCALES - 1)
    places = np.arange(side)
    kernel = sum(np.exp(-((places + k * side) ** 2) / (2 * width**2)) for k in _PERIODS)
    spectrum = np.fft.fft(kernel / math.sqrt(2 * math.pi * width**2))
    kept = side // 2**level
    spectrum = np.concatenate([spectrum[: kept // 2], spectrum[side - (kept - kept // 2) :]])
    kernel = np.fft.ifft(spectrum).real
    step = STRIDE // 2**level
    read = step * np.arange(1, side // STRIDE - 1)
    found: NDArray[np.float64] = kernel[(read[:, None] - np.arange(kept)) % kept]
    return found
