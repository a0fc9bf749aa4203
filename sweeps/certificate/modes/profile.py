"""The privacy profile of a release, and the Gaussian mechanism that covers it: what an epsilon at one delta leaves out.

Two releases with one (epsilon, delta) may differ at every other delta. Gomez et al. (2025) ask for mu with its regret;
here mu is one that *covers*: up to the chance `tau` the release reveals no more than N(0, 1) against N(mu, 1), so that

    delta(epsilon) <= tau + (1 - tau) delta_mu(epsilon)   for all epsilon of at least 0, in both directions

(`dpcore.selection.profiles`). The regret is thus on the safe side. The points say how much is lost by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

from dpcore.events import Adjacency, Event
from dpcore.rounding import delta_text, epsilon_text
from dpcore.selection import EventProfile, WorstProfile, covering_mu
from sweeps.certificate.claimed import Check, number
from sweeps.certificate.fields import Chance, Delta, FrozenPart, NotNegative

_AT = (0.0, 0.25, 0.5, 1.0, 1.5)
"""Points of the profile, in units of the claimed epsilon."""
_SHARE = 0.1
_TOLERANCE = 1e-2


class ProfilePoint(FrozenPart):
    """delta: an upper bound at this epsilon."""

    epsilon: NotNegative
    delta: Chance


class Profile(FrozenPart):
    """The whole curve in a few numbers.

    mu   covers the release up to chance `tau`; null where none does, since a part of it is known at one delta alone
    """

    points: tuple[ProfilePoint, ...]
    mu: NotNegative | None
    tau: Delta

    @classmethod
    def of(cls, parts: tuple[Event, ...], adjacency: Adjacency, epsilon: float, delta: float) -> Profile:
        """The profile of `parts`, which compose in parallel.

        epsilon, delta  as claimed

        Raises as accountants do.
        """
        return _profile(parts, adjacency, tuple(share * epsilon for share in _AT), delta * _SHARE)

    def lines(self) -> list[tuple[str, str]]:
        """The same for people."""
        points = ", ".join(f"δ({epsilon_text(point.epsilon)}) ≤ {delta_text(point.delta)}" for point in self.points)
        mu = "no μ covers it" if self.mu is None else f"μ = {epsilon_text(self.mu)} covers it"
        return [("profile", points), ("μ-GDP", f"{mu} up to the chance τ = {delta_text(self.tau)}")]

    def checks(self, parts: tuple[Event, ...], adjacency: Adjacency, epsilon: float, delta: float) -> Iterator[Check]:
        """Whether the events have this profile."""
        wanted = tuple(share * epsilon for share in _AT)
        found = _profile(parts, adjacency, tuple(one.epsilon for one in self.points), self.tau)
        yield Check("points of the profile", tuple(p.epsilon for p in self.points) == wanted, "at shares of epsilon")
        yield number("tau", self.tau, delta * _SHARE)
        for claimed, point in zip(self.points, found.points, strict=True):
            yield number(f"delta at epsilon {point.epsilon:.4g}", claimed.delta, point.delta)
        yield number("covering mu", self.mu, found.mu)


@lru_cache(maxsize=256)
def _profile(parts: tuple[Event, ...], adjacency: Adjacency, at: tuple[float, ...], tau: float) -> Profile:
    whole = WorstProfile(tuple(EventProfile(one, adjacency) for one in parts))
    mu = covering_mu(whole, tau, _TOLERANCE)
    points = tuple(ProfilePoint(epsilon=epsilon, delta=whole.delta(epsilon)) for epsilon in at)
    return Profile(points=points, mu=mu if math.isfinite(mu) else None, tau=tau)
