"""The law of the number of trials that a spec asks for."""

from __future__ import annotations

from dpcore.checks import InvalidValue
from dpcore.selection import (
    BinomialCount,
    Capped,
    CountLaw,
    PoissonCount,
    geometric,
    logarithmic,
    threshold_law,
    with_mean,
)
from sweeps.spec.sections import Selection

_FAIR = 0.5


def law_of(selection: Selection, most: int) -> Capped:
    """The law of K, conditioned on at most `most` trials. Raises InvalidValue, with the paths of a spec."""
    try:
        law = _uncapped(selection)
    except InvalidValue as error:
        raise InvalidValue(f"selection.{error.name}", error.value, error.expected, error.remedy) from error
    if selection.target is not None:
        _check_threshold(law, selection)
    try:
        return Capped(law, most)
    except InvalidValue as error:
        remedy = "Lower selection.mean, or let there be more trials."
        raise InvalidValue("search.trials", most, error.expected, remedy) from error


def law_text(selection: Selection, most: int) -> str:
    """The law in words."""
    shape = "" if selection.shape is None else f" of shape {selection.shape:g}"
    return f"{selection.count}{shape}, mean {selection.mean:g} before its cap at {most}"


def _check_threshold(law: CountLaw, selection: Selection) -> None:
    try:
        threshold_law(law)
    except InvalidValue:
        expected = "geometric, logarithmic, or tnb with a shape in [0, 1]: of other laws the first success has no rule"
        raise InvalidValue("selection.count", selection.count, expected, "Use geometric.") from None


def _uncapped(selection: Selection) -> CountLaw:
    mean, shape = selection.mean, selection.shape
    if (shape is None) == (selection.count == "tnb"):
        expected = "a number above -1" if shape is None else f"nothing with {selection.count}"
        raise InvalidValue("shape", shape, expected, "The shape is that of `count: tnb`.")
    match selection.count:
        case "geometric":
            return geometric(mean)
        case "logarithmic":
            return logarithmic(mean)
        case "poisson":
            return PoissonCount(mean)
        case "binomial":
            if round(mean / _FAIR) * _FAIR != mean:
                raise InvalidValue("mean", mean, "half a whole number: that of fair coins")
            return BinomialCount(round(mean / _FAIR), _FAIR)
        case "tnb":
            assert shape is not None
            return with_mean(shape, mean)
