"""The process that Tune gave a trial: none of its callbacks says it (Ray 2.60)."""

from __future__ import annotations

from typing import Any

from ray.actor import ActorHandle


def actor_of(trial: Any) -> ActorHandle | None:
    """The actor that runs `trial`, a `ray.tune.experiment.Trial`, now; None between two."""
    return trial.temporary_state.ray_actor
