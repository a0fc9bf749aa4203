"""Who read the test records of a sweep, for which trial, and what came of it: by the requests of the whole store.

Test records that several sweeps of a store declare are one set where they lie in the same place (the same file, or the
same id and key of the same file: `sweeps.held_out.declared.place`), or were the same when they were read. Its readings
count together. Nothing tells of the same people in another file, or under another key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpcore.events import Event, Repeated
from sweeps.held_out.declared import held_out_of, place, reading_event
from sweeps.ledger.summary import Choice
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.store.records import HeldOutRead, HeldOutScore, Request, SweepRecord
from trainables.validation.declaration import NOISE_SD

if TYPE_CHECKING:
    from sweeps.release.publisher import Publisher

UNTOUCHED = "read once, for this model alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutReading:
    """One reading of test records.

    id        of its request
    records   word of the store for these test records
    number    1 for the first reading of them in this store, and so on (of one set, as above)
    of        how many there are by now
    metrics, standard_error  what came of it; both empty where it was cut short
    """

    id: int
    sweep: str
    trial: str
    records: str
    asker: str
    when: str
    number: int
    of: int
    metrics: Mapping[str, float]
    standard_error: Mapping[str, float]

    @property
    def standing(self) -> str:
        """What its score may be called."""
        if self.of == 1:
            return UNTOUCHED
        ending = {1: "st", 2: "nd", 3: "rd"}.get(self.number if self.number < 20 else self.number % 10, "th")
        times = f"{self.number}{ending} of {self.of} readings"
        if self.number == 1:
            return f"the {times}: this score is of an untouched test set, the later ones are not"
        return f"the {times}: no longer untouched, since earlier scores could be seen"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "trial": self.trial,
            "metrics": dict(self.metrics),
            "standard_error": dict(self.standard_error),
            "reading": self.number,
            "readings": self.of,
            "standing": self.standing,
            "asker": self.asker,
            "at": self.when,
        }

    def __str__(self) -> str:
        noise = {name: f" (noise {one:.2g})" for name, one in self.metrics.items() if name.endswith(NOISE_SD)}
        spread = {name.removesuffix(NOISE_SD): text for name, text in noise.items()}
        spread |= {name: f" ± {one:.2g}" for name, one in self.standard_error.items()}
        listed = [(name, value) for name, value in self.metrics.items() if name not in noise]
        scores = ", ".join(f"{name} {value:.6g}{spread.get(name, '')}" for name, value in listed)
        return f"{scores or 'cut short, its score is not known'} ({self.standing})"


def readings(store: Publisher, sweep: str) -> tuple[HeldOutReading, ...]:
    """Those for trials of a sweep, oldest first. Raises UnknownSweep."""
    own = store.sweep(sweep).name
    if not _reads(store.requests(own)):
        return ()
    return tuple(one for one in of_its_records(store, own) if one.sweep == own)


def of_its_records(store: Publisher, sweep: str, word: str | None = None) -> tuple[HeldOutReading, ...]:
    """All readings in the store of the test records that a sweep declares, for whichever sweep, oldest first.

    word  of these records, where they were read
    Raises UnknownSweep.
    """
    own = store.sweep(sweep)
    records = {one.name: one for one in (*store.sweeps(), own)}
    asked = {name: store.requests(name) for name in records}
    made = sorted(
        ((one, wanted, name) for name, listed in asked.items() for one, wanted in _reads(listed)),
        key=lambda each: each[0].id,
    )
    places = {name: place(records[name].spec) for name in {own.name, *(name for _, _, name in made)}}
    marks = [{wanted.records, places[name] or wanted.records} for _, wanted, name in made]
    # Of one set is what shares a place or a word with any reading of it.
    known = {mark for mark in (word, places[own.name]) if mark is not None}
    known |= {wanted.records for _, wanted, name in made if name == own.name}
    while more := {mark for each in marks if each & known for mark in each} - known:
        known |= more
    found = [each for each, mark in zip(made, marks, strict=True) if mark & known]
    scores = {
        one.wanted.read: one.wanted
        for listed in asked.values()
        for one in listed
        if isinstance(one.wanted, HeldOutScore)
    }
    return tuple(
        HeldOutReading(
            id=one.id,
            sweep=name,
            trial=wanted.trial,
            records=wanted.records,
            asker=one.asker,
            when=one.when,
            number=number,
            of=len(found),
            metrics=scores[one.id].metrics if one.id in scores else {},
            standard_error=scores[one.id].standard_error if one.id in scores else {},
        )
        for number, (one, wanted, name) in enumerate(found, start=1)
    )


def _reads(requests: Iterable[Request]) -> list[tuple[Request, HeldOutRead]]:
    return [(one, one.wanted) for one in requests if isinstance(one.wanted, HeldOutRead)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Charged:
    """What the readings of private test records add to a total: one, planned whether or not it is made, or more.

    event       of all of them
    parts       what parts these records off; the same in sweeps whose test records are the same
    assumption  that parallel composition rests on
    times       how many were made
    apart       whether nobody among them trains or validates, in any of the sweeps that are counted together
    """

    event: Event
    parts: str
    assumption: str
    times: int
    apart: bool = True

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Why the total is no guarantee: more were made than were planned, by somebody who could see results."""
        if self.times <= 1:
            return ()
        what = f"the private test records were read {self.times} times, and one reading was planned"
        return (Choice(what=what, will=what, instead="read the test records once"),)


def planned(spec: RecordedSpec) -> tuple[Charged, ...]:
    """What a sweep of this spec will be charged: one reading; nothing where it declares no private test records."""
    return _charged(spec, 0)


def charged(store: Publisher, record: SweepRecord) -> tuple[Charged, ...]:
    """Of a sweep; nothing where it has no private test records."""
    return _charged(record.spec, len(_reads(store.requests(record.name))))


def _charged(spec: RecordedSpec, times: int) -> tuple[Charged, ...]:
    release = reading_event(spec)
    if release is None:
        return ()
    event, held = Repeated(event=release, count=max(1, times)), held_out_of(spec)
    if held is None:
        # What parts them can be asked no more (another version refuses it): they are taken for any of the others.
        return (Charged(event=event, parts="", assumption="", times=times, apart=False),)
    return (Charged(event=event, parts=held.parts, assumption=held.assumption, times=times),)
