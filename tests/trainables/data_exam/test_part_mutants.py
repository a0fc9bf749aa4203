"""Ways to part records that would let somebody be in both parts, or move others: each is found by the exam."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tests.trainables.data_exam.parts import parts_hold_each_record_once
from tests.trainables.source_cases import CANDIDATES
from trainables.data import records
from trainables.data.source import PublishedSource
from trainables.data.splits import RecordsPart
from trainables.units import share_of

RIGHT = RecordsPart.holds


def by_a_key_of_the_sweep(part, ids):
    """Another key for each sweep that reads a part."""
    return RIGHT(replace(part, key=f"{part.key} {part.use}"), ids)


def by_position(part, ids):
    return (np.arange(len(ids)) < part.share * len(ids)) == (part.use == "tuning")


def by_rank(part, ids):
    """Exactly the declared number of records: those with the lowest hashes."""
    shares = np.array([share_of(part.key, one) for one in ids])
    return (shares.argsort().argsort() < round(part.share * len(ids))) == (part.use == "tuning")


def by_a_draw(part, ids):
    return np.random.default_rng().random(len(ids)) < (part.share if part.use == "tuning" else 1 - part.share)


def by_one_key(part, ids):
    return RIGHT(replace(part, key="tuning"), ids)


def of_everybody(part, ids):
    return np.ones(len(ids), dtype=bool)


def apart_from_its_equals(part, ids):
    seen: Counter[str] = Counter()
    numbered = []
    for one in map(str, ids):
        seen[one] += 1
        numbered.append(f"{one} {seen[one]}")
    return RIGHT(part, np.array(numbered, dtype=object))


MUTANTS = (by_a_key_of_the_sweep, by_position, by_rank, by_a_draw, by_one_key, of_everybody)


@pytest.mark.parametrize("name", ["digits", "pooled", "movielens_1m, per user", "table"])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_hash_is_found(name, mutant, tmp_path, monkeypatch):
    monkeypatch.setattr(RecordsPart, "holds", mutant)
    assert parts_hold_each_record_once(CANDIDATES[name], tmp_path) != []


def test_equal_records_that_are_told_apart_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(RecordsPart, "holds", apart_from_its_equals)
    assert "equal records are in both parts" in parts_hold_each_record_once(CANDIDATES["digits"], tmp_path)


def test_the_first_records_of_a_part_are_found(tmp_path, monkeypatch):
    """The part first, and then a limit: whoever leaves would let another one in, so that two records change."""

    def load(self, options):
        found = right(self, {name: one for name, one in options.items() if name != "limit"})
        return replace(found, train=records.taken(found.train, slice(options.get("limit"))))

    right = PublishedSource.load_records
    monkeypatch.setattr(PublishedSource, "load_records", load)
    faults = parts_hold_each_record_once(CANDIDATES["digits"], tmp_path)
    assert "under a limit the parts are not those of the records that it takes" in faults
