"""Public augmentations of records, before anything is clipped: a record's gradient is the mean over its K copies.

A copy is a function of the record, the number of the step, that of the copy and a public seed: of no other record, of
no order, and of nothing that an attempt draws. So one record, or unit, still moves a sum by no more than the clip norm
whatever its copies are, and several processes, or an attempt that goes on, make the same ones.

Source  De, Berrada, Hayes, Smith & Balle 2022, "augmentation multiplicity". N records, K copies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dpcore.checks import InvalidValue
from trainables import plugins
from trainables.system import DatasetSpec, InputSpec
from trainables.team import RecordGradient
from trainables.training.made_up import made_up

PAD = 4
"""Pixels by which `crop` pads an image at each side before it cuts one of the old size out."""
_Draw = Callable[[int], NDArray[np.int64]]
"""From m to a whole number in 0..m-1 for each copy, [N * K]; every call draws anew."""


def _flip(image: Tensor, draw: _Draw) -> Tensor:
    """Left and right exchanged, or not; the columns are the last axis."""
    flipped_N = torch.from_numpy(draw(2) == 1).to(image.device)
    return torch.where(flipped_N.view(-1, *[1] * (image.ndim - 1)), image.flip(-1), image)


def _crop(image: Tensor, draw: _Draw) -> Tensor:
    """Moved by up to PAD pixels each way; zeros come in."""
    height, width = image.shape[-2:]
    padded = torch.nn.functional.pad(image, (PAD, PAD, PAD, PAD))
    padded = padded if image.ndim == 4 else padded.unsqueeze(1)
    down_NH, right_NW = (
        torch.from_numpy(draw(2 * PAD + 1)[:, None] + np.arange(size)).to(image.device) for size in (height, width)
    )
    rows_N = torch.arange(len(image), device=image.device)
    cut = padded[rows_N[:, None, None], :, down_NH[:, :, None], right_NW[:, None, :]]
    return cut.movedim(-1, 1).reshape(image.shape)


BUILT_IN: Mapping[str, Callable[[Tensor, _Draw], Tensor]] = {"flip": _flip, "crop": _crop}
"""{name: what it does with images [N, height, width] or [N, channels, height, width]}"""


def _is_image(feature: InputSpec) -> bool:
    return feature.cardinality is None and len(feature.shape) in (2, 3)


def copied(
    how: RecordGradient, inputs: Mapping[str, Tensor], features: Mapping[str, InputSpec], step: int
) -> dict[str, Tensor]:
    """{input: [N, *shape]} -> {input: [N * K, *shape]}, the copies of a record behind each other.

    how       its augmentation is flip, crop, or `package.module:function`: called with the inputs of one record, in
              their order and each of its feature's shape, and `generator`, a torch.Generator of its own; it returns
              them changed, of the same shapes and types
    features  of the inputs that may be changed; others (an audit's marks) are repeated
    """
    of, copies = how.augmentation, how.copies
    digests_N = _digests(how.seed, [inputs[name] for name in features], step)
    numbers = iter(range(1, 2**32))

    def draw(below: int) -> NDArray[np.int64]:
        words = _mixed(np.repeat(digests_N, copies), np.tile(np.arange(copies), len(digests_N)))
        return (_mixed(words, next(numbers)) % np.uint64(below)).astype(np.int64)

    out = {name: one.repeat_interleave(copies, 0) for name, one in inputs.items()}
    if of in BUILT_IN:
        changed = {name: BUILT_IN[of](out[name], draw) for name, feature in features.items() if _is_image(feature)}
        return out | changed
    function, seeds = own_augmentation(of), draw(2**63 - 1)
    made = [
        _changed(function, of, [out[name][place].cpu() for name in features], int(seed))
        for place, seed in enumerate(seeds)
    ]
    columns = zip(*made, strict=True) if made else ()
    return out | {
        name: torch.stack(column).to(out[name].device) for name, column in zip(features, columns, strict=False)
    }


def _digests(seed: bytes, inputs: Sequence[Tensor], step: int) -> NDArray[np.uint64]:
    """Of each record at this step, [N]."""
    arrays = [np.ascontiguousarray(one.cpu().numpy()) for one in inputs]
    digests = np.zeros(len(arrays[0]), dtype=np.uint64)
    begun = hashlib.blake2b(step.to_bytes(8, "big"), digest_size=8, key=seed)
    for row in range(len(digests)):
        found = begun.copy()
        for array in arrays:
            found.update(array[row].tobytes())
        digests[row] = int.from_bytes(found.digest(), "big")
    return digests


def _mixed(words: NDArray[np.uint64], numbers: Any) -> NDArray[np.uint64]:
    """The words, each as another one for another number: SplitMix64 (Steele, Lea & Flood 2014)."""
    with np.errstate(over="ignore"):
        mixed = words + np.uint64(0x9E3779B97F4A7C15) * (np.asarray(numbers).astype(np.uint64) + np.uint64(1))
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _changed(function: Callable[..., Any], name: str, record: list[Tensor], seed: int) -> list[Tensor]:
    """One copy of one record by the user's own function. Raises InvalidValue for what is no such record."""
    found = function(*(one.clone() for one in record), generator=torch.Generator().manual_seed(seed))
    several = list(found) if isinstance(found, tuple | list) else [found]
    shapes = [(one.shape, one.dtype) if isinstance(one, Tensor) else type(one) for one in several]
    if shapes != [(one.shape, one.dtype) for one in record]:
        expected = f"a function that returns {[(tuple(one.shape), one.dtype) for one in record]}, as it is given"
        raise InvalidValue("augmentation.of", name, expected, f"It returned {shapes}.")
    return several


@lru_cache(maxsize=64)
def own_augmentation(name: str) -> Callable[..., Any]:
    """The user's own. Raises InvalidValue where there is none."""
    remedy = "Use none, flip, crop, or a function (*inputs of one record, generator) -> these inputs."
    if not plugins.OBJECT.fullmatch(name):
        raise InvalidValue("augmentation.of", name, "a known augmentation, or `package.module:function`", remedy)
    return plugins.function("augmentation.of", name, remedy)


def check_augmentation(of: str, facts: DatasetSpec) -> None:
    """Raises InvalidValue for one that records of these facts cannot have: tried on a made-up one."""
    if of in BUILT_IN:
        if not any(map(_is_image, facts.features.values())):
            expected = "images to augment: no input has a shape of (height, width) or (channels, height, width)"
            raise InvalidValue("augmentation.of", of, expected, "Name a function of your own, package.module:function.")
        return
    function, record = own_augmentation(of), made_up(facts, 1, 0).train
    inputs = [torch.from_numpy(array[0].copy()) for array in record.inputs.values()]
    with plugins.raised_as("augmentation.of", of, "a function that augments one record"):
        first, second = (_changed(function, of, inputs, 0) for _ in range(2))
    if not all(map(torch.equal, first, second)):
        expected = "a function that draws from the generator that it is given alone: called twice it made two copies"
        raise InvalidValue("augmentation.of", of, expected)
