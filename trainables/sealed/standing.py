"""What a worker keeps of the slots that it ran: how far it is, and the best. What was worse is overwritten."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from safetensors.numpy import load, save

from trainables.system import State

HEAD_BYTES = 65536
"""Of what is kept besides the model, at most."""
_HEAD, _STATE = "head", "state."


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A trial that may leave.

    slot     its place in the draw
    rank     by the ranking of the search; the smaller leaves
    metrics  that may leave with it
    state    of its model
    """

    slot: int
    rank: tuple[float, ...]
    metrics: Mapping[str, float]
    state: State

    def before(self, other: Candidate | None) -> bool:
        """Whether it leaves rather than `other`."""
        return other is None or (self.rank, self.slot) < (other.rank, other.slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far a worker is.

    written  number of the announced time at which this was written; the larger is the newer
    following  the slot that it runs next
    best     None while no trial may leave
    """

    following: int
    written: int = -1
    best: Candidate | None = None

    def to_bytes(self) -> bytes:
        """As bytes that `from_bytes` reads."""
        said: dict[str, object] = {"following": self.following, "written": self.written}
        arrays: State = {}
        if (best := self.best) is not None:
            said["best"] = {"slot": best.slot, "rank": list(best.rank), "metrics": dict(best.metrics)}
            # As they lie in memory, whatever view of it the model has.
            arrays = {f"{_STATE}{name}": np.array(value, order="C") for name, value in best.state.items()}
        head = np.frombuffer(json.dumps(said).encode(), dtype=np.uint8)
        return save({_HEAD: head, **arrays})

    @classmethod
    def from_bytes(cls, body: bytes) -> Standing:
        """The inverse of `to_bytes`."""
        read = load(body)
        head = json.loads(read[_HEAD].tobytes())
        state = {name.removeprefix(_STATE): value for name, value in read.items() if name.startswith(_STATE)}
        best = None
        if (said := head.get("best")) is not None:
            best = Candidate(slot=said["slot"], rank=tuple(said["rank"]), metrics=said["metrics"], state=state)
        return cls(following=head["following"], written=head["written"], best=best)
