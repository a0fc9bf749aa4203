"""Whether the rows of a document agree with one another: what one says of the sweep has to be so in all."""

from __future__ import annotations

from collections.abc import Iterator

from dpcore.audit import AuditOutcome
from sweeps.certificate.claimed import Check
from sweeps.certificate.document import Body
from sweeps.certificate.titles import uncovered
from sweeps.search.samplers import learns
from sweeps.store.records import SweepState

ENDED = (
    SweepState.FINISHED,
    SweepState.EXHAUSTED,
    SweepState.STOPPED,
    SweepState.OUT_OF_HOURS,
    SweepState.OUT_OF_BUDGET,
)
"""Sweeps that go on spending no more, unless somebody resumes them."""


def agreed(body: Body) -> Iterator[Check]:
    """What rows say of each other."""
    yield _launches(body)
    yield _ended(body)
    if body.mode.fixed:
        sampler = body.searched.sampler
        yield Check("no result chose the trials", not learns(sampler), f"the {sampler} sampler")
    yield _measured(body)
    yield _audited(body)
    missing = [line for line in uncovered(body.mode) if line not in body.not_covered]
    yield Check("what is not covered", not missing, "; ".join(missing) or "said")


def _launches(body: Body) -> Check:
    """Launches and steps are those of the ledger; the ledger of one trial has a part of those of its sweep."""
    rows, told = body.ledger.rows, (body.accesses.training, body.accesses.steps)
    counted = (len(rows), sum(row.charged_to - row.from_step for row in rows))
    match told:
        case (int(training), int(steps)) if not body.mode.sealed:
            whole = (training, steps) == counted
            held = whole if body.mode.searched else training >= counted[0] and steps >= counted[1]
        case _:
            held = body.mode.sealed and told == (None, None)
    said = "secret" if body.mode.sealed else f"{counted[0]} launches of {counted[1]} steps in the ledger"
    return Check("readings of training records", held, said)


def _ended(body: Body) -> Check:
    """A total is that of a sweep that ended; one trial's claim is its own, whatever became of the sweep.

    Of a sealed search that is not over something may still leave.
    """
    if body.mode.sealed and not body.mode.plans:
        return Check("state of the sweep", body.sweep.state == SweepState.FINISHED, body.sweep.state)
    allowed = ENDED if body.mode.searched else (*ENDED, SweepState.RUNNING)
    return Check("state of the sweep", body.sweep.state in allowed, body.sweep.state)


def _measured(body: Body) -> Check:
    """Of what released nothing there are no metrics."""
    held = bool(body.mode.plans) or not body.accuracy.metrics
    return Check("metrics of what was released", held, f"{len(body.accuracy.metrics)} metrics")


def _audited(body: Body) -> Check:
    """Trials of one system run the same code: what an audit refuted of one is refuted of all, and of every total."""
    own = {(one.trial, one.system) for one in body.mode.plans}
    about = [
        one
        for one in body.audits
        if body.mode.searched or any(one.trial == trial or one.system == system for trial, system in own)
    ]
    fallen = [one.trial for one in about if one.outcome != AuditOutcome.CONSISTENT]
    said = f"{', '.join(fallen)}: refuted" if fallen else f"{len(about)} audits, none of which refuted anything"
    return Check("verdicts of audits", not fallen, said)
