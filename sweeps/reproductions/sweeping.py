"""Sweeps behind a reproduction: ordinary ones, in the ordinary store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpcore.checks import InvalidValue

if TYPE_CHECKING:
    from sweeps.records import TrialRecord
    from sweeps.spec.model import SweepSpec
    from sweeps.workspace import Workspace


def full_grid(raw: Mapping[str, Any]) -> SweepSpec:
    """A grid sweep that runs every point `search.repeats` times: `search.trials` is counted here. Raises SpecErrors."""
    from sweeps.search.space import Space
    from sweeps.spec import load_spec

    search = {**raw.get("search", {}), "sampler": "grid", "trials": 1}
    counted = load_spec({**raw, "search": search})
    trials = Space.of(counted).grid_size() * counted.search.repeats
    return load_spec({**raw, "search": {**search, "trials": trials}})


def swept(spec: SweepSpec, workspace: Workspace) -> list[TrialRecord]:
    """Every trial of the sweep `spec.name`, which is created, resumed or only read, whatever it needs.

    Raises InvalidValue when a finished sweep of that name had another spec, and whatever `session.resume` raises.
    """
    from sweeps import session
    from sweeps.store import Store

    store = Store.open(workspace.store_url)
    if spec.name not in {sweep.name for sweep in store.sweeps()}:
        session.create(spec, workspace, spec.name)
    recorded = store.sweep(spec.name)
    if recorded.state not in ("finished", "exhausted"):
        session.resume(spec.name, workspace, spec=spec)
    elif recorded.digest != spec.digest:
        raise InvalidValue(
            "sweep", spec.name, "the packaged spec of this reproduction", "It is another one: give another --root."
        )
    return store.trials(spec.name)
