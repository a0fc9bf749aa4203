"""What people ask of a sweep that somebody else may be running, and what they accepted; what audits found, and what was
read of its test records: words appended to its store.

None of them needs the sweep's lease, and none is ever changed. The sweep's controller reads them and does what they
say, so that it stays the one that writes.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainables.system import Scalar


_SHOWN = 12
"""Of a digest, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequest:
    """The controller that holds the lease of this `token` is to end as by Ctrl-C. No later one is meant."""

    token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A sentence about the sweep."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A word about the sweep; an empty value takes it away."""

    key: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPoint:
    """A point of the space, complete, that is to be tried next. See `sweeps.records.Configured` for `config`."""

    config: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refutation:
    """An audit refuted the claim of a trial. It is about all trials of its system: they run the same code.

    audit  its number in the sweep
    """

    trial: str
    system: str
    audit: int

    def sentence(self, key: str) -> str:
        """Why the claim of the trial `key` is refuted."""
        found = f"Audit {self.audit} of this sweep refuted the claim of {self.trial}"
        return f"{found}." if key == self.trial else f"{found}, and this trial runs the same code ({self.system})."

    @property
    def of_search(self) -> str:
        """Why the claim of another winner of a sealed search is refuted, whatever its system."""
        return (
            f"Audit {self.audit} of this sweep refuted the claim of {self.trial}, and that of this trial covers the "
            f"search too, whose trials of that system ({self.system}) cost nobody knows what."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutRead:
    """The test records are about to be read for one trial: appended before any of them is scored.

    trial    its key
    records  the fingerprint of the test records, keyed by the store (`Store.data_fingerprint`): one content, one word
    """

    trial: str
    records: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutScore:
    """What came of a reading.

    read  number of its `HeldOutRead`
    metrics, standard_error  see `trainables.export.scoring`
    """

    read: int
    metrics: Mapping[str, float]
    standard_error: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The sweep goes on although something is not as it was: appended before anything is launched under it.

    what         "code", "data" or "spec"
    before, now  digests; of data those keyed by the store
    """

    what: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"another {self.what} ({self.before[:_SHOWN]} became {self.now[:_SHOWN]})"


Wanted = Accepted | StopRequest | Note | Tag | KnownPoint | Refutation | HeldOutRead | HeldOutScore
_KINDS: Mapping[str, type[Wanted]] = {
    "accepted": Accepted,
    "stop": StopRequest,
    "note": Note,
    "tag": Tag,
    "point": KnownPoint,
    "refutation": Refutation,
    "held-out read": HeldOutRead,
    "held-out score": HeldOutScore,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody asked of a sweep.

    id     of no other request of its store
    asker  "user@host"
    at     seconds since 1970
    """

    id: int
    wanted: Wanted
    asker: str
    at: float

    @property
    def when(self) -> str:
        """Its time, for people."""
        return datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def kind_of(wanted: Wanted) -> str:
    """The word by which a store keeps it."""
    return next(kind for kind, known in _KINDS.items() if isinstance(wanted, known))


def content_of(wanted: Wanted) -> dict[str, Any]:
    """Plain JSON values; `wanted_from` reads them."""
    return asdict(wanted)


def wanted_from(kind: str, content: Mapping[str, Any]) -> Wanted:
    """What a store kept."""
    return _KINDS[kind](**content)


def this_person() -> str:
    """Who asks: "user@host"."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        # A container's user need not have a name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def notes(requests: Iterable[Request]) -> list[str]:
    """What was noted, oldest first, with who and when."""
    return [f"{one.wanted.text} ({one.asker}, {one.when})" for one in requests if isinstance(one.wanted, Note)]


def accepted(requests: Iterable[Request]) -> list[str]:
    """What was accepted although it had changed, oldest first, with who and when."""
    return [f"{one.wanted} ({one.asker}, {one.when})" for one in requests if isinstance(one.wanted, Accepted)]


def tags(requests: Iterable[Request]) -> dict[str, str]:
    """{key: value} as it was said last."""
    said = {one.wanted.key: one.wanted.value for one in requests if isinstance(one.wanted, Tag)}
    return {key: said[key] for key in sorted(said) if said[key]}
