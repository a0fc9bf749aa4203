"""How far the running trials are: the steps that lie in their checkpoints, and at that pace the seconds to go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dpcore.checks import InvalidValue
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher
from sweeps.store.records import LedgerEntry, TrialState
from sweeps.util.workspace import Workspace
from trainables.worker.attempt import CLAIM, Attempt
from trainables.worker.checkpoints import steps_among
from trainables.worker.files import Folder, NotAFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """Where a running trial is.

    step          steps up to its newest checkpoint
    until         the step at which this launch ends: the last one, or the next rung
    seconds_left  to there, at the pace from the worker's start to that checkpoint; None before there is one
    node          the machine that it runs on; empty where its records do not say
    """

    step: int
    until: int
    seconds_left: float | None
    node: str = ""


def under_way(store: Publisher, workspace: Workspace, sweep: str, trials: Iterable[Published]) -> dict[str, UnderWay]:
    """{key: where it is} of those `trials` that are seen to run; without those whose files cannot be read from here."""
    running = {trial.key for trial in trials if trial.state is TrialState.RUNNING}
    if not running:
        return {}
    try:
        folder = workspace.of(store.sweep(sweep)).trials(sweep)
    except InvalidValue:
        # The records are on another machine.
        return {}
    # One entry of a running trial is open: its newest.
    newest = {entry.key: entry for entry in store.ledger(sweep) if entry.key in running}
    found = {key: _of(folder, entry) for key, entry in newest.items()}
    return {key: one for key, one in found.items() if one is not None}


def _of(trials: Folder, entry: LedgerEntry) -> UnderWay | None:
    try:
        attempt = Attempt.of(trials, entry.key, entry.attempt)
        return replace(progress(entry, dict(attempt.signs())), node=attempt.node)
    except (OSError, NotAFolder):
        return None


def progress(entry: LedgerEntry, signs: Mapping[str, int]) -> UnderWay:
    """Where a launch is by the files that its worker wrote.

    signs  {name: when it was written, in nanoseconds}, all by one clock
    """
    steps = [step for step in steps_among(signs) if step > entry.from_step]
    step = max(steps, default=entry.from_step)
    claimed = [at for name, at in signs.items() if name.partition(".")[0] == CLAIM]
    left = None
    if steps and claimed:
        seconds = (max(at for name, at in signs.items() if steps_among([name]) == [step]) - min(claimed)) / 1e9
        left = seconds / (step - entry.from_step) * (entry.to_step - step)
    return UnderWay(step=step, until=entry.to_step, seconds_left=left)
