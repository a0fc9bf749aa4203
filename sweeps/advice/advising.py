"""The comparison of modes for a spec: from public facts and plans alone, no record is read."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import replace

from dpcore.accountants.pld import DiscretisationInvalid, ToleranceNotReached
from dpcore.calibrate import CannotCalibrate
from dpcore.checks import InvalidValue
from dpcore.events import UnsupportedEvent
from sweeps.advice import open_modes, parted_modes, sealed_modes
from sweeps.advice.comparison import Comparison, ModeRow, NoRow
from sweeps.advice.laws import TOP, default_chance, laws_at
from sweeps.advice.middle import Middle, NotPlanned
from sweeps.advice.proxy import Proxy
from sweeps.planning.rehearsal import Rehearsal
from sweeps.sealed.law import law_of
from sweeps.sealed.workers import workers_of
from sweeps.spec import SpecErrors, load_spec, public_facts
from sweeps.spec.sections import AdaptOptions, SweepSpec
from trainables.system import PublicFacts

_ASKED = ("scope", "release", "spread")
_SAMPLER = "search.sampler"
_OF_A_FILTER = ("spread", "shares", "filter", "order")
_CANNOT = (
    CannotCalibrate, DiscretisationInvalid, InvalidValue, NotPlanned, ToleranceNotReached, UnsupportedEvent,
)  # fmt: skip


def compared(
    spec: SweepSpec,
    facts: PublicFacts | None = None,
    rehearsal: Rehearsal | None = None,
    calibrations: MutableMapping[str, float] | None = None,
    proxy: Proxy | None = None,
) -> Comparison:
    """Every mode for the configuration in the middle of the space, at the largest budget of the spec.

    rehearsal  tells how long a trial takes; without it no hours are said
    proxy      a sweep on public records by which results are predicted

    Raises InvalidValue where nothing in the middle of the space may be launched under a finite budget.
    """
    facts = public_facts(spec) if facts is None else facts
    middle = Middle.of(spec, facts, {} if calibrations is None else calibrations)
    rows: list[ModeRow] = []
    without: list[NoRow] = []
    for mode, row in _modes(middle, _chance(spec), _orders(spec), _bounds(spec)):
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
        proxy=proxy,
    )


def _modes(
    middle: Middle, chance: float, orders: int, bounds: AdaptOptions
) -> Iterator[tuple[str, Callable[[], ModeRow]]]:
    """Each mode by its name, and how its row comes about.

    chance  of a good trial in a sealed search
    orders  of a front
    bounds  of a search that its own results lead
    """
    yield "one run", lambda: open_modes.one_run(middle)
    yield "trial", lambda: open_modes.each_trial(middle)
    yield "compose", lambda: open_modes.composed(middle)
    yield "compose, filter", lambda: open_modes.filtered(middle)
    yield "compose, front-loaded", lambda: open_modes.front_loaded(middle)
    yield "compose, halving", lambda: open_modes.halving(middle)
    laws = laws_at(chance)
    for name, law in laws.items():
        yield f"best, {name}", lambda name=name, law=law: sealed_modes.best(middle, name, law)  # type: ignore[misc]
    yield "best, adaptive", lambda: sealed_modes.adaptive(middle, laws["geometric"], bounds)
    yield "front", lambda: sealed_modes.front(middle, laws["geometric"], orders)
    yield "first", lambda: sealed_modes.first(middle, chance)
    yield "holdout", lambda: parted_modes.holdout(middle, laws["geometric"])
    yield "public", lambda: parted_modes.public(middle)


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


def _chance(spec: SweepSpec) -> float:
    """Of a good trial, that laws are compared at: by the spec's own law where it has one."""
    if spec.selection is None:
        return default_chance()
    return law_of(spec.selection, spec.search.trials).priced.reach(TOP)


def _orders(spec: SweepSpec) -> int:
    """Of a front: those that the spec asks for, or its objectives, two at least."""
    return max(2, len(spec.orders if spec.privacy.release == "front" else spec.objectives))


def _bounds(spec: SweepSpec) -> AdaptOptions:
    """Of a search that its own results lead: those that the spec asks for, or the defaults."""
    return (spec.selection and spec.selection.adapt) or AdaptOptions()


def _speed(rehearsal: Rehearsal, system: str) -> float | None:
    """Seconds per unit of work, the median over what was rehearsed of this system; None where it trains no network."""
    steps = [one.found.step for one in rehearsal.ran if one.found.system == system]
    found = [step.gradient_seconds for step in steps if step is not None]
    return statistics.median(found) if found else None
