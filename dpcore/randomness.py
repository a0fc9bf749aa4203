"""Named random streams: noise, sampling, initialisation and search never share a generator.

Each stream comes from its own 32-byte seed,

    HKDF-SHA256(entropy, info = purpose, key, attempt, step)        (Krawczyk & Eronen 2010, RFC 5869)

so that streams are computationally independent of each other, nothing depends on the order in which
they are asked for, and no global generator is read or set.

Two kinds of entropy, never exchanged:

secret  noise (of steps, and of reports on validation records) and sampling. Bytes from a cryptographic source, kept
        inside the release boundary.
        Whoever knows the noise stream subtracts the noise and holds the exact gradients; whoever
        knows the sampling stream knows which records were in each batch, and the amplification by
        subsampling, which the accounting relies on, is gone. A public or guessable seed (0, 42, the
        time) therefore voids the guarantee, though nothing visible changes.
seed    initialisation, augmentation and search. Public: the same seed gives the same proposals and the same
        starting weights, whatever the attempt.

The attempt is part of every secret stream, so a restored trial never uses old noise on other gradients. Where copies of
one sweep both go on, no number tells their attempts apart: only a secret that was drawn afresh does (`fresh_secret`).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from dpcore import checks

if TYPE_CHECKING:
    import torch

MINIMUM_SECRET_BYTES = 16
_SALT = b"dpcore.randomness.1"


class Purpose(StrEnum):
    """What a stream is for."""

    NOISE = "noise"
    SAMPLING = "sampling"
    REPORT = "report"
    INITIALISATION = "initialisation"
    AUGMENTATION = "augmentation"


SECRET_PURPOSES = frozenset({Purpose.NOISE, Purpose.SAMPLING, Purpose.REPORT})


def fresh_secret() -> bytes:
    """32 bytes from the operating system, for the streams of one session; whoever holds them keeps them in memory.

    Of two copies of a sweep's folder that both go on, each launches an attempt of the same key and number: under one
    secret the same noise would fall on other gradients, and the difference of two releases hold none.
    """
    return secrets.token_bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """The random streams of one trial.

    secret   at least 16 bytes from a cryptographic source, drawn anew by each process that launches trials
             (`fresh_secret`); never written, printed or published
    seed     public seed of the sweep, an integer of at least 0
    key      the trial's name, unique in the sweep
    attempt  how often this trial has been launched before; raised at each relaunch

    Raises InvalidValue on a short secret or a negative number.
    """

    secret: bytes = field(repr=False)
    seed: int
    key: str
    attempt: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.secret, bytes) or len(self.secret) < MINIMUM_SECRET_BYTES:
            raise checks.InvalidValue(
                "secret",
                "(hidden)",
                f"at least {MINIMUM_SECRET_BYTES} bytes from a cryptographic source",
                "Use fresh_secret(), once per process that launches, and write it nowhere.",
            )
        checks.count(seed=self.seed, attempt=self.attempt)

    def derived_seed(self, purpose: Purpose, step: int | None = None) -> bytes:
        """The 32-byte seed of one stream; `step` names a stream of its own within the purpose. Raises InvalidValue."""
        purpose = Purpose(purpose)
        if step is not None:
            checks.count(step=step)
        if purpose in SECRET_PURPOSES:
            entropy, attempt = self.secret, str(self.attempt)
        else:
            entropy, attempt = str(self.seed).encode(), "any"
        return _hkdf(entropy, (purpose.value, self.key, attempt, "all" if step is None else str(step)))

    def numpy(self, purpose: Purpose, step: int | None = None) -> np.random.Generator:
        """A NumPy generator at the start of the stream (see `numpy_generator`)."""
        return numpy_generator(self.derived_seed(purpose, step))

    def torch(self, purpose: Purpose, step: int | None = None, device: str = "cpu") -> torch.Generator:
        """A PyTorch generator at the start of the stream.

        On the CPU the whole state of the Mersenne Twister is derived, since `manual_seed` keeps only 32
        bits there and 2^32 seeds can be tried. On other devices the 64 bits of `manual_seed` are used.
        """
        return seeded_generator(self.derived_seed(purpose, step), device)


def numpy_generator(seed: bytes) -> np.random.Generator:
    """A generator at the start of the stream that `seed` names (PCG64DXSM; all 256 bits of the seed are used).

    For a process that is handed the 32 bytes of one stream, and not the secret that all streams follow from.
    """
    sequence = np.random.SeedSequence(int.from_bytes(seed, "big"), pool_size=8)
    return np.random.Generator(np.random.PCG64DXSM(sequence))


# Layout of torch.Generator("cpu").get_state(): seed u64, left i32, seeded i32, next u64, 624 words of
# MT19937 as u64, then the cached normal of earlier draws. A test draws from it and from NumPy's MT19937.
_WORDS = 624
_WORDS_AT = 24


def seeded_generator(seed: bytes, device: str = "cpu") -> torch.Generator:
    """A generator at the start of the stream that `seed` (32 bytes) names."""
    import torch

    generator = torch.Generator(device=device)
    generator.manual_seed(int.from_bytes(seed[:8], "little"))
    if generator.device.type == "cpu":
        state = generator.get_state()
        state[_WORDS_AT : _WORDS_AT + 8 * _WORDS] = torch.from_numpy(twister_words(seed).view(np.uint8).copy())
        generator.set_state(state)
    return generator


def twister_words(seed: bytes) -> np.ndarray:
    """The 624 words of MT19937 for `seed`, uint64 of shape [624], each below 2^32."""
    stream = hashlib.shake_256(b"mt19937" + seed).digest(4 * _WORDS)
    return np.frombuffer(stream, dtype="<u4").astype("<u8")


def _hkdf(entropy: bytes, parts: tuple[str, ...]) -> bytes:
    # Length prefixes: ("ab", "c") and ("a", "bc") must not give the same stream.
    info = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in parts)
    extracted = hmac.new(_SALT, entropy, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()
