"""How a sealed search begins, once, and what leaves it at its deadline.

    <root>/<sweep>/sealed.key    of all that is encrypted, for its owner alone; destroyed at the end
    <root>/<sweep>/sealed.json   when it ends and by how many workers; written last
    <records>/<sweep>/sealed/    what was drawn, and two files of each worker, encrypted

The number of trials, their configurations and all their randomness are drawn here, before the first trial, and never
again: a search that has begun and whose files are gone releases nothing. That it has begun, and so that its whole price
is spent, the store's row of the sweep says from before the first trial on, by its spec and its state.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections import ChainMap
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from dpcore.checks import InvalidValue
from dpcore.selection.counts import draw
from sweeps.privacy.release import Release
from sweeps.ray.resources import workers_at
from sweeps.search.space import Space
from sweeps.selection.price import SealedPlanner, SealedPrior
from sweeps.spec.sections import SweepSpec
from sweeps.store.lease import Lease
from sweeps.store.population import AddingRule
from sweeps.store.records import TARGET_EPSILON, Proposal, Settlement, SweepRecord, SweepState, TrialState, trial_key
from sweeps.store.store import Store
from sweeps.store.workspace import ANNOUNCED, Workspace
from trainables.publishing import measured
from trainables.sealed import (
    COINS,
    DRAW,
    KEY_BYTES,
    BestScores,
    Box,
    Candidate,
    Coins,
    FirstSuccess,
    Ranking,
    Schedule,
    SealedDraw,
    SealedWork,
    Slot,
    Standing,
)
from trainables.system import Config, DatasetSpec, Launch, PrivacyPlan, Refusal
from trainables.worker.attempt import Attempt, TrialResult
from trainables.worker.files import Damaged, Folder
from trainables.worker.redaction import shown_url

SEALED = "sealed"
KEY = "sealed.key"
MOST_DRAWS = 1000
"""For one slot, of which none may be launched: then the search does not begin."""
FEWEST_RECORDS = 20
"""Times that are announced, at least."""
_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedPlaces:
    """Where the files of one search are.

    own      the controller's, with the key
    records  the workers'
    """

    own: Path
    records: Folder

    @classmethod
    def of(cls, workspace: Workspace, sweep: str) -> SealedPlaces:
        """Those of a sweep."""
        return cls(own=workspace.folder(sweep), records=workspace.records_of(sweep).child(SEALED))

    def key(self) -> bytes | None:
        """The key; None where there is none (any more)."""
        found = Folder(str(self.own)).read(KEY)
        return found if found is not None and len(found) == KEY_BYTES else None

    def make_key(self) -> bytes:
        """A new key, readable by its owner alone."""
        self.own.mkdir(parents=True, exist_ok=True)
        (self.own / KEY).unlink(missing_ok=True)
        key = Box.new_key()
        self._overwrite(key, os.O_CREAT | os.O_EXCL)
        return key

    def destroy(self) -> None:
        """Nothing that was encrypted can be read any more; then the files go too."""
        if (self.own / KEY).exists():
            self._overwrite(secrets.token_bytes(KEY_BYTES))
            (self.own / KEY).unlink()
        self.records.clear()

    def _overwrite(self, content: bytes, flags: int = 0) -> None:
        """Durably, in the place where the key lies."""
        with os.fdopen(os.open(self.own / KEY, os.O_WRONLY | flags, 0o600), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What of a search is public while it runs."""

    schedule: Schedule
    workers: int

    def write(self, folder: Path) -> None:
        """Durably."""
        Folder(str(folder)).write(ANNOUNCED, json.dumps(asdict(self)).encode())

    @classmethod
    def read(cls, folder: Path) -> Announcement | None:
        """What was announced; None before that."""
        content = Folder(str(folder)).read(ANNOUNCED)
        if content is None:
            return None
        data = json.loads(content)
        return cls(schedule=Schedule(**data["schedule"]), workers=data["workers"])


def has_begun(sweep: SweepRecord, workspace: Workspace) -> bool:
    """Whether it was announced, or ran: nothing is drawn for it any more."""
    announced = Announcement.read(SealedPlaces.of(workspace, sweep.name).own)
    return announced is not None or sweep.state is not SweepState.CREATED


def check_here(sweep: SweepRecord, workspace: Workspace) -> None:
    """A search that has begun goes on where its key and what was drawn are: from elsewhere it would be ended, as one
    whose files are gone.

    Raises InvalidValue.
    """
    if sweep.state in (SweepState.CREATED, SweepState.FINISHED):
        return
    places = SealedPlaces.of(workspace, sweep.name)
    if Announcement.read(places.own) is None:
        name, here, began = "root", workspace.root, sweep.root
        lacks = f"neither its key nor what it announced is in {places.own}"
    elif places.key() is not None and not places.records.exists(DRAW):
        # The key goes first where a search ends.
        name, here, began = "records", workspace.records or workspace.root, sweep.records or sweep.root
        lacks = f"what was drawn for it is not in {places.records.url}"
    else:
        return
    raise InvalidValue(
        name,
        shown_url(here),
        f"that in which {sweep.called!r} began, {shown_url(began)}: {lacks}",
        f"Go on there, or copy the sweep's folder here. Where it is lost nothing leaves any more: `sweeps delete "
        f"{sweep.called}` ends it, and its price stays paid.",
    )


def opened(
    sweep: SweepRecord,
    spec: SweepSpec,
    facts: DatasetSpec,
    workspace: Workspace,
    calibrations: MutableMapping[str, float],
    address: str | None = None,
) -> SealedWork | None:
    """The work of a sweep's workers, drawn now where it never began; None where it did, and its files are gone.

    calibrations  solved before, in public; nothing is added to them

    Raises InvalidValue where the space has nothing that may be launched, or nobody can say how many workers there are.
    """
    places = SealedPlaces.of(workspace, sweep.name)
    announced, key = Announcement.read(places.own), places.key()
    if announced is not None and key is not None:
        return _work(sweep.name, spec, places, announced, key)
    if has_begun(sweep, workspace):
        return None
    assert spec.selection is not None
    workers = workers_at(spec, address)
    # What solving the slots' noise comes to is kept nowhere: in the order of the draw it would tell the winner's slot.
    drawn = drawn_for(SealedPrior(spec, facts, ChainMap({}, calibrations)))
    key, begins = places.make_key(), time.time()
    length = 60 * spec.selection.deadline_minutes
    cadence = min(spec.execution.checkpoint_seconds, length / FEWEST_RECORDS)
    schedule = Schedule(begins=begins, deadline=begins + length, cadence=cadence)
    announcement = Announcement(schedule=schedule, workers=workers)
    work = _work(sweep.name, spec, places, announcement, key)
    work.keep_drawn(drawn)
    for worker in range(workers):
        for number in (-1, -2):
            work.keep(worker, Standing(following=worker, written=number))
    announcement.write(places.own)
    return work


def drawn_for(prior: SealedPrior) -> SealedDraw:
    """The draw of a search: all slots up to the cap, planned, whatever the count.

    Raises InvalidValue.
    """
    space = prior.space
    coins = Coins(secrets.token_bytes(COINS))
    planner = SealedPlanner.of(prior)
    if isinstance(planner, Refusal):
        expected = f"a space whose middle may be launched ({planner.reason})"
        raise InvalidValue("systems", ", ".join(prior.spec.systems), expected, "Move the space.")
    slots = range(planner.pricing.law.cap)
    found = [_slot(planner, space, coins.prior(number), coins.seed(number)) for number in slots]
    count = draw(planner.pricing.law, secrets.SystemRandom())
    return SealedDraw(count=count, coins=coins, slots=tuple(found))


def _slot(planner: SealedPlanner, space: Space, prior: np.random.Generator, seed: int) -> Slot:
    """The next draw of the prior that may be launched: what may not is no part of the prior.

    Its budget is drawn before, and stays: each has the chance by which it is priced, whatever may be launched with it.
    """
    budget = space.epsilons[int(prior.integers(len(space.epsilons)))]
    for _ in range(MOST_DRAWS):
        config: Config = {**space.draw(prior), TARGET_EPSILON: budget}
        if isinstance(plan := planner.plan(config), PrivacyPlan):
            return Slot(config=config, seed=seed, plan=plan)
    expected = f"a space of which something may be launched: of {MOST_DRAWS} draws nothing may"
    raise InvalidValue(
        "systems", ", ".join(planner.prior.spec.systems), expected, "Raise epsilon or `limits`, or narrow the space."
    )


def ranking_of(spec: SweepSpec) -> Ranking:
    """Which trials leave."""
    assert spec.selection is not None
    if (target := spec.selection.target) is not None:
        return FirstSuccess(metric=target.metric, target=target.bound, at_least=target.at_least is not None)
    return BestScores(spec.orders)


def _work(sweep: str, spec: SweepSpec, places: SealedPlaces, announced: Announcement, key: bytes) -> SealedWork:
    assert spec.selection is not None
    known = measured(spec.asked)
    return SealedWork(
        folder=places.records,
        box=Box(key),
        schedule=announced.schedule,
        workers=announced.workers,
        room=int(spec.selection.megabytes * _MEGABYTE),
        winner=trial_key(sweep, 0),
        group=Launch(
            members=(),
            execution=spec.settings(),
            measures=tuple(metric for metric in spec.asked if metric in known),
            withheld=Release.of(spec).withheld,
        ),
        ranking=ranking_of(spec),
    )


# What leaves a sealed search, at its deadline: the winner as trial 0, those of several orders as 0, 1, ..., or none.
#
# A winner becomes an ordinary trial of the store, with its files where those of any trial are. Its times and its
# attempt are alike whichever slot it was. What was not chosen is gone with the key.
#
# Winners are numbered in the order of their slots, which parts equal ones too: whoever reads them finds the same
# winner of each order. Nothing else is told of slots, and their order among winners is that of the uniform numbers in
# the proof of a front's price (`dpcore.selection.front`), with which each winner may leave.

ATTEMPT = 1
NOTHING_RELEASED = (
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
            done = {one.number for one in store.trials(lease.sweep, states=[TrialState.COMPLETE])}
            # Of a winner by several orders once.
            winners = {found.slot: found for found in work.best()}
            for number, slot in enumerate(sorted(winners)):
                if number not in done:
                    _commit(store, lease, Release.of(spec), work, number, winners[slot], trials)
    left, people = store.trials(lease.sweep, states=[TrialState.COMPLETE]), spec.data.population
    if people is not None and len(spec.privacy.epsilon) > 1 and store.population(people).rule is AddingRule.LINEAR:
        # A ladder of budgets was reserved at its dearest, and costs the one that its success had. By a gdp ledger
        # nothing is handed back.
        for one in left:
            store.settle_block(lease, people, float(one.config[TARGET_EPSILON]))
    places.destroy()
    return bool(left)


def _commit(
    store: Store, lease: Lease, leaving: Release, work: SealedWork, number: int, found: Candidate, trials: Folder
) -> None:
    slot = work.drawn().slots[found.slot]
    plan, key = slot.plan, trial_key(lease.sweep, number)
    metrics = leaving.metrics(found.metrics, plan.system, plan.config)
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
    attempt.reserve_until(plan.steps)
    attempt.save(plan.steps, found.state, result.model_dump())
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
