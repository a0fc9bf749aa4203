"""Another source's images as features of a fixed random convolution: public, since no record had a part in it.

Source   Coates, Lee & Ng 2011 (patches, contrast, two-sided thresholds, pooling over quadrants), with filters drawn at
         random instead of learnt: nothing to download and nothing to account for.
Form     Every patch of `patch` x `patch` pixels loses its mean and is divided by its own deviation; `filters`
         directions are projected on; positive and negative parts are averaged over four quadrants; the vector of
         8 x filters numbers loses its own mean and is divided by its norm. No record's features depend on another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import content, options
from trainables.system import Dataset, DataSource, Feature, PublicFacts, Split

OWN = ("of", "filters", "patch", "seed")
FILTERS, PATCH = 128, 6
CONTRAST = 10 / 255
"""Added to the deviation of a patch, so that flat ones do not blow up (Coates et al. use a variance of 10 of 255)."""
BLOCK = 100
PER_FILTER = 8


class Frozen:
    """`data: {source: frozen, of: cifar10, filters: 128, patch: 6, seed: 0, path: DIR}`.

    of       the source of the images; every further option is its own
    filters  random directions
    patch    side of a patch, in pixels
    seed     of the public draw, 0 by default
    """

    name = "frozen"
    doc = "the images of another source (option of) as features of a fixed random convolution; options filters, patch"

    def __init__(self, sources: Mapping[str, DataSource]) -> None:
        self.sources = sources

    def facts(self, options_: Mapping[str, object]) -> PublicFacts:
        """Facts of the features. Raises InvalidValue (source, images, the source's own options)."""
        _, _, facts = self._inner(options_)
        return facts

    def inspect(self, options_: Mapping[str, object]) -> None:
        """Whether the other source's files are there; reads no record. Raises InvalidValue."""
        source, inner, _ = self._inner(options_)
        source.inspect(inner)

    def load(self, options_: Mapping[str, object]) -> Dataset:
        """The records, float32 in [-1, 1]. Raises InvalidValue."""
        source, inner, facts = self._inner(options_)
        data = source.load(inner)
        (name,) = data.facts.features
        filters, patch = (options.whole(options_, *one) for one in (("filters", FILTERS), ("patch", PATCH)))
        parts = [
            Split(
                inputs={"features": features(split.inputs[name], filters, patch, _seed(options_))},
                targets=split.targets,
            )
            for split in (data.train, data.validation)
        ]
        return content.dataset(facts, *parts, units=data.units)

    def _inner(self, options_: Mapping[str, object]) -> tuple[DataSource, Mapping[str, object], PublicFacts]:
        of = options_.get("of")
        if of not in self.sources:
            raise InvalidValue("data.of", of, "the name of a source of images", f"One of {', '.join(self.sources)}.")
        source = self.sources[str(of)]
        inner = {name: value for name, value in options_.items() if name not in OWN}
        facts = source.facts(inner)
        shapes = [feature.shape for feature in facts.features.values()]
        patch = options.whole(options_, "patch", PATCH)
        if len(shapes) != 1 or len(shapes[0]) not in (2, 3) or min(shapes[0][-2:]) < patch + 1:
            raise InvalidValue("data.of", of, f"one image larger than {patch} x {patch} pixels per record")
        _seed(options_)
        width = PER_FILTER * options.whole(options_, "filters", FILTERS)
        return (
            source,
            inner,
            replace(
                facts,
                dataset=f"{facts.dataset}-frozen",
                features={"features": Feature(shape=(width,), low=-1.0, high=1.0)},
            ),
        )


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


def _seed(options_: Mapping[str, object]) -> int:
    value = options_.get("seed", 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidValue("data.seed", value, "an integer of at least 0")
    return value
