"""What every data source that takes `data.part` is asked: see `trainables.data.splits`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcore.checks import InvalidValue
from tests.trainables.data_exam.candidate import Candidate, same
from trainables.data import records as content
from trainables.system import Dataset, Split

SHARE, KEYS = 0.5, ("a", "b", "c", "d", "e", "f")
Rows = Counter[bytes]


def parts_hold_each_record_once(one: Candidate, folder: Path) -> list[str]:
    """What tunes and what trains finally are disjoint, and all together; by each record alone, and by the key.

    Asked under several keys, of the few records of an exam: whoever is in one part stays there when records are in
    another order, when another comes in somebody's place, and under a limit; and validation records are the same in
    both parts, or are parted too.
    """
    if not any(option.name == "part" for option in one.listed):
        return []
    with one.sized(), pytest.MonkeyPatch.context() as patch:
        # A part of six records may well be of one class.
        patch.setattr(content, "check_several_classes", lambda facts, train: None)
        records = list(one.made(0))
        one.written(folder / "made", records)
        faults = [fault for key in KEYS for fault in _under(one, key, folder / "made")]
        kept = {key: _parts(one, key, folder / "made") for key in KEYS}
        if len({str(sorted(_train(tuning).items())) for tuning, _ in kept.values()}) < 2:
            faults.append("every key parts the records alike")
        if sum(None not in parts for parts in kept.values()) < 2:
            faults.append("under these keys there is somebody in both parts too seldom to tell")
        faults += _stays(one, records, folder, kept)
        return sorted(set(faults))


def _under(one: Candidate, key: str, made: Path) -> Iterator[str]:
    """One key over the same records."""
    whole, (tuning, final) = one.source.load(one.asked(made)), _parts(one, key, made)
    for part in (tuning, final):
        if part is not None and abs(part.facts.n - SHARE * whole.facts.n) > 1 / 2:
            yield f"n is {part.facts.n} of {whole.facts.n} for a share of {SHARE}"
        if part is not None and len(part.facts.assumptions) <= len(whole.facts.assumptions):
            yield "no claim says what the part rests on"
    if not _is_parted(_train(tuning), _train(final), _train(whole)):
        yield "the parts share training records, or lack some"
    if tuning is not None and final is not None:
        if abs(tuning.facts.n + final.facts.n - whole.facts.n) > 1:
            yield "n of both parts is not that of all records, but for rounding"
        if tuning.fingerprint == final.fingerprint:
            yield "both parts have one fingerprint"
        judged = [_rows(part.validation) for part in (tuning, final, whole)]
        if not judged[0] == judged[1] == judged[2] and not _is_parted(*judged):
            yield "validation records are neither the same in both parts nor parted"
        if not all(
            again and same(part, again) for part, again in zip((tuning, final), _parts(one, key, made), strict=True)
        ):
            yield "read again, they are other parts"
    if "limit" in one.others and any(option.name == "limit" for option in one.listed):
        limited = {"limit": one.others["limit"]}
        few = [_train(part) for part in _parts(one, key, made, **limited)]
        if any(found - _train(part) for found, part in zip(few, (tuning, final), strict=True)):
            yield "a limit moves records from one part to the other"
        if few[0] + few[1] != _train(one.source.load(one.asked(made, **limited))):
            yield "under a limit the parts are not those of the records that it takes"


def _stays(one: Candidate, records: Sequence[Any], folder: Path, kept: dict[str, list[Dataset | None]]) -> list[str]:
    """Neighbours in turn: two change places, another record comes in the place of one, or one leaves."""
    faults, seen = [], 0
    others = list(one.made(1))
    changed = {"swapped": [records[i ^ 1] if i ^ 1 < len(records) else records[i] for i in range(len(records))]}
    changed |= {f"replaced-{i}": [*records[:i], others[i], *records[i + 1 :]] for i in range(0, len(records), 3)}
    if any(option.name == "n" for option in one.listed):
        # Of published records the number is known, and one less is refused.
        changed |= {f"gone-{i}": [*records[:i], *records[i + 1 :]] for i in range(0, len(records), 4)}
    for name, some in changed.items() if records else ():
        one.written(folder / name, some)
        for key in KEYS[:2]:
            now, before = _parts(one, key, folder / name), kept[key]
            for i, side in enumerate(now):
                there, elsewhere = _train(side), _train(before[1 - i])
                seen += len(there & _train(before[i]))
                if there & elsewhere:
                    faults.append(f"{name.partition('-')[0]}: somebody else moved to the other part")
    return faults if seen or not records else ["no record was seen twice"]


def _parts(one: Candidate, key: str, folder: Path, **changes: object) -> list[Dataset | None]:
    """Those that tune, and those of the final run; None for a part of nobody, which is refused."""
    declared: Any = one.others.get("part", {})
    found: list[Dataset | None] = []
    for use in ("tuning", "final"):
        part = {**declared, "use": use, "share": SHARE, "key": key}
        try:
            found.append(one.source.load(one.asked(folder, part=part, **changes)))
        except InvalidValue as error:
            if "found none" not in error.expected:
                raise
            found.append(None)
    return found


def _is_parted(one: Rows, other: Rows, whole: Rows) -> bool:
    return not one & other and one + other == whole


def _train(part: Dataset | None) -> Rows:
    return Counter() if part is None else _rows(part.train)


def _rows(split: Split) -> Rows:
    columns = [np.ascontiguousarray(array) for _, array in sorted(split.inputs.items())] + [split.targets]
    return Counter(b"".join(column[row].tobytes() for column in columns) for row in range(len(split)))
