"""The rows of the comparison of modes, as values."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import replace

from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
from dpcore.calibrate import CannotCalibrate
from dpcore.checks import InvalidValue
from dpcore.events import UnsupportedEvent
from dpcore.rounding import delta_text, epsilon_text
from sweeps.planning.rehearsal import Rehearsal
from sweeps.ray.resources import workers_of
from sweeps.selection import modes
from sweeps.selection.modes import (
    TOP,
    Comparison,
    ModeRow,
    NoRow,
    NotPlanned,
    ReferenceConfig,
    default_chance,
    laws_at,
)
from sweeps.spec.parse import load_spec, public_facts
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import SweepSpec
from sweeps.spec.sweep_budget import law_of
from trainables.system import DatasetSpec

# The comparison of modes for a spec: from public facts and plans alone, no record is read.

_ASKED = ("scope", "release", "spread")
_SAMPLER = "search.sampler"
_OF_A_FILTER = ("spread", "shares", "filter", "order")
_CANNOT = (
    CannotCalibrate, DiscretisationInvalid, InvalidValue, NotPlanned, ToleranceNotReached, UnsupportedEvent,
)  # fmt: skip


def compared(
    spec: SweepSpec,
    facts: DatasetSpec | None = None,
    rehearsal: Rehearsal | None = None,
    calibrations: MutableMapping[str, float] | None = None,
) -> Comparison:
    """Every mode for the configuration in the middle of the space, at the largest budget of the spec.

    rehearsal  tells how long a trial takes; without it no hours are said

    Raises InvalidValue where nothing in the middle of the space may be launched under a finite budget.
    """
    facts = public_facts(spec) if facts is None else facts
    middle = ReferenceConfig.of(spec, facts, {} if calibrations is None else calibrations)
    rows: list[ModeRow] = []
    without: list[NoRow] = []
    for mode, row in _modes(middle, _chance_of(spec), _orders(spec)):
        try:
            rows.append(_as_written(spec, row()))
        except _CANNOT as error:
            without.append(NoRow(mode=mode, reason=str(error)))
    system = str(middle.config["system"])
    return Comparison(
        spec=spec.name,
        system=system,
        config={name: value for name, value in middle.config.items() if name not in ("system", "target_epsilon")},
        epsilon=middle.epsilon,
        delta=middle.delta,
        adjacency=str(middle.adjacency),
        unit=spec.privacy.unit,
        speed=None if rehearsal is None else _speed(rehearsal, system),
        at_once=workers_of(spec.resources),
        rows=tuple(rows),
        without=tuple(without),
    )


def _modes(middle: ReferenceConfig, chance: float, orders: int) -> Iterator[tuple[str, Callable[[], ModeRow]]]:
    """Each mode by its name, and how its row comes about.

    chance  of a good trial in a sealed search
    orders  of a front
    """
    yield "one run", lambda: modes.one_run(middle)
    yield "trial", lambda: modes.each_trial(middle)
    yield "compose", lambda: modes.composed(middle)
    yield "compose, filter", lambda: modes.filtered(middle)
    yield "compose, front-loaded", lambda: modes.front_loaded(middle)
    yield "compose, halving", lambda: modes.halving(middle)
    laws = laws_at(chance)
    for name, law in laws.items():
        yield f"best, {name}", lambda name=name, law=law: modes.best(middle, name, law)  # type: ignore[misc]
    yield "front", lambda: modes.front(middle, laws["geometric"], orders)
    yield "first", lambda: modes.first(middle, chance)
    yield "holdout", lambda: modes.holdout(middle, laws["geometric"])
    yield "public", lambda: modes.public(middle)


def _as_written(spec: SweepSpec, row: ModeRow) -> ModeRow:
    """The row, with what the spec's own checks say where nothing but its mode is changed."""
    settings = dict(one.partition(": ")[::2] for one in row.setting.split(", "))
    wanted = {name: value for name, value in settings.items() if name in _ASKED}
    if not wanted:
        return row
    wanted.setdefault("release", "all")
    written = spec.canonical()
    written["search"]["sampler"] = settings.get(_SAMPLER, written["search"]["sampler"])
    if wanted["release"] == "all":
        written.pop("selection", None)
    elif wanted["release"] == "best" and "selection" in written:
        written["selection"].pop("target", None)
    kept = {name: value for name, value in written["privacy"].items() if name not in _OF_A_FILTER}
    if wanted["scope"] == "sweep" and wanted["release"] == "all":
        kept = written["privacy"]
    try:
        load_spec({**written, "privacy": {**kept, **wanted}})
    except SpecErrors as error:
        return replace(row, refused="; ".join(f"{one.path}: expected {one.expected}" for one in error.errors))
    return row


def _chance_of(spec: SweepSpec) -> float:
    """Of a good trial, that laws are compared at: by the spec's own law where it has one."""
    if spec.selection is None:
        return default_chance()
    return law_of(spec.selection, spec.search.trials).priced.reach(TOP)


def _orders(spec: SweepSpec) -> int:
    """Of a front: those that the spec asks for, or its objectives, two at least."""
    return max(2, len(spec.orders if spec.privacy.release == "front" else spec.objectives))


def _speed(rehearsal: Rehearsal, system: str) -> float | None:
    """Seconds per unit of work, the median over what was rehearsed of this system; None where it trains no network."""
    steps = [one.found.step for one in rehearsal.ran if one.found.system == system]
    found = [step.gradient_seconds for step in steps if step is not None]
    return statistics.median(found) if found else None


# The comparison of modes as text: a table, a sentence for each mode, and what stands in the way of some.

WIDTH = 120
_NEARLY = 0.99
_HEADINGS = (
    "mode",
    "noise",
    "one trial",
    "good",
    "trials",
    "at most",
    "time",
    "at most",
    "epsilon",
    "budget for",
)
_READ = (
    "noise: {noise} of a trial like the middle of the space. one trial: what it may spend by itself. good: the chance "
    "that some trial comes from the best tenth of the prior. trials, time: expected, and at the worst, which an "
    "announced deadline of a sealed search has to cover{speed}. epsilon: of everything that leaves, at delta {delta}."
)


def text(comparison: Comparison) -> str:
    """For people, in lines of at most `WIDTH` characters."""
    knobs = ", ".join(f"{name}={_short(value)}" for name, value in comparison.config.items())
    heading = (
        f"modes at epsilon {epsilon_text(comparison.epsilon)}, delta {delta_text(comparison.delta)} for the whole "
        f"sweep, {comparison.adjacency}, per {comparison.unit}; trials like {comparison.system} ({knobs})"
    )
    lines = [*textwrap.wrap(heading, WIDTH), *table(comparison), ""]
    noise = next((row.parameter for row in comparison.rows if row.parameter), "")
    speed = (
        ""
        if comparison.speed is None
        else f"; time is that of training alone, {comparison.at_once} at once on this machine, at the rehearsal's "
        f"{comparison.speed:.2g} s per unit of work"
    )
    how = _READ.format(
        noise=noise or "what is solved", speed=speed, delta=delta_text(max(row.delta for row in comparison.rows))
    )
    lines += textwrap.wrap(how, WIDTH)
    lines += _said([(row.mode, row.says) for row in comparison.rows])
    lines += _said(
        [
            (row.mode, f"two sweeps, of which the final one names the other: declare {row.declare}.")
            for row in comparison.rows
            if row.declare
        ]
    )
    lines += _said(
        [
            (row.mode, f"with {row.setting} this spec would be refused: {row.refused}")
            for row in comparison.rows
            if row.refused
        ]
    )
    lines += _said([(one.mode, f"not possible here: {one.reason}") for one in comparison.without])
    return "\n".join(lines)


def table(comparison: Comparison) -> list[str]:
    """The table alone, a line for each mode below the headings."""
    cells = [_HEADINGS, *(_cells(comparison, row) for row in comparison.rows)]
    # Without a rehearsal nobody knows the hours, without a solved noise there is none.
    shown = [column for column in zip(*cells, strict=True) if any(column[1:])]
    aligned = [_aligned(column) for column in shown]
    return ["  " + "  ".join(row).rstrip() for row in zip(*aligned, strict=True)]


def _aligned(column: Sequence[str]) -> list[str]:
    """Cells of one width: names on the left, numbers with their heading on the right."""
    width, named = max(map(len, column)), any(cell[:1].isalpha() for cell in column[1:])
    return [cell.ljust(width) if named else cell.rjust(width) for cell in column]


def _cells(comparison: Comparison, row: ModeRow) -> tuple[str, ...]:
    hours = comparison.hours(row)
    return (
        row.mode,
        _range([f"{one:.4g}" for one in row.noise]),
        _range([epsilon_text(one, digits=3) for one in row.spent]),
        "-" if row.chance is None else _chance(row.chance),
        f"{row.expected:.3g}",
        f"{row.most}",
        "" if hours is None else _time(hours[0]),
        "" if hours is None else _time(hours[1]),
        epsilon_text(row.epsilon),
        str(row.budget_for),
    )


def _chance(value: float) -> str:
    return ">99%" if value > _NEARLY else f"{value:.0%}"


def _time(hours: float) -> str:
    """With its unit, to two digits."""
    for unit, size in (("h", 1.0), ("min", 1 / 60)):
        if hours >= 1.5 * size:
            return f"{float(f'{hours / size:.2g}'):g} {unit}"
    return f"{float(f'{hours * 3600:.2g}'):g} s"


def _range(values: Sequence[str]) -> str:
    return "" if not values else values[0] if len(values) == 1 else f"{values[0]} .. {values[-1]}"


def _said(sentences: Sequence[tuple[str, str]]) -> list[str]:
    """A sentence for each mode; modes of which the same is said share it."""
    shared: dict[str, list[str]] = {}
    for mode, sentence in sentences:
        shared.setdefault(sentence, []).append(mode)
    lines: list[str] = []
    for sentence, listed in shared.items():
        lines += textwrap.wrap(f"{_together(listed)}: {sentence}", WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines


def _together(modes: Sequence[str]) -> str:
    """`best, geometric` and `best, Poisson` are `best`."""
    return " / ".join(dict.fromkeys(mode.split(",")[0] for mode in modes)) if len(modes) > 1 else modes[0]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
