"""A data source of the user's own: `data: {source: "mymod:People", ...}` names an object in a file beside the spec.

It is a `trainables.data.source.DataSource`, or a class or function without arguments that makes one. None of its code
was read here. So what it says of its records, and that each of its records is made of one person's data alone, is its
module's word; every claim on its data says so. The rest is held to, whatever it does:

    facts       checked as values, asked for before any record; what `load` hands out has to be of the same facts
    records     checked as those of packaged sources are; numbers are cut to the bounds that the facts declare, and
                their number has to be near the declared one
    units       those that the facts name, and no more training records of one than they say. Whose a validation record
                is nobody hands out: that there are no more of one unit among them is the module's word, and only their
                number is held to what the declared units may have
    validation  public or private as the spec declares, never by the module. Private reports add to training: that
                records are parted by something of their own alone is believed of code that was read here
    part        of `data.part`, by the unit or by ids that the module declares (`ids`, what they are called) and hands
                out with the training records (`Split.ids`): whole numbers or texts. That each is one record's own, and
                stays, is its word. A hash of what it makes of a record would not do: numbers that are computed have
                other last digits elsewhere, and a record would be in both parts
    digest      that of what came out, by our code
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue, QuotesRecords
from trainables import plugins
from trainables.data import records as content
from trainables.data.options import Option, as_given, count, listed, option, options
from trainables.data.source import DataSource, FeaturedSource
from trainables.data.splits import PART, PART_SCHEMA, RecordsPart, dataset_within, facts_within, part_of
from trainables.data.table import COUNT_TOLERANCE
from trainables.system import Dataset, Feature, PublicFacts, Split, Task
from trainables.units import Unit
from trainables.validation.declaration import DISJOINT, OPTIONS, private

_SOURCE, _VALIDATION, _PART = "data.source", "validation", "part"
_REMEDY = "A data source is an object as `trainables.data.source.DataSource` says: see digits.py beside it."
_NEEDED = ("facts", "inspect", "load")
Returned = TypeVar("Returned")


@options
class OwnOptions:
    """What is read here, and never handed to the module."""

    validation: object = option(
        as_given,
        doc="{records: private or public}, whose the validation records are; budget_share and bins of private ones",
        example={"records": "private", "budget_share": 0.1},
        schema={"type": ["object", "null"]},
        default=None,
    )
    part: object = option(
        as_given,
        doc="{use: tuning or final, share}: of the training records by unit, or by the `ids` that the module declares",
        example={"use": "tuning", "share": 0.2},
        schema=PART_SCHEMA,
        default=None,
    )


_HERE = frozenset(one.name for one in listed(OwnOptions))


class OwnSource(FeaturedSource):
    """One of these around whatever `place`, written module:object, is. Imports nothing before it is asked."""

    def __init__(self, place: str) -> None:
        self.name, self._module = place, place.partition(":")[0]
        self.doc = f"a source of your own, by code of {self._module}"
        self._source = _had(place)

    @property
    def options(self) -> tuple[Option, ...]:
        """Those of every own source, and what the module lists."""
        own = getattr(self._source, "options", ())
        return (*listed(OwnOptions), *(one for one in own if isinstance(one, Option) and one.name not in _HERE))

    def record_facts(self, options: Mapping[str, object]) -> PublicFacts:
        """The module's, checked, and with what every claim on them rests on. Raises InvalidValue."""
        said, validation = self._said(options), options.get(_VALIDATION)
        if validation is not None and not isinstance(validation, Mapping):
            raise InvalidValue("data.validation", validation, "{records: public or private}")
        declared = dict(validation or {})
        for name in declared.keys() - (set(OPTIONS) - {DISJOINT}):
            raise InvalidValue(f"data.validation.{name}", declared[name], "records, budget_share or bins alone")
        if bool(said.n_validation) < bool(declared):
            raise InvalidValue("data.validation", declared, f"nothing: {self.name} has no validation records")
        records = private(declared, parts="", assumption="") if said.n_validation else None
        part = self._part(options.get(_PART), said)
        if part is not None and records is not None:
            expected = "public beside data.part: both sweeps would read these records, which nothing parts"
            raise InvalidValue(
                "data.validation.records", "private", expected, "Have validation records that are public."
            )
        whole = replace(
            said,
            assumptions=(*said.assumptions, self._word(said.unit)),
            private_validation=records,
            asserted_by=self._module,
        )
        return facts_within(part, whole)

    def record_part(self, options: Mapping[str, object]) -> RecordsPart | None:
        """See `FeaturedSource.part`."""
        return self._part(options.get(_PART), self._said(options))

    def inspect_records(self, options: Mapping[str, object]) -> None:
        """Whether facts and files are as they should be. Raises InvalidValue."""
        self.record_facts(options)
        self._source.inspect(_handed(options))

    def load_records(self, options: Mapping[str, object]) -> Dataset:
        """The records, held to the facts. Raises InvalidValue."""
        self.record_facts(options)
        whole, said = {name: one for name, one in options.items() if name != _PART}, self._said(options)
        facts = self.record_facts(whole)
        try:
            found = self._source.load(_handed(options))
        except InvalidValue as error:
            # Its words are the module's, and it has read records.
            raise QuotesRecords(error.name, error.value, error.expected, error.remedy) from error
        if not isinstance(found, Dataset) or found.facts != said:
            what = "other facts" if isinstance(found, Dataset) else type(found).__name__
            raise InvalidValue(
                _SOURCE, self.name, f"load to return a Dataset of what `facts` said, not {what}", _REMEDY
            )
        self._check_units(found, said.unit)
        self._check_count("n", found.present, said.n)
        self._check_validation(len(found.validation), said)
        parts = (self._within(facts, one) for one in (found.train, found.validation))
        made = content.dataset(facts, *parts, units=found.units)
        # Once their form is known to be right.
        train, validation = _cut(facts, made.train), _cut(facts, made.validation)
        digest = content.fingerprint(train, validation, units=made.units)
        cut = replace(made, train=train, validation=validation, fingerprint=digest)
        part = self._part(options.get(_PART), said)
        return cut if part is None else dataset_within(part, self._identified(cut))

    def _said(self, options: Mapping[str, object]) -> PublicFacts:
        try:
            said = self._source.facts(_handed(options))
        except InvalidValue:
            raise
        except Exception as error:
            expected = f"a source that says its facts ({type(error).__name__}: {error})"
            raise InvalidValue(_SOURCE, self.name, expected, _REMEDY) from error
        if not isinstance(said, PublicFacts):
            raise InvalidValue(_SOURCE, self.name, f"facts as PublicFacts, not {type(said).__name__}", _REMEDY)
        if said.private_validation is not None or said.asserted_by:
            expected = (
                "facts without private_validation and asserted_by: the spec's data.validation says whose they are"
            )
            raise InvalidValue(_SOURCE, self.name, expected)
        count(_SOURCE.removeprefix("data."), said.n, doc="how many records the source says that there are")
        for problem in _problems(said):
            raise InvalidValue(_SOURCE, self.name, problem, _REMEDY)
        return said

    def _part(self, raw: object, said: PublicFacts) -> RecordsPart | None:
        """Raises InvalidValue for a source that declares neither a unit nor ids."""
        if raw is None:
            return None
        decided_by = self._ids() if said.unit is None else said.unit.column
        if decided_by is None:
            raise InvalidValue(
                PART,
                raw,
                f"nothing: {self.name} declares no ids, and what it makes of a record need not be the same twice",
                'Declare in it what each record is known by (`ids = "person_id"`) and hand out one for each training '
                "record as `Split.ids`, or declare a unit.",
            )
        return part_of(raw, said.n, decided_by)

    def _ids(self) -> str | None:
        """What the module calls the ids of its records. Raises InvalidValue."""
        named = getattr(self._source, "ids", None)
        if named is None or (isinstance(named, str) and named):
            return named
        raise InvalidValue(_SOURCE, self.name, f"ids to be a name, as of a column, not {named!r}", _REMEDY)

    def _identified(self, data: Dataset) -> Dataset:
        """With the id of each training record, that of its unit where there are any. Raises InvalidValue."""
        if data.units is not None:
            ids: NDArray[np.generic] = np.repeat(data.units.keys, np.diff(data.units.offsets))
        else:
            given = data.train.ids
            if given is None or np.shape(given) != (len(data.train),) or any(one is None or one == "" for one in given):
                expected = f"`Split.ids` with one of {self._ids()} for each of the training records, none missing"
                raise InvalidValue(_SOURCE, self.name, expected, _REMEDY)
            ids = np.asarray(given)
        return replace(data, train=replace(data.train, ids=ids))

    def _word(self, unit: Unit | None) -> str:
        each = "record of one person alone"
        if unit is not None:
            each = f"record of one value of {unit.column}, with at most {unit.max_records} of each, in validation too"
        return (
            f"{self._module} declares facts without looking at the private records, and makes each {each}: its code is "
            "not ours."
        )

    def _check_units(self, found: Dataset, unit: Unit | None) -> None:
        if unit is None or found.units is None:
            return
        most = int(np.diff(found.units.offsets).max(initial=0))
        if most > unit.max_records or len(set(found.units.keys.tolist())) < len(found.units):
            raise InvalidValue(
                _SOURCE,
                self.name,
                f"at most {unit.max_records} records of one {unit.column}, each of which is one unit",
                "`trainables.data.records.by_unit` makes such units.",
            )

    def _check_validation(self, found: int, said: PublicFacts) -> None:
        if found and not said.n_validation:
            # The spec says whose these records are only where some are declared.
            raise InvalidValue(
                "data.n_validation", 0, f"the number of validation records, of which {self.name} loads some", _REMEDY
            )
        self._check_count("n_validation", found, said.n_validation, said.unit_records)

    def _check_count(self, name: str, found: int, declared: int, each: int = 1) -> None:
        """each: what is declared has one record at least, and so many at most."""
        slack = max(1.0, COUNT_TOLERANCE * declared)
        if not declared - slack <= found <= each * (declared + slack):
            of = "" if each == 1 else f", of 1 to {each} records each"
            expected = f"{name} within {COUNT_TOLERANCE:.0%} of what {self.name} loads{of}"
            raise InvalidValue(f"data.{name}", declared, expected, "Declare another.")

    def _within(self, facts: PublicFacts, split: Split) -> Split:
        inputs = {name: np.asarray(array) for name, array in split.inputs.items()}
        if inputs.keys() != facts.features.keys():
            expected = f"inputs {', '.join(facts.features)}, as the facts say, not {', '.join(inputs) or 'none'}"
            raise InvalidValue(_SOURCE, self.name, expected)
        ordered = {name: inputs[name] for name in facts.features}
        return replace(split, inputs=ordered, targets=np.asarray(split.targets))


def _handed(options: Mapping[str, object]) -> dict[str, object]:
    return {name: copy.deepcopy(value) for name, value in options.items() if name not in _HERE}


def _had(place: str) -> DataSource:
    """Raises InvalidValue."""
    found = plugins.brought(_SOURCE, place, _REMEDY, "a data source")
    try:
        source = found() if callable(found) and (isinstance(found, type) or not hasattr(found, "load")) else found
    except TypeError as error:
        raise InvalidValue(_SOURCE, place, f"a source that can be made without arguments ({error})", _REMEDY) from error
    if lacking := [one for one in _NEEDED if not callable(getattr(source, one, None))]:
        raise InvalidValue(_SOURCE, place, f"a data source, which has {', '.join(lacking)}", _REMEDY)
    return cast(DataSource, source)


def _problems(said: PublicFacts) -> list[str]:
    """What cannot be true of any data, in words of what was expected."""
    found = []
    if not said.features or not all(_is_bounded(one) for one in said.features.values()):
        found.append("facts with features, each with finite low < high, or a cardinality of at least 1")
    if said.task in (Task.CLASSIFICATION, Task.RATING):
        if type(said.classes) is not int or said.classes < 2:
            found.append(f"facts of a {said.task} with at least 2 classes")
    elif not -math.inf < said.target_low < said.target_high < math.inf:
        found.append("facts with finite target_low < target_high")
    return found


def _is_bounded(feature: Feature) -> bool:
    if feature.cardinality is not None:
        return type(feature.cardinality) is int and feature.cardinality >= 1
    return -math.inf < feature.low < feature.high < math.inf


def _cut(facts: PublicFacts, split: Split) -> Split:
    """Numbers beyond the declared bounds, at the nearer one."""

    def cut(name: str, array: NDArray[np.generic]) -> NDArray[np.generic]:
        feature = facts.features[name]
        if feature.cardinality is not None:
            return array
        return np.clip(array, np.float32(feature.low), np.float32(feature.high))

    return replace(split, inputs={name: cut(name, array) for name, array in split.inputs.items()})
