"""On which records a sweep may tune for a final run.

public   on public ones, none of which the final run reads. A trial on private records is an access to them, also where
         it is judged on public ones: that is not free
holdout  on the other part of the same records, by one split
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.population.declared_public import PARTS
from sweeps.records import SweepRecord
from sweeps.spec import SweepSpec
from sweeps.spec.sections import FUNCTION, Data
from trainables.data import SOURCES
from trainables.data.files import overlap
from trainables.data.splits import PartUse
from trainables.features import declared as features

HERE = "search.chosen_from"
OWN_FILES = "table"
"""The packaged source whose records are the user's own: elsewhere one name is one data set, wherever it lies."""

SAME = ("source", "of", "path", "format", "n", "unit", "population", "records_are_public")
"""What says which records a table is about, and whose. Its ids part them, whatever is made of its columns."""
FREE = frozenset({"part", "validation", "test", *features.OPTIONS})
"""What may differ in the data sections of two sweeps on parts of any other source. All else may decide what a record
is, which records train and which validate, and so who is in which part."""
LIMIT = "limit"
"""Of a packaged source: how many of the same positions, of which it then takes the part."""


def check_public(spec: SweepSpec, tuned: SweepRecord) -> None:
    """Whether everything that `tuned` read is declared public, and none of it is what the final run reads.

    Raises InvalidValue.
    """
    check_all_public(tuned, HERE)
    if reads_the_same(spec, tuned):
        raise InvalidValue(
            HERE,
            tuned.called,
            f"a sweep on other records than the {_source(spec.data.model_dump(mode='json'))} of this spec: a search on "
            "the records of its final run is not free",
            "Tune on a proxy, or search here with `scope: sweep`.",
        )


def check_all_public(tuned: SweepRecord, option: str) -> None:
    """Whether everything that `tuned`, which `option` names, read is declared public. Raises InvalidValue."""
    remedy = "Declare data.records_are_public there if that is true; tuning on private records is not free."
    if tuned.spec.public_because is None:
        raise InvalidValue(option, tuned.called, "a sweep all of whose records are declared public", remedy)
    for name in PARTS:
        part = tuned.spec.canonical["data"].get(name)
        if isinstance(part, Mapping) and part.get("records") == "private":
            expected = f"a sweep whose {name} records are public too, as all that it reads"
            raise InvalidValue(option, tuned.called, expected, remedy)


def reads_the_same(spec: SweepSpec, tuned: SweepRecord) -> bool:
    """Whether records of `spec` are among those of `tuned`, as far as their declarations tell."""
    return _are_same(spec.data.model_dump(mode="json"), tuned.spec.canonical["data"])


def check_parts(spec: SweepSpec, tuned: SweepRecord) -> None:
    """Whether `tuned` read the other part of the records of a final run, by one split. Raises InvalidValue."""
    data = tuned.spec.canonical["data"]
    own = spec.data.model_dump(mode="json")
    for name in _same(own, data):
        if own.get(name) != data.get(name):
            expected = f"{data.get(name)!r}, as sweep {tuned.called!r} has it"
            raise InvalidValue(f"data.{name}", own.get(name), expected, "Both sweeps read one file, of one population.")
    source = SOURCES[spec.data.source]
    theirs = source.part({name: value for name, value in data.items() if name not in Data.model_fields})
    ours = source.part(spec.data.options())
    assert ours is not None
    if theirs is None or theirs.use is not PartUse.TUNING:
        expected = f"a sweep on the tuning part of the records; it read {'all' if theirs is None else 'the other part'}"
        remedy = "What it released adds to a run on the same records: tune with `data.part: {use: tuning, ...}`."
        raise InvalidValue(HERE, tuned.called, expected, remedy)
    for name, one, other in zip(("share", "id", "key"), ours.splits_as, theirs.splits_as, strict=True):
        if one != other:
            expected = f"{other!r}, by which sweep {tuned.called!r} parted them: by another both read some records"
            raise InvalidValue(f"data.part.{name}", one, expected, "A split stays as it is for good.")


def _same(own: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    """What has to be equal in two data sections, where the source comes first."""
    source = _source(own)
    if OWN_FILES in (source, own["source"]):
        return SAME
    free = FREE if FUNCTION.fullmatch(source) else FREE | {LIMIT}
    return ("source", *sorted((own.keys() | other.keys()) - free - {"source"}))


def _are_same(final: Mapping[str, Any], tuned: Mapping[str, Any]) -> bool:
    """As far as their declarations tell; of a file that was copied the fingerprint does."""
    ours, theirs = list(_files(final, _is_private)), list(_files(tuned, lambda part: True))
    if any(overlap(one, other) for one in ours for other in theirs):
        return True
    source = _source(final)
    if source != _source(tuned) or source == OWN_FILES:
        return False
    return not (FUNCTION.fullmatch(source) and ours and theirs)


def _source(data: Mapping[str, Any]) -> str:
    """That of the records themselves, however they are seen."""
    return str(data.get("of") or data["source"])


def _is_private(part: Mapping[str, Any]) -> bool:
    return part.get("records") != "public"


def _files(data: Mapping[str, Any], counts: Any) -> Iterator[str]:
    """Files that a data section names, and of its parts those that count."""
    if isinstance(data.get("path"), str):
        yield data["path"]
    for name in PARTS:
        part = data.get(name)
        if isinstance(part, Mapping) and isinstance(part.get("path"), str) and counts(part):
            yield part["path"]
