"""The packaged example that pays for its search: what it declares, and that its deadline covers its cap."""

from __future__ import annotations

from sweeps.examples import load_example_or_file
from sweeps.spec.parse import public_facts

SECONDS, CORES = 30.0, 2
"""Of the longest trial on one core of a busy machine, features and scoring left out; of the machine."""


def test_what_is_said_of_the_records() -> None:
    facts = public_facts(load_example_or_file("mnist-record"))
    assert (facts.n, facts.n_validation, facts.features["features"].shape) == (54_000, 6_000, (81, 7, 7))
    assert facts.private_validation is not None
    assert facts.private_validation.parts


def test_the_deadline_covers_the_cap_on_two_cores() -> None:
    spec = load_example_or_file("mnist-record")
    assert spec.selection is not None
    assert spec.selection.mean == 27
    assert spec.search.trials * SECONDS / CORES < 0.9 * 60 * spec.selection.deadline_minutes
