"""The tables of the store and how older ones become the newest.

A change of the tables below raises `VERSION` by one more function in `MIGRATIONS`, which is never edited once
released; a store of each earlier version is kept beside the tests and opened there.
JSON is kept as text, so that both engines hold the same bytes and reading is one parse of many rows.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    insert,
    inspect,
    select,
    text,
    update,
)

from sweeps.util.fingerprint import keyed

# JSON as the store keeps it: one canonical text per value, and columns of texts parsed at once.

NULL = "null"


def dumps(value: object) -> str:
    """Compact text in the value's own order of keys, NumPy scalars as plain numbers."""
    return json.dumps(_plain(value), separators=(",", ":"))


def canonical(value: object) -> str:
    """Like `dumps` with sorted keys: equal values have equal texts."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))


def loads_column(texts: Iterable[str]) -> list[Any]:
    """Parse many texts in one pass, several times faster than one by one."""
    parsed: list[Any] = json.loads("[" + ",".join(texts) + "]")
    return parsed


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        return value.item()
    return value


metadata = MetaData()

schema_version = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

sweeps = Table(
    "sweeps",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("spec", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("fingerprints", Text, nullable=False),
    Column("root", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("records", Text, nullable=False, server_default=""),
    Column("label", Text, nullable=False, server_default=""),
    Column("population", Text, nullable=False, server_default=""),
)

extensions = Table(
    "extensions",
    metadata,
    Column("sweep_id", ForeignKey("sweeps.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("trials", BigInteger),
    Column("hours", Double),
    Column("launched", BigInteger, nullable=False),
    Column("at", Double, nullable=False),
    Column("epsilon", Text, nullable=False, server_default="[]"),
    Column("proposed", BigInteger, nullable=False, server_default="0"),
)

names = Table(
    "names",
    metadata,
    Column("name", Text, primary_key=True),
    Column("sweep_id", ForeignKey("sweeps.id"), nullable=False),
)
"""Every name that a sweep ever had: none becomes another's."""

requests = Table(
    "requests",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("sweep_id", ForeignKey("sweeps.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("asker", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("call", Text, nullable=False, unique=True),
    sqlite_autoincrement=True,
)
"""Anybody appends rows, and none is changed (`records.Request`). One for each `call`, however often it is tried."""

Index("requests_of_sweep", requests.c.sweep_id, requests.c.id)

leases = Table(
    "leases",
    metadata,
    Column("sweep_id", ForeignKey("sweeps.id"), primary_key=True),
    Column("token", BigInteger, nullable=False),
    Column("holder", Text),
    Column("expires_at", Double, nullable=False),
)

trials = Table(
    "trials",
    metadata,
    Column("sweep_id", ForeignKey("sweeps.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("config", Text, nullable=False),
    Column("seed", Text, nullable=False),
    Column("violations", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("metrics", Text, nullable=False),
    Column("guarantee", Text, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("proposed_at", Double, nullable=False),
    Column("finished_at", Double),
    Column("plan", Text, nullable=False),
    Column("request", BigInteger),
    CheckConstraint("state IN ('planned', 'running', 'complete', 'failed', 'infeasible')", name="trial_state"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("sweep_id", Integer, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("outcome", Text, nullable=False),
    Column("launch", Text, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("content", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("step", BigInteger, nullable=False),
    Column("metrics", Text, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double),
    ForeignKeyConstraint(["sweep_id", "number"], ["trials.sweep_id", "trials.number"]),
    CheckConstraint("outcome IN ('running', 'settled', 'lost', 'failed')", name="attempt_outcome"),
)

Index(
    "one_running_attempt",
    attempts.c.sweep_id,
    attempts.c.number,
    unique=True,
    sqlite_where=attempts.c.outcome == text("'running'"),
    postgresql_where=attempts.c.outcome == text("'running'"),
)

ledger = Table(
    "ledger",
    metadata,
    Column("sweep_id", Integer, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("from_step", BigInteger, nullable=False),
    Column("to_step", BigInteger, nullable=False),
    Column("executed_to", BigInteger),
    ForeignKeyConstraint(
        ["sweep_id", "number", "attempt"], ["attempts.sweep_id", "attempts.number", "attempts.attempt"]
    ),
    CheckConstraint("0 <= from_step AND from_step < to_step", name="reservation_order"),
    CheckConstraint("executed_to IS NULL OR (from_step <= executed_to AND executed_to <= to_step)", name="settlement"),
)

curves = Table(
    "curves",
    metadata,
    Column("sweep_id", Integer, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("step", BigInteger, primary_key=True, autoincrement=False),
    Column("metric", Text, primary_key=True),
    Column("value", Double, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("at", Double, nullable=False),
    ForeignKeyConstraint(
        ["sweep_id", "number", "attempt"], ["attempts.sweep_id", "attempts.number", "attempts.attempt"]
    ),
)
"""What attempts told between the beginnings and the ends of their reservations; at the ends it is in `attempts`."""

populations = Table(
    "populations",
    metadata,
    Column("name", Text, primary_key=True),
    Column("rule", Text, nullable=False),
    Column("epsilon", Double, nullable=False),
    Column("delta", Double, nullable=False),
    Column("adjacency", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("tau", Double, nullable=False),
    Column("at", Double, nullable=False),
    CheckConstraint("rule IN ('linear', 'gdp')", name="population_rule"),
)
"""Written once, and never changed. Who appends to `charges` locks the row of its population first."""

charges = Table(
    "charges",
    metadata,
    Column("population", ForeignKey("populations.name"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("what", Text, primary_key=True),
    Column("sweep", Text, nullable=False),
    Column("epsilon", Double),
    Column("delta", Double),
    Column("mu", Double),
    Column("tau", Double),
    Column("settled", Double),
    Column("at", Double, nullable=False),
    CheckConstraint("(epsilon IS NULL) <> (mu IS NULL)", name="one_rule"),
    CheckConstraint("settled IS NULL OR settled <= epsilon", name="refund"),
)
"""What was charged to populations (`sweeps.privacy.population.Row`). Rows are appended, and outlive their sweeps."""

outbox = Table(
    "outbox",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("sweep_id", ForeignKey("sweeps.id"), nullable=False),
    Column("number", BigInteger),
    Column("kind", Text, nullable=False),
    Column("at", Double, nullable=False),
    sqlite_autoincrement=True,
)

Index("outbox_of_sweep", outbox.c.sweep_id, outbox.c.id)

calibrations = Table(
    "calibrations",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Double, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""Secrets of the store itself, in hex: they serve all its sweeps, and outlive each of them."""

DATA_KEY = "data"
"""What the records' digests are keyed with (`sweeps.util.fingerprint.keyed`)."""


def _records_of_their_own(connection: Connection) -> None:
    """Version 2: the workers' records may lie elsewhere than the controller's folder (an object store)."""
    connection.exec_driver_sql("ALTER TABLE sweeps ADD COLUMN records TEXT NOT NULL DEFAULT ''")


def _keyed_data(connection: Connection) -> None:
    """Version 3: digests of records are keyed. A plain one confirms a guess of them to whoever reads it."""
    if connection.dialect.name == "sqlite":
        # What is replaced is overwritten, not left in free pages.
        connection.exec_driver_sql("PRAGMA secure_delete=ON")
    keys.create(connection)
    key = _new_key(connection)
    for row in connection.execute(select(sweeps.c.id, sweeps.c.fingerprints)).all():
        recorded = json.loads(row.fingerprints)
        if "data" in recorded:
            recorded["data"] = keyed(recorded["data"], key)
            connection.execute(update(sweeps).where(sweeps.c.id == row.id).values(fingerprints=dumps(recorded)))


def _new_key(connection: Connection) -> bytes:
    key = secrets.token_bytes(32)
    connection.execute(insert(keys).values(name=DATA_KEY, value=key.hex()))
    return key


def _extensions(connection: Connection) -> None:
    """Version 4: a sweep may be extended."""
    extensions.create(connection)


def _requests_and_labels(connection: Connection) -> None:
    """Version 5: anybody may append requests, and a sweep may be called by another name than that of its files."""
    connection.exec_driver_sql("ALTER TABLE sweeps ADD COLUMN label TEXT NOT NULL DEFAULT ''")
    connection.exec_driver_sql("ALTER TABLE trials ADD COLUMN request BIGINT")
    names.create(connection)
    requests.create(connection)
    connection.execute(insert(names).from_select(["name", "sweep_id"], select(sweeps.c.name, sweeps.c.id)))


def _curves(connection: Connection) -> None:
    """Version 6: attempts may tell something before their end."""
    curves.create(connection)


def _budgets(connection: Connection) -> None:
    """Version 7: an extension may add budgets."""
    have = {column["name"] for column in inspect(connection).get_columns("extensions")}
    # Version 4 makes the table as it is now.
    for name, kind in (("epsilon", "TEXT NOT NULL DEFAULT '[]'"), ("proposed", "BIGINT NOT NULL DEFAULT 0")):
        if name not in have:
            connection.exec_driver_sql(f"ALTER TABLE extensions ADD COLUMN {name} {kind}")


def _populations(connection: Connection) -> None:
    """Version 8: sweeps may share a budget. Those of earlier releases belong to no population."""
    connection.exec_driver_sql("ALTER TABLE sweeps ADD COLUMN population TEXT NOT NULL DEFAULT ''")
    populations.create(connection)
    charges.create(connection)


MIGRATIONS: Mapping[int, Callable[[Connection], None]] = {
    2: _records_of_their_own,
    3: _keyed_data,
    4: _extensions,
    5: _requests_and_labels,
    6: _curves,
    7: _budgets,
    8: _populations,
}
"""{version from 2 on: what makes it from the version before}."""

VERSION = max(MIGRATIONS, default=1)


def migrate(connection: Connection, version: int) -> None:
    """Bring tables of `version` (0: none yet) to `VERSION`, inside the caller's transaction."""
    if version == 0:
        metadata.create_all(connection)
        _new_key(connection)
        connection.execute(insert(schema_version).values(version=VERSION))
        return
    for target in range(version + 1, VERSION + 1):
        MIGRATIONS[target](connection)
    connection.execute(update(schema_version).values(version=VERSION))
