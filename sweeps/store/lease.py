"""One controller per sweep: a lease with a fencing token that every write transaction checks.

The token grows by one with each holder (Gray & Cheriton 1989 for leases; the token follows Kleppmann
2016), and the check reads the lease inside the writing transaction, under its lock. A holder that was
paused past its expiry therefore cannot write once another has taken over, whatever its clock says.

Who asks for a lease that another holds decides by what is certain first. On the holder's own machine the process says
it: gone, and the lease is free at once. Otherwise its expiry does, on the one clock that all users of the store share
(`Database.now`). A clock that was ahead when it stamped the expiry cannot block longer than the lease was meant to
last: a longer rest is cut to that, which leaves a living holder its whole time to renew it.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from sqlalchemy import Connection, select, update

from sweeps.store.database import Database
from sweeps.store.errors import LeaseHeld, LeaseLost, StoreError
from sweeps.store.records import Driver
from sweeps.store.schema import leases

LEASE_SECONDS = 30.0
"""How long a holder may give no sign of life, unless it says otherwise."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process. `machine` names the boot and the process-id space in which `pid` means something; `acquisition`
    is this one holding of the lease."""

    host: str
    machine: str
    pid: int
    pid_started: str
    since: float
    acquisition: str
    ttl_seconds: float = LEASE_SECONDS

    def is_dead(self, *, on_this_host: bool = False) -> bool:
        """Certainly gone: its process id is free, or reused, on this very machine, or the machine has started anew.

        on_this_host  whether it can have run nowhere else, so that another boot than ours is an earlier one
        """
        here = _machine()
        if self.machine == here:
            return _pid_started(self.pid) != self.pid_started
        return on_this_host and self.machine.partition(" ")[0] != here.partition(" ")[0]


def this_process(since: float, acquisition: str, ttl_seconds: float = LEASE_SECONDS) -> Holder:
    """The holder that stands for this process."""
    pid = os.getpid()
    return Holder(socket.gethostname(), _machine(), pid, _pid_started(pid) or "", since, acquisition, ttl_seconds)


class Lease:
    """The right to write one sweep, until released or taken over. Safe to use from several threads.

    As a context manager it is released at the end of its block.

    sweep  its name
    token  number of this holding of the lease: each holder's is larger than that of the one before
    """

    def __init__(self, database: Database, sweep: str, sweep_id: int, token: int, ttl_seconds: float) -> None:
        self.sweep, self.sweep_id, self.token, self.ttl_seconds = sweep, sweep_id, token, ttl_seconds
        self._database = database
        self._lock = threading.Lock()
        self._renewed = time.monotonic()

    def renew(self) -> None:
        """Push the expiry to `ttl_seconds` from now; within the first third of that only look whether the store stands.

        Raises LeaseLost, StoreError.
        """
        self._database.check_place()
        with self._lock:
            started = time.monotonic()
            if started - self._renewed < self.ttl_seconds / 3:
                return
            self._database.write(self._renew)
            self._renewed = started

    def release(self) -> None:
        """Give the sweep up; without effect when another holds it already."""
        self._database.write(
            lambda connection: connection.execute(
                update(leases)
                .where(leases.c.sweep_id == self.sweep_id, leases.c.token == self.token)
                .values(holder=None, expires_at=0.0)
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        # What ended the block says more than what a store that is away adds to it.
        with nullcontext() if kind is None else suppress(StoreError):
            self.release()

    def check(self, connection: Connection) -> None:
        """Lock the lease and see that it is still ours, as the first act of a write. Raises LeaseLost."""
        row = connection.execute(select(leases).where(leases.c.sweep_id == self.sweep_id).with_for_update()).one()
        if row.token != self.token or row.holder is None:
            taker = "nobody" if row.holder is None else _described(Holder(**json.loads(row.holder)))
            raise LeaseLost(
                f"sweep {self.sweep!r}: this controller's lease (number {self.token}) is over; held by {taker} "
                f"(number {row.token}). Nothing was written. Watch the other with `sweeps show {self.sweep}`."
            )

    def _renew(self, connection: Connection) -> None:
        self.check(connection)
        expires_at = self._database.now(connection) + self.ttl_seconds
        _set(connection, self.sweep_id, expires_at=expires_at)


def acquire(database: Database, sweep: str, sweep_id: int, ttl_seconds: float) -> Lease:
    """Take the lease when it is free, expired, or held by a process that is certainly gone. Raises LeaseHeld."""
    acquisition = secrets.token_hex(8)

    def take(connection: Connection) -> int | LeaseHeld:
        row = connection.execute(select(leases).where(leases.c.sweep_id == sweep_id).with_for_update()).one()
        now = database.now(connection)
        if row.holder is not None and row.expires_at > now:
            holder = Holder(**json.loads(row.holder))
            if holder.acquisition == acquisition:
                # The connection broke after the commit and this is the repetition.
                return int(row.token)
            # A SQLite file lies on a local disk: whoever wrote it ran on this host.
            if not holder.is_dead(on_this_host=database.is_sqlite):
                latest = now + holder.ttl_seconds
                if row.expires_at > latest:
                    _set(connection, sweep_id, expires_at=latest)
                return LeaseHeld(
                    f"sweep {sweep!r}: driven by {_described(holder)}. Stop that one, or wait: without a sign of life "
                    f"its lease ends in {min(row.expires_at, latest) - now:.0f} s. Watch it with `sweeps show {sweep}`."
                )
        token = int(row.token) + 1
        holder = this_process(now, acquisition, ttl_seconds)
        _set(connection, sweep_id, token=token, holder=json.dumps(asdict(holder)), expires_at=now + ttl_seconds)
        return token

    taken = database.write(take)
    if isinstance(taken, LeaseHeld):
        raise taken
    database.drives = True
    return Lease(database, sweep, sweep_id, taken, ttl_seconds)


def read_driver(database: Database, connection: Connection, sweep_id: int) -> Driver | None:
    """Who holds the lease and may be alive."""
    row = connection.execute(select(leases).where(leases.c.sweep_id == sweep_id)).one()
    if row.holder is None or row.expires_at <= database.now(connection):
        return None
    holder = Holder(**json.loads(row.holder))
    if holder.is_dead(on_this_host=database.is_sqlite):
        return None
    return Driver(token=int(row.token), who=_described(holder))


def _set(connection: Connection, sweep_id: int, **values: object) -> None:
    connection.execute(update(leases).where(leases.c.sweep_id == sweep_id).values(**values))


def _described(holder: Holder) -> str:
    since = datetime.fromtimestamp(holder.since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"process {holder.pid} on host {holder.host} since {since}"


def _machine() -> str:
    boot, space = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    if boot.exists() and space.exists():
        return f"{boot.read_text().strip()} {os.readlink(space)}"
    return socket.gethostname()


def _pid_started(pid: int) -> str | None:
    """When process `pid` of this machine started, in the kernel's own words; None when there is no such process."""
    if Path("/proc/self/stat").exists():
        try:
            content = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return None
        # The name in parentheses may hold spaces. After it: state, then the 20th field of the rest is starttime.
        fields = content.rpartition(")")[2].split()
        # A zombie runs nothing any more; only its parent has not noticed.
        return None if fields[0] in "ZX" else fields[19]
    found = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return found.stdout.strip() or None
