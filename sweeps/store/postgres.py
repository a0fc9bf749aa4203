"""Connections to Postgres that nothing can hold for ever.

Four ways to fall silent, each with its own end: a server that cannot be reached (time limit of a connection), a lock
that another session keeps and a statement that does not come to its end (the server's own limits, which name the
matter), a network that swallows packets (TCP's keepalives and its limit on what stays unacknowledged). A server that
is stopped while its kernel still acknowledges meets none of them: then the connection is cut from this side.
"""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import URL, Engine

CONNECT_SECONDS = 5
"""Longest attempt at one connection; there may be many within one patience."""
BRIEF_CONNECT_SECONDS = 2
"""The same once the server was given up: libpq takes no less."""
_LIMITS = {"lock_timeout": 0.9, "statement_timeout": 0.95}
"""Shares of the patience: the server's words about a lock, or else about a statement, come before the line is cut."""


class Lines:
    """Which connection each thread is waiting on, so that another thread can cut it. Safe to use from all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[int, Any] = {}
        self.given_up = False
        """Whether the server was silent for one patience: what is still tried is tried briefly."""

    def take(self, connection: Any) -> None:
        """This thread speaks to the server by `connection` from now on."""
        with self._lock:
            self._of[threading.get_ident()] = connection

    def drop(self, connection: Any) -> None:
        """It is about to be closed: its descriptor may be another file's in a moment."""
        with self._lock:
            self._of = {thread: one for thread, one in self._of.items() if one is not connection}

    def leave(self, thread: int) -> None:
        """The thread waits for nothing."""
        with self._lock:
            self._of.pop(thread, None)

    def cut(self, thread: int) -> None:
        """End what the thread is waiting for; its connection then says that the server closed it."""
        with self._lock, suppress(Exception), socket.socket(fileno=os.dup(self._of[thread].fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)


def postgres_engine(url: URL, patience_seconds: float, lines: Lines) -> Engine:
    """An engine whose connections take no longer than `patience_seconds`. What the URL itself says of limits holds."""
    unanswered = max(1, round(patience_seconds))
    given = {
        "connect_timeout": max(1, min(CONNECT_SECONDS, unanswered)),
        "keepalives": 1,
        "keepalives_idle": max(1, unanswered // 4),
        "keepalives_interval": max(1, unanswered // 8),
        "keepalives_count": 4,
        "tcp_user_timeout": unanswered * 1000,
    }
    engine = create_engine(
        url, connect_args={name: value for name, value in given.items() if name not in url.query}, pool_pre_ping=False
    )

    @event.listens_for(engine, "do_connect")
    def _connect(dialect: Any, record: Any, arguments: list[Any], options: dict[str, Any]) -> Any:
        if lines.given_up:
            options["connect_timeout"] = BRIEF_CONNECT_SECONDS
        connection = dialect.connect(*arguments, **options)
        # At once: what the library asks a new connection may find a silent server too.
        lines.take(connection)
        return connection

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, record: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') IN ('off', 'local')"
            )
            for name, share in _LIMITS.items():
                cursor.execute(
                    "SELECT set_config(%s, %s, false) WHERE current_setting(%s) = '0'",
                    (name, f"{max(1, round(1000 * share * patience_seconds))}ms", name),
                )
        connection.commit()

    @event.listens_for(engine, "checkout")
    def _taken(connection: Any, record: Any, proxy: Any) -> None:
        lines.take(connection)

    @event.listens_for(engine, "close")
    def _closed(connection: Any, record: Any) -> None:
        lines.drop(connection)

    return engine
