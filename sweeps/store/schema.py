"""The tables of the store. JSON is kept as text, so that both engines hold the same bytes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any, TypeVar

import sqlalchemy as sa

T = TypeVar("T")
VERSION = 1
"""Of the tables below: another one is another release's."""
NULL = "null"

metadata = sa.MetaData()


def required(kind: type[sa.types.TypeEngine[Any]], *names: str) -> list[sa.Column[Any]]:
    """Columns of one type, none of which may be null."""
    return [sa.Column(name, kind, nullable=False) for name in names]


schema_version = sa.Table("schema_version", metadata, sa.Column("version", sa.Integer, primary_key=True))

sweeps = sa.Table(
    "sweeps",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    *required(
        sa.Text, "spec", "digest", "fingerprints", "root", "state", "records", "label", "population", "extensions"
    ),
    *required(sa.Double, "created_at"),
)

names = sa.Table(
    "names",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("sweep_id", sa.ForeignKey("sweeps.id"), nullable=False),
)
"""Every name that a sweep ever had: none becomes another's."""

requests = sa.Table(
    "requests",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("sweep_id", sa.ForeignKey("sweeps.id"), nullable=False),
    *required(sa.Text, "kind", "content", "asker"),
    *required(sa.Double, "at"),
    sa.Column("call", sa.Text, nullable=False, unique=True),
    sqlite_autoincrement=True,
)
"""Anybody appends rows, and none is changed (`records.Request`). One for each `call`, however often it is tried."""

sa.Index("requests_of_sweep", requests.c.sweep_id, requests.c.id)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("sweep_id", sa.ForeignKey("sweeps.id"), primary_key=True),
    *required(sa.BigInteger, "token"),
    *required(sa.Double, "expires_at"),
    sa.Column("holder", sa.Text),
)


def numbers(*names: str) -> list[sa.Column[Any]]:
    """Columns that are a row's key, besides its sweep."""
    return [sa.Column(name, sa.BigInteger, primary_key=True, autoincrement=False) for name in names]


trials = sa.Table(
    "trials",
    metadata,
    sa.Column("sweep_id", sa.ForeignKey("sweeps.id"), primary_key=True),
    *numbers("number"),
    *required(sa.Text, "state", "config", "seed", "violations", "reason", "metrics", "guarantee", "plan"),
    *required(sa.BigInteger, "step"),
    *required(sa.Integer, "attempts"),
    *required(sa.Double, "proposed_at"),
    sa.Column("finished_at", sa.Double),
    sa.Column("request", sa.BigInteger),
    sa.CheckConstraint("state IN ('planned', 'running', 'complete', 'failed', 'infeasible')", name="trial_state"),
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("sweep_id", sa.Integer, primary_key=True),
    *numbers("number", "attempt"),
    *required(sa.Text, "outcome", "launch", "content", "reason", "metrics"),
    *required(sa.BigInteger, "token", "step"),
    *required(sa.Double, "seconds", "started_at"),
    sa.Column("ended_at", sa.Double),
    *required(sa.BigInteger, "from_step", "to_step"),
    sa.Column("executed_to", sa.BigInteger),
    sa.ForeignKeyConstraint(["sweep_id", "number"], ["trials.sweep_id", "trials.number"]),
    sa.CheckConstraint("outcome IN ('running', 'settled', 'lost', 'failed')", name="attempt_outcome"),
    sa.CheckConstraint("0 <= from_step AND from_step < to_step", name="reservation_order"),
    sa.CheckConstraint(
        "executed_to IS NULL OR (from_step <= executed_to AND executed_to <= to_step)", name="settlement"
    ),
)
"""Each with its entry of the ledger: what it reserved, and what that was settled to."""

sa.Index(
    "one_running_attempt",
    attempts.c.sweep_id,
    attempts.c.number,
    unique=True,
    sqlite_where=attempts.c.outcome == sa.text("'running'"),
    postgresql_where=attempts.c.outcome == sa.text("'running'"),
)

curves = sa.Table(
    "curves",
    metadata,
    sa.Column("sweep_id", sa.Integer, primary_key=True),
    *numbers("number", "step"),
    sa.Column("metric", sa.Text, primary_key=True),
    *required(sa.Double, "value", "at"),
    *required(sa.BigInteger, "attempt"),
    sa.ForeignKeyConstraint(
        ["sweep_id", "number", "attempt"], ["attempts.sweep_id", "attempts.number", "attempts.attempt"]
    ),
)
"""What attempts told between the beginnings and the ends of their reservations; at the ends it is in `attempts`."""

populations = sa.Table(
    "populations",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    *required(sa.Text, "rule", "adjacency", "unit"),
    *required(sa.Double, "epsilon", "delta", "tau", "at"),
    sa.CheckConstraint("rule IN ('linear', 'gdp')", name="population_rule"),
)
"""Written once, and never changed. Who appends to `charges` locks the row of its population first."""

charges = sa.Table(
    "charges",
    metadata,
    sa.Column("population", sa.ForeignKey("populations.name"), primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("what", sa.Text, primary_key=True),
    *required(sa.Text, "sweep"),
    *required(sa.Double, "at"),
    sa.Column("epsilon", sa.Double),
    sa.Column("delta", sa.Double),
    sa.Column("mu", sa.Double),
    sa.Column("tau", sa.Double),
    sa.Column("settled", sa.Double),
    sa.CheckConstraint("(epsilon IS NULL) <> (mu IS NULL)", name="one_rule"),
    sa.CheckConstraint("settled IS NULL OR settled <= epsilon", name="refund"),
)
"""What was charged to populations (`sweeps.store.population.Row`). Rows are appended, and outlive their sweeps."""

outbox = sa.Table(
    "outbox",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("sweep_id", sa.ForeignKey("sweeps.id"), nullable=False),
    sa.Column("number", sa.BigInteger),
    *required(sa.Text, "kind"),
    *required(sa.Double, "at"),
    sqlite_autoincrement=True,
)

sa.Index("outbox_of_sweep", outbox.c.sweep_id, outbox.c.id)

calibrations = sa.Table(
    "calibrations",
    metadata,
    sa.Column("key", sa.Text, primary_key=True),
    *required(sa.Double, "value"),
)

keys = sa.Table(
    "keys",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    *required(sa.Text, "value"),
)
"""Secrets of the store itself, in hex: they serve all its sweeps, and outlive each of them."""

DATA_KEY = "data"
"""What the records' digests are keyed with (`sweeps.util.fingerprint.keyed`)."""


def create_tables(connection: sa.Connection) -> None:
    """Make them in an empty database, with the store's own secret, inside the caller's transaction."""
    metadata.create_all(connection)
    connection.execute(sa.insert(keys).values(name=DATA_KEY, value=secrets.token_hex(32)))
    connection.execute(sa.insert(schema_version).values(version=VERSION))


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
