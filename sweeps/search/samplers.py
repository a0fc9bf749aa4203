"""Every sampler by name, and what each can do: whatever else knows of samplers derives it from here.

Two kinds propose in the open. An `Independent` one gives a point for a number and is told no result, so that all
budgets are fixed before the first trial runs: only then is the total of a sweep a guarantee. A `Learning` one is told
results; `auto`, the default, comes to one of these. A name that is not in `SAMPLERS` counts as one that learns,
wherever it comes from (`learns`): a forgotten sampler can cost a sweep its total, never lend it one.

A new sampler is a row of `SAMPLERS`; an entry point of an installed package, in the group `private_sweeps.samplers`,
that is a `Learning` value; or a function of the user's own, which a spec names as `module:function`: called with
`seed=`, it returns an Optuna sampler (those of OptunaHub are such). `sweeps.search.proposer` holds each to what a
sampler of a sweep has to be.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from sweeps.search.space import SearchGrid, Space
from sweeps.spec.sections import FUNCTION, SweepSpec, with_budgets
from sweeps.store.records import Extension
from sweeps.util.text import closest
from trainables import plugins
from trainables.system import Scalar

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


# Public random bits of the search: functions of the spec's seed, the number of a proposal, and a stream. The numbers of
# the streams are part of the format: changing one changes what every sweep proposes.
POINT, TRIAL, ORDER, DRAWN, ENDS, CORNERS, COSTS = range(7)


def sequence(seed: int, number: int, stream: int) -> np.random.SeedSequence:
    """The stream of proposal `number`."""
    # spawn_key keeps (seed, number, stream) apart; a flat list of large and small integers would not.
    return np.random.SeedSequence(seed, spawn_key=(number, stream))


def generator(seed: int, number: int, stream: int) -> np.random.Generator:
    """Random numbers of a stream of proposal `number`."""
    return np.random.Generator(np.random.PCG64(sequence(seed, number, stream)))


def seed_of_point(seed: int, number: int) -> int:
    """32 public bits that seed the sampler for proposal `number`."""
    return int(sequence(seed, number, POINT).generate_state(1)[0])


def seed_of_trial(seed: int, number: int) -> int:
    """31 public bits for the trial's initial weights and the like; never noise, never batches."""
    return int(sequence(seed, number, TRIAL).generate_state(1)[0] >> 1)


def widened(spec: SweepSpec, extensions: Iterable[Extension]) -> SweepSpec:
    """The spec that a sweep began with, over every budget that it was given."""
    for one in extensions:
        if one.epsilon:
            spec = with_budgets(spec, (*spec.privacy.epsilon, *one.epsilon))
    return spec


@dataclass(frozen=True, slots=True)
class Turns:
    """Systems and target budgets in turn: each pair gets as many trials as the others, and no result has a say in it.

    A sweep may be given budgets later. From then on they take turns with the others; what was proposed before stays.

    systems  of the sweep; (None,) where a sampler chooses the system, and budgets alone take turns
    stages   (first proposal, budgets ascending), in order
    """

    systems: tuple[str | None, ...]
    stages: tuple[tuple[int, tuple[float, ...]], ...]
    seed: int

    @classmethod
    def of(cls, spec: SweepSpec, extensions: Iterable[Extension] = ()) -> Turns:
        """Those of the spec that a sweep began with, and of the budgets that it was given later."""
        space = Space.of(spec)
        stages = [(0, space.epsilons)]
        for one in extensions:
            if one.epsilon:
                stages.append((one.proposed, tuple(sorted((*stages[-1][1], *one.epsilon)))))
        systems = tuple(branch.system for branch in space.branches) if spec.search.stratified else (None,)
        return cls(systems, tuple(stages), spec.search.seed)

    def stage(self, number: int) -> tuple[int, tuple[float, ...]]:
        """The stage of proposal `number`; where several begin at one proposal, the last of them."""
        return next(stage for stage in reversed(self.stages) if stage[0] <= number)

    def at(self, number: int) -> tuple[str | None, float]:
        """The system and the budget of proposal `number`: one round after the other, each in an order of its own."""
        first, epsilons = self.stage(number)
        pairs = [(system, epsilon) for system in self.systems for epsilon in epsilons]
        round_, place = divmod(number - first, len(pairs))
        # A grid takes this stream at number 0; no sweep has both.
        order = generator(self.seed, round_, ORDER).permutation(len(pairs))
        return pairs[int(order[place])]


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
        return space.draw(generator(self._seed, number, POINT), stratum)


class GridPoints:
    """Every grid point `repeats` times, in an order shuffled by the seed, so that a sweep cut short has seen all
    corners: one round after the other. The points of budgets that were added later come next, and then the rest."""

    def __init__(self, spec: SweepSpec, extensions: Iterable[Extension] = ()) -> None:
        space, self._repeats = Space.of(spec), spec.search.repeats
        self._parts = list[tuple[int, SearchGrid, NDArray[np.int64]]]()
        """(first proposal, grid of some budgets, its order)"""
        added = [(one.proposed, tuple(sorted(one.epsilon))) for one in extensions if one.epsilon]
        for first, epsilons in ((0, space.epsilons), *added):
            grid = SearchGrid.of(replace(space, epsilons=epsilons))
            self._parts.append((first, grid, generator(spec.search.seed, 0, ORDER).permutation(len(grid))))

    def point(self, number: int) -> dict[str, Scalar] | None:
        """Point `number`; None when all were given."""
        for first, grid, order in reversed(self._parts):
            size = self._repeats * len(order)
            if first <= number < first + size:
                return grid.point(int(order[(number - first) % len(order)]))
            if number >= first:
                number -= size
        return None


ENTRY_POINTS = "private_sweeps.samplers"
QUOTE = "'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Independent:
    """A sampler that chooses without looking at results: it is told none.

    points  the sequence of the spec that a sweep began with, and of what it was given later
    grid    whether it walks the grid of the space, and so needs one and may repeat it
    """

    name: str
    doc: str
    points: Callable[[SweepSpec, Sequence[Extension]], RandomPoints | GridPoints]
    grid: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """A sampler that is told results, on top of Optuna.

    build               (seed, trials) -> an Optuna sampler for one proposal of a sweep of so many trials: a fresh one
                        each time, so that it is a function of the seed and of the study, and remembers nothing
    window              how many of the latest trials it looks at, besides the best of the earlier ones
    mixes_systems       whether it can take trials that have other knobs than those in question
    reads_penalties     whether it looks at the values of infeasible trials, which then have to follow the worst ones
    """

    name: str
    doc: str
    build: Callable[[int, int], BaseSampler]
    window: int = 300
    mixes_systems: bool = False
    reads_penalties: bool = True


SamplerEntry = Independent | Learning
AUTO = "auto"
"""A sampler that learns, by a method which a rule chooses before the first trial (`sweeps.planning.estimate`)."""
METHODS = ("gp", "tpe", "nsga2")
"""What `auto` may come to."""


def _of_optuna(sampler: str, **options: object) -> Callable[[int, int], BaseSampler]:
    def build(seed: int, trials: int) -> BaseSampler:
        built: BaseSampler = getattr(importlib.import_module("optuna.samplers"), sampler)(seed=seed, **options)
        return built

    return build


def _nsga2(seed: int, trials: int) -> BaseSampler:
    from sweeps.search.nsga2 import SteadyStateNSGAII

    return SteadyStateNSGAII(population_size=min(50, max(8, trials // 5)), seed=seed)


# An ask of TPE grows by about 12 ms per thousand trials in the window, the Gaussian process's with their cube.
_ROWS: tuple[SamplerEntry, ...] = (
    Learning(
        name=AUTO,
        doc="a Gaussian process, tpe or nsga2, by rule; budgets take turns",
        build=_of_optuna("it proposes by the method that it came to"),
        mixes_systems=True,
    ),
    Independent(name="random", doc="independent draws from the prior of the space", points=RandomPoints),
    Learning(
        name="tpe",
        doc="tree-structured Parzen estimator (Bergstra et al. 2011), all knobs of a system jointly",
        build=_of_optuna("TPESampler", multivariate=True, constant_liar=True),
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
    Learning(
        name="gp",
        doc="a Gaussian process, whose cost grows with the cube of its window",
        build=_of_optuna("GPSampler", warn_independent_sampling=False),
    ),
    Independent(
        name="grid", doc="every point of a grid, in an order shuffled by the seed", points=GridPoints, grid=True
    ),
    # the next sampler goes here
)
SAMPLERS: Mapping[str, SamplerEntry] = {one.name: one for one in _ROWS}


def names(select: Callable[[SamplerEntry], bool] = lambda entry: True) -> tuple[str, ...]:
    """Names of this project's own samplers, in order; those that `select` takes."""
    return tuple(name for name, entry in SAMPLERS.items() if select(entry))


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


def module_of(name: str) -> str | None:
    """The module of a sampler that is not this project's own: part of the code that decides what is proposed."""
    if name in SAMPLERS:
        return None
    offered = plugins.offered(ENTRY_POINTS).get(name)
    return (name if offered is None else offered.value).partition(":")[0]


def _own(function: str, seed: int) -> BaseSampler:
    from optuna.samplers import BaseSampler

    remedy = "It is called as function(seed=...), and returns an optuna.samplers.BaseSampler."
    found: Any = plugins.brought("search.sampler", function, remedy, "a function")
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
