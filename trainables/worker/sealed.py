"""Records that show when they are not what was written: a checksum over a record's content and its own place.

A file that was cut short, overwritten, or copied from another trial, attempt or step does not fit its checksum. An
older copy of the same file does, and so does a forgery: the checksum is no signature, since whoever may write the
records also runs the workers. What a record says is therefore checked again by those who read it.
"""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

_DIGEST = 64


class Damaged(ValueError):
    """A record is not what its worker wrote, or says what no worker can have meant. The text names no value of data."""


def seal(place: str, body: bytes) -> bytes:
    """`body` as it is kept at `place`."""
    return _digest(place, body) + b"\n" + body


def unseal(place: str, content: bytes) -> bytes:
    """The body of what was kept at `place`. Raises Damaged."""
    digest, mark, body = content[:_DIGEST], content[_DIGEST : _DIGEST + 1], content[_DIGEST + 1 :]
    if mark != b"\n" or digest != _digest(place, body):
        raise Damaged(f"{place}: {len(content)} bytes that do not fit their checksum")
    return body


def parsed(place: str, text: bytes) -> dict[str, Any]:
    """The JSON object in `text`. Raises Damaged."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"{place}: no JSON document ({type(error).__name__})") from None
    if not isinstance(value, dict):
        raise Damaged(f"{place}: {type(value).__name__}, expected an object")
    return value


def whole_number(place: str, name: str, value: object, low: int, high: int) -> int:
    """`value` as an integer in [low, high]. Raises Damaged."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise Damaged(f"{place}: {name} is no whole number from {low} to {high}")
    return value


def number(place: str, name: str, value: object) -> float:
    """`value` as a float, which may be infinite or no number at all. Raises Damaged."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Damaged(f"{place}: {name} is no number")
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _digest(place: str, body: bytes) -> bytes:
    # The length of the place keeps (place, body) apart from any other pair that concatenates to the same bytes.
    named = place.encode()
    return hashlib.sha256(len(named).to_bytes(8, "big") + named + body).hexdigest().encode()
