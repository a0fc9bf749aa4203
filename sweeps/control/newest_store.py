"""Whether the store is the newest one of its sweep: a copy of an earlier day would leave out what was drawn since."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

from sweeps.records import TrialRecord, TrialState
from sweeps.store import StoreOlder
from trainables.worker.files import Folder, NotAFolder


def check_newest(sweep: str, records: Mapping[str, TrialRecord], trials: Folder) -> None:
    """Raises StoreOlder where workers left in `trials` records of attempts that the store's `records` do not know."""
    # One listing, and one for each trial that is not over: others had no later attempts, but for promoted ones,
    # whose worker finds its folder claimed.
    mine = re.compile(rf"{re.escape(sweep)}-\d+")
    for key in trials.names():
        if key not in records and mine.fullmatch(key):
            raise StoreOlder(sweep, f"trial {key}", trials.url)
    for key, record in records.items():
        if record.state in (TrialState.RUNNING, TrialState.PLANNED):
            with suppress(NotAFolder):
                for name in trials.child(key).names():
                    if name.isdecimal() and int(name) > record.attempts:
                        raise StoreOlder(sweep, f"attempt {name} of trial {key}", trials.url)
