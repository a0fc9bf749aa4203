"""Where standard normal noise comes from: a fast seeded source and a cryptographic one, behind one protocol.

Proofs are over the reals; both sources add floating-point numbers. Each says what that leaves open in
`floating_point`, and a claim prints it (Mironov 2012: the low bits of textbook samplers leak).
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

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


KEY_BYTES = 32
_BLOCK = 16


class Keystream:
    """The bytes that follow from one key, in order.

    Without a key the operating system chooses one, which is kept nowhere else; a forked process then draws another,
    since two processes with one key would repeat each other. With a key (`derived`) the stream is repeatable by
    whoever holds it, in any process.
    """

    _pid: int | None
    _zeros: memoryview
    _encryptor: CipherContext

    def __init__(self) -> None:
        self._draw_key()

    @classmethod
    def derived(cls, key: bytes) -> Keystream:
        """The stream of `key`, 32 secret bytes (`dpcore.randomness.Streams.derived_seed`). Raises ValueError."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"key: {len(key)} bytes, expected {KEY_BYTES}")
        stream = cls.__new__(cls)
        stream._pid = None
        stream._start(key, bytes(_BLOCK))
        return stream

    def into(self, buffer: bytearray, count: int) -> None:
        """Overwrite the first `count` bytes of `buffer`, which is at least 15 bytes longer (the cipher asks for it)."""
        if self._pid is not None and os.getpid() != self._pid:
            self._draw_key()
        if len(self._zeros) < count:
            self._zeros = memoryview(bytes(count))
        self._encryptor.update_into(self._zeros[:count], buffer)

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words of 64 bits, in an array of their own."""
        buffer = bytearray(8 * count + _BLOCK - 1)
        self.into(buffer, 8 * count)
        return np.frombuffer(buffer, dtype=np.uint64, count=count)

    def random(self, size: int) -> NDArray[np.float64]:
        """Uniform on [0, 1), multiples of 2^-53, as NumPy's generators draw them; shape [size]."""
        return (self.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def _draw_key(self) -> None:
        self._pid = os.getpid()
        self._start(os.urandom(KEY_BYTES), os.urandom(_BLOCK))

    def _start(self, key: bytes, counter: bytes) -> None:
        self._zeros = memoryview(b"")
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()


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


# Few enough for every buffer to stay in a core's own cache, enough to outweigh the calls.
_PAIRS = 16384


class SinglePrecision:
    """Normals for float32 tensors at the speed of a training step: buffers, and the keystream that fills them.

    A pair (Box & Muller 1958) takes 12 bytes: 8 for its radius, whose logarithm is taken in float64 since the tail lies
    in its last bits, and 4 for its angle, of which float32 keeps 24 bits or more.
    """

    def __init__(self, keystream: Keystream) -> None:
        import torch

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
        import torch

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
