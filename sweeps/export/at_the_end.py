"""The models of a sweep's front, shown by MLflow once the sweep is over: those of a few trials, never all of them.

Beside the sweep and after its results: nothing is trained, no record is read, and what fails is said and can be done
again (`sweeps track`). A model leaves here by the rules of `sweeps.export.exporting`, and by no other.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.export.exporting import exported
from sweeps.front.pareto import LABELS, spec_objectives, sweep_front
from sweeps.process.workspace import Workspace
from sweeps.provenance.fingerprint import Changed
from sweeps.records import TrialState
from sweeps.release.published import Published
from sweeps.release.publisher import OVER, Publisher
from trainables.export.protocol import ReleasesModel
from trainables.registry import SYSTEMS
from trainables.worker.attempt import Attempt
from trainables.worker.files import NotAFolder

AT_MOST = 8
"""Models of a front: the best by the first objective."""
LARGEST_BYTES = 1 << 28
"""Of a checkpoint: beyond it a model leaves when it is asked for by name (`sweeps export`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelsShown:
    """What MLflow has of a sweep's models.

    trials    keys of those that it shows
    left_out  {key: why} of those that were asked for and are not there
    more      how many on the front were not asked for, beyond `AT_MOST`
    """

    trials: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    more: int = 0

    def lines(self) -> Iterator[str]:
        """For people; nothing where nothing was asked for."""
        if self.trials:
            rest = f" (the front has {self.more} more: `sweeps export`)" if self.more else ""
            yield f"MLflow shows the models of {', '.join(self.trials)}{rest}."
        for key, why in self.left_out.items():
            yield f"MLflow does not show the model of {key}: {why}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"trials": list(self.trials), "left_out": dict(self.left_out), "more": self.more}


def show_models(workspace: Workspace, sweep: str) -> ModelsShown:
    """Put the models that the spec asks for (`tracking.models`) into MLflow, where they are not there yet.

    Of a sweep that is not over, or not there for MLflow, nothing is shown. Raises StoreError.
    """
    store = Publisher.open(workspace.store_url)
    record = store.sweep(sweep)
    wanted = record.spec.models
    if wanted == "none" or record.state not in OVER:
        return ModelsShown()
    workspace = workspace.of(record)
    trials, more = _of_front(store, record.name) if wanted == "front" else (_named(store, record.name, wanted), 0)
    if not trials:
        return ModelsShown()
    from sweeps.tracking.models import shown_models
    from trainables.export.model import NotExportable, ReleasedModel

    left_out: dict[str, str] = {}

    def models() -> Iterator[tuple[Published, ReleasedModel]]:
        for one in trials:
            try:
                if (size := _bytes(workspace, record.name, one)) > LARGEST_BYTES:
                    raise InvalidValue("model", f"{size:,} bytes", f"at most {LARGEST_BYTES:,}", "`sweeps export` it.")
                yield one, exported(workspace, record.name, one.key)
            except (InvalidValue, Changed, NotExportable, OSError, ValueError) as error:
                left_out[one.key] = str(error)

    uri = record.spec.tracking_uri or workspace.tracking_uri
    there = shown_models(uri, record.name, workspace.folder(record.name), models(), left_out)
    return ModelsShown(trials=tuple(there), left_out=left_out, more=more)


def asked_by_name(store: Publisher, sweep: str) -> set[str]:
    """Keys of the trials whose models the spec names."""
    wanted = store.sweep(sweep).spec.models
    return set() if wanted in ("front", "none") else {one.key for one in _named(store, sweep, wanted)}


def _named(store: Publisher, sweep: str, numbers: Collection[Any]) -> list[Published]:
    return [one for one in store.trials(sweep) if one.number in numbers]


def _of_front(store: Publisher, sweep: str) -> tuple[list[Published], int]:
    """The trials on the front whose models may leave, the best first, and how many more there are."""
    complete = [one for one in store.trials(sweep, [TrialState.COMPLETE]) if _may_leave(one)]
    first = spec_objectives(store.sweep(sweep).spec)[0]
    sign = -1.0 if first.goal == "maximize" else 1.0
    if not any(one.metric(first.metric) is not None for one in complete):
        return [], 0
    keys = set(sweep_front(store, sweep, mix=LABELS).keys())
    ranked = sorted(
        (sign * value, one.number, one)
        for one in complete
        if one.key in keys and (value := one.metric(first.metric)) is not None
    )
    return [one for _, _, one in ranked[:AT_MOST]], max(0, len(ranked) - AT_MOST)


def _may_leave(one: Published) -> bool:
    system = SYSTEMS.get(one.system)
    return isinstance(system, ReleasesModel) and one.guarantee is not None and math.isfinite(one.guarantee.epsilon)


def _bytes(workspace: Workspace, sweep: str, one: Published) -> int:
    with suppress(NotAFolder):
        return Attempt.of(workspace.trials(sweep), one.key, one.attempts).checkpoints.size()
    return 0
