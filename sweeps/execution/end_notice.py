"""What an operator is told when a sweep ends: one small JSON document, to a URL or to a command, once.

The environment says whom to tell, and no spec does: whoever writes a spec must not make the machine of whoever runs it
call anybody. In the document is how the sweep ended and what it charged, and nothing that a trial measured.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.privacy.ledger import total
from sweeps.privacy.published_store import PublishedStore
from sweeps.store.store import Store
from sweeps.util.exits import ExitCode
from sweeps.util.log import Event, say, voice
from trainables.worker.redaction import redacted, shown_url

VARIABLE = "SWEEPS_ON_END"
SECONDS = 10.0
"""Longest that the end of a sweep waits for whoever is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndNotice:
    """How a run of a sweep ended.

    sweep    its name
    state    of the sweep from now on; None where another has taken it over
    code     the exit code of the command that ran it
    meaning  of that code; of an error its kind, without its words, which might quote a record
    counts   {state: trials}
    steps, launches  charged in all
    """

    sweep: str
    state: str | None
    code: int
    meaning: str
    counts: Mapping[str, int]
    steps: int
    launches: int

    @classmethod
    def of(cls, store: Store, sweep: str, code: ExitCode, state: str | None = None, error: str = "") -> EndNotice:
        """From what the store has, as its release policy lets counts be seen.

        state  where the store may not have it yet; error: the kind of the one that ended it
        """
        charged = total(store.ledger(sweep))
        return cls(
            sweep=sweep,
            state=state or str(store.sweep(sweep).state),
            code=int(code),
            meaning=f"ended by an error: {error}" if error else code.meaning,
            counts=PublishedStore(store).counts(sweep),
            steps=charged.executed,
            launches=charged.attempts,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        charged = {"steps": self.steps, "launches": self.launches}
        return {
            "sweep": self.sweep,
            "state": self.state,
            "exit": self.code,
            "meaning": self.meaning,
            "trials": dict(self.counts),
            "charged": charged,
        }


@dataclass(frozen=True, slots=True)
class Operator:
    """Whom the environment's SWEEPS_ON_END names: a URL that is posted to, or a command that reads its input."""

    url: str = ""
    command: tuple[str, ...] = ()

    @classmethod
    def of_environment(cls) -> Operator:
        """Nobody where it is not set. Raises InvalidValue for what is neither a URL nor a command that is there."""
        given = os.environ.get(VARIABLE, "").strip()
        if given.startswith(("http://", "https://")):
            return cls(url=given)
        try:
            command = tuple(shlex.split(given))
        except ValueError:
            command = ("",)
        if command and shutil.which(command[0]) is None:
            expected = "http://..., https://..., or a command that is there, with its arguments"
            raise InvalidValue(VARIABLE, shown_url(given), expected, "It is told how each sweep ends. Or unset it.")
        return cls(command=command)

    def tell(self, notice: EndNotice) -> None:
        """Tell it, within `SECONDS`. What fails is said, and changes nothing: the sweep has ended."""
        self._send(json.dumps(notice.to_dict()).encode())

    def tell_apart(self, notice: EndNotice) -> None:
        """The same from a process of its own, which outlives this one: whoever loses a cluster ends at once."""
        if not (self.url or self.command):
            return
        apart = subprocess.Popen([sys.executable, "-m", __name__], stdin=subprocess.PIPE, start_new_session=True)
        assert apart.stdin is not None
        apart.stdin.write(json.dumps(notice.to_dict()).encode())
        apart.stdin.close()

    def _send(self, content: bytes) -> None:
        if self.url:
            self._within(lambda: _post(self.url, content), shown_url(self.url))
        elif self.command:
            self._within(lambda: _run(self.command, content), self.command[0])

    def _within(self, told: Callable[[], None], whom: str) -> None:
        failed: list[str] = [f"no answer within {SECONDS:g} s"]

        def run() -> None:
            try:
                told()
                failed.clear()
            except subprocess.CalledProcessError as error:
                failed[:] = [f"its exit status was {error.returncode}; a command is run as words, by no shell"]
            except Exception as error:
                failed[:] = [f"{type(error).__name__}: {error}"]

        # A thread: an answer that comes drop by drop ends at no library's limit.
        thread = threading.Thread(target=run, daemon=True, name="end notice")
        thread.start()
        thread.join(SECONDS)
        for reason in list(failed):
            said = " ".join(redacted(reason).split())[:300]
            text = f"{VARIABLE}: {whom} could not be told that the sweep has ended ({said}). It has, all the same."
            say(text, Event.WARNING)


def _post(url: str, content: bytes) -> None:
    import requests

    answer = requests.post(
        url, data=content, headers={"Content-Type": "application/json"}, timeout=SECONDS, allow_redirects=False
    )
    answer.raise_for_status()


def _run(command: tuple[str, ...], content: bytes) -> None:
    # Its words are no answer of the sweep's own: they go where messages go, if those are for people.
    words = subprocess.DEVNULL if voice().as_json else sys.__stderr__
    subprocess.run(command, input=content, stdout=words, timeout=SECONDS, check=True)


if __name__ == "__main__":
    Operator.of_environment()._send(sys.stdin.buffer.read())
