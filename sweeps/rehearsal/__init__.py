"""`sweeps check` tries a spec out on made-up records, in a process of its own.

corners   which configurations
child     the process, and how it may end
result    what is printed, or refused
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from sweeps.control.failures import shortened
from sweeps.control.planning import plan_proposal
from sweeps.process.patience import patience
from sweeps.rehearsal.child import Child, ProcessEnded, Send
from sweeps.rehearsal.corners import corners, first_plan
from sweeps.rehearsal.result import Rehearsal, Tried, WouldFail, label
from sweeps.search import registry
from sweeps.search.exam import faults
from sweeps.spec import SweepSpec, public_facts
from trainables.system import Config, Execution, PrivacyPlan, PublicFacts, Refusal

__all__ = ["Rehearsal", "Rehearsing", "WouldFail"]

_PLANNING = "planning it, which builds its model"
_SAMPLER = "search.sampler"
ENOUGH = 15.0
"""Seconds after which no other corner is begun."""


@dataclass(frozen=True, slots=True)
class _Next:
    """What the child is about to do, of which configuration."""

    label: str
    doing: str


@dataclass(frozen=True, slots=True)
class _Failed:
    label: str
    reason: str


class Rehearsing(Child):
    """A rehearsal that has begun, beside whatever this process does meanwhile. Leaving the block ends it.

    One part of it, such as building a model, counts as stuck after `sweeps.process.patience.patience` seconds.
    """

    def __init__(self, spec: SweepSpec) -> None:
        self._patience = patience()
        super().__init__(_rehearse_all, spec)

    def finished(self) -> Rehearsal:
        """Wait for its end. Raises WouldFail."""
        failed: list[tuple[str, str]] = []
        at = _Next("systems", "it began")
        try:
            for message in self.messages(self._patience):
                match message:
                    case _Next():
                        at = message
                    case _Failed(label, reason):
                        failed.append((label, reason))
                    case Rehearsal():
                        found = message
        except ProcessEnded as end:
            failed.append((at.label, f"{at.doing}: {end}"))
        if failed:
            raise WouldFail(failed)
        return found


def _rehearse_all(send: Send, spec: SweepSpec) -> None:
    """The child's work: every corner that there is time for."""
    from trainables.registry import SYSTEMS
    from trainables.rehearsal import CannotRun, rehearse

    began = time.monotonic()
    facts = public_facts(spec)
    calibrations: dict[str, float] = {}
    execution = _execution(spec)
    if registry.module_of(spec.search.sampler) is not None:
        _try_sampler(send, spec)
    ran: list[Tried] = []
    infeasible, left, warm = 0, 0, began
    for corner in corners(spec):
        # Imports are over with the first one.
        if ran and time.monotonic() - warm > ENOUGH:
            left += 1
            continue
        here = label(corner.system, corner.knobs)
        path = f"systems.{here}"
        send(_Next(path, _PLANNING))
        try:
            found = first_plan(spec, corner, facts, calibrations)
            if found is None:
                infeasible += 1
                continue
            config, plan = found

            def replanned(few: PublicFacts, config: Config = config) -> PrivacyPlan | Refusal:
                return plan_proposal(spec, config, few, calibrations)

            def saying(doing: str, path: str = path) -> None:
                send(_Next(path, doing))

            rehearsed = rehearse(
                SYSTEMS[corner.system],
                plan,
                facts,
                objectives=spec.asked,
                replanned=replanned,
                execution=execution,
                saying=saying,
            )
            warm = warm if ran else time.monotonic()
            ran.append(Tried(here, config, rehearsed))
        except CannotRun as error:
            send(_Failed(path, shortened(str(error))))
        except Exception as error:
            send(_Failed(path, shortened(str(CannotRun.by(error, _PLANNING)))))
    send(Rehearsal(ran=tuple(ran), infeasible=infeasible, left=left, seconds=time.monotonic() - began))


def _try_sampler(send: Send, spec: SweepSpec) -> None:
    """A sampler that is not this project's own sits the exam of all samplers."""
    send(_Next(_SAMPLER, "asking it for points"))
    try:
        found = faults(spec)
    except Exception as error:
        found = [f"asking it for points: {type(error).__name__}: {error}"]
    for one in found:
        send(_Failed(_SAMPLER, shortened(one)))


def _execution(spec: SweepSpec) -> Execution:
    """As trials run; on a GPU only where trials have one."""
    settings = spec.settings()
    return settings if spec.resources.per_worker()[1] > 0 else replace(settings, device="cpu")
