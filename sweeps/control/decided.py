"""What a session goes by, and why: said with -v, and kept in the sweep's log."""

from __future__ import annotations

from collections.abc import MutableMapping

from sweeps.planning.auto_sampler import resolution_of
from sweeps.process import patience
from sweeps.process.words import Event, Level, say, voice
from sweeps.process.workspace import Workspace
from sweeps.spec.sections import SweepSpec
from trainables.system import PublicFacts
from trainables.worker.redaction import shown_url


def say_decided(
    spec: SweepSpec,
    facts: PublicFacts,
    workspace: Workspace,
    sweep: str,
    tracking: str,
    address: str | None,
    calibrations: MutableMapping[str, float],
) -> None:
    """One line for each decision. `spec` is the one that the sweep began with."""
    if voice().least > Level.DEBUG:
        # The reason of a sampler is planned again: not where nobody hears it.
        return
    given = patience.given()
    lines = [
        _sampler(spec, facts, calibrations),
        f"patience: {patience.patience():g} s, {f'from {patience.VARIABLE}' if given else 'the default'}",
        f"store: {shown_url(workspace.store_url)}, {'as told' if workspace.store else 'in the root'}",
        f"records: {shown_url(workspace.trials(sweep).url)}, {'as told' if workspace.records else 'in the root'}",
        f"MLflow: {shown_url(tracking)}, {_tracking(spec, workspace)}",
        "Ray: a cluster of its own on this machine" if address is None else f"Ray: {shown_url(address)}, as told",
    ]
    for line in lines:
        say(line, Event.DECISION)


def _sampler(spec: SweepSpec, facts: PublicFacts, calibrations: MutableMapping[str, float]) -> str:
    method = spec.search.resolved
    asked = spec.model_copy(update={"search": spec.search.model_copy(update={"resolved": None})})
    found = resolution_of(asked, facts, calibrations)
    if found is None:
        return f"sampler: {spec.search.sampler}, as the spec says"
    why = found.why if found.method == method else "as recorded when it began"
    return f"sampler: auto comes to {method}: {why}"


def _tracking(spec: SweepSpec, workspace: Workspace) -> str:
    if spec.tracking.uri is not None:
        return "as the spec says"
    return "as told" if workspace.tracking else "in the root"
