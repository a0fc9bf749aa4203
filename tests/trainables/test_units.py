"""Units above a record: who belongs together, what is kept of a unit, and who may claim anything per unit."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainables.test_published_sources import refused
from tests.trainables.test_table import BY_PERSON, declared
from trainables.data import SOURCES
from trainables.planning import check_unit
from trainables.registry import SYSTEMS
from trainables.system import traits_of
from trainables.units import Unit, arranged


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3)), min_size=1, max_size=40),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_equal_records_and_any_order_give_the_same_units(rows: list, k: int, random: object) -> None:
    """Duplicates too: the multiset kept of a unit is a function of the multiset that it has."""

    def found(several: list) -> list[tuple[str, ...]]:
        positions, grouped = arranged(
            [one for one, _ in several], [bytes([what]) for _, what in several], Unit(column="u", max_records=k)
        )
        assert grouped.records == len(positions)
        parts = np.split(positions, grouped.offsets[1:-1])
        return [tuple(f"{several[at][0]}{several[at][1]}" for at in part) for part in parts]

    before = found(rows)
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert found(shuffled) == before
    sizes = Counter(one for one, _ in rows)
    assert sorted(map(len, before)) == sorted(min(k, size) for size in sizes.values())
    assert all(len({one[0] for one in part}) == 1 for part in before)
    # Without the first unit of all, the others stand as they were.
    gone = rows[0][0]
    rest = [one for one in rows if one[0] != gone]
    if rest:
        assert found(rest) == [part for part in before if part[0][0] != gone]


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_a_source_groups_its_records_or_refuses_by_name(name: str, tmp_path: Path) -> None:
    """Silently ignoring `unit` would leave the word in the claim and nothing behind it."""
    table = declared(tmp_path, validation={"share": 0.2, "records": "public"})
    options = {
        "table": table,
        "pooled": {"of": "movielens_100k", "train": 100},
        "projected": table | {"of": "table", "dimension": 1},
        "frozen": {"of": "digits"},
    }.get(name, {}) | {"unit": {"column": "user", "max_records": 3}}
    if name in ("table", "movielens_1m", "movielens_100k", "projected"):
        assert SOURCES[name].facts(options).unit == Unit(column="user", max_records=3)
    else:
        refused(
            lambda: SOURCES[name].facts(options),
            "data.unit=",
            f"no unit: {options.get('of', name) if name == 'frozen' else name}",
        )


# The registry's exam


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_a_system_declares_whether_it_enforces_units_and_is_refused_if_not(name: str, tmp_path: Path) -> None:
    system = SYSTEMS[name]
    facts = SOURCES["table"].facts(declared(tmp_path, **BY_PERSON))
    alone = replace(facts, unit=None)
    check_unit(system, alone, "record")
    refused(lambda: check_unit(system, alone, "person"), "privacy.unit='person'", "data.unit")
    refused(lambda: check_unit(system, facts, "record"), "privacy.unit='record'", "another word")
    if traits_of(system).units:
        check_unit(system, facts, "person")
    else:
        refused(lambda: check_unit(system, facts, "person"), "privacy.unit='person'", name)
