"""Normals for float32 tensors from a keystream, at the speed of a training step: Box & Muller (1958) over PyTorch.

A pair takes 12 bytes: 8 for its radius, whose logarithm is taken in float64 since the tail lies in its last bits, and
4 for its angle, of which float32 keeps 24 bits or more.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dpcore.keystream import Keystream

# Few enough for every buffer to stay in a core's own cache, enough to outweigh the calls.
_PAIRS = 16384


class SinglePrecision:
    """Buffers, and one keystream that they are filled from."""

    def __init__(self, keystream: Keystream) -> None:
        self._keystream = keystream
        # A block cipher asks for one block less one byte of room behind its output.
        self._stream = bytearray(12 * _PAIRS + 15)
        self._halves = torch.frombuffer(self._stream, dtype=torch.int32, count=3 * _PAIRS)
        self._radius, self._angle = torch.empty(_PAIRS), torch.empty(_PAIRS)

    def fill(self, flat: Tensor) -> None:
        """Overwrite `flat` (float32, contiguous, of shape [size], on the CPU) with independent N(0, 1) draws."""
        for start in range(0, len(flat), 2 * _PAIRS):
            self._fill(flat[start : start + 2 * _PAIRS])

    def _fill(self, part: Tensor) -> None:
        size, pairs = len(part), (len(part) + 1) // 2
        self._keystream.into(self._stream, 12 * pairs)
        words = self._halves[: 2 * pairs].view(torch.int64)
        # 52 random bits under the exponent of 1.0: a float64 in [1, 2), without an integer conversion.
        words.bitwise_and_(0x000FFFFFFFFFFFFF).bitwise_or_(0x3FF0000000000000)
        # Minus 1, plus half a cell: strictly between 0 and 1, and exact.
        uniform = words.view(torch.float64).sub_(1.0 - 2.0**-53)
        radius = self._radius[:pairs].copy_(uniform.log_()).mul_(-2.0).sqrt_()
        angle = self._angle[:pairs].copy_(self._halves[2 * pairs : 3 * pairs]).mul_(math.pi * 2.0**-31)
        both = part.view(2, pairs) if size % 2 == 0 else torch.empty(2, pairs)
        torch.cos(angle, out=both[0])
        torch.sin(angle, out=both[1])
        both.mul_(radius)
        if size % 2:
            part.copy_(both.view(-1)[:size])
