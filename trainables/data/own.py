"""A data source of the user's own: `data: {source: "mymod:People", ...}` names an object in a file beside the spec.

It is a `trainables.data.source.DataSource`, or a class or function without arguments that makes one. None of its code
was read here. So what it says of its records, and that each of its records is made of one person's data alone, is its
module's word; every claim on its data says so. The rest is checked:

    facts       as values, asked for before any record; what `load` hands out has to be of the same facts
    records     as those of packaged sources are; numbers are cut to the bounds that the facts declare, and their number
                has to be near the declared one
    units       those that the facts name, and no more training records of one than they say. That there are no more of
                one unit among validation records is the module's word
    validation  public or private as the spec declares, never by the module, and no copies of training records. Private
                reports add to training: that records are parted by something of their own alone is believed of code
                that was read here
    part        of `data.part`, by the unit or by ids that the module declares (`ids`, what they are called) and hands
                out with the training records (`Split.ids`): whole numbers or texts. That each is one record's own, and
                stays, is its word. A hash of what it makes of a record would not do: numbers that are computed have
                other last digits elsewhere, and a record would be in both parts
    digest      of what came out
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpcore.checks import InvalidValue, QuotesRecords
from trainables import plugins
from trainables.data import records
from trainables.data.options import Option, apart, listed, read
from trainables.data.source import DataSource, FeaturedSource, PartOption
from trainables.data.splits import PART, VALIDATION, PartSplit, RecordsOptions, dataset_within, facts_within
from trainables.data.table import COUNT_TOLERANCE
from trainables.system import Dataset, DatasetSpec, Split, Task, with_mask_specs, with_masks
from trainables.units import Unit

_SOURCE = "data.source"
_REMEDY = "A data source is an object as `trainables.data.source.DataSource` says: see packaged.py beside it."


class OwnOptions(PartOption):
    """What is read here, and never handed to the module."""

    validation: RecordsOptions | None = Field(
        None,
        description="{records: private or public}, whose the validation records are; budget_share and bins of private "
        "ones",
        examples=[{"records": "private", "budget_share": 0.1}],
    )


@dataclass(frozen=True)
class Asked:
    """What a spec says: options that are read here, what is handed to the module, and the facts that it says then."""

    own: OwnOptions
    handed: Mapping[str, object]
    said: DatasetSpec


class OwnSource(FeaturedSource[Asked]):
    """One of these around whatever `place`, written module:object, is."""

    asks = OwnOptions

    def __init__(self, place: str) -> None:
        self.name, self._module = place, place.partition(":")[0]
        self.doc = f"a source of your own, by code of {self._module}"
        self._source = _imported(place)

    @property
    def options(self) -> tuple[Option, ...]:
        """Those of every own source, and what the module lists."""
        own = getattr(self._source, "options", ())
        mine = OwnOptions.model_fields
        return (*listed(OwnOptions), *(one for one in own if isinstance(one, Option) and one.name not in mine))

    def read(self, options: Mapping[str, object]) -> Asked:
        """See `FeaturedSource.read`. Raises InvalidValue."""
        own, handed = apart(OwnOptions, options)
        return Asked(read(OwnOptions, self.name, own), handed, self._said(handed))

    def record_facts(self, asked: Asked) -> DatasetSpec:
        """The module's, checked, and with what every claim on them rests on. Raises InvalidValue."""
        return facts_within(self.record_part(asked), self._whole(asked))

    def record_part(self, asked: Asked) -> PartSplit | None:
        """See `FeaturedSource.part`. Raises InvalidValue for a source that declares neither a unit nor ids."""
        own, said = asked.own, asked.said
        if own.part is None:
            return None
        decided_by = self._ids() if said.unit is None else said.unit.column
        if decided_by is None:
            raise InvalidValue(
                PART,
                own.part.model_dump(exclude_unset=True),
                f"nothing: {self.name} declares no ids, and what it makes of a record need not be the same twice",
                'Declare in it what each record is known by (`ids = "person_id"`) and hand out one for each training '
                "record as `Split.ids`, or declare a unit.",
            )
        part = own.part.part(said.n, decided_by)
        if own.validation is not None and own.validation.records == "private":
            expected = "public beside data.part: both sweeps would read these records, which nothing parts"
            remedy = "Have validation records that are public."
            raise InvalidValue(f"{VALIDATION}.records", "private", expected, remedy)
        return part

    def inspect_records(self, asked: Asked) -> None:
        """Whether files are as they should be. Raises InvalidValue."""
        self._source.inspect(asked.handed)

    def load_records(self, asked: Asked, kept_in: Path | None = None) -> Dataset:
        """The records, held to the facts. Raises InvalidValue."""
        part, facts, said = self.record_part(asked), self._whole(asked), asked.said
        try:
            found = self._source.load(asked.handed)
        except InvalidValue as error:
            # Its words are the module's, and it has read records.
            raise QuotesRecords(error.name, error.value, error.expected, error.remedy) from error
        if not isinstance(found, Dataset) or found.facts != said:
            what = "other facts" if isinstance(found, Dataset) else type(found).__name__
            raise self._wrong(f"load to return a Dataset of what `facts` said, not {what}")
        self._check_units(found, said.unit)
        self._check_count("n", found.present, said.n)
        if len(found.validation) and not said.n_validation:
            # The spec says whose these records are only where some are declared.
            expected = f"the number of validation records, of which {self.name} loads some"
            raise InvalidValue("data.n_validation", 0, expected, _REMEDY)
        self._check_count("n_validation", len(found.validation), said.n_validation, said.unit_records)
        made = records.dataset(
            facts, *(self._ordered(facts, one) for one in (found.train, found.validation)), units=found.units
        )
        # Once their form is known to be right.
        train, validation = _cut(facts, made.train), _cut(facts, made.validation)
        records.check_no_copy(made.train, made.validation, VALIDATION)
        digest = records.fingerprint(train, validation, units=made.units)
        cut = replace(made, train=train, validation=validation, fingerprint=digest)
        return cut if part is None else dataset_within(part, self._identified(cut))

    def _whole(self, asked: Asked) -> DatasetSpec:
        """Facts of all records, whichever part is read. Raises InvalidValue."""
        said, validation = asked.said, asked.own.validation
        if said.n_validation and validation is None:
            validation = read(OwnOptions, self.name, {"validation": {}}).validation
        if not said.n_validation and validation is not None:
            given = validation.model_dump(exclude_unset=True)
            raise InvalidValue(VALIDATION, given, f"nothing: {self.name} has no validation records")
        return replace(
            said,
            features=with_mask_specs(said.features),
            assumptions=(*said.assumptions, self._word(said.unit)),
            private_validation=None if validation is None else validation.private(parts="", assumption=""),
            asserted_by=self._module,
        )

    def _said(self, handed: Mapping[str, object]) -> DatasetSpec:
        with plugins.raised_as(_SOURCE, self.name, "a source that says its facts", _REMEDY):
            said = self._source.facts(handed)
        if not isinstance(said, DatasetSpec):
            raise self._wrong(f"facts as DatasetSpec, not {type(said).__name__}")
        if said.private_validation is not None or said.asserted_by:
            raise self._wrong("facts without private_validation and asserted_by: the spec says whose they are")
        if problem := _impossible(said):
            raise self._wrong(problem)
        if said.own_loss and re.split("[.:]", said.loss)[0] != self._module.partition(".")[0]:
            raise self._wrong("a loss of its own package: other code would be no part of what the sweep is")
        return said

    def _wrong(self, expected: str) -> InvalidValue:
        return InvalidValue(_SOURCE, self.name, expected, _REMEDY)

    def _ids(self) -> str | None:
        """What the module calls the ids of its records. Raises InvalidValue."""
        named = getattr(self._source, "ids", None)
        if named is None or (isinstance(named, str) and named):
            return named
        raise self._wrong(f"ids to be a name, as of a column, not {named!r}")

    def _identified(self, data: Dataset) -> Dataset:
        """With the id of each training record, that of its unit where there are any. Raises InvalidValue."""
        if data.units is not None:
            ids: NDArray[np.generic] = np.repeat(data.units.keys, np.diff(data.units.offsets))
        else:
            given = data.train.ids
            if given is None or np.shape(given) != (len(data.train),) or any(one is None or one == "" for one in given):
                raise self._wrong(
                    f"`Split.ids` with one of {self._ids()} for each of the training records, none missing"
                )
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
            expected = f"at most {unit.max_records} records of one {unit.column}, each of which is one unit"
            raise InvalidValue(_SOURCE, self.name, expected, "`trainables.data.records.by_unit` makes such units.")

    def _check_count(self, name: str, found: int, declared: int, each: int = 1) -> None:
        """each: what is declared has one record at least, and so many at most."""
        slack = max(1.0, COUNT_TOLERANCE * declared)
        if not declared - slack <= found <= each * (declared + slack):
            of = "" if each == 1 else f", of 1 to {each} records each"
            expected = f"{name} within {COUNT_TOLERANCE:.0%} of what {self.name} loads{of}"
            raise InvalidValue(f"data.{name}", declared, expected, "Declare another.")

    def _ordered(self, facts: DatasetSpec, split: Split) -> Split:
        inputs = {name: np.asarray(array) for name, array in split.inputs.items()}
        said = [name for name, one in facts.features.items() if not one.mask_of]
        if inputs.keys() != set(said):
            raise self._wrong(f"inputs {', '.join(said)}, as the facts say, not {', '.join(inputs) or 'none'}")
        return replace(split, inputs=with_masks(facts.features, inputs), targets=np.asarray(split.targets))


def _imported(place: str) -> DataSource:
    """Raises InvalidValue."""
    found = plugins.brought(_SOURCE, place, _REMEDY, "a data source")
    try:
        source = found() if callable(found) and (isinstance(found, type) or not hasattr(found, "load")) else found
    except TypeError as error:
        raise InvalidValue(_SOURCE, place, f"a source that can be made without arguments ({error})", _REMEDY) from error
    if lacking := [one for one in ("facts", "inspect", "load") if not callable(getattr(source, one, None))]:
        raise InvalidValue(_SOURCE, place, f"a data source, which has {', '.join(lacking)}", _REMEDY)
    return cast(DataSource, source)


def _impossible(said: DatasetSpec) -> str:
    """What cannot be true of any data, in words of what was expected; empty where all can be."""
    bounds = [(one.low, one.high) for one in said.features.values() if one.cardinality is None]
    codes = [one.cardinality for one in said.features.values() if one.cardinality is not None]
    if not said.features or not all(map(_finite, bounds)) or any(type(one) is not int or one < 1 for one in codes):
        return "facts with features, each with finite low < high, or a cardinality of at least 1"
    padded = [one for one in said.features.values() if one.padding is not None]
    held = all(one.shape and 0 <= (one.padding or 0) < (one.cardinality or 0) for one in padded)
    if not held or any(one.mask_of for one in said.features.values()):
        return "facts with a padding that is a code of its sequence, and without masks: they follow"
    if said.task in (Task.CLASSIFICATION, Task.RATING, Task.TOKENS):
        fine = type(said.classes) is int and said.classes >= 2 and len(said.target_shape) == (said.task is Task.TOKENS)
        return "" if fine else f"facts of a {said.task} with at least 2 classes"
    return "" if _finite((said.target_low, said.target_high)) else "facts with finite target_low < target_high"


def _finite(bounds: tuple[float, float]) -> bool:
    return -math.inf < bounds[0] < bounds[1] < math.inf


def _cut(facts: DatasetSpec, split: Split) -> Split:
    """Numbers beyond the declared bounds, at the nearer one."""
    inputs = dict(split.inputs)
    for name, feature in facts.features.items():
        if feature.cardinality is None:
            inputs[name] = np.clip(inputs[name], np.float32(feature.low), np.float32(feature.high))
    return replace(split, inputs=inputs)
