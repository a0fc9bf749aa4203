"""Which of a sweep's trials are listed, and in which order: conditions, an order, a page."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpcore.checks import InvalidValue
from sweeps.release.published import Published
from sweeps.release.quoting import quote_of_claim
from sweeps.store.records import DECIDED, TrialState
from sweeps.util.suggest import did_you_mean

PAGE = 20
"""Trials on a page of `sweeps show`."""

_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION = re.compile(r"\s*([^=<>!\s]+)\s*(!=|<=|>=|==?|<|>)\s*(.*?)\s*", re.DOTALL)
_CLAIM = ("epsilon", "delta", "notion", "adjacency", "unit", "accountant", "status")
_QUOTE = "quote"
_OWN = ("number", "key", "state", "reason", "system", "target_epsilon", "attempts", "proposed_at", "finished_at")
_WORK = ("steps", "planned_steps", "work")
_EXAMPLE = "For example state=failed, accuracy>=0.9 or model=linear."


def value_of(trial: Published, name: str) -> object:
    """What `name` is for this trial; None where it has no such thing.

    name  a column of `sweeps.face.tables.trials_table`, or a knob, solved value or metric without the word before it:
          then a knob goes before a solved value, and that before a metric
    """
    if name in _CLAIM:
        found = None if trial.guarantee is None else getattr(trial.guarantee, name)
        return found if isinstance(found, float) else None if found is None else str(found)
    if name == _QUOTE:
        return None if trial.guarantee is None else str(quote_of_claim(trial.guarantee).verdict)
    if name in _OWN:
        found = getattr(trial, name)
        return str(found) if name == "state" else found
    if name in _WORK:
        return {"steps": trial.step, "planned_steps": trial.planned_steps, "work": trial.metric("work")}[name]
    kind, dot, bare = name.partition(".")
    for group in (kind,) if dot and kind in _GROUPS else _GROUPS:
        values = _GROUPS[group](trial)
        if (wanted := bare if dot and kind in _GROUPS else name) in values:
            return values[wanted]
    return None


def _solved(trial: Published) -> Mapping[str, object]:
    plan = trial.plan
    return {} if plan is None else {name: plan.config.get(name) for name in plan.solved}


def _metrics(trial: Published) -> Mapping[str, object]:
    return {name: value for name, value in trial.metrics.items() if name not in DECIDED}


_GROUPS: Mapping[str, Callable[[Published], Mapping[str, object]]] = {
    "knob": lambda trial: trial.knobs,
    "solved": _solved,
    "metric": _metrics,
}


@dataclass(frozen=True, slots=True)
class Condition:
    """What a trial must be to be listed: `state=failed`, `accuracy>=0.9`, `model!=linear`.

    Numbers are equal where they are written alike in four digits, as tables show them. A trial without the value meets
    no condition but `!=`.
    """

    name: str
    sign: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        """Raises InvalidValue."""
        found = _CONDITION.fullmatch(text)
        if found is None or not found[3]:
            raise InvalidValue("where", text, "NAME=VALUE, or !=, <, <=, > or >= in its place", _EXAMPLE)
        name, sign, value = found[1], "=" if found[2] == "==" else found[2], found[3]
        states = [str(state) for state in TrialState]
        if name == "state" and value not in states:
            raise InvalidValue("where", text, f"one of the states {', '.join(states)}", did_you_mean(value, states))
        if sign in _COMPARED and _number(value) is None:
            raise InvalidValue("where", text, f"a number behind {sign}", _EXAMPLE)
        return cls(name, sign, value)

    def holds(self, trial: Published) -> bool:
        """Whether the trial meets it."""
        value = value_of(trial, self.name)
        if self.sign in _COMPARED:
            wanted = _number(self.text)
            number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
            return number is not None and wanted is not None and _COMPARED[self.sign](number, wanted)
        return _alike(value, self.text) is (self.sign == "=")


def _alike(value: object, text: str) -> bool:
    if isinstance(value, bool):
        return str(value).lower() == text.lower()
    if isinstance(value, int | float):
        given = _number(text)
        return given is not None and (value == given or f"{value:.4g}" == f"{given:.4g}")
    return value is not None and str(value) == text


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """By which value trials are listed; those without it come last.

    ascending  None: a metric's best first, everything else from small to large
    """

    name: str
    ascending: bool | None = None

    @classmethod
    def parse(cls, text: str) -> TrialOrder:
        """Read `NAME`, `NAME:ascending` or `NAME:descending`. Raises InvalidValue."""
        name, colon, word = text.rpartition(":")
        if colon and (not name or word not in ("ascending", "descending")):
            raise InvalidValue("sort", text, "NAME, NAME:ascending or NAME:descending", "For example accuracy.")
        return cls(name, word == "ascending") if colon else cls(text)

    def applied(self, trials: Sequence[Published], goals: Mapping[str, str]) -> list[Published]:
        """The trials in this order, equal ones by number.

        goals  {metric: maximize or minimize}
        """
        down = goals.get(self.name.removeprefix("metric.")) == "maximize" if self.ascending is None else None
        descending = not self.ascending if down is None else down
        sign = -1.0 if descending else 1.0
        numbers: list[tuple[float, int, Published]] = []
        texts: list[tuple[str, int, Published]] = []
        without: list[Published] = []
        for trial in trials:
            value = value_of(trial, self.name)
            if isinstance(value, int | float) and not math.isnan(value):
                numbers.append((sign * value, trial.number, trial))
            elif isinstance(value, str) and value:
                texts.append((value, trial.number, trial))
            else:
                without.append(trial)
        texts.sort(key=lambda one: one[1])
        texts.sort(key=lambda one: one[0], reverse=descending)
        by_number = [one[2] for one in sorted(numbers, key=lambda one: one[:2])]
        return [*by_number, *(one[2] for one in texts), *without]


def selected(
    trials: Sequence[Published],
    where: str | Iterable[str] = (),
    sort: str | None = None,
    goals: Mapping[str, str] | None = None,
) -> list[Published]:
    """Those of `trials` that meet every condition, in the order asked for, or in their own.

    where  texts as `Condition` reads them
    sort   as `TrialOrder` reads it
    goals  {metric: maximize or minimize}, for the order

    Raises InvalidValue for a name that no trial has.
    """
    conditions = [Condition.parse(one) for one in ([where] if isinstance(where, str) else where)]
    order = None if sort is None else TrialOrder.parse(sort)
    for what, name in [("where", one.name) for one in conditions] + ([] if order is None else [("sort", order.name)]):
        _known(what, name, trials)
    found = [trial for trial in trials if all(one.holds(trial) for one in conditions)]
    return found if order is None else order.applied(found, goals or {})


def named_in(where: Iterable[str], sort: str | None) -> tuple[str, ...]:
    """What conditions and order name, each once. Raises InvalidValue."""
    order = [] if sort is None else [TrialOrder.parse(sort).name]
    return tuple(dict.fromkeys([*(Condition.parse(one).name for one in where), *order]))


def _known(what: str, name: str, trials: Sequence[Published]) -> None:
    if name in (*_CLAIM, *_OWN, *_WORK) or not trials or any(value_of(trial, name) is not None for trial in trials):
        return
    found = [word for trial in trials for group in _GROUPS.values() for word in group(trial)]
    names = list(dict.fromkeys([*_OWN, *_CLAIM, *_WORK, *found]))
    raise InvalidValue(what, name, "a knob, solved value, metric or column of a trial", did_you_mean(name, names))


def page_of(trials: Sequence[Published], page: int) -> Sequence[Published]:
    """The trials of one page of `PAGE`, the first being page 1. Raises InvalidValue for one that is not there."""
    last = pages(len(trials))
    if not 1 <= page <= last:
        expected = f"a page from 1 to {last}: {len(trials)} trials, {PAGE} on each"
        raise InvalidValue("page", page, expected)
    return trials[(page - 1) * PAGE : page * PAGE]


def place_of(page: int, shown: int, count: int, what: str = "") -> str:
    """Which of `count` are `shown` on a page, in words, and how to see the next ones."""
    first, last = (page - 1) * PAGE + 1, pages(count)
    more = f"; --page {page + 1} has the next" if page < last else ""
    return f"{first} to {first + shown - 1} of {count}{what} (page {page} of {last}{more})"


def pages(count: int) -> int:
    """How many pages so many trials have: one at least."""
    return max(1, -(-count // PAGE))
