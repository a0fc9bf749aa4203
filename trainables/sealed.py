"""The worker's side of a private selection: trials that leave nothing behind but the best so far, encrypted.

Everything outside a worker's memory is as it would be with any other number of trials and any other results: files of
each worker, always as long, written at announced times whatever happens.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from safetensors.numpy import load, save

from dpcore.randomness import Streams, numpy_generator
from trainables.metrics import Scalarisation
from trainables.parallel.ray_shared import SharedData
from trainables.system import Config, Dataset, Launch, PrivacyPlan, State, TrialRun
from trainables.worker.attempt import Curve
from trainables.worker.files import Damaged, Folder
from trainables.worker.ray import Credentials
from trainables.worker.trial import LaunchContext, RecordedRun, train

# What is fixed before the first trial of a private selection: which trials there are, which leave, and when.
#
# How many there are and which is drawn once, in secret. All slots up to the cap are drawn and planned whatever the
# count: neither time nor size tells it. Which leave follows from total orders, fixed in public, of what trials put out.
# Nothing that trials do moves the announced times.

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


Ranks = tuple[float, ...]
"""A trial's place in each order; by each the smaller leaves."""


@dataclass(frozen=True, slots=True)
class BestScores:
    """The best by each order. A trial without finite values ranks last in all of them: it never leaves.

    Equal ones are parted by their slots, which are exchangeable: as by a coin that no record decides.
    """

    orders: tuple[Scalarisation, ...]

    @property
    def count(self) -> int:
        """How many orders: as many trials leave at most."""
        return len(self.orders)

    def ranks(self, slot: Slot, metrics: Mapping[str, float]) -> Ranks | None:
        """The place in each order; None for a trial that never leaves."""
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

    count = 1

    def ranks(self, slot: Slot, metrics: Mapping[str, float]) -> Ranks | None:
        """See `BestScores.ranks`."""
        value = metrics.get(self.metric, math.nan)
        if not all(math.isfinite(one) for one in (value, *metrics.values())):
            return None
        met = value >= self.target if self.at_least else value <= self.target
        return (float(slot.config["target_epsilon"]),) if met else None


Ranking = BestScores | FirstSuccess
"""Orders of the trials, as functions of what one of them puts out."""


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


# What a worker keeps of the slots that it ran: how far it is, and the best by each order. What was worse is
# overwritten. Records have one size, and each is encrypted for its own place (AES-256-GCM, a fresh random nonce).

HEAD_BYTES = 65536
"""Of what is kept besides each model, at most."""
_SAID_BYTES = 32768
"""What is said is as long, however much it is: whether a model fits beside it follows from the model alone."""
_HEAD = "head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A trial that may leave.

    slot     its place in the draw
    ranks    by each order of the search; the smaller leaves
    metrics  that may leave with it
    state    of its model
    """

    slot: int
    ranks: Ranks
    metrics: Mapping[str, float]
    state: State


def best_of(*candidates: Candidate) -> tuple[Candidate, ...]:
    """The one that leaves by each order; empty of none. One may leave by several."""

    def leaving(order: int) -> Candidate:
        return min(candidates, key=lambda one: (one.ranks[order], one.slot))

    return tuple(map(leaving, range(len(candidates[0].ranks)))) if candidates else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a worker is.

    written  number of the announced time at which this was written; the larger is the newer
    following  the slot that it runs next
    best     by each order; empty while no trial may leave
    """

    following: int
    written: int = -1
    best: tuple[Candidate, ...] = ()

    def to_bytes(self) -> bytes:
        """As bytes that `from_bytes` reads."""
        best = [{"slot": one.slot, "ranks": list(one.ranks), "metrics": dict(one.metrics)} for one in self.best]
        said = {"following": self.following, "written": self.written, "best": best}
        head = np.frombuffer(json.dumps(said).encode().ljust(_SAID_BYTES), dtype=np.uint8)
        # As they lie in memory, whatever view of it the model has.
        arrays = {
            f"{order}.{name}": np.array(value, order="C")
            for order, one in enumerate(self.best)
            for name, value in one.state.items()
        }
        return save({_HEAD: head, **arrays})

    @classmethod
    def from_bytes(cls, body: bytes) -> Standing:
        """The inverse of `to_bytes`."""
        read = load(body)
        said = json.loads(read.pop(_HEAD).tobytes())
        best = []
        for order, one in enumerate(said["best"]):
            own = f"{order}."
            state = {name.removeprefix(own): value for name, value in read.items() if name.startswith(own)}
            best.append(Candidate(slot=one["slot"], ranks=tuple(one["ranks"]), metrics=one["metrics"], state=state))
        return cls(following=said["following"], written=said["written"], best=tuple(best))


KEY_BYTES = 32
_NONCE, _LENGTH = 12, 8


class TooLarge(ValueError):
    """What is to be kept is longer than what is written always is."""


@dataclass(frozen=True, slots=True)
class Box:
    """Encrypts under one key of `KEY_BYTES` from a cryptographic source."""

    key: bytes = field(repr=False)

    @classmethod
    def new_key(cls) -> bytes:
        """A key from the operating system's source."""
        return AESGCM.generate_key(bit_length=8 * KEY_BYTES)

    def seal(self, place: str, body: bytes, size: int) -> bytes:
        """`body` for `place`, encrypted; as long for every body of at most `size` bytes. Raises TooLarge."""
        if len(body) > size:
            raise TooLarge(f"{len(body)} bytes, expected at most {size}")
        padded = len(body).to_bytes(_LENGTH, "big") + body + bytes(size - len(body))
        nonce = os.urandom(_NONCE)
        return nonce + AESGCM(self.key).encrypt(nonce, padded, place.encode())

    def open(self, place: str, content: bytes) -> bytes:
        """What was sealed for `place`. Raises Damaged for anything else, a copy from another place among it."""
        try:
            padded = AESGCM(self.key).decrypt(content[:_NONCE], content[_NONCE:], place.encode())
        except (InvalidTag, ValueError) as error:
            raise Damaged(f"{place}: {len(content)} bytes that this key does not open") from error
        length = int.from_bytes(padded[:_LENGTH], "big")
        return padded[_LENGTH : _LENGTH + length]


# A worker of a sealed search, from its start to the announced end.
#
# It runs its slots one after the other, in memory, and says nothing in between: nothing is written while one runs, and
# nothing of a worse one afterwards. Beside it a thread writes what it stands at, at each announced time, whether or not
# there is anything new: to the one of its two files whose turn it is, always as long. A worker that is lost begins
# again at the slot that it was in, and what it had not written yet it runs again, the same.

NOT_KEPT = "what failed in a sealed trial is kept nowhere"


@dataclass(slots=True)
class MemoryRecords:
    """The records of an attempt that a `RecordedRun` asks for, in memory: the last state, and no file."""

    state: State | None = None

    def reserve_until(self, until_step: int) -> None:
        """A slot that is lost is run again from its start, with the same noise: no horizon is noted."""

    def save(
        self, step: int, state: State, result: Mapping[str, Any] | None = None, curve: Curve | None = None
    ) -> None:
        """Keep the last state."""
        if result is not None:
            self.state = {name: value.copy() for name, value in state.items()}

    def explain(self, text: str) -> str:
        """What failed may quote a record: it is forgotten."""
        return NOT_KEPT

    def move(self) -> None:
        """Nothing to be noted."""


class OutOfTime(Exception):
    """The announced end came before that of the slot."""


def run_slot(
    drawn: SealedDraw, number: int, key: str, group: Launch, data: Dataset, ranking: Ranking
) -> Candidate | None:
    """Train slot `number`; None where it may never leave: it failed, or has no finite score.

    key    of the winner, whichever it will be
    group  of no members: how to execute, what to measure, what is withheld, and the seconds that are left

    The same slot again is the same trial, bit for bit where the machine computes alike: its noise, batches and initial
    weights follow from the draw. Raises OutOfTime, and OSError where the data or the machine went away.
    """
    slot = drawn.slots[number]
    member = slot.member(key)
    records = MemoryRecords()
    streams = Streams(secret=drawn.coins.of("slot", number), seed=slot.seed, key=key, attempt=1)
    run = RecordedRun(member=member, start_step=0, state=None, streams=streams, attempt=records)
    refused = train([run], LaunchContext(group=group, data=data))
    if run.result is None or records.state is None:
        if refused.get(key, ("", ""))[0] == "overran":
            raise OutOfTime
        return None
    metrics = run.result["metrics"]
    ranks = ranking.ranks(slot, metrics)
    if ranks is None:
        return None
    return Candidate(slot=number, ranks=ranks, metrics=metrics, state=records.state)


DRAW = "draw"
"""The file of what was drawn."""
TWO = ("a", "b")
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedWork:
    """All that the workers of one search have in common. Nothing in it depends on a record.

    folder    of their files
    workers   how many there are; worker w runs slots w, w + workers, ...
    room      bytes of the largest model that is kept
    winner    the key that every slot runs under, whichever leaves
    group     how each slot executes; of no members
    """

    folder: Folder
    box: Box
    schedule: Schedule
    workers: int
    room: int
    winner: str
    group: Launch
    ranking: Ranking

    def keep_drawn(self, drawn: SealedDraw) -> None:
        """Write what was drawn, durably, before anything runs."""
        body = drawn.to_bytes()
        size = -(-len(body) // _BLOCK) * _BLOCK
        self.folder.write(DRAW, self.box.seal(self._place(DRAW), body, size))

    def drawn(self) -> SealedDraw:
        """What was drawn. Raises Damaged."""
        return SealedDraw.from_bytes(self._opened(DRAW, DRAW))

    def keep(self, worker: int, standing: Standing) -> None:
        """Write where a worker stands, to the file whose turn it is. Raises TooLarge, OSError."""
        body = standing.to_bytes()
        name = f"{worker}.{TWO[standing.written % len(TWO)]}"
        size = self.ranking.count * (self.room + HEAD_BYTES)
        self.folder.write(name, self.box.seal(self._place(str(worker)), body, size))

    def fits(self, found: Candidate) -> bool:
        """Whether it can be written, whatever else is."""
        return len(Standing(following=found.slot, best=(found,)).to_bytes()) <= self.room + HEAD_BYTES

    def standing(self, worker: int) -> Standing:
        """Where a worker stands by its newer file. Without one it begins anew, which gives the same trials again."""
        found = [Standing(following=worker)]
        for one in TWO:
            with suppress(Damaged):
                found.append(Standing.from_bytes(self._opened(f"{worker}.{one}", str(worker))))
        return max(found, key=lambda standing: standing.written)

    def best(self) -> tuple[Candidate, ...]:
        """The trial that leaves by each order; empty where none may, or not all of them were done in time.

        Raises Damaged.
        """
        count = self.drawn().count
        standings = [self.standing(worker) for worker in range(self.workers)]
        if any(one.following < count for one in standings):
            return ()
        return best_of(*(found for one in standings for found in one.best))

    def _place(self, name: str) -> str:
        return f"{self.winner}/{name}"

    def _opened(self, name: str, place: str) -> bytes:
        content = self.folder.read(name)
        if content is None:
            raise Damaged(f"{self.folder.url}/{name}: not there")
        return self.box.open(self._place(place), content)


@contextmanager
def keeping(work: SealedWork, worker: int, standing: Standing) -> Iterator[Callable[[Standing], None]]:
    """Writes where a worker stands at the announced times, from a thread of its own, while the block runs.

    What it yields is told where it stands from then on.
    """
    at, over = deque([standing], maxlen=1), threading.Event()

    def loop() -> None:
        while (number := work.schedule.following(time.time())) is not None:
            if over.wait(max(0.0, work.schedule.at(number) - time.time())):
                return
            # A place that refuses a write may take the next one.
            with suppress(OSError):
                work.keep(worker, replace(at[-1], written=number))

    thread = threading.Thread(target=loop, daemon=True, name="keeper")
    thread.start()
    try:
        yield at.append
    except BaseException:
        over.set()
        raise
    finally:
        thread.join()


def serve(work: SealedWork, worker: int, data: Dataset) -> None:
    """Run the slots of `worker` until the last announced time, whether they take that long or not.

    Raises Damaged where what was drawn is gone.
    """
    drawn, standing = work.drawn(), work.standing(worker)
    with keeping(work, worker, standing) as now:
        while standing.following < drawn.count and (left := work.schedule.last - time.time()) > 0:
            group = replace(work.group, seconds=left)
            try:
                found = run_slot(drawn, standing.following, work.winner, group, data, work.ranking)
            except OutOfTime:
                break
            except OSError:
                # The machine or the records went away: the same slot again, the same.
                time.sleep(min(1.0, work.schedule.cadence))
                continue
            standing = after(work, standing, found)
            now(standing)


def after(work: SealedWork, standing: Standing, found: Candidate | None) -> Standing:
    """Where a worker stands once it ran the slot that followed."""
    further = replace(standing, following=standing.following + work.workers)
    # How large a model is follows from its configuration alone: one that is too large ranks last, as one that failed.
    left = found if found is not None and work.fits(found) else None
    return further if left is None else replace(further, best=best_of(*standing.best, left))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteWork:
    """The work as it travels through the object store of a cluster, with the records beside it."""

    work: SealedWork
    data: SharedData
    credentials: Credentials


def serve_remotely(remote: RemoteWork, worker: int) -> None:
    """`serve` as Ray calls it. Nothing that is printed meanwhile is kept: how much it is would tell how many ran."""
    remote.credentials.take()
    with _silent():
        serve(remote.work, worker, remote.data.get())


@contextmanager
def _silent() -> Iterator[None]:
    kept = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        yield
    finally:
        for number, before in zip((1, 2), kept, strict=True):
            os.dup2(before, number)
            os.close(before)
        os.close(nowhere)
