"""Another source's images as features of a fixed random convolution: public, since no record had a part in it.

Source   Coates, Lee & Ng 2011 (patches, contrast, two-sided thresholds, pooling over quadrants), with filters drawn at
         random instead of learnt: nothing to download and nothing to account for.
Form     Every patch of `patch` x `patch` pixels loses its mean and is divided by its own deviation; `filters`
         directions are projected on; positive and negative parts are averaged over four quadrants; the vector of
         8 x filters numbers loses its own mean and is divided by its norm. No record's features depend on another.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import content, options
from trainables.data.derived import Derived, Of
from trainables.system import Dataset, Feature, PublicFacts, Split

CONTRAST = 10 / 255
"""Added to the deviation of a patch, so that flat ones do not blow up (Coates et al. use a variance of 10 of 255)."""
BLOCK = 100
PER_FILTER = 8


@options.options
class FrozenOptions(Of):
    """Options of frozen features."""

    filters: int = options.whole(doc="the number of random directions", example=256, default=128)
    patch: int = options.whole(doc="the side of a patch, in pixels", example=5, default=6)
    seed: int = options.whole(doc="the seed of the public draw of directions", example=1, minimum=0, default=0)


class Frozen(Derived[FrozenOptions]):
    """`data: {source: frozen, of: cifar10, filters: 128, patch: 6, seed: 0, path: DIR}`, of a source of images."""

    name = "frozen"
    doc = "the images of another source (option of) as features of a fixed random convolution; options filters, patch"
    asks = FrozenOptions

    def declared(self, asked: FrozenOptions, facts: PublicFacts) -> PublicFacts:
        """Facts of the features. Raises InvalidValue (images)."""
        shapes, patch = [feature.shape for feature in facts.features.values()], asked.patch
        if len(shapes) != 1 or len(shapes[0]) not in (2, 3) or min(shapes[0][-2:]) < patch + 1:
            expected = f"one image larger than {patch} x {patch} pixels per record"
            raise InvalidValue("data.of", asked.of, expected, "Name a source of larger images, or lower data.patch.")
        feature = Feature(shape=(PER_FILTER * asked.filters,), low=-1.0, high=1.0)
        return replace(facts, dataset=f"{facts.dataset}-frozen", features={"features": feature})

    def records(self, asked: FrozenOptions, facts: PublicFacts, found: Dataset) -> Dataset:
        """The features of every image, float32 in [-1, 1]."""
        (name,) = found.facts.features

        def seen(split: Split) -> Split:
            rows = features(split.inputs[name], asked.filters, asked.patch, asked.seed)
            return replace(split, inputs={"features": rows})

        parts = seen(found.train), seen(found.validation)
        return content.dataset(facts, *parts, units=found.units, digest=self.fingerprint(asked, found))


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
