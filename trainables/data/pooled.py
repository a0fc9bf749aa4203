"""Another source's records in one pool, split anew by a public seed: the usual protocol of membership attacks.

Published splits give a target model most of the records and leave an attacker few. Here `train` records are drawn for
the target model; the others are validation records: queries, non-members, and the pool of shadow models.

The draw is a function of the seed and the number of records alone, so that n stays a public constant. A part of those
that train (`data.part`) is taken after it: how many records a part has is no constant that positions could be drawn of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from dpcore.checks import InvalidValue
from trainables.data import content, options
from trainables.data.derived import Derived, Of
from trainables.data.published_source import PartOption
from trainables.data.tuning_part import RecordsPart, part_of
from trainables.data.within_part import dataset_within, facts_within
from trainables.system import Dataset, PublicFacts, Split


@options.options
class PoolOptions(PartOption, Of):
    """Options of a pool."""

    train: int = options.whole(doc="how many records are trained on", example=500)
    validation: int | None = options.whole(doc="how many others are kept, all unless given", example=1000, default=None)
    seed: int = options.whole(doc="the seed of the public draw that splits", example=1, minimum=0, default=0)


class Pooled(Derived[PoolOptions]):
    """`data: {source: pooled, of: mnist, train: 10000, validation: 20000, seed: 0, path: DIR}`."""

    name = "pooled"
    doc = "the records of another source (option of), split anew into train and validation by a public seed"
    asks = PoolOptions

    def check(self, of: str, others: Mapping[str, object]) -> None:
        """Raises InvalidValue for records of one's own, and for units."""
        if of == "table":
            raise InvalidValue(
                "data.of",
                of,
                "a published source: a split by position moves records of one's own across when one comes or goes",
                "Use the source table by itself, with data.validation.",
            )
        options.no_unit(self.name, others)

    def record_part(self, options: Mapping[str, object]) -> RecordsPart | None:
        """Of its own training records: see `FeaturedSource.part`."""
        return self._part(self._read(options)[0])

    def declared(self, asked: PoolOptions, facts: PublicFacts) -> PublicFacts:
        """Facts of the new split. Raises InvalidValue (sizes, part)."""
        return facts_within(self._part(asked), self._whole(asked, facts))

    def records(self, asked: PoolOptions, facts: PublicFacts, found: Dataset) -> Dataset:
        """The records of the pool that the draw takes."""
        whole = self._whole(asked, found.facts)
        order = content.drawn(len(found.train) + len(found.validation), asked.seed)
        pool = _together(found.train, found.validation)
        sides = order[: whole.n], order[whole.n :][: whole.n_validation]
        return dataset_within(self._part(asked), content.dataset(whole, *(content.taken(pool, side) for side in sides)))

    def _part(self, asked: PoolOptions) -> RecordsPart | None:
        return part_of(asked.part, asked.train, self.sources[asked.of].parted_by)

    def _whole(self, asked: PoolOptions, facts: PublicFacts) -> PublicFacts:
        records = facts.n + facts.n_validation
        kept = max(1, records - asked.train) if asked.validation is None else asked.validation
        if asked.train + kept > records:
            expected = f"train + validation of at most {records}, the records of {asked.of}"
            raise InvalidValue("data.train", asked.train, expected, "Train on fewer, or keep fewer.")
        return replace(facts, dataset=f"{facts.dataset}-pooled", n=asked.train, n_validation=kept)


def _together(one: Split, other: Split) -> Split:
    inputs = {name: np.concatenate([array, other.inputs[name]]) for name, array in one.inputs.items()}
    ids = None if one.ids is None or other.ids is None else np.concatenate([one.ids, other.ids])
    return Split(inputs=inputs, targets=np.concatenate([one.targets, other.targets]), ids=ids)
