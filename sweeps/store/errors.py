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


_SQLITE_BUSY, _SQLITE_LOCKED, _SQLITE_READONLY, _SQLITE_IOERR = 5, 6, 8, 10
_SQLITE_CORRUPT, _SQLITE_FULL, _SQLITE_CANTOPEN, _SQLITE_AUTH, _SQLITE_NOTADB = 11, 13, 14, 23, 26

_SQLITE_REMEDIES = {
    _SQLITE_BUSY: "another process holds it locked. Find it with `fuser {where}`, end it, and go on with "
    "`sweeps resume`.",
    _SQLITE_LOCKED: "another connection holds it locked. Go on with `sweeps resume`.",
    _SQLITE_READONLY: "it cannot be written. Make the file and its folder writable (SQLite keeps two files beside it), "
    "or choose another --root or --store.",
    _SQLITE_IOERR: "the disk refused a write or a read (full, a size limit, or failing). Free space, then go on with "
    "`sweeps resume`.",
    _SQLITE_CORRUPT: "the file is damaged. Restore it from a backup; the workers' own records stay valid.",
    _SQLITE_FULL: "the disk is full. Free space, then go on with `sweeps resume`.",
    _SQLITE_CANTOPEN: "it cannot be opened. Its folder must exist and be writable; choose another --root or --store.",
    _SQLITE_AUTH: "access was refused. Check the owner of the file.",
    _SQLITE_NOTADB: "it is not a SQLite database. Choose another --store, or move the file away.",
}

_POSTGRES_REMEDIES = {
    "28": "the server refused the user or its password. Check the URL.",
    "3D": "the database does not exist. Create it with `createdb`, or check the URL.",
    "42501": "the user lacks rights. Grant it USAGE and CREATE on the schema, and the store's tables if another user "
    "made them.",
    "25006": "the server takes no writes (a standby, or set read-only). Use the primary's URL.",
    "53": "the server is out of disk, memory or connections. Free some, then go on with `sweeps resume`.",
    "55P03": "another session holds a lock. Find it in pg_stat_activity, end it, then go on with `sweeps resume`.",
    "57014": "the server did not come to the end of it. Look what keeps it busy, then go on with `sweeps resume`.",
}
_POSTGRES_WAITED = ("55P03", "57014")
"""What the server says when its own limits, which are ours, ended a wait."""

# While a connection is opened the driver hands on the server's words without their SQLSTATE.
_REFUSALS = {
    "password": "Check the user and its password: the URL's, PGPASSWORD, or ~/.pgpass.",
    "authentication failed": "Check the user and its password: the URL's, PGPASSWORD, or ~/.pgpass.",
    "no pg_hba.conf entry": "The server admits no such user from here. Let its pg_hba.conf admit it.",
    "permission denied": "Grant the user CONNECT on the database.",
    "does not exist": "Create it (`createuser`, `createdb`), or check the URL.",
}
_SOON_OVER = ("starting up", "shutting down", "recovery mode", "too many", "remaining connection slots")


def refusal(error: DBAPIError) -> str | None:
    """What to do when the server answered a connection with a refusal that waiting does not change; else None."""
    text = str(error.orig)
    if not any(sign in text for sign in ("FATAL", "no password supplied")) or any(
        words in text for words in _SOON_OVER
    ):
        return None
    return next((remedy for words, remedy in _REFUSALS.items() if words in text), None)


def is_busy(error: DBAPIError) -> bool:
    """Whether somebody else keeps the store from answering: a lock, or work without an end."""
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in (_SQLITE_BUSY, _SQLITE_LOCKED)
    return getattr(error.orig, "sqlstate", None) in _POSTGRES_WAITED


def translated(error: DBAPIError, where: str, waited: float = 0.0) -> StoreError:
    """The driver's error as a StoreError with a remedy; `where` names the store without its password.

    waited  seconds for which it was tried
    """
    place = f"store {where}" if waited < 1 else f"store {where}: waited for {waited:.0f} s"
    original = error.orig
    code = getattr(original, "sqlite_errorcode", None)
    if code is not None:
        remedy = _SQLITE_REMEDIES.get(code & 0xFF, "Nothing of this write was kept.").format(where=where)
        return StoreError(f"{place}: {original}: {remedy}")
    state = getattr(original, "sqlstate", None) or ""
    for prefix, remedy in _POSTGRES_REMEDIES.items():
        if state.startswith(prefix):
            return StoreError(f"{place}: {_one_line(original)}: {remedy}")
    if not state and (remedy_now := refusal(error)) is not None:
        return StoreError(f"{place}: {_one_line(original).rpartition(': ')[2]}. {remedy_now}")
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
