"""Who read the test records of a sweep, for which trial, and what came of it: by the requests of the whole store.

Records that several sweeps of a store declare as their test part are one set: its readings count together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpcore.events import Event
from dpcore.mechanisms.noisy_histogram import several
from sweeps.held_out.declared import declared_test
from sweeps.ledger.summary import Choice
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.records import SweepRecord
from sweeps.requests import HeldOutRead, HeldOutScore, Request
from trainables.validation.reports import NOISE_SD

if TYPE_CHECKING:
    from sweeps.release.publisher import Publisher

UNTOUCHED = "read once, for this model alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutReading:
    """One reading of test records.

    id        of its request
    records   word of the store for these test records
    number    1 for the first reading of them in this store, and so on
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
    asked = {own: store.requests(own)}
    sets = {wanted.records for _, wanted in _reads(asked[own])}
    return tuple(one for one in of_records(store, sets, asked) if one.sweep == own) if sets else ()


def of_records(
    store: Publisher, sets: Collection[str], known: Mapping[str, Sequence[Request]] | None = None
) -> tuple[HeldOutReading, ...]:
    """All readings of certain test records in the store, oldest first.

    known  requests of sweeps that were read already
    """
    asked = dict(known or {})
    for record in store.sweeps():
        if record.name not in asked:
            asked[record.name] = store.requests(record.name)
    scores = {
        one.wanted.read: one.wanted
        for listed in asked.values()
        for one in listed
        if isinstance(one.wanted, HeldOutScore)
    }
    found = sorted(
        ((one.id, name, one, wanted) for name, listed in asked.items() for one, wanted in _reads(listed)),
        key=lambda each: each[0],
    )
    order: dict[str, list[int]] = {}
    for id_, _, _, wanted in found:
        order.setdefault(wanted.records, []).append(id_)
    return tuple(
        HeldOutReading(
            id=id_,
            sweep=name,
            trial=wanted.trial,
            records=wanted.records,
            asker=one.asker,
            when=one.when,
            number=order[wanted.records].index(id_) + 1,
            of=len(order[wanted.records]),
            metrics=scores[id_].metrics if id_ in scores else {},
            standard_error=scores[id_].standard_error if id_ in scores else {},
        )
        for id_, name, one, wanted in found
        if wanted.records in sets
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
    declared = declared_test(spec)
    if declared is None or declared.histogram is None:
        return ()
    event = several(declared.histogram, max(1, times))
    return (Charged(event=event, parts=declared.held.parts, assumption=declared.held.assumption, times=times),)
