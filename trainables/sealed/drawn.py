"""What is drawn once, in secret, before the first trial of a private selection runs: how many there are, and which.

All slots up to the cap are drawn and planned whatever the count: neither time nor size tells it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, field

import numpy as np

from dpcore.randomness import numpy_generator
from trainables.system import Config, Member, PrivacyPlan

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

    def member(self, key: str) -> Member:
        """The launch of it, whole; `key` is the winner's, and the same for all."""
        return Member(key=key, attempt=1, seed=self.seed, plan=self.plan, from_step=0, to_step=self.plan.steps)


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
        slots = (
            Slot(
                config=one["config"],
                seed=one["seed"],
                plan=PrivacyPlan.from_dict(one["plan"]),
            )
            for one in data["slots"]
        )
        coins = Coins(bytes.fromhex(data["coins"]))
        return cls(count=data["count"], coins=coins, slots=tuple(slots))
