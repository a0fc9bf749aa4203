"""Pairs of worlds of a sealed search from which the same leaves: they differ in one secret alone.

Every trial of the coins is run once, without its pauses; which of them a search comes to is then a plain loop over each
worker's slots, by which worlds are tried until two agree.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from sweeps.selection import run
from sweeps.spec import public_facts
from tests.sweeps.sealed_adversary import CAP, World, made
from tests.sweeps.sealed_kinds import FRONT
from trainables.data import SOURCES
from trainables.sealed.draw import SealedDraw
from trainables.sealed.standing import Candidate, Standing, best_of
from trainables.sealed.worker import SealedWork, after, run_slot
from trainables.system import Dataset

FEWER, APART = 5, 3
"""Slots that one world of a pair has fewer than the other, and by which a winner stands elsewhere, at least."""
COINS, ORDERS = 30, 40
"""That are tried: so many orders of the trials of each coins."""
SECRETS = ("count", "slot", "loser")


@dataclass(frozen=True, slots=True)
class Left:
    """What leaves a search: its winners in the order of their slots, which is public; the slots themselves are not."""

    winners: tuple[Any, ...]
    slots: tuple[int, ...]


@dataclass
class Oracle:
    """What leaves in any world of one kind and one set of coins."""

    world: World
    work: SealedWork
    drawn: SealedDraw
    data: Dataset
    ran: dict[int, Candidate | None] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, coins: bytes) -> Oracle:
        """By a search that is begun in a folder that is thrown away. It forces a world: in a process of its own."""
        world = World(kind, CAP, coins=coins)
        world.force()
        spec = world.spec
        time.sleep = lambda seconds: None
        with tempfile.TemporaryDirectory() as folder:
            workspace = made(Path(folder) / "root", spec)
            with closing(workspace.open_store()) as store:
                record = store.sweep("sealed")
            work = run.opened(record, spec, public_facts(spec), workspace, {})
            assert work is not None
            return cls(world, work, work.drawn(), SOURCES[spec.data.source].load(spec.data.options()))

    def _trial(self, drawn: SealedDraw, world: World, slot: int) -> Candidate | None:
        known = world.order[slot]
        if known not in self.ran:
            work = self.work
            self.ran[known] = run_slot(drawn, slot, work.winner, work.group, self.data, work.ranking)
        found = self.ran[known]
        return None if found is None else replace(found, slot=slot)

    def left(self, world: World) -> Left:
        """What leaves in this one."""
        world.force()
        trials = tuple(self.drawn.slots[place] for place in world.order)
        drawn, best = replace(self.drawn, count=world.count, slots=trials), []
        for worker in range(self.work.workers):
            standing = Standing(following=worker)
            while standing.following < world.count:
                found = self._trial(drawn, world, standing.following)
                standing = after(self.work, standing, found)
            best += standing.best
        winners = {one.slot: one for one in best_of(*best)}
        told = [(dict(drawn.slots[slot].config), winners[slot].metrics) for slot in sorted(winners)]
        return Left(tuple(map(repr, told)), tuple(sorted(winners)))


def pairs_of(kind: str) -> dict[str, tuple[World, World]]:
    """{the secret in which two worlds differ: the two}: the count, the winner's slot, a loser."""
    for coins in range(COINS):
        oracle, rng, found = Oracle.of(kind, f"{coins:032}".encode()), np.random.default_rng(4), {}
        for _ in range(ORDERS):
            world = replace(oracle.world, order=tuple(map(int, rng.permutation(CAP))))
            left = oracle.left(world)
            if len(left.winners) < (2 if kind == FRONT else 1):
                continue
            for secret, others in (
                ("count", _fewer(world)),
                ("slot", _swapped(world)),
                ("loser", _replaced(world, left)),
            ):
                if secret not in found:
                    alike = next((one for one in others if _alike(secret, left, oracle.left(one))), None)
                    found |= {} if alike is None else {secret: (alike, world)}
            if len(found) == len(SECRETS):
                return found
    raise AssertionError(f"{kind}: in no world of {COINS} coins leaves the same as in others")


def _alike(secret: str, one: Left, other: Left) -> bool:
    """In what leaves; by the slot they differ, and by far."""
    if one.winners != other.winners:
        return False
    apart = max(abs(a - b) for a, b in zip(one.slots, other.slots, strict=True))
    return apart >= APART if secret == "slot" else apart == 0


def _fewer(world: World) -> Iterator[World]:
    return (replace(world, count=count) for count in range(1, CAP - FEWER + 1))


def _swapped(world: World) -> Iterator[World]:
    for one, other in combinations(range(CAP), 2):
        order = list(world.order)
        order[one], order[other] = order[other], order[one]
        yield replace(world, order=tuple(order))


def _replaced(world: World, left: Left) -> Iterator[World]:
    """A loser gives way to another, which then stands there twice."""
    losers = [slot for slot in range(CAP) if slot not in left.slots]
    for slot, other in combinations(losers, 2):
        order = list(world.order)
        order[slot] = order[other]
        yield replace(world, order=tuple(order))
