"""How the knobs of a system act together: what a model of its results looks at in place of each knob alone.

A step of private descent moves the weights by at most learning rate times clip norm: results lie along a ridge in the
two, which a model that sees each by itself has to discover from trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Product = Mapping[str, float]
"""{knob: power}: a product of powers of knobs, all of them positive numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Natural:
    """What a system says of its knobs to a sampler that models results. It steers a search, and no claim.

    products  {knob: product}: the logarithm of the product, which has the knob in it, stands for the knob
    work      the planned work of a trial is proportional to this product; empty where no product says it

    Raises ValueError for a product that lacks its own knob: the knob could not be told from it any more.
    """

    products: Mapping[str, Product] = field(default_factory=lambda: MappingProxyType({}))
    work: Product = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for knob, product in self.products.items():
            if not product.get(knob):
                raise ValueError(f"product {dict(product)} stands for {knob}, which is no factor of it")


NONE = Natural()


def natural_of(system: object) -> Natural:
    """What `system` declares as `natural`. Silence means nothing: outside packages may know none of it."""
    declared = getattr(system, "natural", NONE)
    return declared if isinstance(declared, Natural) else NONE
