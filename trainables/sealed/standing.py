"""What a worker keeps of the slots that it ran: how far it is, and the best by each order. What was worse is
overwritten. Records have one size, and each is encrypted for its own place (AES-256-GCM, a fresh random nonce).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from safetensors.numpy import load, save

from dpcore.checks import InvalidValue
from trainables.sealed.draw import Ranks
from trainables.system import State
from trainables.worker.files import Damaged

HEAD_BYTES = 65536
"""Of what is kept besides each model, at most."""
_SAID_BYTES = 32768
"""What is said is as long, however much it is: whether a model fits beside it follows from the model alone."""
_HEAD = "head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A trial that may leave.

    slot     its place in the draw
    ranks    by each order of the search; the smaller leaves
    metrics  that may leave with it
    state    of its model
    """

    slot: int
    ranks: Ranks
    metrics: Mapping[str, float]
    state: State

    def before(self, other: Candidate, order: int) -> bool:
        """Whether it leaves rather than `other`, by one order."""
        return (self.ranks[order], self.slot) < (other.ranks[order], other.slot)


def best_of(*candidates: Candidate) -> tuple[Candidate, ...]:
    """The one that leaves by each order; empty of none. One may leave by several."""
    best: list[Candidate] = []
    for found in candidates:
        best = best or [found] * len(found.ranks)
        best = [found if found.before(one, order) else one for order, one in enumerate(best)]
    return tuple(best)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a worker is.

    written  number of the announced time at which this was written; the larger is the newer
    following  the slot that it runs next
    best     by each order; empty while no trial may leave
    """

    following: int
    written: int = -1
    best: tuple[Candidate, ...] = ()

    def to_bytes(self) -> bytes:
        """As bytes that `from_bytes` reads."""
        best = [{"slot": one.slot, "ranks": list(one.ranks), "metrics": dict(one.metrics)} for one in self.best]
        said = {"following": self.following, "written": self.written, "best": best}
        head = np.frombuffer(json.dumps(said).encode().ljust(_SAID_BYTES), dtype=np.uint8)
        # As they lie in memory, whatever view of it the model has.
        arrays = {
            f"{order}.{name}": np.array(value, order="C")
            for order, one in enumerate(self.best)
            for name, value in one.state.items()
        }
        return save({_HEAD: head, **arrays})

    @classmethod
    def from_bytes(cls, body: bytes) -> Standing:
        """The inverse of `to_bytes`."""
        read = load(body)
        said = json.loads(read.pop(_HEAD).tobytes())
        best = []
        for order, one in enumerate(said["best"]):
            own = f"{order}."
            state = {name.removeprefix(own): value for name, value in read.items() if name.startswith(own)}
            best.append(Candidate(slot=one["slot"], ranks=tuple(one["ranks"]), metrics=one["metrics"], state=state))
        return cls(following=said["following"], written=said["written"], best=tuple(best))


KEY_BYTES = 32
_NONCE, _LENGTH = 12, 8


class TooLarge(ValueError):
    """What is to be kept is longer than what is written always is."""


@dataclass(frozen=True, slots=True)
class Box:
    """Encrypts under one key. Raises InvalidValue for a key of another length than `KEY_BYTES`."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise InvalidValue("key", "(hidden)", f"{KEY_BYTES} bytes from a cryptographic source")

    @classmethod
    def new_key(cls) -> bytes:
        """A key from the operating system's source."""
        return AESGCM.generate_key(bit_length=8 * KEY_BYTES)

    def seal(self, place: str, body: bytes, size: int) -> bytes:
        """`body` for `place`, encrypted; as long for every body of at most `size` bytes. Raises TooLarge."""
        if len(body) > size:
            raise TooLarge(f"{len(body)} bytes, expected at most {size}")
        padded = len(body).to_bytes(_LENGTH, "big") + body + bytes(size - len(body))
        nonce = os.urandom(_NONCE)
        return nonce + AESGCM(self.key).encrypt(nonce, padded, place.encode())

    def open(self, place: str, content: bytes) -> bytes:
        """What was sealed for `place`. Raises Damaged for anything else, a copy from another place among it."""
        try:
            padded = AESGCM(self.key).decrypt(content[:_NONCE], content[_NONCE:], place.encode())
        except (InvalidTag, ValueError) as error:
            raise Damaged(f"{place}: {len(content)} bytes that this key does not open") from error
        length = int.from_bytes(padded[:_LENGTH], "big")
        return padded[_LENGTH : _LENGTH + length]
