"""One spelling: what RFC 8785 prescribes, and everything that a lenient reader would take besides is refused."""

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeps.certificate.canonical import (
    DEEPEST,
    LARGEST_INTEGER,
    NotCanonical,
    canonical_bytes,
    normal,
    number_text,
    read,
)

# RFC 8785, appendix B: the bits of a double, and how it is written.
RFC_NUMBERS = {
    "0000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


@pytest.mark.parametrize(("bits", "text"), RFC_NUMBERS.items())
def test_numbers_are_written_as_the_rfc_has_them(bits, text):
    assert number_text(struct.unpack(">d", bytes.fromhex(bits))[0]) == text


def test_keys_are_sorted_as_the_rfc_has_them():
    """RFC 8785, section 3.2.3: by UTF-16 code units, which no order of code points gives. (U+FB33 of its example is in
    no text of normal form C, and is refused here.)"""
    keys = {"\u20ac": 1, "\r": 2, "1": 3, "\U0001f600": 4, "\u0080": 5, "\u00f6": 6}
    found = list(json.loads(canonical_bytes(keys)))
    assert found == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600"]
    with pytest.raises(NotCanonical, match="normal form C"):
        canonical_bytes("\ufb33")


def test_strings_are_written_as_the_rfc_has_them():
    """RFC 8785, section 3.2.2.2."""
    assert canonical_bytes('\u20ac$\u000f\nA\'B"\\\\"/') == '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'.encode()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double_comes_back(value):
    text = number_text(value)
    assert float(text) == value
    assert canonical_bytes(read(text.encode())) == text.encode()


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-LARGEST_INTEGER, LARGEST_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text().map(lambda text: text.encode("utf-8", "ignore").decode()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_read_back(value):
    try:
        data = canonical_bytes(normal(value))
    except NotCanonical:
        return  # half of a surrogate pair
    assert canonical_bytes(read(data)) == data


LENIENT = {
    "a key twice": b'{"a":1,"a":2}',
    "a key twice, spelled otherwise": b'{"a":1,"\\u0061":2}',
    "not a number": b'{"a":NaN}',
    "infinity": b'{"a":Infinity}',
    "an infinite double": b'{"a":1e999}',
    "an infinite integer": b'{"a":' + b"9" * 400 + b"}",
    "minus zero": b'{"a":-0}',
    "minus zero with a point": b'{"a":-0.0}',
    "a point too many": b'{"a":1.0}',
    "an exponent": b'{"a":1e2}',
    "more digits than the double has": b'{"a":0.10000000000000000001}',
    "a space": b'{"a": 1}',
    "a line at the end": b'{"a":1}\n',
    "bytes that trail": b'{"a":1}{"a":2}',
    "a nought that trails": b'{"a":1}\x00',
    "a mark at the start": b'\xef\xbb\xbf{"a":1}',
    "keys out of order": b'{"b":1,"a":2}',
    "an escape that need not be": b'{"a":"\\u0041"}',
    "a solidus escaped": b'{"a":"\\/"}',
    "a decomposed letter": '{"a":"re\u0301gion"}'.encode(),
    "a decomposed key": '{"re\u0301gion":1}'.encode(),
    "half of a surrogate pair": b'{"a":"\\ud800"}',
    "bytes that are no UTF-8": b'{"a":"\xff"}',
    "an overlong form": b'{"a":"\xc0\xaf"}',
    "a comma too many": b'{"a":[1,]}',
    "a comment": b'{"a":1/**/}',
    "single quotes": b"{'a':1}",
    "nothing": b"",
    "a deep nest": b"[" * 5000 + b"]" * 5000,
    "a nest just too deep": b"[" * (DEEPEST + 2) + b"]" * (DEEPEST + 2),
}


@pytest.mark.parametrize("data", LENIENT.values(), ids=LENIENT.keys())
def test_what_a_lenient_reader_takes_is_refused(data):
    with pytest.raises(NotCanonical):
        read(data)


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**53, {1: 2}, object(), "e\u0301", b"x", {"a": {3}}])
def test_what_has_no_spelling_is_refused(value):
    with pytest.raises(NotCanonical):
        canonical_bytes(value)
