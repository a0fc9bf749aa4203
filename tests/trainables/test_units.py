"""Units above a record: who belongs together, what is kept of a unit, and who may claim anything per unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcore.checks import InvalidValue
from trainables import units
from trainables.data import SOURCES
from trainables.planning import check_unit
from trainables.registry import SYSTEMS
from trainables.system import Dataset, traits_of
from trainables.units import Unit, Units, arranged

# A hundred people with 1 to 30 rows each.


def rows_of(person: int) -> int:
    return 1 + (7 * person) % 30


def people(count: int = 100) -> pd.DataFrame:
    owner = np.repeat(np.arange(count), [rows_of(person) for person in range(count)])
    # No two are equal, so that an age tells whose it is.
    age = np.random.default_rng(5).permutation(10_000)[: len(owner)] / 100
    return pd.DataFrame({"person": owner, "age": age, "rich": np.where(age > 50, "yes", "no")})


def declared(path: Path, k: int = 8, **changes: object) -> dict[str, object]:
    return {
        "path": str(path),
        "n": 100,
        "label": "rich",
        "classes": ["no", "yes"],
        "columns": {"age": {"low": 0, "high": 100}},
        "unit": {"column": "person", "max_records": k},
    } | changes


def written(frame: pd.DataFrame, file: Path) -> Path:
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), file)
    return file


def kept(data: Dataset) -> dict[int, tuple[float, ...]]:
    """{key: ages} of every training unit."""
    assert data.units is not None
    ages, offsets = data.train.inputs["x"][:, 0], data.units.offsets
    return {int(key): tuple(ages[offsets[i] : offsets[i + 1]]) for i, key in enumerate(data.units.keys)}


# What is kept of a unit


def taken_by_order(ids: object, contents: object, unit: Unit) -> object:
    """The mutant: the first k rows of a unit, in the order of the file."""
    owner, seen = list(map(str, ids)), Counter()
    keep = []
    for position, one in enumerate(owner):
        seen[one] += 1
        if seen[one] <= unit.max_records:
            keep.append(position)
    names = sorted(set(owner), key=lambda one: units._hash(units._KEY, one.encode()).digest()[:8])
    positions = [position for one in names for position in keep if owner[position] == one]
    sizes = [sum(owner[position] == one for position in keep) for one in names]
    keys = [int.from_bytes(units._hash(units._KEY, one.encode()).digest()[:8], "big") for one in names]
    offsets = np.cumsum([0, *sizes])
    return np.array(positions, dtype=np.int64), Units(offsets, np.array(keys, dtype=np.uint64))


def independent_of_order(tmp_path: Path) -> bool:
    """Whether shuffled rows, and rows without one person, leave every other person's records as they were."""
    frame = people()
    shuffled = frame.sample(frac=1.0, random_state=1)
    without = shuffled[shuffled["person"] != 17]
    whole, mixed, less = (
        kept(SOURCES["table"].load(declared(written(one, tmp_path / f"{name}.parquet"))))
        for name, one in (("whole", frame), ("mixed", shuffled), ("less", without))
    )
    assert len(whole.keys() - less.keys()) == 1
    return whole == mixed and all(whole[key] == less[key] for key in less)


def test_what_is_kept_of_a_unit_depends_on_its_records_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert independent_of_order(tmp_path)
    # The mutant: with a choice by row order the test above fails.
    monkeypatch.setattr("trainables.data.table.arranged", taken_by_order)
    assert not independent_of_order(tmp_path)


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


# Validation


def split_units(tmp_path: Path) -> int:
    """How many people have records on both sides of the split."""
    frame = people()
    options = declared(
        written(frame, tmp_path / "people.parquet"), k=30, validation={"share": 0.3, "records": "public"}
    )
    data = SOURCES["table"].load(options)
    assert data.facts.n == 70
    owner = dict(zip((frame["age"] / 100).astype(np.float32), frame["person"], strict=True))
    sides = [{owner[age] for age in part.inputs["x"][:, 0]} for part in (data.train, data.validation)]
    assert min(map(len, sides)) > 10
    return len(sides[0] & sides[1])


def test_no_unit_is_cut_in_two(tmp_path: Path) -> None:
    assert split_units(tmp_path) == 0


def test_a_validation_file_has_other_units(tmp_path: Path) -> None:
    frame = people()
    written(frame[frame["person"] < 80], tmp_path / "train.parquet")
    written(frame[frame["person"] >= 80], tmp_path / "other.parquet")
    validation = {"path": str(tmp_path / "other.parquet"), "n": 20, "records": "public"}
    data = SOURCES["table"].load(declared(tmp_path / "train.parquet", n=80, validation=validation))
    assert (data.present, data.facts.n_validation) == (80, 20)
    assert len(data.validation) == sum(min(8, rows_of(person)) for person in range(80, 100))
    for spelled in (int, "{:05d}".format):
        shared = frame[frame["person"] >= 79]
        written(shared.assign(person=[spelled(one) for one in shared["person"]]), tmp_path / "other.parquet")
        refused(
            lambda: SOURCES["table"].load(declared(tmp_path / "train.parquet", n=80, validation=validation)),
            "data.validation.path",
            "found 1",
        )


# What is refused


def refused(call: Callable[[], object], *words: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.assign(person=frame["person"].astype("Int64").mask(frame["person"] == 3)), ["22 missing"]),
        (lambda frame: frame.assign(person=frame["person"].astype(str).mask(frame["person"] == 3, "")), ["22 missing"]),
        (lambda frame: frame.assign(person=frame["person"].where(frame["person"] != 3)), ["missing"]),
        (
            lambda frame: frame.assign(person=frame["person"].map(lambda one: "N/A" if one == 3 else f"p{one}")),
            ["'N/A'"],
        ),
        (
            lambda frame: frame.assign(person=[f"p{one}{' ' * (row % 2)}" for row, one in enumerate(frame["person"])]),
            ["two ids of one"],
        ),
        (lambda frame: frame.assign(person=frame["person"] + 0.5), ["whole numbers or texts", "float"]),
        (lambda frame: frame[frame["person"] < 80], ["data.n", "values of person"]),
        (lambda frame: frame.drop(columns="person"), ["person", "which has"]),
    ],
    ids=["null", "empty text", "nan", "word", "spaces", "float", "count", "column"],
)
def test_bad_ids(tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame], words: list[str]) -> None:
    file = written(change(people()), tmp_path / "people.parquet")
    refused(lambda: SOURCES["table"].load(declared(file)), *words)


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
    facts = SOURCES["table"].facts(declared(tmp_path))
    alone = replace(facts, unit=None)
    check_unit(system, alone, "record")
    refused(lambda: check_unit(system, alone, "person"), "privacy.unit='person'", "data.unit")
    refused(lambda: check_unit(system, facts, "record"), "privacy.unit='record'", "another word")
    if traits_of(system).units:
        check_unit(system, facts, "person")
    else:
        refused(lambda: check_unit(system, facts, "person"), "privacy.unit='person'", name)
