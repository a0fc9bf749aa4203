"""Configurations of one system as points for a model: numbers of about unit spread, in the system's own coordinates.

A coordinate is a knob on its scale (the logarithm where its domain is logarithmic, or a choice of positive numbers), or
the product that the system declares for it (`trainables.system`). A choice of words, or of truth values, has one
coordinate for each value. The budget is one more, as the logarithm of epsilon; so is how much of its steps a trial has
done, where early stopping pauses trials.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.search.space import Branch
from sweeps.spec.domains import Domain
from sweeps.store.records import TARGET_EPSILON
from trainables.system import Product, Scalar, SearchHints

Config = Mapping[str, Scalar]
Points = NDArray[np.float64]


def is_numeric(domain: Domain) -> bool:
    """Whether its values have an order and distances."""
    return domain.kind != "choice" or all(
        isinstance(one, int | float) and not isinstance(one, bool) for one in domain.values
    )


def ends(domain: Domain) -> tuple[float, float]:
    """Least and largest value of a numeric domain."""
    if domain.kind == "choice":
        return float(min(domain.values)), float(max(domain.values))
    return domain.low, domain.high


def is_logarithmic(domain: Domain) -> bool:
    """Whether ratios of its values mean more than differences."""
    return domain.log or (domain.kind == "choice" and ends(domain)[0] > 0)


@dataclass(frozen=True, slots=True)
class _Scaled:
    """(value - middle) / spread, of a knob or of its logarithm."""

    knob: str
    log: bool
    middle: float
    spread: float

    def of(self, config: Config) -> float:
        value = float(config[self.knob])
        return ((math.log(value) if self.log else value) - self.middle) / self.spread


@dataclass(frozen=True, slots=True)
class _Indicator:
    """1 where a knob has one of its values."""

    knob: str
    value: Scalar

    def of(self, config: Config) -> float:
        return float(config[self.knob] == self.value)


@dataclass(frozen=True, slots=True)
class _Product:
    """The logarithm of a product of powers, likewise scaled."""

    powers: tuple[tuple[str, float], ...]
    middle: float
    spread: float

    def of(self, config: Config) -> float:
        total = math.fsum(power * math.log(float(config[knob])) for knob, power in self.powers)
        return (total - self.middle) / self.spread


Coordinate = _Scaled | _Indicator | _Product


class Coordinates:
    """The coordinates of one system's configurations in a sweep."""

    def __init__(self, branch: Branch, epsilons: Sequence[float], natural: SearchHints) -> None:
        self._branch = branch
        self._coordinates: list[Coordinate] = []
        for knob, domain in branch.searched.items():
            product = self._usable(natural.products.get(knob))
            if product is not None:
                self._coordinates.append(self._product(product))
            else:
                self._coordinates += _of_knob(knob, domain)
        if len(epsilons) > 1:
            budgets = Domain(kind="choice", values=tuple(epsilons))
            self._coordinates += _of_knob(TARGET_EPSILON, budgets)
        work = self._usable(natural.work)
        self._work = None if work is None else self._product(work)

    def __len__(self) -> int:
        return len(self._coordinates)

    def of(self, configs: Iterable[Config]) -> Points:
        """One row for each configuration."""
        wholes = map(self._whole, configs)
        rows = [[one.of(config) for one in self._coordinates] for config in wholes]
        return np.array(rows, dtype=float).reshape(len(rows), len(self._coordinates))

    def log_work(self, configs: Sequence[Config]) -> NDArray[np.float64]:
        """Logarithm of the planned work of each, up to a constant; zeros where the system does not say it."""
        if self._work is None:
            return np.zeros(len(configs))
        return np.array([self._work.of(self._whole(config)) * self._work.spread for config in configs])

    def _whole(self, config: Config) -> Config:
        """With a place for every knob that is searched, those that are not there included."""
        return {**config, **self._branch.placed(config)}

    def _usable(self, product: Product | None) -> Product | None:
        """The product, if all of its knobs are positive numbers here, and one of them is searched."""
        if not product or not any(knob in self._branch.searched for knob in product):
            return None
        for knob in product:
            domain, fixed = self._branch.searched.get(knob), self._branch.fixed.get(knob)
            if domain is not None:
                if not is_numeric(domain) or ends(domain)[0] <= 0:
                    return None
            elif isinstance(fixed, bool | str) or fixed is None or not fixed > 0:
                return None
        return product

    def _product(self, powers: Product) -> _Product:
        middle, squares = 0.0, 0.0
        for knob, power in powers.items():
            domain = self._branch.searched.get(knob)
            low, high = ends(domain) if domain is not None else (float(self._branch.fixed[knob]),) * 2
            middle += power * (math.log(low) + math.log(high)) / 2
            squares += (power * (math.log(high) - math.log(low))) ** 2
        return _Product(tuple(powers.items()), middle, math.sqrt(squares) or 1.0)


def _of_knob(knob: str, domain: Domain) -> list[Coordinate]:
    if not is_numeric(domain):
        return [_Indicator(knob, value) for value in domain.values[1:]]
    low, high = ends(domain)
    if low == high:
        return []
    log = is_logarithmic(domain)
    if log:
        low, high = math.log(low), math.log(high)
    return [_Scaled(knob, log, (low + high) / 2, high - low)]
