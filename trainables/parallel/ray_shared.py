"""What the driver hands to a trial and its team through Ray: the data, and how many workers there are. No torch."""

from __future__ import annotations

import os
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
from numpy.typing import NDArray

from trainables.kept import Mapped, received, sent
from trainables.system import Dataset


@dataclass(frozen=True, slots=True, weakref_slot=True)
class SharedData:
    """A data set in the cluster's object store: one copy on each node, mapped by every process there.

    Put by the driver, once for a sweep. `get` copies nothing: the arrays are read-only views of the store; of a cluster
    of one machine those that map a file are mapped from it everywhere, and in no store.

    folder  that the driver is in: whoever gets the data enters it where it is, so that files which a spec names by a
            relative path (weights that models start from) are found
    """

    reference: Any
    folder: str = ""

    @classmethod
    def put(cls, data: Dataset) -> SharedData:
        """Needs a connected cluster."""
        alone = sum(node["Alive"] for node in ray.nodes()) == 1
        files: list[NDArray[Any]] = []

        def message(array: NDArray[Any]) -> NDArray[Any] | Mapped:
            found = sent(array)
            files.extend([array] if isinstance(found, Mapped) else [])
            return found

        shared = cls(ray.put(data.each(message) if alone else data), os.getcwd())
        # They are in use as long as somebody may ask for them.
        weakref.finalize(shared, files.clear)
        return shared

    def get(self) -> Dataset:
        """The data set; the first call on a node brings it there."""
        with suppress(OSError):
            os.chdir(self.folder or ".")
        data: Dataset = ray.get(self.reference)
        return data.each(received)


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamLayout:
    """How many workers a trial has, and what each of them occupies."""

    workers: int
    cpus: float
    gpus: float
