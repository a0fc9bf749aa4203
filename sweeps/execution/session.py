"""One run of a sweep, from its start or a resume to its end: opens what it needs, in order, and closes it again."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from dpcore.randomness import fresh_secret
from sweeps.execution.controller import Controller
from sweeps.execution.final_run import check_apart, with_chosen
from sweeps.execution.limits import HOURS_OVER, INTERRUPTED, Deadline, SharedBudget, seconds_run
from sweeps.execution.requests import RequestPoller
from sweeps.execution.resume import (
    accept_spec,
    check_budget_left,
    effective_spec,
    extended,
    extension_for,
    record_extension,
)
from sweeps.mlflow.sync import Drain
from sweeps.planning.estimate import resolved
from sweeps.planning.plan import accepting, check_corners, code_of, weights_of
from sweeps.privacy.population import ledger_of, reserve_whole
from sweeps.privacy.release import Published, PublishedStore, Release
from sweeps.privacy.wording import stopped_lines
from sweeps.ray.resources import check_at_once, check_workers, workers_at
from sweeps.reporting.front import rankable, spec_objectives
from sweeps.search.proposer import Proposer
from sweeps.selection.run import GONE, NOTHING_RELEASED, SealedPlaces, check_here, has_begun, opened, release
from sweeps.spec.parse import public_facts
from sweeps.spec.sections import SweepSpec
from sweeps.store.errors import StoreError
from sweeps.store.lease import Lease
from sweeps.store.records import Accepted, SweepRecord, SweepState, TrialState, this_person
from sweeps.store.store import Store
from sweeps.store.workspace import Workspace, check_store_not_stale
from sweeps.util import fingerprint, waiting
from sweeps.util.exits import ExitCode, Interruption
from sweeps.util.log import Event, say
from sweeps.util.text import QUOTES, check_name, shortened
from trainables.data import SOURCES
from trainables.metrics import Metric
from trainables.publishing import declared
from trainables.registry import SYSTEMS
from trainables.sealed import SealedWork
from trainables.system import Dataset
from trainables.validation.planning import check_defined
from trainables.worker.attempt import ERROR, Attempt
from trainables.worker.files import Folder
from trainables.worker.redaction import redacted, shown_url

if TYPE_CHECKING:
    from sweeps.export import ModelsShown
    from sweeps.ray.cluster import Messages

# Why a trial failed, in words for the person at the terminal, who holds the records.
#
# An exception's message may quote a record. It is in no store, view or report: only in the attempt's folder and, for
# the first failure, on the terminal of the one who runs the sweep.


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One trial that failed.

    what    kind and message of its exception, or what else happened
    place   the file with the whole text; None where `what` is all there is
    quotes  whether `what` may quote a record
    """

    trial: int
    key: str
    what: str
    place: str | None = None
    quotes: bool = False

    @classmethod
    def of(cls, record: Published, trials: Folder, log: Path) -> Failure:
        """The failure of `record`, with the words that its worker left in `trials`, or Ray in `log`."""
        lost = "worker was lost" in record.reason and log.exists()
        told = cls(trial=record.number, key=record.key, what=record.reason, place=str(log) if lost else None)
        attempt = Attempt.of(trials, record.key, record.attempts)
        # Where its folder cannot be read, what the store says is enough to go on with.
        with suppress(OSError):
            if (text := attempt.explained()) is not None:
                what = redacted(shortened(text.partition("\n")[0]))
                return replace(told, what=what, place=f"{attempt.folder.url}/{ERROR}", quotes=True)
        return told

    def unquoted(self) -> str:
        """For a log: nothing that might quote a record."""
        what = f"its error is in {self.place}" if self.quotes else self.what
        return f"Trial {self.trial} ({self.key}) failed: {what}"

    def lines(self) -> list[str]:
        """For people."""
        told = [f"Trial {self.trial} ({self.key}) failed: {self.what}"]
        if self.place is not None:
            told.append(f"  The whole text is in {self.place}" + (f". {QUOTES}" if self.quotes else ""))
        return told


@dataclass(frozen=True, slots=True)
class SweepEnd:
    """How a session ended: "finished", "exhausted", "out of hours", "out of budget" or "stopped" (by Ctrl-C).

    ranked    complete trials that have a value in every objective
    failure   of the trial that failed first, of all sessions; None when none did
    tracking  MLflow's URI, if it has everything; None when something could not be delivered
    reasons   why it is no full success, one sentence each
    models    what MLflow shows of its models; None where nobody looked
    """

    sweep: str
    state: str
    counts: dict[str, int]
    seconds: float
    ranked: int
    failure: Failure | None = None
    tracking: str | None = None
    reasons: tuple[str, ...] = ()
    models: ModelsShown | None = None

    @property
    def code(self) -> ExitCode:
        """What the command that ran it exits with."""
        if self.state == "stopped":
            return ExitCode.INTERRUPTED
        return ExitCode.of_sweep(ranked=self.ranked, complete=self.counts["complete"], failed=self.counts["failed"])

    @property
    def meaning(self) -> str:
        """That of `code`, in words."""
        over = {
            SweepState.OUT_OF_HOURS: "the hours of the sweep are over",
            SweepState.OUT_OF_BUDGET: "the budget of its population holds no further trial",
        }
        return self.code.meaning.replace(
            "the sweep is finished", over.get(SweepState(self.state), "the sweep is finished")
        )


# Metrics that a spec asks for and that finished trials do not have, in words for the end of a sweep.


def missing_metrics(records: Iterable[Published], asked: Sequence[str], declared: dict[str, Metric]) -> tuple[str, ...]:
    """One sentence for each of `asked` that is missing or no number in a finished trial, with what the metric is."""
    finished = [record for record in records if record.state is TrialState.COMPLETE]
    lines = []
    for name in asked:
        values = ((record, record.metric(name)) for record in finished)
        without = [record for record, value in values if value is None or math.isnan(value)]
        if without and name in declared:
            lines.append(
                f"{name} is no number in {len(without)} of {len(finished)} finished trials, the first of them "
                f"{without[0].key}: {declared[name].doc}."
            )
    return tuple(lines)


# What a session runs: a search whose trials are each released as they end, or one of which the winners alone leave.

RAY_LOG = "ray.log"


class TuneRunner:
    """Every trial is released as it ends. Raises ClusterUnreachable where it has to launch and no cluster answers."""

    def __init__(self, session: Session, controller: Controller) -> None:
        self.session, self.controller = session, controller
        self.working = controller.has_work()
        if self.working and controller.budget.lets_go_on:
            # Ray takes seconds to import and start: not for a sweep that is already over.
            from sweeps.ray.cluster import check_reachable

            check_reachable(session.options.address, controller.spec.resources)

    def run(self, data: list[Dataset], on_first_sign: Callable[[], None]) -> SweepState:
        """Until it ends; how it ended. Raises as `sweeps.execution.tuner.execute`.

        data           the records, and what is derived of them, taken out of the list
        on_first_sign  told that it runs: what can wait until then is not in its way
        """
        budget = self.controller.budget
        if budget.over and not (self.working and budget.is_final):
            return SweepState.OUT_OF_BUDGET
        if not self.working:
            return SweepState.EXHAUSTED if self.controller.is_exhausted() else SweepState.FINISHED
        deadline = self._deadline()
        try:
            return self._on_the_cluster(data, on_first_sign, deadline)
        except KeyboardInterrupt:
            self.controller.settle_running(HOURS_OVER if deadline.passed else INTERRUPTED)
            return SweepState.OUT_OF_HOURS if deadline.passed else SweepState.STOPPED

    def _on_the_cluster(self, data: list[Dataset], on_first_sign: Callable[[], None], deadline: Deadline) -> SweepState:
        from sweeps.execution.tuner import execute
        from sweeps.ray.patches import tune_patches

        spec, trials = self.controller.spec, self.controller.trials
        with tune_patches(), self.session.joined(spec, trials) as messages, deadline:
            # The secret is of this session alone: a copy of the folder that goes on too draws other noise.
            return execute(
                self.controller,
                data,
                fresh_secret(),
                reason=messages.reason,
                on_first_sign=on_first_sign,
                check=self.session.interruption.check,
            )

    def _deadline(self) -> Deadline:
        """When `limits.hours` are over, counted over all sessions."""
        hours = self.controller.spec.limits.hours
        if hours is None:
            return Deadline(None, "")
        left = 3600 * hours - seconds_run(self.controller.store.attempts(self.controller.sweep))
        ends = "Nothing more is launched, and what runs ends at a checkpoint, charged."
        return Deadline(left, f"\nThe {hours:g} of limits.hours are over. {ends}")

    def reasons(self, ended: SweepState) -> tuple[str, ...]:
        """Why that is no full success, one sentence each."""
        controller, spec = self.controller, self.controller.spec
        trials = controller.published()
        refused = [trial for trial in trials if trial.state is TrialState.INFEASIBLE]
        launched = f"{controller.launched} of {spec.search.trials} trials"
        reasons = []
        if ended is SweepState.OUT_OF_HOURS:
            again = f"It goes on with `sweeps resume {controller.sweep} --hours H`, H in all."
            reasons.append(f"limits.hours is over: {launched} were launched. {again}")
        if ended is SweepState.OUT_OF_BUDGET:
            if controller.budget.is_final:
                again = "Nothing gives any of it back: for more trials start a new sweep."
            else:
                again = f"It goes on with `sweeps resume {controller.sweep}` once the budget holds more."
            reasons.append(f"{launched} were launched. {controller.budget.over} {again}")
        if ended is SweepState.EXHAUSTED:
            reasons.append(
                f"The space ran dry: {launched} could be launched, {len(refused)} proposals were infeasible."
            )
            if refused:
                reasons.append(f"The last one, {refused[-1].key}: {refused[-1].reason}")
        reasons += [f"{line}." for line in stopped_lines(trials, spec.early_stopping is not None)]
        chosen = [SYSTEMS[system] for system in spec.systems if system in SYSTEMS]
        known = {name: metric for system in chosen for name, metric in declared(system, spec.asked).items()}
        return (*reasons, *missing_metrics(trials, spec.asked, known))


class SelectionRunner:
    """A private selection: begin or go on, wait for the announced end, release the winners.

    over  whether it had ended before
    work  of the workers; None where the search is over, or had begun and is gone

    Draws, plans and announces, once; or finds what was. Raises InvalidValue, ClusterUnreachable, PopulationSpent.
    """

    def __init__(self, session: Session, lease: Lease, recorded: SweepRecord, spec: SweepSpec) -> None:
        self.session, self.lease, self.spec = session, lease, spec
        self.over, self.work = recorded.state is SweepState.FINISHED, None
        if self.over:
            return
        from sweeps.ray.cluster import check_reachable

        store, workspace, address = session.store, session.workspace, session.options.address
        check_reachable(address, spec.resources)
        if not has_begun(recorded, workspace):
            _check_cluster(spec, session)
        # One row for the whole search, before its first trial: a row for each would tell how many there are.
        ledger_of(store, spec)
        reserve_whole(store, lease, spec)
        self.work = opened(recorded, spec, session.facts, workspace, store.calibrations(), address)

    def run(self, data: list[Dataset], on_first_sign: Callable[[], None]) -> SweepState:
        """Until the announced end, then release. The sweep's row says by now that it runs: its price is spent."""
        if self.over:
            return SweepState.FINISHED
        on_first_sign()
        work, session = self.work, self.session
        if work is not None:
            try:
                if time.time() < work.schedule.last:
                    self._on_the_cluster(work, data[0])
                # A session that comes too late for the workers waits as any other does.
                time.sleep(max(0.0, work.schedule.deadline - time.time()))
            except KeyboardInterrupt:
                return SweepState.STOPPED
        places = SealedPlaces.of(session.workspace, session.sweep)
        release(session.store, self.lease, self.spec, work, places, session.workspace.trials(session.sweep))
        return SweepState.FINISHED

    def reasons(self, ended: SweepState) -> tuple[str, ...]:
        """Why nothing was released, where that is so."""
        if ended is SweepState.STOPPED or self.session.store.trials(self.session.sweep):
            return ()
        return (GONE if self.work is None and not self.over else NOTHING_RELEASED,)

    def _on_the_cluster(self, work: SealedWork, data: Dataset) -> None:
        from sweeps.execution.tuner import run_sealed_search

        with self.session.joined(self.spec, work.folder):
            run_sealed_search(work, data, self.spec.resources, self.session.interruption.check)


def _check_cluster(spec: SweepSpec, session: Session) -> None:
    """All workers can run where they are meant to, see the records' folder and import what trials are made of.

    Before the price is paid: afterwards a search that cannot run releases nothing. Raises InvalidValue,
    ClusterUnreachable.
    """
    from sweeps.ray import cluster

    address = session.options.address
    check_workers(spec, address)
    if address is None and not cluster.is_joined():
        return
    with session.joined(spec, SealedPlaces.of(session.workspace, session.sweep).records):
        nodes = cluster.alive_nodes()
        cluster.check_resources(spec.resources, nodes, "the cluster has")
        workers = workers_at(spec, address)
        check_at_once(spec, workers, nodes, "the cluster")
        cluster.await_room(spec.resources, workers)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What is asked of one run of a sweep.

    spec     compared with the recorded one when given: a difference is refused with a diff
    accept   names of changed fingerprints to go on with all the same: "spec", "code", "data"
    trials   how many in all from now on; recorded as an extension, and its cost is said (`sweeps.execution.resume`)
    hours    likewise
    epsilon  budgets besides those that it has; likewise
    address  Ray cluster: auto or HOST:PORT; None starts a Ray of this machine's own
    is_new   whether it was recorded just now: where it is refused before anything runs, its name is free again
    """

    spec: SweepSpec | None = None
    accept: Collection[str] = ()
    trials: int | None = None
    hours: float | None = None
    epsilon: Sequence[float] = ()
    address: str | None = None
    is_new: bool = False


class Observer:
    """Hears how a run goes on. Every method does nothing here: override what you want to hear."""

    def on_begin(self) -> None:
        """Nothing refuses it any more, and nothing has run yet."""

    def on_change(self, controller: Controller, trial: Published) -> None:
        """A trial is in another state, and the store has it."""

    def on_failure(self, failure: Failure) -> None:
        """The first trial of this run has failed."""

    def on_cluster_lost(self, sweep: str) -> None:
        """The Ray cluster is lost, and the process ends next."""


SILENT = Observer()


def create(spec: SweepSpec, workspace: Workspace, name: str | None = None, rehearsed: float | None = None) -> str:
    """Record a new sweep and return its name. Without `name`, the spec's name, numbered when it is taken.

    rehearsed  seconds of a trial by its rehearsal, where there was one (`resolved`)

    What `sampler: auto` comes to is resolved here, and recorded; so are the hyperparameters of a final run.

    A name whose folder is in use counts as taken although the store does not know it: what workers left there is of a
    sweep of another store, or of a store that was deleted.

    Raises SweepExists for a given name that is taken, InvalidValue for one that could be no folder or whose folder is
    in use, StoreError when the store cannot be written, as `ledger_of` where its population has no ledger, and as
    `with_chosen`.
    """
    if name is not None:
        check_name("name", name)
    store = workspace.open_store(create=True)
    ledger_of(store, spec)
    spec = with_chosen(spec, PublishedStore(store), store.calibrations())
    spec = resolved(spec, public_facts(spec), store.calibrations(), rehearsed=rehearsed)
    taken = {name for sweep in store.sweeps() for name in (sweep.name, sweep.label)}
    candidates = chain([spec.name], (f"{spec.name}-{number}" for number in count(2)))
    chosen = name or next(one for one in candidates if one not in taken and not workspace.in_use(one))
    if chosen not in taken and workspace.in_use(chosen):
        raise InvalidValue(
            "name",
            chosen,
            f"a name without files of an earlier sweep in {workspace.folder(chosen)} or {workspace.trials(chosen).url}",
            "Its trials are unknown to this store. Choose another name, root, or the store that knows them.",
        )
    workspace.folder(chosen).mkdir(parents=True, exist_ok=True)
    store.create_sweep(
        SweepRecord(
            name=chosen,
            spec=spec,
            digest=spec.digest,
            fingerprints={"code": code_of(spec)},
            root=workspace.root,
            records=workspace.records or "",
            created_at=time.time(),
        )
    )
    return chosen


def resume(
    sweep: str, workspace: Workspace, options: RunOptions = RunOptions(), observer: Observer = SILENT
) -> SweepEnd:
    """Run a sweep until it is finished, from wherever it stands.

    Raises UnknownSweep, LeaseHeld, Changed, StoreError, ClusterUnreachable, InvalidValue (options, data).
    """
    return Session(sweep, workspace, options, observer).run()


class Session:
    """One run of a sweep. See `resume`.

    log           of all that Ray says
    interruption  armed once a cluster is there that has to be left in order
    """

    def __init__(self, sweep: str, workspace: Workspace, options: RunOptions, observer: Observer) -> None:
        fingerprint.check_accepted(options.accept)
        self.options, self.observer = options, observer
        self.store = workspace.open_store()
        recorded = self.store.sweep(sweep)
        self.sweep, self.workspace = recorded.name, workspace.of(recorded)
        self.log, self.interruption = self.workspace.folder(self.sweep) / RAY_LOG, Interruption()
        if options.accept and recorded.spec.selection is not None:
            accepted = ", ".join(options.accept)
            alike = "all trials of a sealed search are alike but for their configurations, or its price is none"
            raise InvalidValue("accept", accepted, f"nothing: {alike}", "Restore what it was, or start a new sweep.")
        self.began = effective_spec(recorded, options.spec, options.accept)
        self.source = SOURCES[self.began.data.source]
        self.facts = self.source.facts(self.began.data.options())

    def run(self) -> SweepEnd:
        """Until it is finished."""
        started = time.monotonic()
        with (
            self.interruption,
            closing(self.store),
            self.store.acquire(self.sweep) as lease,
            RequestPoller(self.store, lease) as requests,
        ):
            try:
                recorded, spec, data = self._admitted(lease)
            except Exception:
                if self.options.is_new:
                    self.store.withdraw(lease)
                    with suppress(OSError):
                        self.workspace.folder(self.sweep).rmdir()
                raise
            tracking = spec.tracking.uri or self.workspace.tracking_uri
            self._log_run_config(tracking)
            runner = self._runner(lease, recorded, spec, requests)
            self.observer.on_begin()
            published = PublishedStore(self.store)
            try:
                with Drain(published, self.sweep, tracking) as drain:
                    self.store.set_state(lease, SweepState.RUNNING)
                    ended = runner.run(data, drain.start)
                    requests.end()
                    # Written before the drain ends, so that the views learn it too.
                    self.store.set_state(lease, ended)
            except BaseException:
                # Whatever ends it, the sweep is not left as running.
                with suppress(StoreError):
                    self.store.set_state(lease, SweepState.STOPPED)
                raise
            complete = published.trials(self.sweep, states=[TrialState.COMPLETE])
            return SweepEnd(
                sweep=self.sweep,
                state=ended,
                counts=published.counts(self.sweep),
                seconds=time.monotonic() - started,
                ranked=rankable(complete, spec_objectives(spec)),
                failure=self._first_failure(published),
                tracking=drain.uri if drain.delivered else None,
                reasons=runner.reasons(ended),
            )

    def _admitted(self, lease: Lease) -> tuple[SweepRecord, SweepSpec, list[Dataset]]:
        """The sweep, the spec that it goes on under, and its data, once nothing refuses them; what was asked and what
        was accepted is on record then."""
        store, options = self.store, self.options
        recorded = store.sweep(self.sweep).kept()
        spec = extended(self.began, recorded.extensions)
        if spec.selection is not None:
            check_here(recorded, self.workspace)
        known = {one.key: one for one in store.trials(self.sweep)}
        extension = extension_for(recorded, spec, list(known.values()), options.trials, options.hours, options.epsilon)
        if extension is not None or spec.selection is not None:
            # Before anything is recorded, drawn or released. Whatever else goes on asks it as it recovers.
            trials = self.workspace.trials(self.sweep)
            check_store_not_stale(self.sweep, spec, trials, lambda: store.trials(self.sweep))
        check_budget_left(store, recorded, spec, known, extension)
        check_corners(extended(spec, [extension] if extension else []), self.facts, store.calibrations())
        data = self.source.load(spec.data.options(), self.workspace.features)
        fingerprinted = store.data_fingerprint(data.fingerprint)
        check_apart(self.began, fingerprinted)
        if recorded.state is SweepState.CREATED:
            check_defined(data, [one.metric for one in spec.objectives])
        found = {"code": code_of(spec), "data": fingerprinted, **weights_of(spec, self.facts)}
        _check_fingerprints(store, lease, recorded, found, options.accept)
        accept_spec(store, recorded, self.began)
        if (recorded.root, recorded.records) != (self.workspace.root, self.workspace.records or ""):
            store.set_place(lease, self.workspace.root, self.workspace.records or "")
        if extension is not None:
            spec = record_extension(store, lease, spec, extension)
            recorded = store.sweep(self.sweep)
        # In a list, from which it is taken: once the object store has it, this process keeps no copy.
        return recorded, spec, [data]

    @contextmanager
    def joined(self, spec: SweepSpec, records: Folder) -> Iterator[Messages]:
        """In the cluster while the block runs, whose nodes see the records' folder and can import what trials are made
        of. Raises ClusterUnreachable."""
        from sweeps.ray import cluster

        is_own = self.options.address is None and not cluster.is_joined()
        lost = partial(self.observer.on_cluster_lost, self.sweep)
        with (
            cluster.short_messages(self.log) as messages,
            cluster.cluster(self.options.address, on_lost=lost, connected=self.interruption.arm),
        ):
            cluster.check_records_visible(records)
            if not is_own:
                cluster.check_importable_everywhere(spec.user_functions())
            yield messages

    def _runner(
        self, lease: Lease, recorded: SweepRecord, spec: SweepSpec, requests: RequestPoller
    ) -> TuneRunner | SelectionRunner:
        """What runs the sweep, ready to begin."""
        if spec.selection is not None:
            return SelectionRunner(self, lease, recorded, spec)
        controller = self._controller(lease, recorded, spec)
        controller.points = requests.points
        reserve_whole(self.store, lease, self.began)
        controller.recover()
        if recorded.state is SweepState.OUT_OF_BUDGET:
            controller.budget.stays_spent()
        return TuneRunner(self, controller)

    def _controller(self, lease: Lease, recorded: SweepRecord, spec: SweepSpec) -> Controller:
        warm = spec.search.warm_start
        earlier = PublishedStore(self.store).trials(warm) if warm else []
        controller = Controller(
            store=self.store,
            lease=lease,
            sweep=self.sweep,
            spec=spec,
            facts=self.facts,
            # The sampler's spec is that which it began with: no extension changes it.
            proposer=Proposer(self.began, [Release.of(spec).seen(one) for one in earlier], recorded.extensions),
            trials=self.workspace.trials(self.sweep),
            calibrations=self.store.calibrations(),
            budget=SharedBudget.of(self.store, spec),
        )
        has_failed = False

        def changed(trial: Published) -> None:
            nonlocal has_failed
            self.observer.on_change(controller, trial)
            if trial.state is TrialState.FAILED and not has_failed:
                has_failed = True
                self.observer.on_failure(Failure.of(trial, controller.trials, self.log))

        controller.on_change = changed
        return controller

    def _log_run_config(self, tracking: str) -> None:
        """What a run goes by: said with -v, and kept in the sweep's log."""
        spec, place, address = self.began, self.workspace, self.options.address
        method = "" if spec.search.resolved is None else f", which came to {spec.search.resolved} when it began"
        told = {name: "as told" if getattr(place, name) else "in the root" for name in ("store", "records", "tracking")}
        tracked = told["tracking"] if spec.tracking.uri is None else "as the spec says"
        for line in (
            f"sampler: {spec.search.sampler}{method}",
            f"patience: {waiting.patience():g} s, {'the default' if waiting.VARIABLE not in os.environ else 'as told'}",
            f"store: {shown_url(place.store_url)}, {told['store']}",
            f"records: {shown_url(place.trials(self.sweep).url)}, {told['records']}",
            f"MLflow: {shown_url(tracking)}, {tracked}",
            "Ray: a cluster of its own on this machine" if address is None else f"Ray: {shown_url(address)}, as told",
        ):
            say(line, Event.DECISION)

    def _first_failure(self, store: PublishedStore) -> Failure | None:
        failed = store.trials(self.sweep, states=[TrialState.FAILED])
        first = min(failed, key=lambda trial: (trial.finished_at or math.inf, trial.number), default=None)
        return None if first is None else Failure.of(first, self.workspace.trials(self.sweep), self.log)


def _check_fingerprints(
    store: Store, lease: Lease, recorded: SweepRecord, found: Mapping[str, str], accept: Collection[str]
) -> None:
    # Code is recorded at the start; of the rest nothing is known until the sweep first runs.
    before = recorded.fingerprints
    moved = fingerprint.changes(before, found)
    changed = [name for name in moved if not {*accepting([name])} <= {*accept}]
    if changed:
        listed = ", ".join(f"{name} {before[name][:12]} -> {found[name][:12]}" for name in changed)
        raise fingerprint.Changed(
            f"sweep {recorded.name!r}: changed since it was started: {listed}. "
            f"Restore what it was, start a new sweep, or go on with --accept {' --accept '.join(accepting(changed))}."
        )
    for name in moved:
        store.ask(recorded.name, Accepted(what=name, before=before[name], now=found[name]), this_person())
    if found != before:
        store.set_fingerprints(lease, found)
