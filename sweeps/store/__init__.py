"""The record of truth of every sweep (see `sweeps.store.store`)."""

from sweeps.records import SweepRecord
from sweeps.store.errors import (
    Conflict,
    LeaseHeld,
    LeaseLost,
    StoreError,
    StoreOlder,
    StoreVanished,
    SweepExists,
    UnknownSweep,
    UnknownTrial,
)
from sweeps.store.lease import Lease
from sweeps.store.schema import VERSION
from sweeps.store.store import Store

__all__ = [
    "VERSION",
    "Conflict",
    "Lease",
    "LeaseHeld",
    "LeaseLost",
    "Store",
    "StoreError",
    "StoreOlder",
    "StoreVanished",
    "SweepExists",
    "SweepRecord",
    "UnknownSweep",
    "UnknownTrial",
]
