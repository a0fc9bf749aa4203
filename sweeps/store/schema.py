"""The tables of the store. JSON is kept as text, so that both engines hold the same bytes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any, TypeVar

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
from sqlalchemy.types import TypeEngine

T = TypeVar("T")
VERSION = 1
"""Of the tables below: another one is another release's."""
NULL = "null"

metadata = MetaData()


def required(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    """Columns of one type, none of which may be null."""
    return [Column(name, kind, nullable=False) for name in names]


schema_version = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

sweeps = Table(
    "sweeps",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    *required(Text, "spec", "digest", "fingerprints", "root", "state", "records", "label", "population", "extensions"),
    *required(Double, "created_at"),
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
    *required(Text, "kind", "content", "asker"),
    *required(Double, "at"),
    Column("call", Text, nullable=False, unique=True),
    sqlite_autoincrement=True,
)
"""Anybody appends rows, and none is changed (`records.Request`). One for each `call`, however often it is tried."""

Index("requests_of_sweep", requests.c.sweep_id, requests.c.id)

leases = Table(
    "leases",
    metadata,
    Column("sweep_id", ForeignKey("sweeps.id"), primary_key=True),
    *required(BigInteger, "token"),
    *required(Double, "expires_at"),
    Column("holder", Text),
)


def numbers(*names: str) -> list[Column[Any]]:
    """Columns that are a row's key, besides its sweep."""
    return [Column(name, BigInteger, primary_key=True, autoincrement=False) for name in names]


trials = Table(
    "trials",
    metadata,
    Column("sweep_id", ForeignKey("sweeps.id"), primary_key=True),
    *numbers("number"),
    *required(Text, "state", "config", "seed", "violations", "reason", "metrics", "guarantee", "plan"),
    *required(BigInteger, "step"),
    *required(Integer, "attempts"),
    *required(Double, "proposed_at"),
    Column("finished_at", Double),
    Column("request", BigInteger),
    CheckConstraint("state IN ('planned', 'running', 'complete', 'failed', 'infeasible')", name="trial_state"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("sweep_id", Integer, primary_key=True),
    *numbers("number", "attempt"),
    *required(Text, "outcome", "launch", "content", "reason", "metrics"),
    *required(BigInteger, "token", "step"),
    *required(Double, "seconds", "started_at"),
    Column("ended_at", Double),
    *required(BigInteger, "from_step", "to_step"),
    Column("executed_to", BigInteger),
    ForeignKeyConstraint(["sweep_id", "number"], ["trials.sweep_id", "trials.number"]),
    CheckConstraint("outcome IN ('running', 'settled', 'lost', 'failed')", name="attempt_outcome"),
    CheckConstraint("0 <= from_step AND from_step < to_step", name="reservation_order"),
    CheckConstraint("executed_to IS NULL OR (from_step <= executed_to AND executed_to <= to_step)", name="settlement"),
)
"""Each with its entry of the ledger: what it reserved, and what that was settled to."""

Index(
    "one_running_attempt",
    attempts.c.sweep_id,
    attempts.c.number,
    unique=True,
    sqlite_where=attempts.c.outcome == text("'running'"),
    postgresql_where=attempts.c.outcome == text("'running'"),
)

curves = Table(
    "curves",
    metadata,
    Column("sweep_id", Integer, primary_key=True),
    *numbers("number", "step"),
    Column("metric", Text, primary_key=True),
    *required(Double, "value", "at"),
    *required(BigInteger, "attempt"),
    ForeignKeyConstraint(
        ["sweep_id", "number", "attempt"], ["attempts.sweep_id", "attempts.number", "attempts.attempt"]
    ),
)
"""What attempts told between the beginnings and the ends of their reservations; at the ends it is in `attempts`."""

populations = Table(
    "populations",
    metadata,
    Column("name", Text, primary_key=True),
    *required(Text, "rule", "adjacency", "unit"),
    *required(Double, "epsilon", "delta", "tau", "at"),
    CheckConstraint("rule IN ('linear', 'gdp')", name="population_rule"),
)
"""Written once, and never changed. Who appends to `charges` locks the row of its population first."""

charges = Table(
    "charges",
    metadata,
    Column("population", ForeignKey("populations.name"), primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("what", Text, primary_key=True),
    *required(Text, "sweep"),
    *required(Double, "at"),
    Column("epsilon", Double),
    Column("delta", Double),
    Column("mu", Double),
    Column("tau", Double),
    Column("settled", Double),
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
    *required(Text, "kind"),
    *required(Double, "at"),
    sqlite_autoincrement=True,
)

Index("outbox_of_sweep", outbox.c.sweep_id, outbox.c.id)

calibrations = Table(
    "calibrations",
    metadata,
    Column("key", Text, primary_key=True),
    *required(Double, "value"),
)

keys = Table(
    "keys",
    metadata,
    Column("name", Text, primary_key=True),
    *required(Text, "value"),
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
    return json.dumps(value, sort_keys=sort_keys, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> object:
    return dict(value) if isinstance(value, Mapping) else value.item()


def record(kind: type[T], row: Any, /, **own: Any) -> T:
    """A dataclass from the columns of a row that are called as its fields are.  own  fields that are another value"""
    names = kind.__dataclass_fields__  # type: ignore[attr-defined]
    return kind(**{name: getattr(row, name) for name in names if name not in own}, **own)
