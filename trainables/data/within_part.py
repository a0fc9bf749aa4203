"""What is left of facts and records where one part is read: see `trainables.data.tuning_part`.

Which part a record is in follows from the record alone: from its id, or from all that its source knows of it. So it is
decided before anything is made of records (a map, features, a pool's draw would all do it in another way), and with a
`limit`, of which the same positions count in both parts, no record is moved from one part to the other.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import content
from trainables.data.tuning_part import HERE, RecordsPart
from trainables.system import Dataset, PublicFacts, Split


def facts_within(part: RecordsPart | None, facts: PublicFacts, *, validation: bool = False) -> PublicFacts:
    """Facts of one part of the training records, from those of all: numbers as declared, never counted.

    validation  whether validation records are some of those that are parted, too; else both parts have all of them
    Raises InvalidValue for a share that leaves no validation record.
    """
    if part is None:
        return facts
    judged = part.size(facts.n_validation) if validation else facts.n_validation
    if validation and facts.n_validation and not 0 < judged < facts.n_validation:
        expected = f"a share that leaves some of {facts.n_validation} validation records in both parts"
        raise InvalidValue(f"{HERE}.share", part.share, expected, "Write `share: 0.2` for a fifth of them, say.")
    return replace(
        facts,
        n=part.size(facts.n),
        n_validation=judged,
        assumptions=(*facts.assumptions, part.assumption),
        treatment=(*facts.treatment, part.treatment(facts.unit)),
    )


def dataset_within(part: RecordsPart | None, data: Dataset, *, validation: bool = False) -> Dataset:
    """The records of one part, in their order, with its facts. Raises InvalidValue for a part of none, or of one class.

    data  all of them, with an id each (`Split.ids`) where their content is not what parts them
    """
    if part is None:
        return data
    facts = facts_within(part, data.facts, validation=validation)
    held = part.holds(_ids(data.train))
    units = data.units
    if units is None:
        rows = np.flatnonzero(held)
    else:
        # All records of a unit have its id.
        rows, units = units.picked(np.flatnonzero(held[units.offsets[:-1]]))
    train, judged = content.taken(data.train, rows), data.validation
    if validation:
        judged = content.taken(judged, np.flatnonzero(part.holds(_ids(judged))))
    if not len(train):
        expected = f"a share that leaves training records of {facts.dataset} in the part, found none"
        raise InvalidValue(f"{HERE}.share", part.share, expected, "Write another share, or another `key`.")
    content.check_several_classes(facts, train)
    digest = content.fingerprint(train, judged, units=units)
    return replace(data, facts=facts, train=train, validation=judged, fingerprint=digest, units=units)


def _ids(split: Split) -> NDArray[np.generic]:
    """What decides about each record: [n]."""
    return contents(split) if split.ids is None else split.ids


def contents(split: Split) -> NDArray[np.generic]:
    """SHA-256 of each record's inputs and target, in hex: [n]. Equal records of equal types have one."""
    given = [array for _, array in sorted(split.inputs.items())] + [split.targets]
    columns = [array.astype(array.dtype.newbyteorder("<"), copy=False) for array in given]
    found = np.empty(len(split), dtype=object)
    for row in range(len(split)):
        digest = hashlib.sha256()
        for column in columns:
            digest.update(np.ascontiguousarray(column[row]).tobytes())
        found[row] = digest.hexdigest()
    return found
