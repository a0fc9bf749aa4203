"""Numbers do not move: what is computed now is what was frozen, or the difference is listed with its reason."""

from __future__ import annotations

import pytest

from tests.corpus import compare, doors, freeze
from tests.corpus.compare import Difference


def unexplained(found: list[Difference]) -> list[str]:
    known = compare.known_differences()
    return [str(one) for one in found if not any(entry.covers(one) for entry in known)]


@pytest.mark.parametrize("part", freeze.CHEAP)
def test_numbers_do_not_move(part):
    assert unexplained(compare.compared(part, freeze.PARTS[part]())) == []


@pytest.mark.corpus
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", [part for part in freeze.PARTS if part not in freeze.CHEAP])
def test_no_number_of_a_sweep_a_source_or_a_publication_moves(part):
    assert unexplained(compare.compared(part, freeze.PARTS[part]())) == []


@pytest.mark.corpus
@pytest.mark.timeout(3000)
def test_every_listed_difference_is_one():
    known = compare.known_differences()
    parts = {entry.where.split(" > ")[0] for entry in known}
    found = [one for part in parts for one in compare.compared(part, freeze.PARTS[part]())]
    assert [entry.where for entry in known if not any(entry.covers(one) for one in found)] == []


def test_every_system_source_example_and_paper_is_frozen():
    words = {part: {name.split(" / ")[0] for name in compare.frozen(part)[1]} for part in freeze.PARTS}
    systems = {name.split(",")[0].strip() for name in words["fits"]} & {name.split(",")[0] for name in words["plans"]}
    assert systems >= set(doors.SYSTEMS) - OUTSIDE
    assert {name.split()[0] for name in words["sources"]} >= set(doors.SOURCES) - {"table"} - LATER
    assert {path.stem for path in doors.EXAMPLES.glob("*.yaml")} - LATER <= words["specs"] & words["sweeps"]
    assert set(doors.PAPERS) <= words["claims"] & {name.split("-")[0] for name in words["published"]}


OUTSIDE: set[str] = set()
"""Systems that were registered after the corpus was frozen."""
LATER = {"mnist-record", "fine-tuning", "sentences", "which-recipe"}
"""Examples and sources likewise."""
