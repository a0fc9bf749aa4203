"""The models of a sweep's front, shown by MLflow once the sweep is over: those of a few trials, never all of them.

Beside the sweep and after its results: nothing is trained, no record is read, and what fails is said and can be done
again (`sweeps track`). A model leaves here by the rules of `sweeps.export.exporting`, and by no other. What MLflow has
already is made to say what is known today: on the front or off it, refuted since, or registered by `sweeps export`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpcore.checks import InvalidValue
from sweeps.export.card import ModelCard
from sweeps.export.exporting import card_of, exported
from sweeps.front.pareto import LABELS, spec_objectives, sweep_front
from sweeps.release.published import Published
from sweeps.release.publisher import OVER, Publisher
from sweeps.store.records import SweepRecord, TrialState
from sweeps.util.workspace import Workspace
from trainables.export.protocol import ReleasesModel
from trainables.registry import SYSTEMS
from trainables.worker.attempt import Attempt
from trainables.worker.files import NotAFolder

if TYPE_CHECKING:
    from trainables.export.model import ReleasedModel

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
    """Put the models that the spec asks for (`tracking.models`) into MLflow, where they are not there as of today, and
    make all that are there say what is known today.

    Of a sweep that is not over, or not there for MLflow, nothing is shown. Raises StoreError.
    """
    store = Publisher.open(workspace.store_url)
    record = store.sweep(sweep)
    if record.state not in OVER:
        return ModelsShown()
    workspace = workspace.of(record)
    asked, more = _asked(store, record)
    trials = {one.key: one for one in store.trials(record.name)}
    if not asked and not any(one.state is TrialState.COMPLETE and _may_leave(one) for one in trials.values()):
        return ModelsShown()
    from sweeps.tracking.models import shown_models

    left_out: dict[str, str] = {}
    uri = record.spec.tracking_uri or workspace.tracking_uri
    exports = _OfToday(workspace, record.name)
    there = shown_models(uri, record, workspace.folder(record.name), trials, asked, exports, left_out)
    return ModelsShown(trials=tuple(there), left_out=left_out, more=more)


@dataclass(frozen=True, slots=True)
class _OfToday:
    """Cards and models of a sweep; see `sweeps.tracking.models.Exports`."""

    workspace: Workspace
    sweep: str

    def card(self, trial: Published) -> ModelCard:
        with _no_file_is_no_model():
            return card_of(self.workspace, self.sweep, trial.key)

    def model(self, trial: Published) -> ReleasedModel:
        with _no_file_is_no_model():
            if (size := _bytes(self.workspace, self.sweep, trial)) > LARGEST_BYTES:
                raise InvalidValue("model", f"{size:,} bytes", f"at most {LARGEST_BYTES:,}", "`sweeps export` it.")
            return exported(self.workspace, self.sweep, trial.key)


@contextmanager
def _no_file_is_no_model() -> Iterator[None]:
    """What fails here is this one model: an OSError would read as if MLflow were away."""
    try:
        yield
    except OSError as error:
        raise ValueError(str(error)) from error


def asked_by_name(store: Publisher, sweep: str) -> set[str]:
    """Keys of the trials whose models the spec names."""
    wanted = store.sweep(sweep).spec.models
    return set() if wanted in ("front", "none") else {one.key for one in _named(store, sweep, wanted)}


def _asked(store: Publisher, record: SweepRecord) -> tuple[list[str], int]:
    """Keys of the trials whose models the spec asks for, and how many more its front has."""
    wanted = record.spec.models
    if wanted == "none":
        return [], 0
    trials, more = _of_front(store, record.name) if wanted == "front" else (_named(store, record.name, wanted), 0)
    return [one.key for one in trials], more


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
