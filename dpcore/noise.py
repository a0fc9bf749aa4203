"""Where standard normal noise comes from: a fast seeded source and a cryptographic one, behind one protocol.

Proofs are over the reals; both sources add floating-point numbers. Each says what that leaves open in
`floating_point`, and a claim prints it (Mironov 2012: the low bits of textbook samplers leak).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore.keystream import Keystream

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class NoiseSource(Protocol):
    """Fills tensors with independent N(0, 1) draws.

    name            how a report calls the source
    floating_point  one sentence for a claim: what finite precision and the generator leave uncovered
    """

    @property
    def name(self) -> str:
        """A word."""

    @property
    def floating_point(self) -> str:
        """A sentence."""

    def fill_(self, tensor: Tensor) -> Tensor:
        """Overwrite `tensor` (floating point, any shape and device) with fresh draws; returns it."""
        ...


class PseudorandomNoise:
    """PyTorch's own normal generator, in place; reproducible from the generator's state.

    The generator must come from secret entropy (`dpcore.randomness.Streams`): a known seed lets anybody
    subtract the noise. It is on the device of the tensors that it fills.
    """

    name = "pseudorandom"
    floating_point = (
        "floating-point: not covered (noise is added in floating point, on no grid); the generator is "
        "statistical, not cryptographic (noise_source: pseudorandom), and float32 draws from it end near "
        "6 standard deviations"
    )

    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def fill_(self, tensor: Tensor) -> Tensor:
        """See `NoiseSource.fill_`."""
        return tensor.normal_(generator=self._generator)


class SecureNoise:
    """Gaussian noise from an AES-256-CTR keystream whose key nobody chooses.

    The key comes from the operating system inside the constructor. There is no seed, no key and no state
    to pass in or out; a copy or a pickle is refused, since two copies would repeat each other's noise,
    and a forked process draws a new key. One object belongs to one thread.

    Pairs of uniforms become pairs of Gaussians (Box & Muller 1958). The radius is drawn from 52 bits in
    float64 and reaches 8.5 standard deviations; the probability of a larger one is below 2e-17. The angle
    has 52 bits for float64 tensors, and 32 bits, rounded to float32, for all narrower ones. Draws are made
    on the CPU.
    """

    name = "secure"
    floating_point = (
        "floating-point: not covered (noise is added in floating point, on no grid); the generator is "
        "cryptographic (noise_source: secure, AES-256-CTR), its draws reach 8.5 standard deviations and are "
        "rounded to the type that they are added in"
    )

    def __init__(self) -> None:
        self._keystream = Keystream()
        self._single: SinglePrecision | None = None

    def normals(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Fresh draws as an array, float64."""
        count = math.prod(shape)
        pairs = (count + 1) // 2
        words = self._keystream.words(2 * pairs)
        radius = np.sqrt(-2.0 * np.log(_uniform(words[:pairs])))
        angle = 2.0 * math.pi * _uniform(words[pairs:])
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count].reshape(shape)

    def fill_(self, tensor: Tensor) -> Tensor:
        """See `NoiseSource.fill_`. Raises TypeError for a tensor that is not in floating point."""
        import torch

        if not tensor.dtype.is_floating_point:
            raise TypeError(f"noise needs a floating-point tensor, got {tensor.dtype}")
        if tensor.dtype == torch.float64:
            drawn = torch.from_numpy(self.normals(tuple(tensor.shape)))
        else:
            if self._single is None:
                from dpcore.single_precision import SinglePrecision

                self._single = SinglePrecision(self._keystream)
            in_place = tensor.device.type == "cpu" and tensor.dtype == torch.float32 and tensor.is_contiguous()
            drawn = tensor.detach() if in_place else torch.empty(tensor.shape, dtype=torch.float32)
            self._single.fill(drawn.view(-1))
            if in_place:
                return tensor
        with torch.no_grad():
            return tensor.copy_(drawn)

    def __reduce__(self) -> str:
        raise TypeError("SecureNoise cannot be copied or pickled: a copy would repeat its noise. Make a new one.")


def _uniform(words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """52 of each word's bits as the middle of a cell: strictly between 0 and 1, and exact."""
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


if TYPE_CHECKING:
    from dpcore.single_precision import SinglePrecision
