"""The comparison of modes as text: a table, a sentence for each mode, and what stands in the way of some."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from dpcore.rounding import delta_text, epsilon_text
from sweeps.advice.comparison import Comparison, ModeRow
from sweeps.advice.proxy import Proxy

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
    "predicted",
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
    if comparison.proxy is not None:
        lines += textwrap.wrap(_proxy_words(comparison.proxy), WIDTH)
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
        _range([_chance(one) for one in (row.chance, row.chance_at_most) if one is not None]) or "-",
        f"{row.expected:.3g}",
        f"{row.most}",
        "" if hours is None else _time(hours[0]),
        "" if hours is None else _time(hours[1]),
        epsilon_text(row.epsilon),
        _predicted(comparison, row),
        str(row.budget_for),
    )


def _chance(value: float) -> str:
    return ">99%" if value > _NEARLY else f"{value:.0%}"


def _predicted(comparison: Comparison, row: ModeRow) -> str:
    if comparison.proxy is None:
        return ""
    return _range([f"{one:.4g}" for one in comparison.predicted(row)]) or "-"


def _proxy_words(proxy: Proxy) -> str:
    listed = ", ".join(f"{len(values)} at epsilon {epsilon_text(epsilon)}" for epsilon, values in proxy.budgets)
    chosen = " and ".join(proxy.chosen)
    better = f" These are better than draws of a prior: {chosen}." if chosen else ""
    return (
        f"predicted: {proxy.metric} of the best of the expected number of trials, as those of {proxy.sweep} have it "
        f"({listed}), a sweep on public records ({proxy.because}); between its budgets by the logarithm of what a "
        f"trial may spend, and - beyond them.{better} How much these records are like those, nothing here says."
    )


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
    for sentence, modes in shared.items():
        lines += textwrap.wrap(f"{_together(modes)}: {sentence}", WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines


def _together(modes: Sequence[str]) -> str:
    """`best, geometric` and `best, Poisson` are `best`."""
    return " / ".join(dict.fromkeys(mode.split(",")[0] for mode in modes)) if len(modes) > 1 else modes[0]


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
