"""The points that people enqueued and that wait for their trial."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sweeps.process.words import Event, say
from sweeps.records import TrialRecord
from sweeps.requests import KnownPoint, Request
from sweeps.search.space import Space
from trainables.system import Scalar


@dataclass(slots=True)
class PointQueue:
    """Requests for points, oldest first; what has its trial is none any more.

    heard  as they come, in other threads too (`sweeps.control.listening`)
    """

    heard: deque[Request] = field(default_factory=deque)
    _served: set[int] = field(default_factory=set)

    def rebuild(self, records: Iterable[TrialRecord]) -> None:
        """Know which requests have a trial."""
        self._served = {record.request for record in records if record.request is not None}

    def next(self, space: Space) -> tuple[int, Mapping[str, Scalar]] | None:
        """The number of the first request that waits, and its configuration. One that is no point of the space (any
        more) is left out, and its asker named."""
        while self.heard:
            request = self.heard[0]
            if request.id not in self._served and isinstance(request.wanted, KnownPoint):
                why = space.misfit(request.wanted.config)
                if not why:
                    return request.id, request.wanted.config
                say(f"The point that {request.asker} enqueued at {request.when} is left out: {why}.", Event.WARNING)
            self.heard.popleft()
        return None

    def serve(self, request: int) -> None:
        """That request has its trial."""
        self._served.add(request)
