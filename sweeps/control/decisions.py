"""What a controller may decide when it is asked for the next launch."""

from __future__ import annotations

from dataclasses import dataclass

from trainables.system import TrialGroup


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to launch now; something still runs."""


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing will ever be launched again. `exhausted`: the space ran dry before the trials were all launched."""

    exhausted: bool = False


Decision = TrialGroup | Wait | Done
