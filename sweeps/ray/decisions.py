"""What is asked of whoever drives a sweep: what to launch next; and what he is told of what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sweeps.spec.sections import SweepSpec
from sweeps.store.lease import Lease
from trainables.system import Launch
from trainables.worker.files import Folder


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to launch now; something still runs."""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing will be launched again.

    exhausted    the space ran dry before the trials were all launched
    over_budget  the population's budget did not hold the next launch
    """

    exhausted: bool = False
    over_budget: bool = False


Decision = Launch | Wait | Done


class Hears(Protocol):
    """Writes down what came of launches."""

    def told(self, group: Launch, content: Mapping[str, Any]) -> None:
        """A launch that goes on told of new points of its curves."""

    def finished(self, group: Launch, results: list[Mapping[str, Any]]) -> None:
        """A launch came back with one result, or error, a member."""

    def lost(self, group: Launch, reason: str) -> None:
        """The worker of a launch is gone."""

    def fence_running(self) -> None:
        """Stop every worker without a word to the store, which is gone."""


class Decides(Protocol):
    """Drives one sweep: `sweeps.execution.controller.Controller`."""

    @property
    def sweep(self) -> str: ...
    @property
    def spec(self) -> SweepSpec: ...
    @property
    def lease(self) -> Lease: ...
    @property
    def trials(self) -> Folder: ...
    @property
    def outcomes(self) -> Hears: ...

    def decide(self) -> Decision:
        """What comes next."""
