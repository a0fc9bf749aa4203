"""One spelling for every document: canonical JSON bytes, and a reader that takes no other.

The bytes are those of RFC 8785 (JSON Canonicalization Scheme): no space, keys sorted by their UTF-16 code units,
numbers as ECMAScript writes them, strings unescaped where they may be. On top of it every string is in Unicode's normal
form C, so that two texts which look alike are alike.

A signature is over bytes, and a reader of meanings: where one document had two spellings, or a lenient parser read two
meanings out of one (which of two equal keys counts, what NaN is, what follows the end), a signed certificate could say
something else to somebody else. So `read` parses, writes anew and compares: what differs in one byte is refused.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Never

LARGEST_INTEGER = 2**53 - 1
"""Beyond it a reader whose numbers are doubles would read another one (RFC 7493)."""
DEEPEST = 100
"""Levels of nesting; a document has about ten."""

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


class NotCanonical(ValueError):
    """Bytes that are no canonical JSON, or a value that has none; the message says where."""


def canonical_bytes(value: Json) -> bytes:
    """The one spelling of a value. Raises NotCanonical for a number or a text that has none."""
    return _written(value, 0).encode()


def read(data: bytes) -> Any:
    """The value that these bytes spell. Raises NotCanonical for any others than `canonical_bytes` of it."""
    try:
        value = json.loads(
            data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_integer
        )
    except UnicodeDecodeError as error:
        raise NotCanonical(f"byte {error.start}: expected UTF-8") from None
    except json.JSONDecodeError as error:
        raise NotCanonical(f"character {error.pos}: {error.msg}") from None
    except RecursionError:
        raise NotCanonical(f"expected at most {DEEPEST} levels of nesting") from None
    written = canonical_bytes(value)
    if written != data:
        at = next(
            (i for i, (a, b) in enumerate(zip(written, data, strict=False)) if a != b), min(len(written), len(data))
        )
        raise NotCanonical(
            f"byte {at}: expected the canonical spelling (RFC 8785), which continues {written[at : at + 20]!r}"
        )
    return value


def normal(value: Any) -> Any:
    """The value with all of its texts in normal form C, as this module writes them."""
    match value:
        case str():
            return unicodedata.normalize("NFC", value)
        case Mapping():
            return {normal(key): normal(inner) for key, inner in value.items()}
        case list() | tuple():
            return [normal(inner) for inner in value]
    return value


def number_text(value: float) -> str:
    """A finite number as ECMAScript writes it (RFC 8785, section 3.2.2.3): the shortest digits that give it back.

    Raises NotCanonical.
    """
    if not math.isfinite(value):
        raise NotCanonical(f"{value!r}: JSON has no such number")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, power = repr(abs(value)).partition("e")
    whole, _, part = mantissa.partition(".")
    shift = int(power or 0) + len(whole)
    both = whole + ("" if part == "0" else part)
    digits = both.lstrip("0")
    # The number is 0.DIGITS times ten to the `point`.
    point = shift - (len(both) - len(digits))
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def _written(value: Json, depth: int) -> str:
    if depth > DEEPEST:
        raise NotCanonical(f"expected at most {DEEPEST} levels of nesting")
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int():
            if abs(value) > LARGEST_INTEGER:
                raise NotCanonical(f"{value}: expected an integer of at most 2^53 - 1")
            return str(int(value))
        case float():
            return number_text(float(value))
        case Mapping():
            if not all(isinstance(key, str) for key in value):
                raise NotCanonical("expected texts as keys")
            keys = sorted(value, key=lambda key: key.encode("utf-16-be", "surrogatepass"))
            return "{" + ",".join(f"{_text(key)}:{_written(value[key], depth + 1)}" for key in keys) + "}"
        case list() | tuple():
            return "[" + ",".join(_written(inner, depth + 1) for inner in value) + "]"
    raise NotCanonical(f"{type(value).__name__}: expected a value of JSON")


def _text(value: str) -> str:
    if not unicodedata.is_normalized("NFC", value):
        raise NotCanonical(f"{value!r}: expected Unicode's normal form C")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotCanonical(f"{value!r}: expected whole characters, no half of a surrogate pair") from None
    return json.dumps(str(value), ensure_ascii=False)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotCanonical(f"{twice!r}: expected each key once")
    return found


def _no_constant(word: str) -> Never:
    raise NotCanonical(f"{word}: JSON has no such number")


def _integer(digits: str) -> int | float:
    # A double beyond 2^53 is written without a point too.
    if len(digits) <= 16 and abs(int(digits)) <= LARGEST_INTEGER:
        return int(digits)
    found = float(digits)
    return found if math.isfinite(found) else _no_constant(digits[:20])
