"""What one trial costs, as a curve: the input of every price of a search.

A profile is an upper bound in *both* directions (a record added and a record removed): delta at each epsilon of at
least 0, its inverse, and Renyi divergences. One direction alone bounds nothing here.

    EventProfile    of an event, by the accountants
    MixtureProfile  of a trial that draws which configuration it runs from public weights, with secret coins
    WorstProfile    the largest at every point: of a prior whose weights are left open
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpcore import checks
from dpcore.accountants.pld import DeltaCurve
from dpcore.accountants.rdp import RDPAccountant
from dpcore.accountants.registry import TOLERANCE, make
from dpcore.accounting import HEADLINE, headline, headline_delta
from dpcore.adjacency import Adjacency
from dpcore.events import Event, UnsupportedEvent
from dpcore.guarantee import Status

ROUND_UP = 1 + 1e-12
"""Allowance for the rounding of a few operations on certified numbers."""
_CLOSE = 1e-10


class TrialProfile(Protocol):
    """Upper bounds on what one trial reveals, in both directions of `adjacency`."""

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation of all its numbers."""

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` >= 0, in [0, 1]; does not rise with epsilon."""

    def epsilon(self, delta: float) -> float:
        """Upper bound on the least epsilon >= 0 at `delta` in (0, 1)."""

    def renyi(self, orders: tuple[float, ...]) -> NDArray[np.float64]:
        """Upper bounds on the Renyi divergences of these orders, each above 1, in nats; infinite where unknown."""

    def __hash__(self) -> int:
        """Profiles are values: what was worked out for one is known for its equals."""

    def along(self) -> Along:
        """The same bounds for whoever asks at several epsilons in a row: as certain, and often much faster."""


class Along(Protocol):
    """A profile that is asked at several epsilons; it may keep what it worked out for the next one."""

    def delta(self, epsilon: float) -> float:
        """Upper bound on delta at `epsilon` >= 0, in [0, 1]: in its last digits it depends on what was asked before."""

    def delta_above(self, epsilon: float, enough: float) -> float:
        """An upper bound that is at most `enough`, where that is quickly shown; else what the profile itself says."""

    def estimate(self, epsilon: float) -> float:
        """About delta at `epsilon` >= 0, to choose what to ask first; 0 where that is not known at once."""


@dataclass(frozen=True, slots=True)
class OneByOne:
    """`Along` for a profile that keeps nothing."""

    profile: TrialProfile

    def delta(self, epsilon: float) -> float:
        """See `Along.delta`."""
        return self.profile.delta(epsilon)

    def delta_above(self, epsilon: float, enough: float) -> float:
        """See `Along.delta_above`."""
        return self.profile.delta(epsilon)

    def estimate(self, epsilon: float) -> float:
        """See `Along.estimate`."""
        return 0.0


@dataclass(frozen=True, slots=True)
class EventProfile:
    """The profile of an event: training and scoring together, where both touch the private records.

    accountant  by "pld" the headline counts (`dpcore.accounting.headline`); else a name in the registry, of one whose
                bounds are proved: a limit theorem's curve is refused
    tolerance   relative gap between the bounds that the accountant is asked for

    Raises UnsupportedEvent, naming the part, InvalidValue, and as the accountant does.
    """

    event: Event
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    accountant: str = HEADLINE
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if make(self.accountant, self.adjacency, self.tolerance).status is not Status.PROVED:
            raise checks.InvalidValue("accountant", self.accountant, "an accountant that proves what it says")

    def delta(self, epsilon: float) -> float:
        """See `TrialProfile.delta`."""
        if self.accountant == HEADLINE:
            return headline_delta(self.event, epsilon, self.adjacency, self.tolerance).delta
        return make(self.accountant, self.adjacency, self.tolerance).compose(self.event).delta(epsilon)

    def along(self) -> Along:
        """See `TrialProfile.along`: by sums that serve a whole neighbourhood (`dpcore.accountants.pld.curve`)."""
        if self.accountant != HEADLINE:
            return OneByOne(self)
        return _BySums(self, DeltaCurve.of(self.event, self.adjacency, self.tolerance))

    def epsilon(self, delta: float) -> float:
        """See `TrialProfile.epsilon`."""
        if self.accountant == HEADLINE:
            return headline(self.event, delta, self.adjacency, tolerance=self.tolerance).epsilon
        return make(self.accountant, self.adjacency, self.tolerance).compose(self.event).epsilon(delta)

    def renyi(self, orders: tuple[float, ...]) -> NDArray[np.float64]:
        """See `TrialProfile.renyi`."""
        return _renyi(self.event, self.adjacency, orders)


@dataclass(frozen=True, slots=True)
class _BySums:
    """`Along` for an event, by the accountant where sums do not tell."""

    profile: EventProfile
    curve: DeltaCurve

    def delta(self, epsilon: float) -> float:
        """See `Along.delta`."""
        found = self.curve.delta(epsilon)
        return self.profile.delta(epsilon) if found is None else found

    def delta_above(self, epsilon: float, enough: float) -> float:
        """See `Along.delta_above`."""
        found = self.curve.delta_above(epsilon, enough)
        return self.profile.delta(epsilon) if found is None else found

    def estimate(self, epsilon: float) -> float:
        """See `Along.estimate`."""
        return self.curve.estimate(epsilon)


@lru_cache(maxsize=1024)
def _renyi(event: Event, adjacency: Adjacency, orders: tuple[float, ...]) -> NDArray[np.float64]:
    try:
        found = RDPAccountant(adjacency).compose(event).rdp(orders)
    except UnsupportedEvent:
        found = np.full(len(orders), math.inf)
    found.setflags(write=False)
    return found


@dataclass(frozen=True, slots=True)
class MixtureProfile:
    """Of a trial that runs part i with public chance weights[i], by a secret coin whose outcome it may release.

    weights  above 0, with sum 1
    parts    profiles under one adjacency

    The divergence at epsilon is jointly convex: delta is at most sum w_i delta_i, and exp((a-1) R) at most
    sum w_i exp((a-1) R_i). Raises InvalidValue.
    """

    weights: tuple[float, ...]
    parts: tuple[TrialProfile, ...]

    def __post_init__(self) -> None:
        one_adjacency(self.parts)
        distribution("weights", self.weights, len(self.parts))

    @property
    def adjacency(self) -> Adjacency:
        """Of all parts."""
        return self.parts[0].adjacency

    def delta(self, epsilon: float) -> float:
        """See `TrialProfile.delta`."""
        terms = [weight * part.delta(epsilon) for weight, part in zip(self.weights, self.parts, strict=True)]
        return min(1.0, math.fsum(terms) * ROUND_UP)

    def epsilon(self, delta: float) -> float:
        """See `TrialProfile.epsilon`."""
        return least_epsilon(self.delta, delta, max(part.epsilon(delta) for part in self.parts))

    def renyi(self, orders: tuple[float, ...]) -> NDArray[np.float64]:
        """See `TrialProfile.renyi`."""
        a = np.array(orders)
        logs = np.log(self.weights)[:, None] + (a - 1) * np.array([part.renyi(orders) for part in self.parts])
        top = logs.max(axis=0)
        with np.errstate(invalid="ignore"):
            mixed = (top + np.log(np.exp(logs - top).sum(axis=0))) / (a - 1)
        return np.where(np.isfinite(top), mixed * ROUND_UP, math.inf)

    def along(self) -> Along:
        """See `TrialProfile.along`."""
        return OneByOne(self)


@dataclass(frozen=True, slots=True)
class WorstProfile:
    """The largest of several profiles at every point: bounds every mixture of them. Raises InvalidValue."""

    parts: tuple[TrialProfile, ...]

    def __post_init__(self) -> None:
        one_adjacency(self.parts)

    @property
    def adjacency(self) -> Adjacency:
        """Of all parts."""
        return self.parts[0].adjacency

    def delta(self, epsilon: float) -> float:
        """See `TrialProfile.delta`."""
        return max(part.delta(epsilon) for part in self.parts)

    def epsilon(self, delta: float) -> float:
        """See `TrialProfile.epsilon`."""
        return max(part.epsilon(delta) for part in self.parts)

    def renyi(self, orders: tuple[float, ...]) -> NDArray[np.float64]:
        """See `TrialProfile.renyi`."""
        return np.asarray(np.max([part.renyi(orders) for part in self.parts], axis=0))

    def along(self) -> Along:
        """See `TrialProfile.along`."""
        return _OfAll(tuple(part.along() for part in self.parts))


@dataclass(frozen=True, slots=True)
class _OfAll:
    """`Along` for the largest of several."""

    parts: tuple[Along, ...]

    def delta(self, epsilon: float) -> float:
        """See `Along.delta`."""
        return max(part.delta(epsilon) for part in self.parts)

    def delta_above(self, epsilon: float, enough: float) -> float:
        """See `Along.delta_above`."""
        return max(part.delta_above(epsilon, enough) for part in self.parts)

    def estimate(self, epsilon: float) -> float:
        """See `Along.estimate`."""
        return max(part.estimate(epsilon) for part in self.parts)


class _UnderAdjacency(Protocol):
    @property
    def adjacency(self) -> Adjacency: ...


def one_adjacency(parts: Sequence[_UnderAdjacency]) -> Adjacency:
    """That of all parts, profiles or prices. Refuses none at all, and different ones. Raises InvalidValue."""
    if not parts:
        raise checks.InvalidValue("parts", parts, "at least one profile")
    found = sorted({str(part.adjacency) for part in parts})
    if len(found) > 1:
        raise checks.InvalidValue("parts", found, "profiles under one adjacency")
    return parts[0].adjacency


def distribution(name: str, weights: tuple[float, ...], length: int) -> None:
    """Refuse what is not `length` numbers above 0 whose sum is 1. Raises InvalidValue."""
    for weight in weights:
        checks.positive_finite(**{name: weight})
    if len(weights) != length or abs(math.fsum(weights) - 1) > 1e-12:
        raise checks.InvalidValue(name, weights, f"{length} numbers above 0 whose sum is 1")


def epsilon_at(profile: TrialProfile, delta: float) -> float:
    """`profile.epsilon`, and 0 at a delta of 1 or more, where everything holds."""
    return profile.epsilon(delta) if delta < 1 else 0.0


def least_epsilon(delta_at: Callable[[float], float], delta: float, high: float) -> float:
    """The least epsilon in [0, high] with delta_at(epsilon) <= delta, from above to 1e-10 relative; else `high`.

    delta_at  does not rise with epsilon; `high` is valid of itself
    """
    if not high > 0 or delta_at(0.0) <= delta:
        return 0.0
    low = 0.0
    while high - low > _CLOSE * high:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high
