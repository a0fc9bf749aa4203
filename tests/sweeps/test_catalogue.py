"""`sweeps systems`: the values that a knob may take, in words."""

import pytest

from sweeps.cli.catalogue import _range, described
from trainables.system import Hyperparameter


@pytest.mark.parametrize(
    ("kind", "limits", "said"),
    [
        ("choice", {}, "text"),
        ("choice", {"choices": ("a", "b")}, "a, b"),
        ("float", {}, "any number"),
        ("float", {"low": 0.0}, "from 0.0"),
        ("int", {"high": 9}, "up to 9"),
        ("int", {"low": 0, "high": 9}, "0 .. 9"),
    ],
)
def test_range_names_only_ends_that_there_are(kind, limits, said):
    assert _range(Hyperparameter(name="one", kind=kind, doc="one", **limits)) == said


def test_no_range_of_a_system_is_none():
    ranges = [one["range"] for system in described() for one in system["parameters"]]
    assert len(ranges) > 50
    assert not [one for one in ranges if "None" in one]
