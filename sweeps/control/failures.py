"""Why a trial failed, in words for the person at the terminal, who holds the records.

An exception's message may quote a record. It is in no store, view or report: only in the attempt's folder and, for the
first failure, on the terminal of the one who runs the sweep.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sweeps.release.published import Published
from trainables.worker.attempt import ERROR, Attempt
from trainables.worker.files import Folder
from trainables.worker.redaction import redacted

LONGEST = 600
"""Characters of a message that a terminal shows; the file has them all."""
QUOTES = "Its words may quote a record: they are in that file and here, in no store and no view."


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
        attempt = Attempt.of(trials, record.key, record.attempts)
        try:
            text = attempt.explained()
        except OSError:
            # What the store says is enough to go on with.
            text = None
        if text is not None:
            place = f"{attempt.folder.url}/{ERROR}"
            return cls(
                trial=record.number, key=record.key, what=redacted(last_exception(text)), place=place, quotes=True
            )
        lost = "worker was lost" in record.reason
        return cls(
            trial=record.number,
            key=record.key,
            what=record.reason,
            place=str(log) if lost and log.exists() else None,
        )

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


def last_exception(traceback: str) -> str:
    """Kind and message of the exception that a traceback in Python's own layout ends with, at most LONGEST characters.

    The message may have lines of its own; it begins at the first line behind the last frame that is not indented.
    """
    lines = traceback.rstrip().splitlines()
    frames = [number for number, line in enumerate(lines) if re.match(r'\s+File ".*", line \d+', line)]
    behind = lines[frames[-1] + 1 :] if frames else lines
    begins = next((number for number, line in enumerate(behind) if line and not line[0].isspace()), 0)
    return shortened(" ".join(" ".join(behind[begins:]).split()))


def shortened(text: str) -> str:
    """At most LONGEST characters of it."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
