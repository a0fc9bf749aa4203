"""How a question of the exam is asked, and its answer judged: a store with a sweep, and faults in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sweeps.store.lease import Lease
from sweeps.store.records import Settlement
from sweeps.store.store import Store
from tests.sweeps.store_exam.candidate import Opens
from tests.sweeps.stores import SWEEP, guarantee, record

Question = Callable[[Opens, str], list[str]]

BRIEF_SECONDS = 0.3
"""A lease that is meant to run out."""
RACERS = 4


def key(number: int) -> str:
    """Of a trial of the exam's sweep."""
    return f"{SWEEP}-{number}"


def came(step: int = 100, **changes: object) -> Settlement:
    """A result after `step` steps."""
    values = {"metrics": {"accuracy": 0.5, "epsilon": 1.0}, "guarantee": guarantee(), "seconds": 2.0}
    return Settlement(**({"executed_to": step, "step": step} | values | changes))  # type: ignore[arg-type]


@contextmanager
def sweep_at(opens: Opens, url: str) -> Iterator[tuple[Store, Lease]]:
    """A new store with a sweep, and its lease."""
    store = opens(url)
    store.create_sweep(record())
    lease = store.acquire(SWEEP)
    yield store, lease
    lease.release()
    store.close()


@contextmanager
def opened(opens: Opens, url: str) -> Iterator[Store]:
    """The store that is there."""
    store = opens(url, create=False)
    yield store
    store.close()


def all_of(store: Store) -> list[list[object]]:
    """Everything that a reader may see of the exam's sweep."""
    readings = (store.trials, store.ledger, store.attempts, store.outbox, store.requests)
    return [list(store.sweeps()), *(list(read(SWEEP)) for read in readings)]


def unless(holds: object, fault: str) -> list[str]:
    """The fault, where something does not hold."""
    return [] if holds else [fault]


def refused(what: str, expected: type[Exception], act: Callable[[], object]) -> list[str]:
    """What is wrong with the answer to something that may not be."""
    try:
        act()
    except expected:
        return []
    except Exception as other:
        return [f"{what}: {type(other).__name__} ({other}), expected {expected.__name__}"]
    return [f"{what} is not refused; expected {expected.__name__}"]
