"""The suite's order: the longest files first, nothing lost, and no name on the list that is no file any more."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import LONGEST, in_order

ROOT = Path(__file__).parent.parent


def test_every_file_on_the_list_is_there() -> None:
    assert [one for one in LONGEST if not (ROOT / one).is_file()] == []
    assert len(set(LONGEST)) == len(LONGEST)


def test_long_files_come_first_and_short_ones_between_them() -> None:
    short = [f"tests/test_{number}.py" for number in range(10)]
    order = in_order([*short, *reversed(LONGEST[:3])])
    assert order[0] == LONGEST[0]
    assert [one for one in order if one in LONGEST] == list(LONGEST[:3])
    assert [one for one in order if one not in LONGEST] == short
    assert order.index(LONGEST[1]) == order.index(LONGEST[2]) - 5 == 5


def test_a_part_of_the_suite_keeps_its_files() -> None:
    assert in_order(["b", "a"]) == ["b", "a"]
    assert in_order([LONGEST[1]]) == [LONGEST[1]]
    assert in_order([]) == []
