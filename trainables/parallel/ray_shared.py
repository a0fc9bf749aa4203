"""What the driver hands to a trial and its team through Ray: the data, and how many workers there are. No torch."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray

from trainables.system import Dataset


@dataclass(frozen=True, slots=True)
class SharedData:
    """A data set in the cluster's object store: one copy on each node, mapped by every process there.

    Put by the driver, once for a sweep. `get` copies nothing: the arrays are read-only views of the store.

    folder  that the driver is in: whoever gets the data enters it where it is, so that files which a spec names by a
            relative path (weights that models start from) are found
    """

    reference: Any
    folder: str = ""

    @classmethod
    def put(cls, data: Dataset) -> SharedData:
        """Needs a connected cluster."""
        return cls(ray.put(data), os.getcwd())

    def get(self) -> Dataset:
        """The data set; the first call on a node brings it there."""
        with suppress(OSError):
            os.chdir(self.folder or ".")
        data: Dataset = ray.get(self.reference)
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamLayout:
    """How many workers a trial has, and what each of them occupies."""

    workers: int
    cpus: float
    gpus: float
