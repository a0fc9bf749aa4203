"""What each search came to, by seed: kept beside this file, so that a comparison goes on where it stood.

A result belongs to the surface that it was found on: one of another table of trials is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

RESULTS = Path(__file__).with_name("results.jsonl")


class Question(StrEnum):
    """What a search is asked."""

    REGRET = "regret"
    """The regret after its last trial, at one budget: one value."""
    VOLUMES = "volumes"
    """The hypervolume after each trial, of four budgets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One search with one seed.

    surface  identity of the surface (`Surface.digest`)
    trials   that the search had
    values   as `question` says, in five digits
    seconds  of the processor, for each trial
    """

    surface: str
    data: str
    question: Question
    search: str
    seed: int
    trials: int
    values: tuple[float, ...]
    seconds: float

    @property
    def asked(self) -> tuple[str, Question, str, int, int]:
        """What was asked for: two with the same are one result."""
        return (self.surface, self.question, self.search, self.seed, self.trials)


def read(path: Path = RESULTS) -> list[Result]:
    """The results of a file; none where there is no file, and a last line that was cut short is none."""
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    raw = (json.loads(line) for line in lines)
    return [Result(**{**one, "question": Question(one["question"]), "values": tuple(one["values"])}) for one in raw]


def write(path: Path, results: Iterable[Result]) -> None:
    """Replace a file by whole lines."""
    path.write_text("".join(map(line_of, results)))


def line_of(result: Result) -> str:
    """One line of a file of results."""
    return f"{json.dumps(asdict(result))}\n"
