"""What a controller may decide when it is asked for the next launch."""

from __future__ import annotations

from dataclasses import dataclass

from trainables.system import TrialGroup


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


Decision = TrialGroup | Wait | Done
