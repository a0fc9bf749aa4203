"""What the driver hands to a trial and its team through Ray: the data, and how many workers there are. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ray

from trainables.system import Dataset


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
