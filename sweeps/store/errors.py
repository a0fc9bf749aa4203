"""What can go wrong with the store: each message says what was expected and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterable

from sqlalchemy.exc import DBAPIError

from sweeps.util.text import LISTED, nearest


class StoreError(RuntimeError):
    """The store cannot be read or written; nothing of the failed call was kept."""


class StoreVanished(StoreError):
    """The file that this process writes is not where its path leads any more: nobody would find what is written.

    kept  where all that it held was written to
    """

    def __init__(self, path: str, part: str, *, replaced: bool, kept: str | None = None) -> None:
        self.path, self.part, self.replaced = path, part, replaced
        what = "another file stands in its place" if replaced else "it was deleted or moved"
        super().__init__(
            f"store {path}: {path}{part} is not the file that this sweep began with; {what}. Nothing more is launched, "
            f"and what runs is stopped. {_after_vanishing(path, kept)}"
        )


def _after_vanishing(path: str, kept: str | None) -> str:
    files = f"{path}, {path}-wal and {path}-shm"
    if kept is not None:
        return (
            f"All that it held, to the last reservation, is kept in {kept} (of several copies, take the newest): with "
            f"no other controller running, remove what is left of {files}, rename the copy to {path}, and go on with "
            "`sweeps resume`."
        )
    return (
        f"Put {files} back as they were, and go on with `sweeps resume`. Without them nothing knows what was charged: "
        "count every trial whose folder is there with its whole plan, and start a sweep of another name."
    )


class StoreOlder(StoreError):
    """Workers left records of attempts that the store does not know: what these drew stands in no ledger of it."""

    def __init__(self, sweep: str, unknown: str, records: str) -> None:
        super().__init__(
            f"sweep {sweep!r}: {records} holds records of {unknown}, which the store does not know. It is an older "
            "copy of the store, or another one, and its totals would leave out what those attempts drew. Put the "
            "newest copy back, then go on with `sweeps resume`; without it, count every trial whose folder is there "
            "with its whole plan, and start a sweep of another name."
        )


class SweepExists(StoreError):
    """The name is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"sweep {name!r} exists, or once had that name. Go on with `sweeps resume {name}`, or choose another name."
        )


class UnknownSweep(StoreError):
    """No sweep has this name; the message lists near ones."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        if near := nearest(name, names, 3):
            found = f"Did you mean {', '.join(map(repr, near))}?"
        elif names:
            more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
            found = f"It holds {', '.join(map(repr, names[:LISTED]))}{more}."
        else:
            found = "The store is empty; start with `sweeps run`."
        super().__init__(f"sweep {name!r}: not in this store. {found}")


class UnknownRequest(StoreError):
    """Another release asked something of a sweep that this one does not know."""


class UnknownTrial(StoreError):
    """No trial, or no attempt, has this key."""


class Conflict(StoreError):
    """A write contradicts what is recorded: another content for the same thing, or a step out of its order."""


class PopulationExists(StoreError):
    """A population has its ledger already, and with other terms."""


class UnknownPopulation(StoreError):
    """No ledger was made for this population."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        found = f"It has those of {', '.join(map(repr, names[:LISTED]))}. " if names else ""
        super().__init__(
            f"population {name!r}: this store has no ledger of it. {found}Make it, once and for ever, with "
            f"`sweeps budget {name} --epsilon E --delta D --rule linear|gdp`; or, if another folder or store has it, "
            "go on with that one (--root or --store): two ledgers of the same people know nothing of each other."
        )


class PopulationSpent(StoreError):
    """A charge that the budget of a population does not hold: nothing of what it would pay for was begun."""


class LeaseHeld(StoreError):
    """Another controller drives this sweep."""


class LeaseLost(StoreError):
    """Another controller has taken the sweep over, or the lease was released: this one may not write any more."""


_ADMITTED = (
    "Check the URL, its user and password (PGPASSWORD or ~/.pgpass), and that the database is there and lets them in."
)
_SQLITE_BUSY = (5, 6)
_SQLITE_REMEDIES = {
    _SQLITE_BUSY: "another process holds it locked. Find it with `fuser {where}`, end it, and go on with "
    "`sweeps resume`.",
    (8, 14, 23): "it cannot be opened or written. Its folder must exist, and it and the file be writable (SQLite keeps "
    "two files beside it); or choose another --root or --store.",
    (10, 13): "the disk refused a write or a read (full, a size limit, or failing). Free space, then go on with "
    "`sweeps resume`.",
    (11, 26): "the file is damaged, or no SQLite database. Restore it from a backup (the workers' own records stay "
    "valid), or choose another --store.",
}
"""By the code of SQLite."""

_POSTGRES_REMEDIES = {
    ("28", "3D"): f"the server did not let us in. {_ADMITTED}",
    ("42501",): "the user lacks rights. Grant it USAGE and CREATE on the schema, and the store's tables if another "
    "user made them.",
    ("25006",): "the server takes no writes (a standby, or set read-only). Use the primary's URL.",
    ("53",): "the server is out of disk, memory or connections. Free some, then go on with `sweeps resume`.",
    ("55P03", "57014"): "another session holds a lock, or keeps the server busy. Find it in pg_stat_activity, end it, "
    "then go on with `sweeps resume`.",
}
"""By the beginning of the SQLSTATE."""

# While a connection is opened the driver hands on the server's words without their SQLSTATE.
_REFUSALS = ("password", "authentication failed", "no pg_hba.conf entry", "permission denied", "does not exist")


def is_refusal(error: DBAPIError) -> bool:
    """Whether the server answered a connection with a refusal that waiting does not change."""
    text = str(error.orig)
    return any(sign in text for sign in ("FATAL", "no password supplied")) and any(words in text for words in _REFUSALS)


def is_busy(error: DBAPIError) -> bool:
    """Whether somebody else keeps the store from answering: a lock, or work without an end."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in _SQLITE_BUSY
    # What the server says when its own limits, which are ours, ended a wait.
    return getattr(error.orig, "sqlstate", None) in ("55P03", "57014")


def translated(error: DBAPIError, where: str, waited: float = 0.0) -> StoreError:
    """The driver's error as a StoreError with a remedy; `where` names the store without its password.

    waited  seconds for which it was tried
    """
    place = f"store {where}" if waited < 1 else f"store {where}: waited for {waited:.0f} s"
    original = error.orig
    code = getattr(original, "sqlite_errorcode", None)
    if code is not None:
        remedies = (remedy for codes, remedy in _SQLITE_REMEDIES.items() if code & 0xFF in codes)
        return StoreError(
            f"{place}: {original}: {next(remedies, 'Nothing of this write was kept.').format(where=where)}"
        )
    state = getattr(original, "sqlstate", None) or ""
    for prefixes, remedy in _POSTGRES_REMEDIES.items():
        if state.startswith(prefixes):
            return StoreError(f"{place}: {_one_line(original)}: {remedy}")
    if not state and is_refusal(error):
        return StoreError(f"{place}: {_one_line(original).rpartition(': ')[2]}. {_ADMITTED}")
    if error.connection_invalidated or not state:
        return StoreError(
            f"{place}: {_one_line(original)}: the server does not answer. Start it or check the URL, then go on with "
            "`sweeps resume`."
        )
    return StoreError(f"{place}: {_one_line(original)} (SQLSTATE {state}). Nothing of this write was kept.")


def unusable_folder(error: OSError, where: str) -> StoreError:
    """The store's folder cannot be made."""
    reason = errno.errorcode.get(error.errno or 0, "")
    return StoreError(f"store {where}: {error.strerror} ({reason}). Choose another --root or --store.")


def _one_line(error: BaseException | None) -> str:
    # Postgres adds the statement to some messages; its first sentence is the matter.
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    return " ".join((primary or str(error)).split())
