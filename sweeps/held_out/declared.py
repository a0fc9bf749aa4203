"""What a sweep's spec says of its test records, and the release by which private ones are scored.

That release follows from the spec alone: one histogram with the noise of the smallest budget that the sweep began
with, whichever trial it is for. So results may choose the trial without choosing what its score costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpcore.accounting import headline_of_many
from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.events import Gaussian
from dpcore.guarantee import Guarantee, resting_on
from dpcore.mechanisms.noisy_histogram import NoisyHistogram, noise_for, several
from dpcore.parallel import larger_of_parts
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.release.validation_text import declared_number
from trainables.data import SOURCES
from trainables.data.files import written_out
from trainables.data.splits import HasTestRecords, HeldOut
from trainables.system import PublicFacts
from trainables.training.noise import named_generators
from trainables.validation.declaration import Bins
from trainables.validation.histogram_bins import cells_for


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTest:
    """The test records of one sweep.

    held       as the data declare them
    histogram  of one reading of private ones; None where they are public
    bins       of the histogram
    counted    what there are `held.n` of: records, or units
    """

    held: HeldOut
    counted: str
    histogram: NoisyHistogram | None = None
    bins: Bins = "loss"

    @classmethod
    def of(cls, held: HeldOut, facts: PublicFacts, epsilon: float, delta: float, adjacency: Adjacency) -> DeclaredTest:
        """epsilon  the smallest budget that the sweep began with"""
        if not held.private:
            return cls(held=held, counted=facts.counted)
        bins: Bins = "loss" if facts.private_validation is None else facts.private_validation.bins
        histogram = NoisyHistogram(
            cells=cells_for(facts, bins).size,
            noise_multiplier=noise_for(epsilon, delta, 1),
            adjacency=adjacency,
            unit_records=facts.unit_records,
        )
        return cls(held=held, counted=facts.counted, histogram=histogram, bins=bins)

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


def declared_test(spec: RecordedSpec) -> DeclaredTest | None:
    """The test records of a recorded spec; None where it declares none, or its data can be asked no more."""
    if not spec.canonical.get("data", {}).get("test"):
        return None
    try:
        held, options = _held(spec)
        privacy = spec.canonical["privacy"]
        facts = SOURCES[spec.canonical["data"]["source"]].facts(options)
    except (InvalidValue, KeyError):
        return None
    if held is None:
        return None
    return DeclaredTest.of(held, facts, min(privacy["epsilon"]), privacy["delta"], Adjacency(privacy["adjacency"]))


def reading_event(spec: RecordedSpec) -> Gaussian | None:
    """What one reading of its private test records spends; None where it declares none.

    It follows from the recorded spec alone, whatever became of its data: how many cells there are does not matter.
    """
    test, privacy = spec.canonical.get("data", {}).get("test"), spec.canonical["privacy"]
    if not isinstance(test, Mapping) or test.get("records") != "private":
        return None
    noise = noise_for(min(privacy["epsilon"]), privacy["delta"], 1)
    return NoisyHistogram(cells=1, noise_multiplier=noise, adjacency=Adjacency(privacy["adjacency"])).event()


def held_out_of(spec: RecordedSpec) -> HeldOut | None:
    """The test records of a recorded spec, as it declares them; None where it does not, or cannot be asked any more."""
    try:
        return _held(spec)[0]
    except (InvalidValue, KeyError):
        return None


def place(spec: RecordedSpec) -> str | None:
    """What tells the test records of a recorded spec from others without reading them; None: nothing does.

    Their file; or the file of all, with the id and key of the hash. Not the share: of two, the smaller part by one hash
    lies in the larger.
    """
    if not spec.canonical.get("data", {}).get("test"):
        return None
    try:
        held, options = _held(spec)
    except (InvalidValue, KeyError):
        return None
    path = None if held is None else held.path or options.get("path")
    if held is None or not isinstance(path, str):
        return None
    return " ".join([written_out(path), *([] if held.path else [repr(held.id), repr(held.key)])])


def _held(spec: RecordedSpec) -> tuple[HeldOut | None, Mapping[str, object]]:
    """What the data of a recorded spec say of test records, and all their options. Raises InvalidValue, KeyError."""
    from sweeps.spec.sections import Data

    data = Data(**spec.canonical["data"])
    source, options = SOURCES[data.source], data.options()
    return (source.held_out(options) if isinstance(source, HasTestRecords) else None), options
