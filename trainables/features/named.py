"""Feature maps by name, decided from public facts without torch. Nobody's records had a part in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from trainables.plugins import by_name
from trainables.system import DatasetSpec, InputSpec

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True, slots=True)
class NamedMap:
    """One named map.

    source    author and year of the publication
    declares  the features of one record, from those that there are. Raises InvalidValue
    build     the map over the inputs of `facts`
    """

    name: str
    source: str
    declares: Callable[[DatasetSpec], InputSpec]
    build: Callable[[DatasetSpec], nn.Module]


def _image(facts: DatasetSpec) -> tuple[int, ...]:
    """(channels, height, width) of the image that a record is, or (height, width)."""
    features = list(facts.features.values())
    shape = features[0].shape if len(features) == 1 and features[0].cardinality is None else ()
    if len(shape) not in (2, 3) or any(side < 8 or side % 4 for side in shape[-2:]):
        expected = f"one image per record, with sides of 8, 12, 16, ... pixels; {facts.dataset} has {_shapes(facts)}"
        raise InvalidValue("data.features", "scattering", expected, "Use another source, or another map.")
    return shape


def _shapes(facts: DatasetSpec) -> str:
    return ", ".join(f"{name} {one.shape}" for name, one in facts.features.items())


def _scattered(facts: DatasetSpec) -> InputSpec:
    *channels, height, width = _image(facts)
    (image,) = facts.features.values()
    # A wavelet's values sum up to less than 1, signs left out: no modulus exceeds the image's largest number.
    high = max(abs(image.low), abs(image.high))
    low = min(0.0, image.low)
    return InputSpec(shape=(81 * (channels[0] if channels else 1), height // 4, width // 4), low=low, high=high)


def _scattering(facts: DatasetSpec) -> nn.Module:
    from trainables.features.scattering import Scattering

    height, width = _image(facts)[-2:]
    return Scattering(height, width)


NAMED = by_name(
    "feature map",
    NamedMap("scattering", "Mallat 2012; Oyallon & Mallat 2015; J=2, L=8, order 2", _scattered, _scattering),
)
