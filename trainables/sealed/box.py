"""Encryption of records of one size, each for its own place (AES-256-GCM, a fresh random nonce for each)."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpcore.checks import InvalidValue
from trainables.worker.sealed import Damaged

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
