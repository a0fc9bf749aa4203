"""What people may ask of a sweep, whoever runs it and wherever: appended to its store, and nothing else is changed.

`listening` is the other end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.process.patience import patience
from sweeps.records import Driver
from sweeps.requests import Note, StopRequest, Tag, this_person
from sweeps.store import Store

LOOK_SECONDS = 0.2
LONGEST_NOTE = 2000
LONGEST_VALUE = 500
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


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


def stop(store: Store, sweep: str, *, wait: bool = True) -> StopAnswer:
    """Ask whoever runs a sweep to end as by Ctrl-C, and wait for that, for one patience at most.

    Raises UnknownSweep, StoreError.
    """
    record = store.sweep(sweep)
    driver = store.driver(record.name)
    if driver is not None:
        store.ask(record.name, StopRequest(token=driver.token), this_person())
    until = time.monotonic() + (patience() if wait else 0.0)
    ended = driver is None or _gone(store, record.name, driver)
    while not ended and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
        ended = _gone(store, record.name, driver)
    return StopAnswer(sweep=record.called, driver=driver, state=str(store.sweep(sweep).state), ended=ended)


def _gone(store: Store, sweep: str, driver: Driver | None) -> bool:
    now = store.driver(sweep)
    return driver is None or now is None or now.token != driver.token


def note(store: Store, sweep: str, text: str) -> None:
    """Keep a sentence about a sweep. Raises InvalidValue for none, or one beyond 2000 letters, UnknownSweep."""
    said = " ".join(text.split())
    if not 0 < len(said) <= LONGEST_NOTE:
        raise InvalidValue("note", text, f"1 to {LONGEST_NOTE} letters")
    store.ask(store.sweep(sweep).name, Note(text=said), this_person())


def parted(pairs: str | Iterable[str]) -> dict[str, str]:
    """{"paper": "v2"} of "paper=v2", one or several. Raises InvalidValue."""
    found = {}
    for pair in [pairs] if isinstance(pairs, str) else pairs:
        key, sign, value = pair.partition("=")
        if not sign:
            raise InvalidValue("tag", pair, "KEY=VALUE", f"`{pair}=` takes the tag away.")
        found[key] = value
    return found


def tag(store: Store, sweep: str, tags: Mapping[str, str]) -> None:
    """Tag a sweep; the last value of a key counts, and an empty one takes the tag away. Raises InvalidValue,
    UnknownSweep."""
    said = {key: " ".join(value.split()) for key, value in tags.items()}
    for key, value in said.items():
        if not KEY.fullmatch(key):
            raise InvalidValue("tag", key, "a key of letters, digits, dots, dashes and underscores, at most 100")
        if len(value) > LONGEST_VALUE:
            raise InvalidValue("tag", value, f"a value of at most {LONGEST_VALUE} letters")
    name = store.sweep(sweep).name
    for key, value in said.items():
        store.ask(name, Tag(key=key, value=value), this_person())
