"""The totals that belong together: of a sweep, and of every sweep whose results its search started from.

A final run has its hyperparameters from an earlier sweep, whose total is told beside its own. A sweep with
`search.warm_start` chooses its first trials by what an earlier one released, on the same records unless the data
changed. Its own total leaves that out, so every view that states the one states the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpcore.guarantee import Guarantee, Status, weakest
from sweeps.privacy.claims import HOLDOUT, Assumptions
from sweeps.privacy.holdout_guarantee import tuned_by_now, tuned_of
from sweeps.privacy.ledger import BY_SUMS, Choice, Procedure, Summary, sealed_and_begun
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.release import Published
from sweeps.privacy.wording import TOTAL_SHOWN_UP_TO, too_many, total_lines
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.store.records import SweepRecord

ACROSS = (
    "By the clocks of their machines, each of these sweeps and each of their extensions was recorded before any other "
    "of them launched a trial, so that no result of one chose the budgets of another."
)
"""What a total over several sweeps rests on besides; where the records say otherwise it is no guarantee."""
TUNED = "whose records are declared public, so that it adds nothing to the claims on these; its own total"
"""Of the sweep that a final run has its hyperparameters from."""
TUNED_PART = "which read the other part of these records; what all of it cost them by now"
"""Likewise, of a holdout: the total of the final run is the larger of both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What all trials of one sweep released together.

    procedure  None where it is not counted
    uncounted  why not; empty where nothing was launched
    in_this_store  whether this store has the sweep
    tuned  whether a final run has its hyperparameters from it; else a search started from it, or it is the sweep itself
    part   whether it read the other part of the same records, then
    """

    sweep: str
    procedure: Procedure | None = None
    uncounted: str = ""
    in_this_store: bool = True
    tuned: bool = False
    part: bool = False

    def claims(self) -> list[Guarantee]:
        """The total, where it has a status to be shown."""
        return [self.procedure.guarantee] if self.procedure is not None and self.procedure.is_claim else []

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        counted = {} if self.procedure is None else {"procedure": self.procedure.to_dict()}
        reason = {"uncounted": self.uncounted} if self.uncounted else {}
        tuned = {"tuned": True} if self.tuned else {}
        return {"sweep": self.sweep, "in_this_store": self.in_this_store, **tuned, **counted, **reason}


def own_total(store: PublishedStore, sweep: str, trials: Sequence[Published]) -> Total:
    """Of one sweep, all of whose `trials` are given. Raises UnknownSweep."""
    attempts = sum(trial.attempts for trial in trials)
    if attempts > TOTAL_SHOWN_UP_TO and store.sweep(sweep).spec.scope != "sweep":
        return Total(sweep=sweep, uncounted=too_many(sweep, attempts))
    # The accountants take a quarter of a second to import: a large front does without them.
    from sweeps.heldout import charged
    from sweeps.privacy.totals import summary_in_passing

    record = store.sweep(sweep)
    return total_of(
        sweep,
        summary_in_passing(
            record, trials, store.ledger(sweep), charged(store, record), tuned_by_now(store, record.spec)
        ),
    )


def total_of(sweep: str, ledger: Summary) -> Total:
    """The total among what a view says of a ledger."""
    return Total(sweep=sweep, procedure=ledger.procedure, uncounted=ledger.uncounted)


def totals(store: PublishedStore, sweep: str, trials: Sequence[Published]) -> tuple[Total, ...]:
    """A sweep's own total, then `earlier_totals`. Raises UnknownSweep."""
    return own_total(store, sweep, trials), *earlier_totals(store, store.sweep(sweep).spec)


def earlier_totals(store: PublishedStore, spec: RecordedSpec) -> tuple[Total, ...]:
    """Of the sweep that a spec names in `search.warm_start`, of the one that this one started from, ...; or of the one
    in `search.chosen_from`, which started from no other."""
    if spec.chosen_from is not None:
        found_by = _earlier(store, spec.chosen_from, _sweep(store, spec.chosen_from))
        return (replace(found_by, tuned=True, part=spec.scope == HOLDOUT),)
    found: list[Total] = []
    name = spec.warm_start
    while name is not None and name not in [total.sweep for total in found]:
        record = _sweep(store, name)
        found.append(_earlier(store, name, record))
        name = None if record is None else record.spec.warm_start
    return tuple(found)


def _earlier(store: PublishedStore, name: str, record: SweepRecord | None) -> Total:
    if record is None:
        return Total(sweep=name, in_this_store=False)
    return own_total(store, record.name, store.trials(record.name))


def joint_totals(store: PublishedStore, sweeps: Mapping[str, Sequence[Published]]) -> tuple[Total, ...]:
    """What all trials of several sweeps on the same records released together, then the `earlier_totals` of others.

    sweeps  {name: all of its trials}

    Adaptive composition: the epsilons of one ledger that holds the steps of all. No guarantee where results chose
    budgets in any of the sweeps, or could have: where one was asked for when another one had launched trials. (A person
    who sees results and then decides what else runs chooses by results, as for `sweeps.privacy.totals.choices_of`.)
    """
    names = ", ".join(sweeps)
    records = {name: store.sweep(name) for name in sweeps}
    started_from = [one for record in records.values() for one in earlier_totals(store, record.spec)]
    earlier = tuple({one.sweep: one for one in started_from if one.sweep not in sweeps}.values())
    listed = [trial for trials in sweeps.values() for trial in trials]
    if parts := [name for name, record in records.items() if tuned_of(record.spec) is not None and len(sweeps) > 1]:
        reason = f"{' and '.join(parts)} trained finally on one part of the records, after tuning on the other"
        return Total(sweep=names, uncounted=reason), *earlier
    attempts = sum(trial.attempts for trial in listed)
    if any(map(sealed_and_begun, records.values())):
        # Of one that released nothing there is no trial that would tell of its price.
        return Total(sweep=names, uncounted=BY_SUMS), *earlier
    if attempts > TOTAL_SHOWN_UP_TO:
        reason = f"{attempts} attempts: over several sweeps at most {TOTAL_SHOWN_UP_TO} are counted"
        return Total(sweep=names, uncounted=reason), *earlier
    from sweeps.heldout import charged
    from sweeps.privacy.totals import choices_of, cut_short, summary

    choices = [
        replace(choice, what=f"in {name} {choice.what}")
        for name, record in records.items()
        for choice in (*choices_of(record, sweeps[name]), *_after_others(record, sweeps))
    ]
    rests_on = [f"Of {name}: {line}" for name, one in records.items() for line in cut_short(one, sweeps[name])]
    entries = [entry for name in sweeps for entry in store.ledger(name)]
    tests = [test for one in records.values() for test in charged(store, one)]
    if len(tests) < len(records) or len({one.parts for one in tests}) > 1:
        # What one sweep tests on may be what another one trained on.
        tests = [replace(one, apart=False) for one in tests]
    counted = summary(listed, entries, choices, rests_on, tests)
    if counted.procedure is None:
        return Total(sweep=names, uncounted=counted.uncounted), *earlier
    claim = counted.procedure.guarantee
    claim = replace(
        claim,
        status=weakest(claim.status, Status.PROVED_UNDER_ASSUMPTIONS),
        assumptions=(*claim.assumptions, ACROSS),
    )
    procedure = replace(counted.procedure, guarantee=claim, sweeps=tuple(sweeps))
    return Total(sweep=names, procedure=procedure), *earlier


def _after_others(record: SweepRecord, sweeps: Mapping[str, Sequence[Published]]) -> Iterator[Choice]:
    """What of a sweep was decided when results of the others could be seen, or by them."""
    if (warm := record.spec.warm_start) is not None:
        what = f"the search started from the results of {warm}"
        yield Choice(what=what, will=what, instead="leave `search.warm_start` out")
    decided = max([record.created_at, *(one.at for one in record.extensions if one.trials is not None or one.epsilon)])
    before = [
        name
        for name, trials in sweeps.items()
        if name != record.name and any(trial.attempts and trial.proposed_at <= decided for trial in trials)
    ]
    if before:
        what = f"trials were asked for when results of {' and '.join(before)} could be seen"
        yield Choice(
            what=what, will=what, instead="ask for all trials in one sweep, or start all before the first runs"
        )


def lines(found: Sequence[Total], assumptions: Assumptions) -> Iterator[str]:
    """Those of `totals` in words, one line each."""
    if found:
        own, *earlier = found
        yield from total_lines(own.procedure, own.uncounted, assumptions)
        yield from earlier_lines(earlier, assumptions)


def earlier_lines(earlier: Sequence[Total], assumptions: Assumptions) -> Iterator[str]:
    """One line for each of `earlier_totals`; nothing for a sweep that started from no other."""
    for total in earlier:
        counted = "its total is not known here (it is not in this store)"
        if total.in_this_store:
            counted = "; ".join(total_lines(total.procedure, total.uncounted, assumptions)) or "nothing was launched"
        if total.tuned:
            on = TUNED_PART if total.part else TUNED
            yield f"the hyperparameters are the best of sweep {total.sweep!r}, {on}: {counted}"
            continue
        yield f"the search started from the results of sweep {total.sweep!r}, which adds its own total: {counted}"


def sentences(listed: Iterable[str]) -> str:
    """Lines as running text."""
    return " ".join(f"{line[0].upper()}{line[1:]}{'' if line.endswith(('.', '.)')) else '.'}" for line in listed)


def _sweep(store: PublishedStore, name: str) -> SweepRecord | None:
    from sweeps.store.errors import UnknownSweep

    try:
        return store.sweep(name)
    except UnknownSweep:
        return None
