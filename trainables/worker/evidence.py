"""What is charged for an attempt that is over: the one rule over everything that its worker left.

A worker writes down how far it may go in two records before it draws any noise (`Attempt.may_execute`), and how far
it came in its checkpoints. What it left is evidence, never a word to be taken: the largest step that any record
proves is charged. A record that cannot be read, or that contradicts another, counts as missing, and where one is
missing the whole reservation is charged. So one record that is deleted, cut short, overwritten, replaced by an older
copy of itself or by another trial's is never enough for a step to escape; nor are several, unless they are all brought
back to one and the same older moment. (A copy of the whole folder is: nothing in it is wrong.)
"""

from __future__ import annotations

from dataclasses import dataclass

from trainables.worker.sealed import Damaged

Reading = int | Damaged | None
"""The step that one record states; what is wrong with it; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """What was found in the folder of an attempt after its fence was up.

    unclaimed    the controller's mark is there, which a worker takes away before it begins
    claimed      a worker has begun
    horizon      step up to which noise may be drawn, by the first record of it
    mirror       the same by the second, which starts at the first step of the reservation
    checkpoints  step of each checkpoint
    """

    unclaimed: bool = False
    claimed: bool = False
    horizon: Reading = None
    mirror: Reading = None
    checkpoints: tuple[int | Damaged, ...] = ()


@dataclass(frozen=True, slots=True)
class Charge:
    """The steps of a reservation that are charged: those below `executed_to`. `doubt` says why all, where it is so."""

    executed_to: int
    doubt: str = ""


def charge(traces: Traces, from_step: int, to_step: int) -> Charge:
    """What is charged for the reservation [from_step, to_step) of which these traces are left."""
    doubt = _doubt(traces, from_step, to_step)
    if doubt:
        return Charge(to_step, doubt)
    return Charge(traces.horizon if isinstance(traces.horizon, int) else from_step)


def _doubt(traces: Traces, from_step: int, to_step: int) -> str:
    horizon, mirror = traces.horizon, traces.mirror
    for one in (horizon, mirror, *traces.checkpoints):
        if isinstance(one, Damaged):
            return str(one)
        if one is not None and not from_step <= one <= to_step:
            return f"a record states step {one} of a reservation from {from_step} to {to_step}"
    left = horizon is not None or mirror is not None or bool(traces.checkpoints)
    if traces.unclaimed and not left:
        # A worker takes the mark away after it has claimed the folder and noted where it begins: none came so far.
        return ""
    if not traces.claimed:
        return "its claim is missing" if left else "nothing is left in its folder"
    assert not isinstance(mirror, Damaged)
    if mirror is None:
        return "one of its two records of how far it may go is missing"
    assert not isinstance(horizon, Damaged)
    if horizon is None:
        if mirror > from_step or traces.checkpoints:
            return "one of its two records of how far it may go is missing"
        return ""
    # The first is written before the second, so that it may be ahead; never behind.
    furthest = max([mirror, *(step for step in traces.checkpoints if isinstance(step, int))])
    if furthest > horizon:
        return f"its horizon states step {horizon}, another record proves step {furthest}"
    return ""
