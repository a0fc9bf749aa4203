"""Values as people write them in a spec, on a command line or in Python: which value of a knob is meant."""

from __future__ import annotations

from sweeps.spec.domains import Domain
from trainables.system import Scalar


def as_number(value: object) -> float | None:
    """The number meant by a number or a numeric text; None for anything else, truth values included."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def meant(knob: Scalar | Domain, value: object) -> Scalar | None:
    """The value of the knob that a person wrote; None where it has none such.

    knob  its domain, or the one value at which it is fixed
    """
    if not isinstance(knob, Domain):
        return _among((knob,), value)
    if knob.kind == "choice":
        return _among(knob.values, value)
    number = as_number(value)
    if number is None or not knob.contains(number):
        return None
    return int(number) if knob.integer else number


def _among(values: tuple[Scalar, ...], value: object) -> Scalar | None:
    """The one that is written so, else the number that is meant."""
    number = as_number(value)
    for own in values:
        if isinstance(own, str | bool) and type(own) is type(value) and own == value:
            return own
    return next((own for own in values if not isinstance(own, str | bool) and own == number), None)
