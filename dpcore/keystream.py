"""An AES-256-CTR keystream: bytes that nobody without the key tells from coin tosses (NIST SP 800-38A; FIPS 197)."""

from __future__ import annotations

import os

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

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
