"""What a sweep's spec says of its test records, and the release by which private ones are scored.

That release follows from the spec alone: one histogram with the noise of the smallest budget that the sweep began
with, whichever trial it is for. So results may choose the trial without choosing what its score costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpcore.accounting import headline_of_many, larger_of_parts
from dpcore.checks import InvalidValue
from dpcore.events import Event, Repeated
from dpcore.guarantee import Guarantee, resting_on
from dpcore.mechanisms.noisy_histogram import NoisyHistogram, noise_for, several
from sweeps.privacy.ledger import Choice, declared_number
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import HeldOutRead, HeldOutScore, Request, SweepRecord
from trainables.data import SOURCES
from trainables.data.splits import TestSplit, written_out
from trainables.metrics import STANDARD_ERROR, with_error
from trainables.reports import Bins
from trainables.training.noise import named_generators
from trainables.validation.histogram_bins import cells_for

if TYPE_CHECKING:
    from sweeps.privacy.release import PublishedStore


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTest:
    """The test records of one sweep.

    held       as the data declare them
    histogram  of one reading of private ones; None where they are public
    bins       of the histogram
    counted    what there are `held.n` of: records, or units
    """

    held: TestSplit
    counted: str
    histogram: NoisyHistogram | None = None
    bins: Bins = "loss"

    def claim(self, claim: Guarantee, times: int) -> Guarantee:
        """What a trial's `claim` is together with its test score, read so often; of public records the same."""
        if self.histogram is None or not times:
            return claim
        event = several(self.histogram, times)
        scored = headline_of_many(event, claim.delta, self.histogram.adjacency, claim.unit)
        both = resting_on(larger_of_parts(claim, scored), [claim])
        lines = dict.fromkeys((*named_generators(both.assumptions, [claim]), self.held.assumption))
        return replace(both, assumptions=tuple(lines))

    def __str__(self) -> str:
        """In one line."""
        by, number = self.held.apart or f"the hash of {self.held.id}", declared_number(self.held.n, self.counted)
        if self.histogram is None:
            return f"public ones, {number}: a score leaves as it is, no claim covers them, and each reading counts"
        return (
            f"private ones, {number}, parted off by {by}: a score is one histogram with Gaussian noise of "
            f"{self.histogram.deviation:.4g} records on each count, in parallel with training"
        )


def declared_test(spec: SweepSpec) -> DeclaredTest | None:
    """The test records of a recorded spec; None where it declares none, or its data can be asked no more."""
    held, privacy = held_out_of(spec), spec.privacy
    if held is None:
        return None
    try:
        facts = SOURCES[spec.data.source].facts(spec.data.options())
    except InvalidValue:
        return None
    if not held.private:
        return DeclaredTest(held=held, counted=facts.counted)
    bins: Bins = "loss" if facts.private_validation is None else facts.private_validation.bins
    histogram = NoisyHistogram(
        cells=cells_for(facts, bins).size,
        # Of the smallest budget that the sweep began with.
        noise_multiplier=noise_for(min(privacy.epsilon), privacy.delta, 1),
        adjacency=privacy.adjacency,
        unit_records=facts.unit_records,
    )
    return DeclaredTest(held=held, counted=facts.counted, histogram=histogram, bins=bins)


def held_out_of(spec: SweepSpec) -> TestSplit | None:
    """The test records of a recorded spec, as it declares them; None where it does not, or cannot be asked any more."""
    options = spec.data.options()
    if not options.get("test"):
        return None
    try:
        return SOURCES[spec.data.source].held_out(options)
    except (InvalidValue, KeyError):
        return None


def place(spec: SweepSpec) -> str | None:
    """What tells the test records of a recorded spec from others without reading them; None: nothing does.

    Their file; or the file of all, with the id and key of the hash. Not the share: of two, the smaller part by one hash
    lies in the larger.
    """
    held = held_out_of(spec)
    path = None if held is None else held.path or spec.data.options().get("path")
    if held is None or not isinstance(path, str):
        return None
    return " ".join([written_out(path), *([] if held.path else [repr(held.id), repr(held.key)])])


# Who read the test records of a sweep, for which trial, and what came of it: by the requests of the whole store.
#
# Test records that several sweeps of a store declare are one set where they lie in the same place (the same file, or
# the same id and key of the same file: `sweeps.privacy.heldout.place`), or were the same when they were read. Its
# readings count together. Nothing tells of the same people in another file, or under another key.

UNTOUCHED = "read once, for this model alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutReading:
    """One reading of test records.

    request   by which it is on record
    number    1 for the first reading of them in this store, and so on (of one set, as above)
    of        how many there are by now
    metrics  what came of it, with errors; empty where it was cut short
    """

    request: Request
    sweep: str
    trial: str
    number: int
    of: int
    metrics: Mapping[str, float]

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
            "reading": self.number,
            "readings": self.of,
            "standing": self.standing,
            "asker": self.request.asker,
            "at": self.request.when,
        }

    def __str__(self) -> str:
        listed = [name for name in self.metrics if not name.endswith(STANDARD_ERROR)]
        scores = ", ".join(f"{name} {with_error(self.metrics, name)}" for name in listed)
        return f"{scores or 'cut short, its score is not known'} ({self.standing})"


def readings(store: PublishedStore, sweep: str) -> tuple[HeldOutReading, ...]:
    """Those for trials of a sweep, oldest first. Raises UnknownSweep."""
    own = store.sweep(sweep).name
    if not _times(store.requests(own)):
        return ()
    return tuple(one for one in of_its_records(store, own) if one.sweep == own)


def of_its_records(store: PublishedStore, sweep: str, word: str | None = None) -> tuple[HeldOutReading, ...]:
    """All readings in the store of the test records that a sweep declares, for whichever sweep, oldest first.

    word  of these records, where they were read
    Raises UnknownSweep.
    """
    own = store.sweep(sweep)
    specs = {one.name: one.spec for one in (*store.sweeps(), own)}
    asked = sorted(((one, name) for name in specs for one in store.requests(name)), key=lambda each: each[0].id)
    made = [(one, one.wanted, name) for one, name in asked if isinstance(one.wanted, HeldOutRead)]
    scores = {one.wanted.read: one.wanted.metrics for one, _ in asked if isinstance(one.wanted, HeldOutScore)}
    places = {name: place(specs[name]) for name in {own.name, *(name for _, _, name in made)}}
    marks = [{wanted.records, places[name] or wanted.records} for _, wanted, name in made]
    # Of one set is what shares a place or a word with any reading of it.
    known = {mark for mark in (word, places[own.name]) if mark is not None}
    known |= {wanted.records for _, wanted, name in made if name == own.name}
    while more := {mark for each in marks if each & known for mark in each} - known:
        known |= more
    found = [each for each, mark in zip(made, marks, strict=True) if mark & known]
    return tuple(
        HeldOutReading(
            request=one,
            sweep=name,
            trial=wanted.trial,
            number=number,
            of=len(found),
            metrics=scores.get(one.id, {}),
        )
        for number, (one, wanted, name) in enumerate(found, start=1)
    )


def _times(requests: Iterable[Request]) -> int:
    """How often test records were read."""
    return sum(isinstance(one.wanted, HeldOutRead) for one in requests)


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
        return (Choice(what, "read the test records once"),)


def charged(store: PublishedStore, record: SweepRecord) -> tuple[Charged, ...]:
    """Of a sweep; nothing where it has no private test records."""
    return planned(record.spec, _times(store.requests(record.name)))


def planned(spec: SweepSpec, times: int = 0) -> tuple[Charged, ...]:
    """What a sweep of this spec is charged for so many readings, at least one; nothing where it declares no private
    test records."""
    test, privacy = spec.data.options().get("test"), spec.privacy
    if not isinstance(test, Mapping) or test.get("records") != "private":
        return ()
    # It follows from the recorded spec alone, whatever became of its data: how many cells there are does not matter.
    noise = noise_for(min(privacy.epsilon), privacy.delta, 1)
    release = NoisyHistogram(cells=1, noise_multiplier=noise, adjacency=privacy.adjacency).event()
    event, held = Repeated(event=release, count=max(1, times)), held_out_of(spec)
    if held is None:
        # What parts them can be asked no more (another version refuses it): they are taken for any of the others.
        return (Charged(event=event, parts="", assumption="", times=times, apart=False),)
    return (Charged(event=event, parts=held.parts, assumption=held.assumption, times=times),)
