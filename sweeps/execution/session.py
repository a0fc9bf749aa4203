"""One run of a sweep from start or resume to its end: opens what it needs, in order, and closes it again."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path

from dpcore.checks import InvalidValue
from sweeps.execution.controller import Controller
from sweeps.execution.end import Failure, SweepEnd
from sweeps.execution.end_notice import EndNotice, Operator
from sweeps.execution.final_run import check_apart, with_chosen
from sweeps.execution.limits import SharedBudget
from sweeps.execution.requests import Listener
from sweeps.execution.resume import accept_spec, asked, check_budget_left, check_newest, effective_spec, extended, grown
from sweeps.execution.runners import RAY_LOG, Course, OpenCourse, Surroundings
from sweeps.mlflow.sync import Drain
from sweeps.planning.auto_sampler import resolution_of, resolved
from sweeps.planning.plan import check_corners
from sweeps.planning.spec_code import accepting, as_recorded, code_of, shown, weights_of
from sweeps.privacy.population_ledger import ledger_of, reserve_whole
from sweeps.privacy.published_store import PublishedStore
from sweeps.privacy.release import Published, Release
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.reporting.front import rankable, spec_objectives
from sweeps.search import Proposer
from sweeps.spec import SweepSpec, public_facts
from sweeps.store.errors import StoreError
from sweeps.store.lease import Lease
from sweeps.store.records import Accepted, SweepRecord, SweepState, TrialState, this_person
from sweeps.store.store import Store
from sweeps.util import fingerprint, waiting
from sweeps.util.exits import ExitCode, Interruption
from sweeps.util.log import Event, Level, say, voice
from sweeps.util.workspace import Workspace
from trainables.data import SOURCES
from trainables.system import PublicFacts
from trainables.validation.planning import check_defined
from trainables.worker.files import Folder
from trainables.worker.redaction import shown_url

# What a session goes by, and why: said with -v, and kept in the sweep's log.


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
    given = waiting.given()
    lines = [
        _sampler(spec, facts, calibrations),
        f"patience: {waiting.patience():g} s, {f'from {waiting.VARIABLE}' if given else 'the default'}",
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


LEASE_SECONDS = 30.0
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


Progress = Callable[[Controller, Published], None]


def _silent(controller: Controller, record: Published) -> None:
    """No display."""


def _unsaid(failure: Failure) -> None:
    """No display."""


def _unannounced() -> None:
    """No display."""


def create(spec: SweepSpec, workspace: Workspace, name: str | None = None) -> str:
    """Record a new sweep and return its name. Without `name`, the spec's name, numbered when it is taken.

    What `sampler: auto` comes to is resolved here, and recorded; so are the hyperparameters of a final run.

    A name whose folder is in use counts as taken although the store does not know it: what workers left there is of a
    sweep of another store, or of a store that was deleted.

    Raises SweepExists for a given name that is taken, InvalidValue for one that could be no folder or whose folder is
    in use, StoreError when the store cannot be written, as `ledger_of` where its population has no ledger, and as
    `with_chosen`.
    """
    if name is not None and not NAME.fullmatch(name):
        raise InvalidValue("name", name, "letters, digits, dots, dashes and underscores, at most 100")
    store = workspace.open_store(create=True)
    ledger_of(store, spec)
    spec = with_chosen(spec, PublishedStore(store), store.calibrations())
    spec = resolved(spec, public_facts(spec), store.calibrations())
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
            spec=RecordedSpec(spec.canonical()),
            digest=spec.digest,
            fingerprints={"code": code_of(spec)},
            root=workspace.root,
            records=workspace.records or "",
            created_at=time.time(),
        )
    )
    return chosen


def resume(
    name: str,
    workspace: Workspace,
    *,
    spec: SweepSpec | None = None,
    accept: Collection[str] = (),
    trials: int | None = None,
    hours: float | None = None,
    epsilon: Sequence[float] = (),
    address: str | None = None,
    progress: Progress = _silent,
    on_begin: Callable[[], None] = _unannounced,
    on_failure: Callable[[Failure], None] = _unsaid,
    on_cluster_lost: Callable[[str], None] = lambda name: None,
) -> SweepEnd:
    """Run sweep `name` until it is finished, from wherever it stands.

    spec     compared with the recorded one when given: a difference is refused with a diff
    accept   names of changed fingerprints to go on with all the same: "spec", "code", "data"
    trials   how many in all from now on; recorded as an extension, and its cost is said (`control.extensions`)
    hours    likewise
    epsilon  budgets besides those that it has; likewise
    on_begin    told once nothing refuses it any more, before anything runs
    on_failure  told of the first trial that fails in this session, as soon as it does

    Raises UnknownSweep, LeaseHeld, Changed, StoreError, ClusterUnreachable, InvalidValue (data).
    """
    started, operator = time.monotonic(), Operator.of_environment()
    fingerprint.check_accepted(accept)
    store = workspace.open_store()
    recorded = store.sweep(name)
    name, workspace = recorded.name, workspace.of(recorded)
    if accept and recorded.spec.selection is not None:
        expected = "nothing: all trials of a sealed search are alike but for their configurations, or its price is none"
        raise InvalidValue("accept", ", ".join(accept), expected, "Restore what it was, or start a new sweep.")
    began = effective_spec(recorded, spec, accept)
    source = SOURCES[began.data.source]
    facts = source.facts(began.data.options())
    with (
        Interruption() as interruption,
        closing(store),
        _held(store, name) as lease,
        Listener(store, lease) as listener,
    ):
        recorded = store.sweep(name).kept()
        effective = extended(began, recorded.extensions)
        if began.selection is not None:
            from sweeps.selection.run import check_here

            check_here(recorded, workspace)
        known = {one.key: one for one in store.trials(name)}
        extension = asked(recorded, effective, list(known.values()), trials, hours, epsilon)
        if extension is not None or began.selection is not None:
            # Before anything is recorded, drawn or released. Whatever else goes on asks it as it recovers.
            check_newest(name, known, workspace.trials(name))
        check_budget_left(store, recorded, effective, known, extension)
        check_corners(extended(effective, [extension] if extension else []), facts, store.calibrations())
        loaded = [source.load(effective.data.options(), workspace.features)]
        check_apart(began, store.data_fingerprint(loaded[0].fingerprint))
        if recorded.state is SweepState.CREATED:
            check_defined(loaded[0], [one.metric for one in effective.objectives])
        now = {"data": store.data_fingerprint(loaded[0].fingerprint), **weights_of(effective, facts)}
        _check_fingerprints(store, lease, recorded, {"code": code_of(effective), **now}, accept)
        accept_spec(store, recorded, began)
        if (recorded.root, recorded.records) != (workspace.root, workspace.records or ""):
            store.set_place(lease, workspace.root, workspace.records or "")
        if extension is not None:
            effective = grown(store, lease, effective, extension)
            recorded = store.sweep(name)
        log = workspace.folder(name) / RAY_LOG
        tracking = effective.tracking.uri or workspace.tracking_uri
        say_decided(began, facts, workspace, name, tracking, address, store.calibrations())

        def cluster_lost(sweep: str) -> None:
            on_cluster_lost(sweep)
            with suppress(Exception):
                # The process ends next, with the code that says why, whatever comes of this.
                operator.tell_apart(EndNotice.of(store, sweep, ExitCode.CLUSTER_LOST))

        course: Course
        if effective.selection is not None:
            from sweeps.execution.runners import Joining, SealedCourse

            joining = Joining(address, log, interruption.arm, lambda: cluster_lost(name))
            course = SealedCourse.prepared(store, lease, recorded, effective, facts, workspace, joining)
        else:
            controller = _controller(store, lease, recorded, (began, effective), facts, workspace, progress, on_failure)
            controller.points.heard = listener.points
            reserve_whole(store, lease, began)
            controller.recover()
            if recorded.state is SweepState.OUT_OF_BUDGET:
                controller.budget.stays_spent()
            course = OpenCourse(controller, controller.has_work(), address)
            course.prepare()
        on_begin()
        with (
            _left_as(store, lease, operator) as state,
            Drain(PublishedStore(store), name, tracking) as drain,
        ):
            store.set_state(lease, "running")
            around = Surroundings(
                loaded=loaded,
                workspace=workspace,
                interruption=interruption,
                on_cluster_lost=cluster_lost,
                on_first_sign=drain.start,
            )
            state.ended = course.run(around)
            listener.end()
            # Written before the drain ends, so that the views learn it too.
            store.set_state(lease, state.ended)
        seen = PublishedStore(store)
        end = SweepEnd(
            sweep=name,
            state=state.ended,
            counts=seen.counts(name),
            seconds=time.monotonic() - started,
            ranked=rankable(
                seen.trials(name, states=[TrialState.COMPLETE]), spec_objectives(RecordedSpec(effective.canonical()))
            ),
            failure=_first_failure(seen, name, workspace.trials(name), log),
            tracking=drain.uri if drain.delivered else None,
            reasons=course.reasons(state.ended),
        )
        notice = EndNotice.of(store, name, end.code)
    operator.tell(notice)
    return end


def _first_failure(store: PublishedStore, name: str, trials: Folder, log: Path) -> Failure | None:
    failed = store.trials(name, states=[TrialState.FAILED])
    first = min(failed, key=lambda record: (record.finished_at or math.inf, record.number), default=None)
    return None if first is None else Failure.of(first, trials, log)


@dataclass(slots=True)
class _Left:
    ended: str = "stopped"


@contextmanager
def _left_as(store: Store, lease: Lease, operator: Operator) -> Iterator[_Left]:
    """Whatever ends the block, the sweep is not left as running, and its operator is told."""
    left = _Left()
    try:
        yield left
    except BaseException as error:
        held = False
        with suppress(StoreError):
            store.set_state(lease, "stopped")
            held = True
        with suppress(StoreError):
            notice = EndNotice.of(store, lease.sweep, ExitCode.of_error(error), "stopped", type(error).__name__)
            # Who lost the lease does not know what another makes of the sweep.
            operator.tell(notice if held else replace(notice, state=None))
        raise


@contextmanager
def _held(store: Store, name: str) -> Iterator[Lease]:
    lease = store.acquire(name, ttl_seconds=LEASE_SECONDS)
    try:
        yield lease
    except BaseException:
        with suppress(StoreError):
            # What ended the block says more than what a store that is away adds to it.
            lease.release()
        raise
    lease.release()


def _check_fingerprints(
    store: Store, lease: Lease, recorded: SweepRecord, found: Mapping[str, str], accept: Collection[str]
) -> None:
    # Code is recorded at the start; of the rest nothing is known until the sweep first runs.
    before, now = {**found, **recorded.fingerprints}, as_recorded(recorded.fingerprints, found)
    # What is as it was, shown: weights are no digest.
    then, later = ({name: shown(name, text) for name, text in one.items()} for one in (before, now))
    moved = [name for name in fingerprint.changes(then, later) if name in now]
    changed = [name for name in moved if not {*accepting([name])} <= {*accept}]
    if changed:
        listed = ", ".join(f"{name} {then[name][:12]} -> {later[name][:12]}" for name in changed)
        raise fingerprint.Changed(
            f"sweep {recorded.name!r}: changed since it was started: {listed}. "
            f"Restore what it was, start a new sweep, or go on with --accept {' --accept '.join(accepting(changed))}."
        )
    for name in moved:
        store.ask(recorded.name, Accepted(what=name, before=then[name], now=later[name]), this_person())
    if now != recorded.fingerprints:
        store.set_fingerprints(lease, now)


def _controller(
    store: Store,
    lease: Lease,
    recorded: SweepRecord,
    specs: tuple[SweepSpec, SweepSpec],
    facts: PublicFacts,
    workspace: Workspace,
    progress: Progress,
    on_failure: Callable[[Failure], None],
) -> Controller:
    # The sampler's, which no extension changes, and the one that the sweep goes on under.
    (began, spec), name = specs, recorded.name
    earlier = PublishedStore(store).trials(spec.search.warm_start) if spec.search.warm_start else []
    population = ledger_of(store, spec)
    controller = Controller(
        store=store,
        lease=lease,
        sweep=name,
        spec=spec,
        facts=facts,
        proposer=Proposer(began, [Release.of(spec).seen(one) for one in earlier], recorded.extensions),
        trials=workspace.trials(name),
        calibrations=store.calibrations(),
        # One row pays for the whole of a sweep that has one budget (`sweeps.privacy.population_ledger`).
        budget=SharedBudget(population if spec.privacy.scope != "sweep" else None),
    )
    told = False

    def changed(record: Published) -> None:
        nonlocal told
        progress(controller, record)
        if record.state is TrialState.FAILED and not told:
            told = True
            on_failure(Failure.of(record, controller.trials, workspace.folder(name) / RAY_LOG))

    controller.roster.on_change = changed
    return controller
