"""What people may ask of a sweep, whoever runs it and wherever: appended to its store, and nothing else is changed."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.privacy.ledger import Assumptions, claim_text
from sweeps.privacy.release import PublishedStore, Release
from sweeps.search.space import Space, read_point
from sweeps.spec.parse import load_spec, read_document
from sweeps.spec.problems import Problems
from sweeps.spec.sweep_budget import budget_of
from sweeps.store.errors import StoreError, UnknownRequest
from sweeps.store.lease import Lease
from sweeps.store.records import Driver, KnownPoint, Note, Request, StopRequest, SweepState, Tag, this_person
from sweeps.store.store import Store
from sweeps.store.workspace import Workspace
from sweeps.util.log import Event, say
from sweeps.util.text import check_name, check_text
from sweeps.util.waiting import patience
from trainables.system import PrivacyPlan, Refusal, Scalar

LOOK_SECONDS = 0.2
LONGEST_NOTE = 2000
LONGEST_VALUE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StopAnswer:
    """What came of a stop.

    sweep   what people call it
    driver  who was asked; None where nobody runs it
    state   of the sweep
    ended   whether nobody runs it any more
    """

    sweep: str
    driver: Driver | None
    state: str
    ended: bool

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        asked = None if self.driver is None else self.driver.who
        return {"sweep": self.sweep, "asked": asked, "state": self.state, "ended": self.ended}

    def __str__(self) -> str:
        if self.driver is None:
            return f"Nobody runs {self.sweep!r}, which is {self.state}: nothing was asked."
        if self.ended:
            return f"Stopped: {self.sweep!r} was run by {self.driver.who}. Go on with `sweeps resume {self.sweep}`."
        return (
            f"Asked {self.driver.who} to stop {self.sweep!r}: what runs ends at a checkpoint, charged. "
            f"`sweeps show {self.sweep}` says when it has."
        )


def opened(workspace: Workspace, *, create: bool = False) -> closing[Store]:
    """The store that requests are appended to, to be closed. Raises StoreError."""
    return closing(workspace.open_store(create=create))


def stop(store: Store, sweep: str, *, wait: bool = True) -> StopAnswer:
    """Ask whoever runs a sweep to end as by Ctrl-C, and wait for that, for one patience at most.

    Raises UnknownSweep, StoreError.
    """
    record = store.sweep(sweep)
    driver = store.driver(record.name)
    if driver is not None:
        store.ask(record.name, StopRequest(token=driver.token), this_person())
    until = time.monotonic() + (patience() if wait else 0.0)
    while not (ended := _gone(store, record.name, driver)) and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    return StopAnswer(sweep=record.called, driver=driver, state=str(store.sweep(sweep).state), ended=ended)


def _gone(store: Store, sweep: str, driver: Driver | None) -> bool:
    now = store.driver(sweep)
    return driver is None or now is None or now.token != driver.token


def rename(store: Store, sweep: str, new: str) -> None:
    """Call a sweep by another name. Raises InvalidValue for what could be no name, SweepExists for another's name,
    UnknownSweep."""
    check_name("name", new)
    store.rename(store.sweep(sweep).name, new)


def note(store: Store, sweep: str, text: str) -> None:
    """Keep a sentence about a sweep. Raises InvalidValue for none, or one beyond 2000 letters, UnknownSweep."""
    said = " ".join(check_text("note", text).split())
    if not 0 < len(said) <= LONGEST_NOTE:
        raise InvalidValue("note", text, f"1 to {LONGEST_NOTE} letters")
    store.ask(store.sweep(sweep).name, Note(text=said), this_person())


def parse_tags(pairs: str | Iterable[str]) -> dict[str, str]:
    """{"paper": "v2"} of "paper=v2", one or several. Raises InvalidValue."""
    return dict(_parted("tag", "KEY=VALUE", pairs, "`{}=` takes the tag away."))


def parse_point(pairs: str | Iterable[str]) -> dict[str, Any]:
    """{"learning_rate": 0.1} of "learning_rate=0.1", one or several; values as YAML has them. Raises InvalidValue."""
    return {knob.strip(): read_document(value) for knob, value in _parted("point", "KNOB=VALUE", pairs)}


def _parted(name: str, form: str, pairs: str | Iterable[str], remedy: str = "") -> Iterator[tuple[str, str]]:
    for pair in [pairs] if isinstance(pairs, str) else pairs:
        key, sign, value = pair.partition("=")
        if not sign:
            raise InvalidValue(name, pair, form, remedy.format(pair))
        yield key, value


def tag(store: Store, sweep: str, tags: Mapping[str, str]) -> None:
    """Tag a sweep; the last value of a key counts, and an empty one takes the tag away. Raises InvalidValue,
    UnknownSweep."""
    said = {key: " ".join(check_text("tag", value).split()) for key, value in tags.items()}
    for key, value in said.items():
        check_name("tag", key, "a key of ")
        if len(value) > LONGEST_VALUE:
            raise InvalidValue("tag", value, f"a value of at most {LONGEST_VALUE} letters")
    name = store.sweep(sweep).name
    for key, value in said.items():
        store.ask(name, Tag(key=key, value=value), this_person())


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueAnswer:
    """What came of an enqueued point.

    request  its number
    config   the whole point
    plan     what its trial will release at most
    driver   who runs the sweep now, and tries it next; None where that is whoever resumes it
    within_budget  whether the sweep has one budget, whose filter holds the trial or refuses it
    """

    sweep: str
    request: int
    config: Mapping[str, Scalar]
    plan: PrivacyPlan
    driver: Driver | None
    within_budget: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        who = None if self.driver is None else self.driver.who
        claim = self.plan.guarantee.to_dict()
        return {
            "sweep": self.sweep,
            "request": self.request,
            "config": dict(self.config),
            "claim": claim,
            "driver": who,
        }

    def __str__(self) -> str:
        point = ", ".join(f"{name}={value}" for name, value in self.config.items())
        when = f"tried next by {self.driver.who}" if self.driver else f"tried first by `sweeps resume {self.sweep}`"
        claim = self.plan.guarantee
        claimed = claim_text(claim, Assumptions.of([claim]).status(claim))
        return f"Enqueued {point}: {when}, beside the trials that the search has.\nIts trial will claim {claimed}. " + (
            _WITHIN if self.within_budget else _BEYOND
        )


_BEYOND = (
    "From its launch on the sweep's total is no guarantee any more: whoever enqueues a point may have seen results. "
    "Points of `search.first`, in the spec before the first trial, leave it one."
)
_WITHIN = "It is launched where the budget of the sweep holds it, which then stays the total."


def enqueue(store: Store, sweep: str, written: Mapping[str, Any]) -> EnqueueAnswer:
    """Ask for a trial of a known point, besides those of the search: by whoever runs the sweep, or resumes it.

    written  {knob: value}, with `system` and `target_epsilon` where the sweep has several

    Nothing is asked, and every problem raised as SpecErrors, where that is no point of the sweep's space. Raises
    InvalidValue for one that is infeasible, and for a sweep that is deleted or holds results back, UnknownSweep.
    """
    from sweeps.execution.resume import extended
    from sweeps.planning.plan import plan_proposal
    from sweeps.spec.parse import public_facts

    record = store.sweep(sweep).kept()
    if not Release.of(record.spec).policy.at_once:
        raise InvalidValue("sweep", record.called, "another: this one releases one result, of the trials it began with")
    if record.spec.search.chosen_from:
        expected = (
            f"another: this one is the final run with what {record.spec.search.chosen_from} found, and nothing besides"
        )
        raise InvalidValue("sweep", record.called, expected, "Start a new sweep.")
    spec, problems = extended(load_spec(record.spec.canonical()), record.extensions), Problems()
    one_budget = budget_of(spec) is not None
    if one_budget and record.state is SweepState.OUT_OF_BUDGET:
        raise InvalidValue("sweep", record.called, "one whose budget is not spent", "Start a new sweep.")
    config = read_point(Space.of(spec), written, "point", problems)
    problems.raise_any("the point")
    assert config is not None
    trials = store.trials(record.name)
    next_number = max((one.number for one in trials), default=len(spec.search.first) - 1) + 1
    plan = plan_proposal(spec, config, public_facts(spec), store.calibrations(), number=next_number)
    if isinstance(plan, Refusal):
        raise InvalidValue("point", config, f"a feasible point ({plan.reason})")
    by = PublishedStore(store).refuted(record.name).get(plan.system)
    if by is not None:
        raise InvalidValue(
            "point", config, f"a point of a system whose claim stands: {by.sentence('')}", "Publish none of its trials."
        )
    request = store.ask(record.name, KnownPoint(config=config), this_person())
    driver = store.driver(record.name)
    return EnqueueAnswer(
        sweep=record.called,
        request=request,
        config=config,
        plan=plan,
        driver=driver,
        within_budget=one_budget,
    )


# A controller hears what people ask of its sweep while it runs (`sweeps.store.records`), wherever they ask it.

LISTEN_SECONDS = 2.0
"""Between two looks at the store: whoever asks is promised five."""


class RequestPoller:
    """Reads the sweep's requests while the block runs. A stop that means this controller interrupts the main thread, as
    Ctrl-C does, and the terminal says who asked. Safe to use from several threads.

    A stop that was meant for an earlier controller is none for this one: each names the lease of the one it means.
    """

    def __init__(self, store: Store, lease: Lease) -> None:
        self._store, self._lease = store, lease
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, daemon=True, name="listener")
        self._seen: set[int] = set()
        self.points: deque[Request] = deque()
        """Points that were enqueued, as they are heard: the controller takes them out."""

    def look(self) -> None:
        """Read what is new. Raises StoreError."""
        for request in self._store.requests(self._lease.sweep):
            if request.id not in self._seen:
                self._seen.add(request.id)
                self._hear(request)

    def end(self) -> None:
        """Hear nothing from now on."""
        self._over.set()

    def _hear(self, request: Request) -> None:
        wanted = request.wanted
        if isinstance(wanted, KnownPoint):
            self.points.append(request)
        if isinstance(wanted, StopRequest) and wanted.token == self._lease.token and not self._over.is_set():
            self.end()
            say(f"\n{request.asker} asked at {request.when} for a stop (`sweeps stop`).")
            # A signal of its own, and not `interrupt_main`: that wakes nobody out of a call that waits.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def _loop(self) -> None:
        while not self._over.is_set():
            try:
                self.look()
            except UnknownRequest as unknown:
                say(f"{unknown} Until then no request is heard; Ctrl-C stops the sweep.", Event.WARNING)
                return
            except StoreError:
                # A store that is away may come back; that it is, the writer says.
                pass
            self._over.wait(LISTEN_SECONDS)

    def __enter__(self) -> RequestPoller:
        # What waits already is known before anything is decided.
        self.look()
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()
        self._thread.join()


def next_point(
    heard: deque[Request], served: Collection[int | None], space: Space
) -> tuple[int, Mapping[str, Scalar]] | None:
    """The number of the first request for a point that waits, and its configuration. One that is no point of the space
    (any more) is left out, and its asker named.

    heard   as they come, in other threads too, oldest first
    served  numbers of requests that have their trial
    """
    while heard:
        request = heard[0]
        if request.id not in served and isinstance(request.wanted, KnownPoint):
            why = space.misfit(request.wanted.config)
            if not why:
                return request.id, request.wanted.config
            say(f"The point that {request.asker} enqueued at {request.when} is left out: {why}.", Event.WARNING)
        heard.popleft()
    return None
