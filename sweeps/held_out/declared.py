"""What a sweep's spec says of its test records, and the release by which private ones are scored.

That release follows from the spec alone: one histogram with the noise of the smallest budget, whichever trial it is
for. So results may choose the trial without choosing what its score costs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpcore.accounting import headline_of_many
from dpcore.adjacency import Adjacency
from dpcore.checks import InvalidValue
from dpcore.guarantee import Guarantee, resting_on
from dpcore.mechanisms.noisy_histogram import NoisyHistogram, noise_for, several
from dpcore.parallel import larger_of_parts
from sweeps.provenance.recorded_spec import RecordedSpec
from trainables.data import SOURCES
from trainables.data.test_part import HasTestRecords, HeldOut
from trainables.system import PublicFacts
from trainables.training.noise import named_generators
from trainables.validation.declaration import Bins
from trainables.validation.layouts import cells_for


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTest:
    """The test records of one sweep.

    held       as the data declare them
    histogram  of one reading of private ones; None where they are public
    bins       of the histogram
    """

    held: HeldOut
    histogram: NoisyHistogram | None = None
    bins: Bins = "loss"

    @classmethod
    def of(cls, held: HeldOut, facts: PublicFacts, epsilon: float, delta: float, adjacency: Adjacency) -> DeclaredTest:
        """epsilon  the smallest budget of the sweep"""
        if not held.private:
            return cls(held=held)
        bins: Bins = "loss" if facts.private_validation is None else facts.private_validation.bins
        histogram = NoisyHistogram(
            cells=cells_for(facts, bins).size,
            noise_multiplier=noise_for(epsilon, delta, 1),
            adjacency=adjacency,
            unit_records=facts.unit_records,
        )
        return cls(held=held, histogram=histogram, bins=bins)

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
        if self.histogram is None:
            return (
                f"{self.held.n:,} public ones: a score leaves as it is, no claim covers them, and each reading counts"
            )
        return (
            f"{self.held.n:,} private ones, parted off by the hash of {self.held.id}: a score is one histogram with "
            f"Gaussian noise of {self.histogram.deviation:.4g} records on each count, in parallel with training"
        )


def declared_test(spec: RecordedSpec) -> DeclaredTest | None:
    """The test records of a recorded spec; None where it declares none, or its data can be asked no more."""
    from sweeps.spec.model import Data

    if not spec.canonical.get("data", {}).get("test"):
        return None
    try:
        data, privacy = Data(**spec.canonical["data"]), spec.canonical["privacy"]
        source = SOURCES[data.source]
        held = source.held_out(data.options()) if isinstance(source, HasTestRecords) else None
        facts = source.facts(data.options())
    except (InvalidValue, KeyError):
        return None
    if held is None:
        return None
    return DeclaredTest.of(held, facts, min(privacy["epsilon"]), privacy["delta"], Adjacency(privacy["adjacency"]))
