"""What is fixed before the first trial of a private selection: which trials there are, which leave, and when.

How many there are and which is drawn once, in secret. All slots up to the cap are drawn and planned whatever the count:
neither time nor size tells it. Which leave follows from total orders, fixed in public, of what trials put out. Nothing
that trials do moves the announced times.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dpcore.randomness import numpy_generator
from trainables.hyperparameters import hyperparameters, read
from trainables.scalarisation import Scalarisation
from trainables.system import Config, PrivacyPlan, TrialRun

COINS = 32
"""Bytes of the secret that all randomness of the slots follows from."""


@dataclass(frozen=True, slots=True)
class Coins:
    """The secret of one private selection."""

    secret: bytes = field(repr=False)

    def of(self, use: str, slot: int) -> bytes:
        """32 bytes for one use of one slot, independent of those for any other."""
        return hmac.new(self.secret, f"{use}/{slot}".encode(), hashlib.sha256).digest()

    def prior(self, slot: int) -> np.random.Generator:
        """What the configuration of a slot is drawn with."""
        return numpy_generator(self.of("prior", slot))

    def seed(self, slot: int) -> int:
        """The seed of a slot's initial weights. It leaves with the winner, and tells nothing of the slot."""
        return int.from_bytes(self.of("seed", slot)[:7], "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One trial that may be run.

    config  canonical, as proposed
    seed    of initial weights
    """

    config: Config
    seed: int
    plan: PrivacyPlan

    def member(self, key: str) -> TrialRun:
        """The launch of it, whole; `key` is the winner's, and the same for all."""
        return TrialRun(key=key, attempt=1, seed=self.seed, plan=self.plan, from_step=0, to_step=self.plan.steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedDraw:
    """The draw. `count` slots are run, the first ones; the others are never looked at."""

    count: int
    coins: Coins
    slots: tuple[Slot, ...]

    def to_bytes(self) -> bytes:
        """As text that `from_bytes` reads."""
        slots = [{"config": dict(one.config), "seed": one.seed, "plan": one.plan.to_dict()} for one in self.slots]
        said = {"count": self.count, "coins": self.coins.secret.hex(), "slots": slots}
        return json.dumps(said).encode()

    @classmethod
    def from_bytes(cls, body: bytes) -> SealedDraw:
        """The inverse of `to_bytes`."""
        data = json.loads(body)
        slots = (Slot(**{**one, "plan": PrivacyPlan.from_dict(one["plan"])}) for one in data["slots"])
        coins = Coins(bytes.fromhex(data["coins"]))
        return cls(count=data["count"], coins=coins, slots=tuple(slots))


@hyperparameters
class Budgeted:
    """What every configuration names beside its knobs: the epsilon of its budget."""

    target_epsilon: float


Ranks = tuple[float, ...]
"""A trial's place in each order; by each the smaller leaves."""


class Ranking(Protocol):
    """Orders of the trials, as functions of what one of them puts out."""

    @property
    def count(self) -> int:
        """How many orders: as many trials leave at most."""
        ...

    def ranks(self, slot: Slot, metrics: Mapping[str, float]) -> Ranks | None:
        """The place in each order; None for a trial that never leaves."""
        ...


@dataclass(frozen=True, slots=True)
class BestScores:
    """The best by each order. A trial without finite values ranks last in all of them: it never leaves.

    Equal ones are parted by their slots, which are exchangeable: as by a coin that no record decides.
    """

    orders: tuple[Scalarisation, ...]

    @property
    def count(self) -> int:
        """See `Ranking.count`."""
        return len(self.orders)

    def ranks(self, slot: Slot, metrics: Mapping[str, float]) -> Ranks | None:
        """See `Ranking.ranks`."""
        found = [order.worth(metrics) for order in self.orders]
        worths = [worth for worth in found if worth is not None]
        if len(worths) < len(found) or not all(map(math.isfinite, metrics.values())):
            return None
        return tuple(-worth for worth in worths)


@dataclass(frozen=True, slots=True)
class FirstSuccess:
    """The first that meets a public target, in the secret order of slots: no success is better than another, but for
    the budget that its trial had; the cheapest goes before.

    target    of the metric, as the trial puts it out: a noisy score is held against it as it is
    at_least  whether a success has at least the target; else it has at most that
    """

    metric: str
    target: float
    at_least: bool

    @property
    def count(self) -> int:
        """See `Ranking.count`."""
        return 1

    def ranks(self, slot: Slot, metrics: Mapping[str, float]) -> Ranks | None:
        """See `Ranking.ranks`."""
        value = metrics.get(self.metric, math.nan)
        if not all(math.isfinite(one) for one in (value, *metrics.values())):
            return None
        met = value >= self.target if self.at_least else value <= self.target
        return (read(Budgeted, slot.config).target_epsilon,) if met else None


MARGIN_SECONDS, MARGIN_SHARE = 10.0, 0.1
"""Between the last record and the release, at most; as a share of the whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Seconds since 1970 by the clocks of the machines.

    begins    when it was announced
    deadline  when the winner leaves
    cadence   seconds between two records of a worker
    """

    begins: float
    deadline: float
    cadence: float

    @property
    def last(self) -> float:
        """When workers write for the last time: what is not done by then does not count."""
        return self.deadline - min(MARGIN_SECONDS, MARGIN_SHARE * (self.deadline - self.begins))

    @property
    def records(self) -> int:
        """How many times are announced, the last among them."""
        return 1 + math.floor((self.last - self.begins) / self.cadence)

    def at(self, number: int) -> float:
        """The announced time `number`, from 0 to `records` - 1."""
        return self.last - (self.records - 1 - number) * self.cadence

    def following(self, now: float) -> int | None:
        """The first announced time after `now`; None after the last."""
        if now >= self.last:
            return None
        return max(0, self.records - 1 - math.floor((self.last - now) / self.cadence))
