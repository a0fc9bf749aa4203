"""Every sampler by name, and what each can do: whatever else knows of samplers derives it from here.

Three kinds propose in the open. An `Independent` one gives a point for a number and is told no result, so that all
budgets are fixed before the first trial runs: only then is the total of a sweep a guarantee. A `Learning` one is told
results; so is the method that the one `Automatic` sampler, the default, comes to. A name that is not in `SAMPLERS`
counts as one that learns, wherever it comes from (`learns`): a forgotten sampler can cost a sweep its total, never
lend it one.

A new sampler is a row of `SAMPLERS`; an entry point of an installed package, in the group `private_sweeps.samplers`,
that is a `Learning` value; or a function of the user's own, which a spec names as `module:function`: called with
`seed=`, it returns an Optuna sampler (those of OptunaHub are such). `sweeps.search.sampler_exam` holds each to what a
sampler of a sweep has to be.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpcore.checks import InvalidValue
from sweeps.search.grid import SearchGrid
from sweeps.search.space import Space
from sweeps.search.turns import ORDER, POINT, Turns, sequence
from sweeps.spec.sections import FUNCTION, SweepSpec
from sweeps.store.records import Extension
from sweeps.util.suggest import closest
from trainables import plugins
from trainables.system import Scalar

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


# Samplers that look at no result: a point is a function of the spec and its number, exact at any concurrency.


class RandomPoints:
    """Independent draws from the prior of the space; systems and budgets in turn where the spec says so."""

    def __init__(self, spec: SweepSpec, extensions: Iterable[Extension] = ()) -> None:
        self._space, self._seed = Space.of(spec), spec.search.seed
        self._turns = Turns.of(spec, extensions)

    def point(self, number: int) -> dict[str, Scalar] | None:
        """Draw `number`."""
        system, epsilon = self._turns.at(number)
        stratum = None if system is None else (system, epsilon)
        space = replace(self._space, epsilons=self._turns.stage(number)[1])
        return space.draw(np.random.Generator(np.random.PCG64(sequence(self._seed, number, POINT))), stratum)


class GridPoints:
    """Every grid point `repeats` times, in an order shuffled by the seed, so that a sweep cut short has seen all
    corners: one round after the other. The points of budgets that were added later come next, and then the rest."""

    def __init__(self, spec: SweepSpec, extensions: Iterable[Extension] = ()) -> None:
        space, repeats = Space.of(spec), spec.search.repeats
        self._parts = [_Part(0, _Shuffled(space, repeats, spec.search.seed))]
        for one in extensions:
            if one.epsilon:
                added = replace(space, epsilons=tuple(sorted(one.epsilon)))
                self._parts.append(_Part(one.proposed, _Shuffled(added, repeats, spec.search.seed)))

    def point(self, number: int) -> dict[str, Scalar] | None:
        """Point `number`; None when all were given."""
        for part in reversed(self._parts[1:]):
            if number >= part.first:
                if number < part.first + len(part.points):
                    return part.points.point(number - part.first)
                number -= len(part.points)
        return self._parts[0].points.point(number)


@dataclass(frozen=True, slots=True)
class _Part:
    """The points of some budgets, from proposal `first` on."""

    first: int
    points: _Shuffled


class _Shuffled:
    """The points of one grid, each `repeats` times."""

    def __init__(self, space: Space, repeats: int, seed: int) -> None:
        self._grid, self._repeats = SearchGrid.of(space), repeats
        generator = np.random.Generator(np.random.PCG64(sequence(seed, 0, ORDER)))
        self._order = generator.permutation(len(self._grid))

    def __len__(self) -> int:
        return self._repeats * len(self._order)

    def point(self, number: int) -> dict[str, Scalar] | None:
        """Point `number` of the shuffled grid, round after round; None when all were given."""
        return self._grid.point(int(self._order[number % len(self._order)])) if number < len(self) else None


ENTRY_POINTS = "private_sweeps.samplers"
QUOTE = "'"


class Points(Protocol):
    """A sequence of configurations that nothing which happens can change."""

    def point(self, number: int) -> dict[str, Scalar] | None:
        """The configuration of proposal `number`; None when there are no more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Independent:
    """A sampler that chooses without looking at results: it is told none.

    points  the sequence of the spec that a sweep began with, and of what it was given later
    grid    whether it walks the grid of the space, and so needs one and may repeat it
    """

    name: str
    doc: str
    points: Callable[[SweepSpec, Sequence[Extension]], Points]
    grid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """A sampler that is told results, on top of Optuna.

    build               (seed, trials) -> an Optuna sampler for one proposal of a sweep of so many trials: a fresh one
                        each time, so that it is a function of the seed and of the study, and remembers nothing
    window              how many of the latest trials it looks at, besides the best of the earlier ones
    several_objectives  whether it can take more than one
    mixes_systems       whether it can take trials that have other knobs than those in question
    reads_penalties     whether it looks at the values of infeasible trials, which then have to follow the worst ones
    """

    name: str
    doc: str
    build: Callable[[int, int], BaseSampler]
    window: int = 300
    several_objectives: bool = True
    mixes_systems: bool = False
    reads_penalties: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Automatic:
    """A sampler that learns, by a method which a rule chooses before the first trial: one that can take the sweep's
    systems and objectives (`sweeps.planning.auto_sampler`)."""

    name: str
    doc: str
    several_objectives: bool = True
    mixes_systems: bool = True


SamplerEntry = Independent | Learning | Automatic
METHODS = ("gp", "tpe", "nsga2")
"""What the automatic one may come to."""


def by_name(*entries: SamplerEntry) -> dict[str, SamplerEntry]:
    """Samplers keyed by name. Raises ValueError when two share one."""
    named = {entry.name: entry for entry in entries}
    if len(named) < len(entries):
        raise ValueError(f"samplers {[entry.name for entry in entries]}: expected each name once")
    return named


def _tpe(seed: int, trials: int) -> BaseSampler:
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, multivariate=True, constant_liar=True)


def _nsga2(seed: int, trials: int) -> BaseSampler:
    from sweeps.search.nsga2 import SteadyStateNSGAII

    return SteadyStateNSGAII(population_size=min(50, max(8, trials // 5)), seed=seed)


def _gp(seed: int, trials: int) -> BaseSampler:
    from optuna.samplers import GPSampler

    return GPSampler(seed=seed, warn_independent_sampling=False)


# An ask of TPE grows by about 12 ms per thousand trials in the window, the Gaussian process's with their cube.
SAMPLERS: Mapping[str, SamplerEntry] = by_name(
    Automatic(
        name="auto",
        doc="a Gaussian process, tpe or nsga2, by rule; budgets take turns",
    ),
    Independent(name="random", doc="independent draws from the prior of the space", points=RandomPoints),
    Learning(
        name="tpe",
        doc="tree-structured Parzen estimator (Bergstra et al. 2011), all knobs of a system jointly",
        build=_tpe,
        window=2000,
        mixes_systems=True,
        reads_penalties=False,
    ),
    Learning(
        name="nsga2",
        doc="NSGA-II (Deb et al. 2002), steady-state: parents are the elite of all finished trials",
        build=_nsga2,
        window=2000,
        mixes_systems=True,
        reads_penalties=False,
    ),
    Learning(name="gp", doc="a Gaussian process, whose cost grows with the cube of its window", build=_gp),
    Independent(
        name="grid", doc="every point of a grid, in an order shuffled by the seed", points=GridPoints, grid=True
    ),
    # the next sampler goes here
)


def names(select: Callable[[SamplerEntry], bool] = lambda entry: True) -> tuple[str, ...]:
    """Names of this project's own samplers, in order; those that `select` takes."""
    return tuple(name for name, entry in SAMPLERS.items() if select(entry))


def is_learning(entry: SamplerEntry) -> bool:
    """Whether it is told results."""
    return not isinstance(entry, Independent)


def is_automatic(name: object) -> bool:
    """Whether sampler `name` comes to a method that a rule chooses."""
    return isinstance(SAMPLERS.get(str(name)), Automatic)


def walks_grid(name: object) -> bool:
    """Whether sampler `name` needs a space that is a grid, and visits each of its points."""
    entry = SAMPLERS.get(str(name))
    return isinstance(entry, Independent) and entry.grid


def known() -> list[str]:
    """Every name: this project's own samplers, then those that installed packages offer."""
    return list(dict.fromkeys((*SAMPLERS, *plugins.offered(ENTRY_POINTS))))


def sampler(name: object) -> SamplerEntry:
    """The sampler that a spec names. Only that of an installed package is imported for it.

    Raises InvalidValue for an unknown one, one that the operator does not let run, and one that is no `Learning` value.
    """
    if not isinstance(name, str):
        raise _unknown(name)
    if name in SAMPLERS:
        return SAMPLERS[name]
    if FUNCTION.fullmatch(name):
        plugins.check_permitted("search.sampler", name)
        return Learning(name=name, doc="the user's own", build=lambda seed, trials: _own(name, seed))
    offered = plugins.offered(ENTRY_POINTS).get(name)
    if offered is None:
        raise _unknown(name)
    plugins.enter("search.sampler", offered.value)
    entry = offered.load()
    if not isinstance(entry, Learning) or entry.name != name:
        raise InvalidValue(
            "search.sampler",
            name,
            f"a sweeps.search.samplers.Learning of that name at {offered.value}, not {entry!r}",
            "A sampler of an installed package counts as one that learns: only this project's own are known not to.",
        )
    return entry


def learning(name: str) -> Learning:
    """The sampler of this project's own of that name, which learns. Raises KeyError."""
    entry = SAMPLERS[name]
    if not isinstance(entry, Learning):
        raise KeyError(name)
    return entry


def module_of(name: str) -> str | None:
    """The module of a sampler that is not this project's own: part of the code that decides what is proposed."""
    if name in SAMPLERS:
        return None
    offered = plugins.offered(ENTRY_POINTS).get(name)
    return (name if offered is None else offered.value).partition(":")[0]


def _own(function: str, seed: int) -> BaseSampler:
    from optuna.samplers import BaseSampler

    plugins.enter("search.sampler", function)
    remedy = "It is called as function(seed=...), and returns an optuna.samplers.BaseSampler."
    module, _, name = function.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidValue("search.sampler", function, f"a function that can be imported ({error})", remedy) from error
    built = found(seed=seed)
    if not isinstance(built, BaseSampler):
        raise InvalidValue("search.sampler", function, f"a function that returns a sampler, not {built!r}", remedy)
    return built


def one_of(listed: Iterable[str], quote: str = "") -> str:
    """`a, b or c`."""
    *most, last = (f"{quote}{one}{quote}" for one in listed)
    return f"{', '.join(most)} or {last}" if most else last


def _unknown(name: object) -> InvalidValue:
    own = "A function of your own is named as `module:function`; called with `seed=`, it returns an Optuna sampler."
    expected = f"one of {one_of(known(), QUOTE)}"
    return InvalidValue("search.sampler", name, expected, closest(name, known()) or own)
