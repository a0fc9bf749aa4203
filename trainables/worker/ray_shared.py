"""What every process of a sweep shares: the records, once on each node, where results go, a trial's team."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ray

from trainables.system import Dataset
from trainables.worker.files import Folder

# Credentials of an object store, handed from the driver to the workers as a value of the cluster's object store.
#
# Never in a runtime environment, a command line or a configuration: Ray logs these, and shows them to everybody who
# can open its dashboard.

NAMES = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"})
"""Variables that the driver's environment decides for all workers; any other one is the node's own."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The variables of `NAMES` that are set, with their values, which no text shows."""

    values: Mapping[str, str] = field(repr=False)

    @classmethod
    def of_this_process(cls) -> Credentials:
        """Those of the driver."""
        return cls({name: os.environ[name] for name in NAMES if name in os.environ})

    def take(self) -> None:
        """Let this process have them, in place of its own."""
        os.environ.update(self.values)


@dataclass(frozen=True, slots=True)
class SharedData:
    """A data set in the cluster's object store: one copy on each node, mapped by every process there.

    Put by the driver, once for a sweep. `get` copies nothing: the arrays are read-only views of the store.
    """

    reference: Any

    @classmethod
    def put(cls, data: Dataset) -> SharedData:
        """Needs a connected cluster."""
        return cls(ray.put(data))

    def get(self) -> Dataset:
        """The data set; the first call on a node brings it there."""
        data: Dataset = ray.get(self.reference)
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamLayout:
    """How many workers a trial has, and what each of them occupies."""

    workers: int
    cpus: float
    gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """All that the trials of a sweep have in common, as one object: each start of a trial fetches it once.

    data    put into the object store by the driver
    trials  where attempts and results are written
    secret  noise and batches come from it; it travels through the object store, never in the experiment's files
    credentials  of the driver, for the records on an object store; they travel as the secret does
    layout  of a trial's workers; None: one process
    """

    data: SharedData
    trials: Folder
    secret: bytes = field(repr=False)
    credentials: Credentials
    layout: TeamLayout | None = None
