"""The tables of the store. JSON is kept as text, so that both engines hold the same bytes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping

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
    text,
)

VERSION = 1
"""Of the tables below: another one is another release's."""
NULL = "null"

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
    Column("records", Text, nullable=False),
    Column("label", Text, nullable=False),
    Column("population", Text, nullable=False),
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
    Column("epsilon", Text, nullable=False),
    Column("proposed", BigInteger, nullable=False),
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
"""What was charged to populations (`sweeps.store.population.Row`). Rows are appended, and outlive their sweeps."""

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


def create_tables(connection: Connection) -> None:
    """Make them in an empty database, with the store's own secret, inside the caller's transaction."""
    metadata.create_all(connection)
    connection.execute(insert(keys).values(name=DATA_KEY, value=secrets.token_hex(32)))
    connection.execute(insert(schema_version).values(version=VERSION))


def dumps(value: object, *, sort_keys: bool = False) -> str:
    """Compact JSON, NumPy scalars as plain numbers; keys in the value's own order, or sorted: then equal values have
    equal texts."""
    return json.dumps(_plain(value), sort_keys=sort_keys, separators=(",", ":"))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        return value.item()
    return value
