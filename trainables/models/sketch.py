"""Tensors in a few numbers: enough to tell other tensors, and blind to the last digits in which machines differ.

Of each tensor v under its name, u = v / |v|, with signs a (n x 8) that follow from name, type and shape alone:

    sum over tensors of u a,   and of c log |v|, with c in [1, 2) likewise.

Where a tensor moves by a share r of its length, each of the eight sums moves by about r in either direction; float32
moves them by 1e-7. So r = 1e-3 passes as equal with probability 1e-9, and a file of other weights never does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Sketch = NDArray[np.float64]
"""[11]: how many tensors, how many numbers, and the nine sums."""

SLACK = 1e-4
_BLOCK = 1 << 18


def sketch(tensors: Mapping[str, Tensor]) -> Sketch:
    """That of tensors by name."""
    found = np.zeros(11)
    for name in sorted(tensors):
        found += _of(name, tensors[name].detach().cpu())
    return found


def alike(one: Sketch, other: Sketch) -> bool:
    """Whether two sketches are of the same tensors, up to rounding."""
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=0, atol=SLACK))


def untrained(model: nn.Module) -> dict[str, Tensor]:
    """What training never moves: frozen parameters, and buffers that are kept in no state either."""
    frozen = {name: one for name, one in model.named_parameters() if not one.requires_grad}
    return {**frozen, **dict(model.named_buffers())}


def to_list(found: Sketch) -> list[float]:
    """For a record, without digits that say nothing."""
    return [round(one, 8) for one in found.tolist()]


def _of(name: str, tensor: Tensor) -> Sketch:
    values = (torch.view_as_real(tensor) if tensor.is_complex() else tensor).double().reshape(-1).numpy()
    values = np.nan_to_num(values, nan=0.5, posinf=2.0**60, neginf=-(2.0**60))
    seed = hashlib.sha256(f"{name}:{tensor.dtype}:{tuple(tensor.shape)}".encode()).digest()
    length = float(np.linalg.norm(values))
    weight = 1 + int.from_bytes(seed[8:12], "big") / 2**32
    if length == 0:
        return np.array([1.0, len(values), weight, *[0.0] * 8])
    sums = sum((values[part] @ signs for part, signs in _signs(seed, len(values))), np.zeros(8))
    return np.array([1.0, len(values), weight * np.log(length), *(sums / length)])


def _signs(seed: bytes, n: int) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """[n, 8] of 1 and -1, in blocks: the bits of a byte for each number."""
    source = np.random.PCG64(int.from_bytes(seed[:8], "big"))
    for start in range(0, n, _BLOCK):
        count = min(_BLOCK, n - start)
        drawn = source.random_raw(-(-count // 8)).astype("<u8").view(np.uint8)[:count]
        bits = np.unpackbits(drawn[:, None], axis=1)
        yield slice(start, start + count), 1.0 - 2.0 * bits.astype(np.float64)
