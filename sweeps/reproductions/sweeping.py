"""Sweeps behind a reproduction: ordinary ones, in the ordinary store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcore.checks import InvalidValue
from sweeps.process.words import Event, say

if TYPE_CHECKING:
    from sweeps.process.workspace import Workspace
    from sweeps.records import TrialRecord
    from sweeps.spec.model import SweepSpec


PUBLIC = "data sets that are published for research, repeated here as a publication printed them"
"""Why the records of a reproduction are public: it shows attacks and baselines, which no claim covers."""


def full_grid(raw: Mapping[str, Any]) -> SweepSpec:
    """A grid sweep that runs every point `search.repeats` times: `search.trials` is counted here. Raises SpecErrors."""
    from sweeps.search.grid import SearchGrid
    from sweeps.search.space import Space
    from sweeps.spec import load_spec

    raw = {**raw, "data": {**raw["data"], "records_are_public": PUBLIC}}
    search = {**raw.get("search", {}), "sampler": "grid", "trials": 1}
    counted = load_spec({**raw, "search": search})
    trials = len(SearchGrid.of(Space.of(counted))) * counted.search.repeats
    return load_spec({**raw, "search": {**search, "trials": trials}})


@contextmanager
def one_cluster() -> Iterator[None]:
    """All sweeps inside share one local Ray cluster, which the first that needs one starts: seconds saved for each."""
    with ExitStack() as stack:
        token = _SHARED.set(_Shared(stack))
        try:
            yield
        finally:
            _SHARED.reset(token)


@dataclass(slots=True)
class _Shared:
    stack: ExitStack
    started: bool = False


_SHARED: ContextVar[_Shared | None] = ContextVar("shared cluster", default=None)


def _start_shared_cluster(log: Path) -> None:
    shared = _SHARED.get()
    if shared is None or shared.started:
        return
    from sweeps.runner.cluster import cluster
    from sweeps.runner.messages import short_messages

    lost = "\nThe Ray cluster does not answer any more. Nothing is lost; the same command goes on."
    with short_messages(log):
        shared.stack.enter_context(cluster(on_lost=lambda: say(lost, Event.ERROR)))
    shared.started = True


def swept(spec: SweepSpec, workspace: Workspace) -> list[TrialRecord]:
    """Every trial of the sweep `spec.name`, which is created, resumed or only read, whatever it needs.

    Raises InvalidValue when a finished sweep of that name had another spec, KeyboardInterrupt when it was stopped, and
    whatever `session.resume` raises.
    """
    from sweeps.control import session
    from sweeps.release.publisher import Publisher

    store = workspace.open_store(create=True)
    if spec.name not in {sweep.name for sweep in store.sweeps()}:
        session.create(spec, workspace, spec.name)
    recorded = store.sweep(spec.name)
    if recorded.state not in ("finished", "exhausted"):
        _start_shared_cluster(workspace.folder(spec.name) / "ray.log")
        if session.resume(spec.name, workspace, spec=spec).state == "stopped":
            raise KeyboardInterrupt
    elif recorded.digest != spec.digest:
        raise InvalidValue(
            "sweep", spec.name, "the packaged spec of this reproduction", "It is another one: give another --root."
        )
    return [*Publisher(store).trials(spec.name)]
