"""The durable record of one attempt, and the order of writes that makes it trustworthy.

One folder per attempt, `trials/<key>/<attempt>/`, written by its worker alone:

    claim               taken before anything else: whoever finds it taken leaves the attempt alone
    horizon.json        steps below `until_step` may have been executed; written before their noise is drawn
                        (on an object store horizon.<until_step>.json, one for each)
    horizon.copy.json   the same, written next: should one of the two be lost or damaged, the other shows it
    checkpoint.*.npz    see `trainables.worker.checkpoints`
    moved               its worker stopped between two intervals, because its node had notice that it is to go

and two files of the controller:

    reserved            made before the launch, on a local path only, and taken away by the worker that claims it:
                        while it is there, nobody has begun
    fence               made when the attempt is given up: from now on its worker may not start another interval

Writing the horizon first and looking for the fence second (worker), fencing first and reading the
horizon second (controller), means that no step escapes: a worker that did not see the fence had its
horizon written before the controller read it. So a fenced attempt without a horizon has drawn no noise and never
will: a worker that comes late notes its horizon, meets the fence and stops. That is believed only of a folder that
shows it, by the mark or by a claim and an untouched copy; what others are charged, `trainables.worker.evidence` says.
"""

from __future__ import annotations

import errno
import json
import platform
import re
import secrets
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from trainables.system import State
from trainables.worker.checkpoints import Checkpoint, Checkpoints, steps_among
from trainables.worker.evidence import Traces, charge
from trainables.worker.files import Folder, NotAFolder, NotARecord
from trainables.worker.redaction import redacted
from trainables.worker.results import Curve, TrialResult
from trainables.worker.sealed import Damaged, parsed, seal, unseal, whole_number

CLAIM, HORIZON, MIRROR, FENCE = "claim", "horizon.json", "horizon.copy.json", "fence"
RESERVED = "reserved"
ERROR = "error.txt"
MOVED = "moved"

UNWRITABLE = "its records cannot be written"
"""How the reason of an attempt begins that `RecordsUnwritable` ended."""

NODE_LEAVES = "its node had notice to go, and it moves"
"""How the reason of an attempt begins that `NodeLeaves` ended."""

LARGEST = 2**62
"""No step is larger: the store's integers end at 2**63."""
SMALL = 65536
LONGEST_NAME = 64
"""Letters of a machine's name that are kept."""
"""Bytes of the largest record but a checkpoint."""

_NUMBERED = re.compile(r"horizon\.(0|[1-9]\d{0,17})\.json", re.ASCII)


class AlreadyExecuted(RuntimeError):
    """Noise of this attempt may have been drawn before: drawing the same stream again would reveal a difference."""


class Fenced(RuntimeError):
    """The controller has given this attempt up; its worker must stop without drawing more noise."""


class Overran(RuntimeError):
    """The launch has trained for as long as it was given, so it ends here, at a checkpoint."""


class RecordsUnwritable(RuntimeError):
    """The folder of records refuses a write (full disk, read-only, gone): says nothing about the configuration."""


class NodeLeaves(OSError):
    """The node has notice that it is to go, so the attempt ends here and another goes on from its checkpoint."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a fenced attempt left behind.

    executed_to  steps below this may have been executed, and are charged
    doubt        why that is the whole reservation although no record states so; "" where all records agree
    result       what it reported, where it reached the end of its reservation
    moved        it ended by itself, to go on elsewhere
    refused      why nothing can go on in this folder; "" where it can
    """

    executed_to: int
    doubt: str = ""
    result: TrialResult | None = None
    moved: bool = False
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Reads and writes the folder of one attempt.

    holder  by which a worker knows that the claim in the folder is its own
    """

    folder: Folder
    key: str
    number: int
    holder: str = field(default_factory=partial(secrets.token_hex, 16), repr=False, compare=False)

    @classmethod
    def of(cls, trials: Folder, key: str, attempt: int) -> Attempt:
        """The attempt's record below the sweep's `trials` folder."""
        return cls(trials.child(key).child(str(attempt)), key, attempt)

    @property
    def checkpoints(self) -> Checkpoints:
        """Its checkpoints."""
        return Checkpoints(self.folder, self._place)

    @property
    def _place(self) -> str:
        return f"{self.key}/{self.number}"

    def reserve(self) -> None:
        """Mark the folder before the launch. Cheap and not synced: where the mark is missing, more is charged."""
        if self.folder.is_local:
            # A folder that refuses this refuses the worker's records too, and it is the worker who says so.
            with suppress(OSError, NotAFolder):
                self.folder.write(RESERVED, b"", durable=False)

    def is_seen(self) -> bool:
        """Whether this machine sees the folder that the controller has marked; on an object store everybody does.

        A worker whose path leads elsewhere would keep its records where nobody looks, under a mark that says that
        nobody has begun.
        """
        return not self.folder.is_local or self.folder.exists(RESERVED) or self.folder.exists(CLAIM)

    def claim(self, from_step: int) -> None:
        """Take this attempt, which begins at `from_step`, for one worker, for ever.

        Raises AlreadyExecuted when another has, or had, it.

        An attempt's streams follow from the secret, its key and its number. A store that was restored from an older
        copy, or another store over the same folders, would hand out the same number twice; so would a cluster that
        repeats a call on its own. (Records of releases without claims show by their horizon that they were executed.)
        """
        if self.folder.exists(HORIZON) or not self.folder.claim(CLAIM, self.holder):
            raise AlreadyExecuted(
                f"{self.folder.url}: noise of this attempt was drawn before, or is about to be, so it is not drawn "
                "again on other gradients. Does the store belong to these records, and is it the newest copy? Start a "
                "sweep of a new name."
            )
        self._note(MIRROR, from_step, durable=False)
        if self.folder.is_local:
            self.folder.delete(RESERVED)

    def may_execute(self, until_step: int) -> None:
        """Note the horizon durably. Raises Fenced if the attempt was given up, OSError where this is not its folder."""
        if self.folder.is_local:
            # Before the note, which would make the folder anew, or hide another worker's.
            self._check_claim()
        # On an object store a PUT that timed out and was repeated may land late, over a newer one: there each horizon
        # is an object of its own, and the largest counts.
        self._note(HORIZON if self.folder.is_local else f"horizon.{until_step}.json", until_step)
        # A power loss may take this one back, which the first then shows.
        self._note(MIRROR, until_step, durable=False)
        # On an object store one listing answers both questions.
        names = None if self.folder.is_local else self.folder.names()
        if self.folder.exists(FENCE) if names is None else FENCE in names:
            raise Fenced(f"{self.folder.url}: given up by the controller")
        self._check_claim(names)

    def save(
        self, step: int, state: State, result: Mapping[str, Any] | None = None, curve: Curve | None = None
    ) -> None:
        """Keep `state` durably as the state after `step` steps, with the result if this ends the reservation.

        curve  what was told of the steps before
        """
        if self.folder.is_local:
            self._check_claim()
        self.checkpoints.save(step, state, result, curve)

    def load(self, step: int) -> State:
        """State of the checkpoint at `step`. Raises FileNotFoundError, Damaged."""
        return self.checkpoints.read(step).state

    def fence(self) -> None:
        """Give the attempt up: its worker ends the interval that it is in, and begins no other."""
        self.folder.write(FENCE, b"")

    def recover(self, from_step: int, to_step: int) -> Recovered:
        """Fence the attempt, then read what it left of its reservation (in this order: see the module's text)."""
        try:
            self.fence()
            # Who comes to stand here only now meets the fence: nothing but what is listed counts.
            names = self.folder.names()
            result, checkpoints = self._checkpointed(names, to_step)
            # The copy is written second, so it is read first: a worker in between makes no contradiction.
            mirror = self._noted(MIRROR) if MIRROR in names else None
            horizon = self._horizon(names)
        except NotAFolder as refused:
            # Nobody can write here any more: no worker begins another interval, and all of this one is charged.
            return Recovered(to_step, doubt=str(refused), refused=str(refused))
        moved = MOVED in names
        if result is not None:
            # It covers its whole reservation, so nothing that the others say could add to it.
            return Recovered(to_step, result=result, moved=moved)
        traces = Traces(
            unclaimed=RESERVED in names,
            claimed=any(name.partition(".")[0] == CLAIM for name in names),
            horizon=horizon,
            mirror=mirror,
            checkpoints=checkpoints,
        )
        found = charge(traces, from_step, to_step)
        return Recovered(found.executed_to, doubt=found.doubt, moved=moved)

    def signs(self) -> tuple[tuple[str, int], ...]:
        """What its worker has written, with times: it changes with the claim, each interval begun, each checkpoint.

        Times are the file system's own: to be compared with those of before, never with a clock.
        """
        return tuple((name, at) for name, at in self.folder.times().items() if name not in (FENCE, RESERVED))

    def move(self) -> None:
        """Note that nothing went wrong: the worker stops between two intervals."""
        self.folder.write(MOVED, b"")

    def explain(self, text: str) -> str:
        """Keep the full text of a failure here, inside the release boundary: it may quote private values. Its place."""
        self.folder.write(ERROR, redacted(text).encode())
        return f"{self.folder.url}/{ERROR}"

    def explained(self) -> str | None:
        """The full text of its failure, None without one. It may quote private values."""
        try:
            text = self.folder.read(ERROR)
        except (NotAFolder, NotARecord):
            return None
        return None if text is None else text.decode(errors="replace")

    def _check_claim(self, names: Collection[str] | None = None) -> None:
        """Raises OSError where the claim of this worker does not stand here (any more).

        The folder was removed, moved away or unmounted, perhaps another made in its place: a fence that was up would
        be gone with it, and the controller looks elsewhere.
        """
        if not self.folder.holds(CLAIM, self.holder, names):
            raise OSError(errno.ESTALE, f"{self.folder.url} is no longer the folder that this worker claimed")

    def _note(self, name: str, until_step: int, *, durable: bool = True) -> None:
        text = json.dumps({"until_step": until_step, "node": platform.node()[:LONGEST_NAME]}).encode()
        self.folder.write(name, seal(f"{self._place}/{name}", text), durable=durable)

    def _noted(self, name: str) -> int | Damaged | None:
        place = f"{self._place}/{name}"
        try:
            content = self.folder.read(name, limit=SMALL)
            if content is None:
                return None
            return whole_number(place, "its step", parsed(place, unseal(place, content)).get("until_step"), 0, LARGEST)
        except NotARecord as refused:
            return Damaged(str(refused))
        except Damaged as damaged:
            return damaged

    @property
    def node(self) -> str:
        """The name of the machine whose worker has it; empty where nothing says it."""
        with suppress(OSError, NotARecord, Damaged):
            if (content := self.folder.read(MIRROR, limit=SMALL)) is not None:
                place = f"{self._place}/{MIRROR}"
                return str(parsed(place, unseal(place, content)).get("node", ""))[:LONGEST_NAME]
        return ""

    def _horizon(self, names: Collection[str]) -> int | Damaged | None:
        if self.folder.is_local:
            return self._noted(HORIZON) if HORIZON in names else None
        steps = [int(found[1]) for name in names if (found := _NUMBERED.fullmatch(name))]
        if not steps:
            return None
        noted = self._noted(f"horizon.{max(steps)}.json")
        stated = noted == max(steps) or isinstance(noted, Damaged)
        return noted if stated else Damaged(f"{self._place}: a horizon states another step than its name")

    def _checkpointed(
        self, names: Collection[str], to_step: int
    ) -> tuple[TrialResult | None, tuple[int | Damaged, ...]]:
        """The result, and each checkpoint's step."""
        result, found = None, list[int | Damaged]()
        for step in steps_among(names):
            try:
                checkpoint = self.checkpoints.read(step)
                if checkpoint.result is not None:
                    result = self._reported(checkpoint, to_step)
                found.append(step)
            except Damaged as damaged:
                found.append(damaged)
            except FileNotFoundError:
                # Replaced by its successor while we looked: its worker was still in the interval before the fence.
                continue
        return result, tuple(found)

    def _reported(self, checkpoint: Checkpoint, to_step: int) -> TrialResult:
        if checkpoint.step != to_step:
            raise Damaged(f"{self._place}: a result at step {checkpoint.step} of a reservation that ends at {to_step}")
        return TrialResult.from_dict(checkpoint.result, key=self.key, attempt=self.number, step=to_step)


def latest_checkpoint(
    trials: Folder, key: str, attempts: Collection[int], at_least: int, below: int
) -> tuple[int, Checkpoint] | None:
    """(attempt, the newest undamaged checkpoint at a step in [at_least, below)); None without one.

    A worker that was given up may still end the interval that it was in, and leave the checkpoint, even the result,
    of an attempt that is already settled as lost. Its steps are paid, its result came too late: what leads up to
    `below` is run again.
    """
    for attempt in sorted(attempts, reverse=True):
        found = Attempt.of(trials, key, attempt).checkpoints.readable(max(at_least, 1), below)
        if found is not None:
            return attempt, found
    return None
