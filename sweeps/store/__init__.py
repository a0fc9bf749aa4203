"""The record of truth of every sweep: `contract` has its duties, `registry` the backends."""

from sweeps.records import SweepRecord
from sweeps.store.contract import Lease, Store
from sweeps.store.errors import (
    Conflict,
    LeaseHeld,
    LeaseLost,
    PopulationExists,
    PopulationSpent,
    StoreError,
    StoreOlder,
    StoreVanished,
    SweepExists,
    UnknownPopulation,
    UnknownSweep,
    UnknownTrial,
)
from sweeps.store.registry import open_store
from sweeps.store.schema import VERSION

__all__ = [
    "VERSION",
    "Conflict",
    "Lease",
    "LeaseHeld",
    "LeaseLost",
    "PopulationExists",
    "PopulationSpent",
    "Store",
    "StoreError",
    "StoreOlder",
    "StoreVanished",
    "SweepExists",
    "SweepRecord",
    "UnknownPopulation",
    "UnknownSweep",
    "UnknownTrial",
    "open_store",
]
