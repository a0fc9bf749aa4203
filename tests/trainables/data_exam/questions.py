"""What every data source is asked. Each question returns what is wrong, one sentence each; nothing is a pass."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from dpcore.checks import InvalidValue
from tests.trainables.data_exam.candidate import Candidate, same
from tests.trainables.data_exam.parts import parts_hold_each_record_once
from trainables.data import records
from trainables.system import Dataset, DatasetSpec

ROUNDING = 1e-6
"""Of float32 at a bound."""
Question = Callable[[Candidate, Path], list[str]]


def sit(candidate: Candidate, folder: Path) -> dict[str, list[str]]:
    """{question: faults}, of those that found any. `folder`: an empty one for files."""
    found = {name: ask(candidate, folder / name) for name, ask in QUESTIONS.items()}
    return {name: faults for name, faults in found.items() if faults}


def facts_read_no_record(one: Candidate, folder: Path) -> list[str]:
    """The facts are the same whatever the records are, opened no file, and are those that come with the records."""
    with one.sized():
        one.written(folder / "one", one.made(0))
        with opened(folder) as files:
            facts = one.source.facts(one.asked(folder / "one"))
        faults = [f"facts opened {name}" for name in files]
        others = one.written(folder / "other", one.made(1))
        if described(one.source.facts(one.asked(folder / "other")), folder) != described(facts, folder):
            faults.append("other records have other facts")
        for file in others:
            if file.is_file():
                file.write_bytes(b"no record at all")
        if described(one.source.facts(one.asked(folder / "other")), folder) != described(facts, folder):
            faults.append("facts follow what is in the files")
        if one.source.load(one.asked(folder / "one")).facts != facts:
            faults.append("records come with other facts")
        return faults


def described(facts: DatasetSpec, folder: Path) -> str:
    """Facts as a text that names no folder of the exam."""
    return repr(facts).replace(str(folder / "one"), "").replace(str(folder / "other"), "")


_OPENED: list[str] = []
_WATCHING = [False]


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _WATCHING[0]:
        _OPENED.append(str(arguments[0]))


sys.addaudithook(_hook)


@contextmanager
def opened(folder: Path) -> Iterator[list[str]]:
    """Files below `folder`, and those of packages that hold data, which this Python opens meanwhile."""
    found: list[str] = []
    _OPENED.clear()
    _WATCHING[0] = True
    try:
        yield found
    finally:
        _WATCHING[0] = False
        code = (".py", ".pyc", ".so")
        data = [name for name in _OPENED if "/data/" in name and not name.endswith(code)]
        found += [name for name in _OPENED if name.startswith(str(folder))] + data


def records_match_the_facts(one: Candidate, folder: Path) -> list[str]:
    """Names, shapes, types, bounds, codes, classes and counts are those declared; numbers out of bounds are cut."""
    with one.sized():
        sets = [("", one.loaded(folder / "made", one.made(0)))]
        if one.beyond is not None:
            # A refusal is as good.
            with suppress(InvalidValue):
                sets.append(("beyond bounds: ", one.loaded(folder / "beyond", one.beyond(0))))
        return [label + fault for label, data in sets for fault in _unlike(one, data)]


def _unlike(one: Candidate, data: Dataset) -> Iterator[str]:
    facts = data.facts
    for part, split in (("train", data.train), ("validation", data.validation)):
        if split.inputs.keys() != facts.features.keys():
            yield f"{part}: inputs {sorted(split.inputs)} for features {sorted(facts.features)}"
            continue
        try:
            held = records.checked(facts, part, split)
        except InvalidValue as error:
            yield f"{part}: {error}"
            continue
        for name, feature in facts.features.items():
            array, slack = split.inputs[name], ROUNDING * (feature.high - feature.low)
            if array.dtype != held.inputs[name].dtype and array.dtype != np.float64:
                yield f"{part}, {name}: values of type {array.dtype}"
            within = np.clip(array, feature.low - slack, feature.high + slack)
            if feature.cardinality is None and not np.array_equal(within, array):
                yield f"{part}, {name}: numbers beyond [{feature.low}, {feature.high}]"
        if split.targets.dtype.kind != held.targets.dtype.kind or not np.allclose(split.targets, held.targets):
            yield f"{part}: targets of type {split.targets.dtype}, or beyond their bounds"
    found = data.present, len(data.validation)
    if one.exact and data.units is None and found != (facts.n, facts.n_validation):
        yield f"{found} records where {(facts.n, facts.n_validation)} are declared"
    if one.exact and data.units is not None and data.present != facts.n:
        yield f"{data.present} units where {facts.n} are declared"
    if not (facts.n and len(data.train)) or (facts.n_validation > 0) != (len(data.validation) > 0):
        yield "nothing to train on, or validation records that were not declared"


def the_fingerprint_follows_the_records(one: Candidate, folder: Path) -> list[str]:
    """It moves when one record moves and only then: not with the folder, the threads of a library or another's chance.

    The spec's options are left as they were.
    """
    with one.sized():
        records, others = list(one.made(0)), list(one.made(1))
        first, faults = one.loaded(folder / "first", records), []
        for threads in (1, 2):
            here = folder / f"threads-{threads}"
            one.written(here, records)
            asked = one.asked(here)
            np.random.seed(threads)  # noqa: NPY002  # what a source must not draw from
            torch.manual_seed(threads)
            with threadpool_limits(limits=threads):
                again = one.source.load(asked)
            if again.fingerprint != first.fingerprint or len(again.train) != len(first.train):
                faults.append(f"with {threads} threads, in another folder, they are other records")
            if asked != one.asked(here):
                faults.append("loading changed the options")
        seen = 0
        for place in range(len(records)):
            moved = [*records]
            moved[place] = others[place]
            try:
                data = one.loaded(folder / f"moved-{place}", moved)
            except InvalidValue as error:
                faults.append(f"record {place} moved: {error}")
                continue
            changed = not same(data, first)
            seen += changed
            if changed != (data.fingerprint != first.fingerprint):
                faults.append(f"record {place} moved: of the records {changed}, of the fingerprint {not changed}")
        if records and not seen:
            faults.append("no record that moved was seen")
        return faults


def order_means_nothing_where_it_is_declared_so(one: Candidate, folder: Path) -> list[str]:
    """Rows turned round are the same records with the same fingerprint, where the source says that order is nothing."""
    if not one.orderless:
        return []
    with one.sized():
        records = list(one.made(0))
        first, turned = one.loaded(folder / "first", records), one.loaded(folder / "turned", records[::-1])
        return (
            [] if same(first, turned) and first.fingerprint == turned.fingerprint else ["it follows the order of rows"]
        )


def what_is_missing_or_senseless_is_refused(one: Candidate, folder: Path) -> list[str]:
    """A missing file, an unknown option and a wrong type: name, value, expectation, remedy, before a record is read."""
    with one.sized():
        faults = []
        count = len(one.written(folder / "whole", one.made(0)))
        one.source.inspect(one.asked(folder / "whole"))
        for place in range(count):
            here = folder / f"without-{place}"
            missing = one.written(here, one.made(0))[place]
            shutil.rmtree(missing) if missing.is_dir() else missing.unlink()
            for ask in (one.source.inspect, one.source.load):
                with opened(here) as files:
                    faults += _badly_refused(f"{ask.__name__} without file {place}", ask, one.asked(here), "path")
                faults += [f"{ask.__name__} without file {place} opened {name} first" for name in files]
        names = [option.name for option in one.listed]
        wrong = [("colour", "blue"), *((name, value) for name in names for value in one.bad.get(name, [object()]))]
        for name, value in wrong:
            asked = one.asked(folder / "whole", **{name: value})
            asks = [one.source.inspect, one.source.load] + [one.source.facts] * (name != "path")
            for ask in asks:
                with opened(folder / "whole") as files:
                    faults += _badly_refused(f"{ask.__name__} with {name}={value!r}", ask, asked, name)
                faults += [f"{ask.__name__} with {name}={value!r} opened {file} first" for file in files]
        return faults


def _badly_refused(said: str, ask: Callable[[Any], object], asked: dict[str, object], name: str) -> list[str]:
    try:
        ask(asked)
    except InvalidValue as error:
        if error.name.split(".")[:2] != ["data", name]:
            return [f"{said}: it names {error.name}"]
        parts = {"expectation": error.expected, "remedy": error.remedy}
        return [f"{said}: no {part}" for part, text in parts.items() if not text.strip()]
    except Exception as error:
        return [f"{said}: {type(error).__name__}: {error}"]
    return [f"{said}: it is accepted"]


def listed_options_are_read(one: Candidate, folder: Path) -> list[str]:
    """Another value of each gives other facts or records, or is refused."""
    with one.sized():
        one.written(folder, one.made(0))
        asked = one.asked(folder)
        before = one.source.load(asked)
        faults = [f"{option.name}: no text" for option in one.listed if not option.doc.strip()]
        names = [option.name for option in one.listed]
        faults += [f"{name} is listed twice" for name, count in Counter(names).items() if count > 1]
        for name in names:
            if name == "path" or name in one.silent or (name == "part" and name not in one.others):
                # Parts have a question of their own.
                continue
            if name not in one.others:
                faults.append(f"{name}: the candidate has to name another value in `others`, or a reason in `silent`")
                continue
            try:
                after = one.source.load({**asked, name: one.others[name]})
            except InvalidValue as error:
                faults += [] if error.name.startswith(f"data.{name}") else [f"{name}: refused as {error.name}"]
                continue
            if after.facts == before.facts and same(after, before):
                faults.append(f"{name}: neither facts nor records depend on it")
        return faults


def units_hold_their_records_together(one: Candidate, folder: Path) -> list[str]:
    """Every record has an owner; an owner's records, at most so many, are one unit on one side of the split."""
    if one.owner is None:
        return []
    with one.sized():
        records = list(one.made(0))
        data = one.loaded(folder / "made", records)
        if data.units is None or data.facts.unit is None:
            return ["the facts or the records name no unit"]
        faults = []
        if len(set(data.units.keys.tolist())) != len(data.units):
            faults.append("two units have one key")
        kept = Counter(min(count, one.largest) for count in Counter(map(one.owner, records)).values())
        trained = Counter(np.diff(data.units.offsets).tolist())
        judged = sum(size * count for size, count in (kept - trained).items())
        if trained - kept or judged != len(data.validation):
            faults.append(f"units of {dict(trained)} records and {len(data.validation)} others, from {dict(kept)}")
        if one.nameless is not None:
            with suppress(InvalidValue):
                one.loaded(folder / "nameless", [one.nameless(records[0]), *records[1:]])
                faults.append("a record without an owner is accepted")
        return faults


QUESTIONS: dict[str, Question] = {
    ask.__name__: ask
    for ask in (
        facts_read_no_record,
        records_match_the_facts,
        the_fingerprint_follows_the_records,
        order_means_nothing_where_it_is_declared_so,
        what_is_missing_or_senseless_is_refused,
        listed_options_are_read,
        units_hold_their_records_together,
        parts_hold_each_record_once,
    )
}
