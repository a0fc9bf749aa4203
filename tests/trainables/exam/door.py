"""The door through which noise and secret batches come, with its secure source replaced by one that can be watched.

A system that draws around the door is seen: it asks for the stream of the other source, or draws nothing here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from dpcore.noise import Keystream, SecureNoise
from dpcore.randomness import Purpose, Streams
from dpcore.sampling import PoissonSampling
from trainables.training import noise


class AroundTheDoor(AssertionError):
    """Somebody asked for what the chosen source does not give."""


class Repeatable(SecureNoise):
    """Stands in for the secure source: on a keystream that can be had again, counting the normals drawn."""

    def __init__(self, keystream: Keystream, told: Callable[[int], None]) -> None:
        super().__init__()
        self._keystream, self._told = keystream, told

    def normals(self, shape):
        self._told(int(np.prod(shape)))
        return super().normals(shape)

    def fill_(self, tensor):
        self._told(tensor.numel())
        return super().fill_(tensor)


class Constant(SecureNoise):
    """The same number each time."""

    def normals(self, shape):
        return np.full(shape, 0.5)

    def fill_(self, tensor):
        with torch.no_grad():
            return tensor.fill_(0.5)


class Everybody:
    """Coins that draw every record into every batch."""

    def random(self, size=None):
        return np.zeros(size) if size is not None else 0.0


class Door:
    """What one fit asks of the door under `noise_source: secure`.

    told     hears how many normals are drawn, before they are
    batches  how many Poisson batches were drawn
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        self.seed, self.sources, self.keys, self.batches, self.drawn = seed, 0, 0, 0, 0
        self.told: Callable[[int], None] = lambda count: None
        derived_seed, self._derived = Streams.derived_seed, Keystream.derived
        indices = PoissonSampling.indices

        def no_noise(streams, purpose, step=None):
            if Purpose(purpose) in (Purpose.NOISE, Purpose.REPORT):
                raise AroundTheDoor("the pseudorandom stream of noise was asked for")
            return derived_seed(streams, purpose, step)

        def coins(key):
            self.keys += 1
            return self._derived(key)

        def batch(*arguments):
            self.batches += 1
            return indices(*arguments)

        def no_generator(key):
            raise AroundTheDoor("pseudorandom batches were asked for")

        monkeypatch.setattr(Streams, "derived_seed", no_noise)
        monkeypatch.setattr(noise, "SecureNoise", self.source)
        monkeypatch.setattr(noise, "numpy_generator", no_generator)
        monkeypatch.setattr(noise.Keystream, "derived", coins)
        monkeypatch.setattr(PoissonSampling, "indices", batch)

    def source(self) -> SecureNoise:
        key = hashlib.sha256(f"{self.seed}/{self.sources}".encode()).digest()
        self.sources += 1
        return Repeatable(self._derived(key), self._count)

    def _count(self, count: int) -> None:
        self.drawn += count
        self.told(count)


@contextmanager
def watched(seed: int = 1) -> Iterator[Door]:
    """The secure source replaced by a repeatable one."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Door(monkeypatch, seed)


@contextmanager
def without_chance() -> Iterator[None]:
    """Noise that is always the same, and every record in every batch: a training is what its state carries."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(noise, "SecureNoise", Constant)
        monkeypatch.setattr(noise.Keystream, "derived", lambda key: Everybody())
        yield
