"""Another source's records, seen in another way: option `of` names that source, every further option is its own.

frozen     images as features of a fixed random convolution
pooled     the records in one pool, split anew by a public seed
projected  the records on the leading principal axes of public ones
"""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpcore.checks import InvalidValue
from trainables import reports as declaration
from trainables.data import records
from trainables.data.options import Options, Seed, Whole, apart, no_unit, read
from trainables.data.source import AnySource, FeaturedSource, PartOption
from trainables.data.splits import PartSplit, dataset_within, facts_within
from trainables.system import Dataset, DatasetSpec, InputSpec, Split


class Of(Options):
    """The option that names the other source."""

    of: str = Field("", description="the source of the records; every further option is its own", examples=["mnist"])


Own = TypeVar("Own", bound=Of)


@dataclass(frozen=True)
class Asked(Generic[Own]):
    """What a spec says: `own` options, and `others` of the source that they name."""

    own: Own
    source: AnySource
    others: Mapping[str, object]


class Derived(FeaturedSource[Asked[Own]]):
    """A source over other `sources`, of one record after the other: `data.part` is an option of the other source."""

    def __init__(self, sources: Mapping[str, AnySource]) -> None:
        self.sources = sources

    def read(self, options: Mapping[str, object]) -> Asked[Own]:
        """See `FeaturedSource.read`; of the other source's none is looked at."""
        own, others = apart(self.asks, options)
        of = options.get("of")
        if not isinstance(of, str) or of not in self.sources:
            remedy = "It names the source of the records."
            raise InvalidValue("data.of", of, "one of " + ", ".join(self.sources), remedy)
        self.check(of, others)
        return Asked(read(self.asks, self.name, own), self.sources[of], others)  # type: ignore[arg-type]

    def record_facts(self, asked: Asked[Own]) -> DatasetSpec:
        """Facts of what is made of the records. Raises InvalidValue (source, own options, the other source's)."""
        return self.declared(asked.own, asked.source.facts(asked.others))

    def record_part(self, asked: Asked[Own]) -> PartSplit | None:
        """The other source's, which reads it before anything is made of its records."""
        return asked.source.part(asked.others)

    def inspect_records(self, asked: Asked[Own]) -> None:
        """Whether the other source's files are there; reads no record. Raises InvalidValue."""
        asked.source.inspect(asked.others)

    def load_records(self, asked: Asked[Own], kept_in: Path | None = None) -> Dataset:
        """What is made of the other source's records. Raises InvalidValue."""
        source = asked.source
        found = source.load_records(source.read(asked.others), kept_in)
        return self.records(asked.own, self.record_facts(asked), found)

    def check(self, of: str, others: Mapping[str, object]) -> None:
        """Raises InvalidValue where nothing can be made of source `of` under its options `others`."""
        return None

    @abstractmethod
    def declared(self, asked: Own, facts: DatasetSpec) -> DatasetSpec:
        """The facts, from those of the other source; reads no record. Raises InvalidValue."""

    @abstractmethod
    def records(self, asked: Own, facts: DatasetSpec, found: Dataset) -> Dataset:
        """The records, from those of the other source. Raises InvalidValue."""

    def fingerprint(self, asked: Own, found: Dataset) -> str:
        """SHA-256 over what goes in: the other source's records and what is done with them.

        What comes out of a linear algebra library has other last digits under another number of threads, or on another
        processor, and would not be known again.
        """
        made = [self.name, asked.model_dump(), found.fingerprint]
        return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


CONTRAST = 10 / 255
"""Added to the deviation of a patch, so that flat ones do not blow up (Coates et al. use a variance of 10 of 255)."""
BLOCK = 100
PER_FILTER = 8


class FrozenOptions(Of):
    """Options of frozen features."""

    filters: Whole = Field(128, description="the number of random directions", examples=[256])
    patch: Whole = Field(6, description="the side of a patch, in pixels", examples=[5])
    seed: Seed = Field(0, description="the seed of the public draw of directions", examples=[1])


class Frozen(Derived[FrozenOptions]):
    """`data: {source: frozen, of: cifar10, filters: 128, patch: 6, seed: 0, path: DIR}`, of a source of images.

    Source   Coates, Lee & Ng 2011 (patches, contrast, two-sided thresholds, pooling over quadrants), with filters drawn
             at random instead of learnt: nothing to download and nothing to account for.
    Form     Every patch of `patch` x `patch` pixels loses its mean and is divided by its own deviation; `filters`
             directions are projected on; positive and negative parts are averaged over four quadrants; the vector of
             8 x filters numbers loses its own mean and is divided by its norm. No record's features depend on another.
    """

    name = "frozen"
    doc = "the images of another source (option of) as features of a fixed random convolution; options filters, patch"
    asks = FrozenOptions

    def declared(self, asked: FrozenOptions, facts: DatasetSpec) -> DatasetSpec:
        """Facts of the features. Raises InvalidValue (images)."""
        shapes, patch = [feature.shape for feature in facts.features.values()], asked.patch
        if len(shapes) != 1 or len(shapes[0]) not in (2, 3) or min(shapes[0][-2:]) < patch + 1:
            expected = f"one image larger than {patch} x {patch} pixels per record"
            raise InvalidValue("data.of", asked.of, expected, "Name a source of larger images, or lower data.patch.")
        feature = InputSpec(shape=(PER_FILTER * asked.filters,), low=-1.0, high=1.0)
        return replace(facts, dataset=f"{facts.dataset}-frozen", features={"features": feature})

    def records(self, asked: FrozenOptions, facts: DatasetSpec, found: Dataset) -> Dataset:
        """The features of every image, float32 in [-1, 1]."""
        (name,) = found.facts.features

        def seen(split: Split) -> Split:
            rows = features(split.inputs[name], asked.filters, asked.patch, asked.seed)
            return replace(split, inputs={"features": rows})

        parts = seen(found.train), seen(found.validation)
        return records.dataset(facts, *parts, units=found.units, digest=self.fingerprint(asked, found))


def features(images: NDArray[np.generic], filters: int, patch: int, seed: int) -> NDArray[np.float32]:
    """Images [N, H, W] or [N, C, H, W] as [N, 8 * filters], each row of norm 1 (or 0, for an image of one colour)."""
    import torch
    from torch.nn import functional

    grey = images.ndim == 3
    channels = 1 if grey else images.shape[1]
    size = channels * patch * patch
    drawn = np.random.default_rng([2011, seed]).standard_normal((filters, size)).astype(np.float32)
    # A direction without mean sees the patch without its mean.
    drawn -= drawn.mean(axis=1, keepdims=True)
    bank = torch.from_numpy(drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).view(filters, channels, patch, patch)
    mean = torch.full((1, channels, patch, patch), 1 / size)
    out = np.empty((len(images), PER_FILTER * filters), dtype=np.float32)
    for start in range(0, len(images), BLOCK):
        block = torch.from_numpy(np.ascontiguousarray(images[start : start + BLOCK], dtype=np.float32))
        block = block.unsqueeze(1) if grey else block
        average = functional.conv2d(block, mean)
        variance = (functional.conv2d(block.square(), mean) - average.square()).clamp(min=0.0)
        seen = functional.conv2d(block, bank) / (variance.sqrt() + CONTRAST)
        pooled = [functional.adaptive_avg_pool2d(one.clamp(min=0.0), 2).flatten(1) for one in (seen, -seen)]
        rows = torch.cat(pooled, dim=1)
        out[start : start + BLOCK] = functional.normalize(rows - rows.mean(dim=1, keepdim=True), dim=1).numpy()
    return out


class PoolOptions(PartOption, Of):
    """Options of a pool."""

    train: Whole = Field(description="how many records are trained on", examples=[500])
    validation: Whole | None = Field(None, description="how many others are kept, all unless given", examples=[1000])
    seed: Seed = Field(0, description="the seed of the public draw that splits", examples=[1])


class Pooled(Derived[PoolOptions]):
    """`data: {source: pooled, of: mnist, train: 10000, validation: 20000, seed: 0, path: DIR}`.

    The usual protocol of membership attacks. Published splits give a target model most of the records and leave an
    attacker few. Here `train` records are drawn for the target model; the others are validation records: queries,
    non-members, and the pool of shadow models.

    The draw is a function of the seed and the number of records alone, so that n stays a public constant. A part of
    those that train (`data.part`) is taken after it: how many records a part has is no constant that positions could be
    drawn of.
    """

    name = "pooled"
    doc = "the records of another source (option of), split anew into train and validation by a public seed"
    asks = PoolOptions

    def check(self, of: str, others: Mapping[str, object]) -> None:
        """Raises InvalidValue for records of one's own, and for units."""
        if of == "table":
            expected = "a published source: a split by position moves records of one's own when one comes or goes"
            raise InvalidValue("data.of", of, expected, "Use the source table by itself, with data.validation.")
        if "unit" in others:
            raise no_unit(self.name, others["unit"])

    def record_part(self, asked: Asked[PoolOptions]) -> PartSplit | None:
        """Of its own training records: see `FeaturedSource.part`."""
        return self._part(asked.own)

    def declared(self, asked: PoolOptions, facts: DatasetSpec) -> DatasetSpec:
        """Facts of the new split. Raises InvalidValue (sizes, part)."""
        return facts_within(self._part(asked), self._whole(asked, facts))

    def records(self, asked: PoolOptions, facts: DatasetSpec, found: Dataset) -> Dataset:
        """The records of the pool that the draw takes."""
        whole = self._whole(asked, found.facts)
        order = records.drawn(len(found.train) + len(found.validation), asked.seed)
        pool = records.joined(found.train, found.validation)
        sides = (records.taken(pool, side) for side in (order[: whole.n], order[whole.n :][: whole.n_validation]))
        return dataset_within(self._part(asked), records.dataset(whole, *sides))

    def _part(self, asked: PoolOptions) -> PartSplit | None:
        return None if asked.part is None else asked.part.part(asked.train, self.sources[asked.of].parted_by)

    def _whole(self, asked: PoolOptions, facts: DatasetSpec) -> DatasetSpec:
        held = facts.n + facts.n_validation
        kept = max(1, held - asked.train) if asked.validation is None else asked.validation
        if asked.train + kept > held:
            expected = f"train + validation of at most {held}, the records of {asked.of}"
            raise InvalidValue("data.train", asked.train, expected, "Train on fewer, or keep fewer.")
        return replace(facts, dataset=f"{facts.dataset}-pooled", n=asked.train, n_validation=kept)


PUBLIC_AXES = "The projection was fitted to the validation records, which are taken as public."


class ProjectionOptions(Of):
    """Options of a projection."""

    dimension: Whole = Field(description="the number of principal axes", examples=[50])


class Projected(Derived[ProjectionOptions]):
    """`data: {source: projected, of: mnist, dimension: 50, path: DIR}`, of a source with real features only.

    Axes fitted to private records would be a release of their own. Here they are fitted to the validation records,
    which are taken as public (their metrics are released as they are); the claim says so. Rows are centred on the
    public mean, turned, and divided by the largest norm of a public row.
    """

    name = "projected"
    doc = "the records of another source (option of) on the leading principal axes of its validation records"
    asks = ProjectionOptions

    def declared(self, asked: ProjectionOptions, facts: DatasetSpec) -> DatasetSpec:
        """Facts of the projected records. Raises InvalidValue (private validation, categories, dimension)."""
        declaration.check_public(facts.private_validation, self.name, "its axes are fitted to the validation records")
        for name, feature in facts.features.items():
            if feature.cardinality is not None:
                expected = f"real features only; {name} is a category"
                raise InvalidValue("data.of", facts.dataset, expected, "Project another source.")
        width = int(sum(np.prod(feature.shape) for feature in facts.features.values()))
        if asked.dimension > min(width, facts.n_validation):
            expected = f"at most {min(width, facts.n_validation)}: columns, or public records"
            raise InvalidValue("data.dimension", asked.dimension, expected, "Lower it.")
        return replace(
            facts,
            dataset=f"{facts.dataset}-{asked.dimension}d",
            # Private rows may lie further out than public ones: they are cut to the bound.
            features={"axes": InputSpec(shape=(asked.dimension,), low=-1.0, high=1.0)},
            assumptions=(*facts.assumptions, PUBLIC_AXES),
        )

    def records(self, asked: ProjectionOptions, facts: DatasetSpec, found: Dataset) -> Dataset:
        """The records on their axes."""
        public = _rows(found.validation)
        mean = public.mean(axis=0)
        _, _, axes = np.linalg.svd(public - mean, full_matrices=False)
        turn = axes[: asked.dimension].T
        scale = float(np.linalg.norm((public - mean) @ turn, axis=1).max())

        def projected(split: Split) -> Split:
            turned = ((_rows(split) - mean) @ turn / scale).clip(-1, 1)
            return replace(split, inputs={"axes": turned.astype(np.float32)})

        parts = projected(found.train), projected(found.validation)
        return records.dataset(facts, *parts, units=found.units, digest=self.fingerprint(asked, found))


def _rows(split: Split) -> NDArray[np.float64]:
    parts = [np.asarray(array, dtype=np.float64).reshape(len(split), -1) for array in split.inputs.values()]
    return np.concatenate(parts, axis=1)
