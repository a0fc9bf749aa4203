"""What leaves a sealed search, at its deadline: the winner as trial 0, those of several orders as 0, 1, ..., or none.

A winner becomes an ordinary trial of the store, with its files where those of any trial are. Its times and its attempt
are alike whichever slot it was. What was not chosen is gone with the key.

Winners are numbered in the order of their slots, which parts equal ones too: whoever reads them finds the same
winner of each order. Nothing else is told of slots, and their order among winners is that of the uniform numbers in the
proof of a front's price (`dpcore.selection.front`), with which each winner may leave.
"""

from __future__ import annotations

from contextlib import suppress

from sweeps.population.blocks import settle_block
from sweeps.release.policy import Release
from sweeps.sealed.opening import SealedPlaces
from sweeps.spec.sections import SweepSpec
from sweeps.store.lease import Lease
from sweeps.store.records import TARGET_EPSILON, Proposal, Settlement, TrialState, trial_key
from sweeps.store.store import Store
from trainables.sealed.drawn import Slot
from trainables.sealed.standing import Candidate
from trainables.sealed.worker import SealedWork
from trainables.worker.attempt import Attempt
from trainables.worker.files import Folder
from trainables.worker.results import TrialResult
from trainables.worker.sealed import Damaged

ATTEMPT = 1
NOTHING = (
    "Nothing was released: no trial may leave, or not every one had ended in time. Which of the two is nobody's to "
    "know, and the price is paid all the same."
)
GONE = "Nothing was released: the search had begun, and what was drawn for it is gone. It is not drawn again."


def release(
    store: Store, lease: Lease, spec: SweepSpec, work: SealedWork | None, places: SealedPlaces, trials: Folder
) -> bool:
    """Make the winners trials of the store, and destroy what else there was; whether there are any.

    The same again, after a kill at any line, ends the same way.
    """
    if work is not None:
        with suppress(Damaged):
            drawn, done = work.drawn(), _complete(store, lease)
            # Of a winner by several orders once.
            winners = {found.slot: found for found in work.best()}
            for number, slot in enumerate(sorted(winners)):
                if number not in done:
                    found = winners[slot]
                    _commit(store, lease, spec, work, number, drawn.of(slot, found.chosen), found, trials)
    left = [one for one in store.trials(lease.sweep) if one.state is TrialState.COMPLETE]
    for one in left if len(spec.privacy.epsilon) > 1 else []:
        # A ladder of budgets was reserved at its dearest, and costs the one that its success had.
        settle_block(store, lease, spec.data.population or "", float(one.config[TARGET_EPSILON]))
    places.destroy()
    return bool(left)


def _complete(store: Store, lease: Lease) -> set[int]:
    return {one.number for one in store.trials(lease.sweep) if one.state is TrialState.COMPLETE}


def _commit(
    store: Store,
    lease: Lease,
    spec: SweepSpec,
    work: SealedWork,
    number: int,
    slot: Slot,
    found: Candidate,
    trials: Folder,
) -> None:
    plan, key = slot.plan, trial_key(lease.sweep, number)
    metrics = Release.of(spec).metrics(found.metrics, plan.system, plan.config)
    seconds = work.schedule.deadline - work.schedule.begins
    result = TrialResult(
        key=key, attempt=ATTEMPT, step=plan.steps, metrics=metrics, seconds=seconds, peak_memory_mb=0.0
    )
    if number not in {one.number for one in store.trials(lease.sweep)}:
        store.launch(lease, Proposal(number=number, config=slot.config, seed=slot.seed), plan, plan.steps)
    attempt = Attempt.of(trials, key, ATTEMPT)
    # What an earlier release was killed over.
    attempt.folder.clear()
    attempt.claim(0)
    attempt.may_execute(plan.steps)
    attempt.save(plan.steps, found.state, result.to_dict())
    came = Settlement(
        executed_to=plan.steps,
        step=plan.steps,
        metrics=metrics | {"epsilon": plan.guarantee.epsilon},
        guarantee=plan.guarantee,
        seconds=seconds,
        # Views are told when the sweep is over, which it is next.
        announced=False,
    )
    store.settle(lease, key, ATTEMPT, came)
