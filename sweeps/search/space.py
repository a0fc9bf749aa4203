"""The search space of a spec: one branch per system, each with its own knobs, over a set of target budgets.

A point states what is free in it and nothing else: a knob that is not there beside the others (`when`), and one that
takes the value of another (`same_as`), are not among its values. `Branch.complete` adds what the system is given.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from math import prod
from typing import Any, TypeVar

import numpy as np

from dpcore.guarantee import budget_text
from sweeps.spec.domains import Constraint, Domain, Knob, SameAs, as_number, is_one_of, meant
from sweeps.spec.hyperparameters import alone, needs
from sweeps.spec.problems import Absent, Problems
from sweeps.spec.sections import SweepSpec
from sweeps.spec.sweep_budget import trial_budgets
from sweeps.store.records import SYSTEM, TARGET_EPSILON
from sweeps.util.text import closest, did_you_mean
from trainables.system import Hyperparameter, Scalar


@dataclass(frozen=True, slots=True)
class Branch:
    """One system's part of the space.

    fixed     knobs with one value, and the system's defaults
    searched  knobs with a domain, by name in alphabetical order
    follows   knobs that take the value of another one of the system, which each maps to
    """

    system: str
    fixed: Mapping[str, Scalar]
    searched: Mapping[str, Domain]
    follows: Mapping[str, str]

    @classmethod
    def of(cls, system: str, knobs: Mapping[str, Knob]) -> Branch:
        """The branch of a system with these knobs (`sweeps.spec.hyperparameters.alone`)."""
        fixed, searched, follows = dict[str, Scalar](), dict[str, Domain](), dict[str, str]()
        for name, knob in sorted(knobs.items()):
            match knob:
                case Domain():
                    searched[name] = knob
                case SameAs():
                    follows[name] = knob.knob
                case _:
                    fixed[name] = knob
        return cls(system, fixed, searched, follows)

    def is_there(self, name: str, values: Mapping[str, Scalar]) -> bool:
        """Whether knob `name` is there beside these values of the others."""
        domain = self.searched.get(name)
        return domain is None or all(
            other in values and is_one_of(values[other], wanted) and self.is_there(other, values)
            for other, wanted in domain.when
        )

    def drawn(self, quantile: Callable[[], float]) -> dict[str, Scalar]:
        """A value for every knob that is searched, whether or not it is there: each at the next quantile in [0, 1)."""
        return {name: domain.draw(quantile()) for name, domain in self.searched.items()}

    def placed(self, config: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """A place for `config` in the box of all knobs that are searched: one that is not there stands in the middle.

        For samplers, which then need not know of conditions.
        """
        return {name: config[name] if name in config else domain.draw(0.5) for name, domain in self.searched.items()}

    def with_knob(self, name: str) -> dict[str, Scalar]:
        """Values of other knobs under which `name` is there."""
        return {other: values[0] for other, values in needs(name, self.searched).items() if other in self.searched}

    def followed(self, config: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """`config`, and the knobs that take the value of one that is there."""
        taken = {name: config[other] for name, other in self.follows.items() if other in config}
        return {**config, **taken}

    def complete(self, config: Mapping[str, Scalar], parameters: Iterable[Hyperparameter]) -> dict[str, Scalar]:
        """The knobs of `config` as the system is given them: where one is not there, its declared default."""
        knobs = self.followed({name: value for name, value in config.items() if name not in (SYSTEM, TARGET_EPSILON)})
        conditional = self.searched.keys() | self.follows.keys()
        for one in parameters:
            if one.name in conditional and one.default is not None:
                knobs.setdefault(one.name, one.default)
        return knobs


@dataclass(frozen=True, slots=True)
class Space:
    """All configurations that a sweep may propose. A config is flat: system, target_epsilon, then every knob that is
    there.

    epsilons     target budgets, ascending; with one, `target_epsilon` is fixed
    branches     by system name in alphabetical order
    constraints  relations that have to hold: a point that breaks one is infeasible
    """

    epsilons: tuple[float, ...]
    branches: tuple[Branch, ...]
    constraints: tuple[Constraint, ...] = ()

    @classmethod
    def of(cls, spec: SweepSpec) -> Space:
        """The space of a spec."""
        budgets = trial_budgets(spec.privacy, spec.search, spec.early_stopping)
        return cls.over(spec.systems, budgets, spec.constraints)

    @classmethod
    def over(
        cls, systems: Mapping[str, Mapping[str, Knob]], epsilons: Iterable[float], constraints: Iterable[str] = ()
    ) -> Space:
        """The space of these knobs, budgets and relations."""
        return cls(
            epsilons=tuple(sorted(epsilons)),
            branches=tuple(Branch.of(name, alone(systems, name)) for name in sorted(systems)),
            constraints=tuple(Constraint.parse(one) for one in constraints),
        )

    def branch(self, system: Scalar) -> Branch:
        """The branch of one system. Raises KeyError."""
        for branch in self.branches:
            if branch.system == system:
                return branch
        raise KeyError(system)

    def config(self, branch: Branch, epsilon: float, knobs: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The canonical flat configuration of one point, without knobs that are not there."""
        values = {**branch.fixed, **knobs}
        there = {name: values[name] for name in sorted(values) if branch.is_there(name, values)}
        return {SYSTEM: branch.system, TARGET_EPSILON: epsilon, **there}

    def middles(self) -> Iterator[dict[str, Scalar]]:
        """The middle of the space at its first budget, for each system of it: public, whatever the records are."""
        for branch in self.branches:
            yield self.config(branch, self.epsilons[0], branch.drawn(lambda: 0.5))

    def draw(self, rng: np.random.Generator, stratum: tuple[str, float] | None = None) -> dict[str, Scalar]:
        """One independent draw from the prior: system and budget uniform or given, each knob from its own domain."""
        branch = self.branches[int(rng.integers(len(self.branches)))]
        epsilon = self.epsilons[int(rng.integers(len(self.epsilons)))]
        if stratum is not None:
            branch, epsilon = self.branch(stratum[0]), stratum[1]
        return self.config(branch, epsilon, branch.drawn(lambda: float(rng.random())))

    def broken(self, config: Mapping[str, Scalar]) -> dict[str, float]:
        """The constraints that a point breaks, each by how much."""
        if not self.constraints:
            return {}
        values = self.branch(config[SYSTEM]).followed(config)
        amounts = {one.text: one.violation(values) for one in self.constraints if one.names <= values.keys()}
        return {text: amount for text, amount in amounts.items() if amount > 0}

    def said(self, config: Mapping[str, Scalar]) -> str:
        """Which constraints a point breaks, with its values, in words; "" where it breaks none."""
        broken = self.broken(config)
        values = self.branch(config[SYSTEM]).followed(config)
        names = sorted({name for one in self.constraints if one.text in broken for name in one.names})
        beside = ", ".join(f"{name}={float(values[name]):.6g}" for name in names)
        return f"{', '.join(broken)} does not hold of {beside}" if broken else ""

    def misfit(self, config: Mapping[str, Scalar]) -> str:
        """Why `config` is no point of this space, whatever its constraints say; "" when it is one."""
        problems = Problems()
        read = _read_point(self, config, "point", problems)
        if problems.errors:
            return str(problems.errors[0]).removesuffix(".")
        return "" if read == config else "it says something of other knobs"


Known = TypeVar("Known", str, float)

# Points that a person knows to be good, read and held against the space: `search.first` of a spec, and enqueued ones.
#
# Each is one point, complete: a value for every knob that is searched and is there beside the others, the system
# where there are several, and the budget where there are several. A point never leaves a budget open: what chose the
# point would then have chosen that too.


def read_point(space: Space, written: object, path: str, problems: Problems) -> dict[str, Scalar] | None:
    """The whole configuration of a point; None, and every problem is noted under `path`, where it is none of the space.

    written  {knob: value}, with `system` and `target_epsilon` where the space has several
    """
    if not isinstance(written, Mapping) or not written:
        problems.add(path, written, "a mapping from knobs to values", "For example {learning_rate: 0.1}.")
        return None
    before = len(problems.errors)
    config = _read_point(space, written, path, problems)
    if config is not None and (broken := space.broken(config)):
        problems.add(path, dict(written), f"a point of which {' and '.join(broken)} holds")
    return config if len(problems.errors) == before else None


def _read_point(space: Space, written: Mapping[Any, object], path: str, problems: Problems) -> dict[str, Scalar] | None:
    """As `read_point`, whatever the constraints say."""
    given = {str(name): value for name, value in written.items()}
    asked, target = given.pop(SYSTEM, Absent.ABSENT), given.pop(TARGET_EPSILON, Absent.ABSENT)
    systems = [branch.system for branch in space.branches]
    expected = f"a system of the sweep: {', '.join(systems)}"
    system = _one_of(systems, asked, asked, f"{path}.{SYSTEM}", expected, closest(asked, systems), problems)
    expected = f"a budget of the sweep: {', '.join(map(budget_text, space.epsilons))}"
    epsilon = _one_of(space.epsilons, target, as_number(target), f"{path}.{TARGET_EPSILON}", expected, "", problems)
    if system is None:
        return None
    before, branch = len(problems.errors), space.branch(system)
    knobs = _knobs(branch, given, path, problems)
    if epsilon is None or len(problems.errors) > before:
        return None
    return space.config(branch, epsilon, knobs)


def _one_of(
    known: Sequence[Known], given: object, meant: object, path: str, expected: str, remedy: str, problems: Problems
) -> Known | None:
    """The one that is meant by what was given, or the only one where nothing was."""
    absent = given is Absent.ABSENT
    found = known[0] if absent and len(known) == 1 else next((one for one in known if one == meant), None)
    if found is None:
        problems.add(path, given, expected, "Say which of them." if absent else remedy)
    return found


def _knobs(branch: Branch, given: Mapping[str, object], path: str, problems: Problems) -> dict[str, Scalar]:
    known = {*branch.fixed, *branch.searched, *branch.follows}
    out: dict[str, Scalar] = {}
    for name, value in given.items():
        here = f"{path}.{name}"
        if name not in known:
            problems.add(here, value, f"a knob of {branch.system} in the sweep", did_you_mean(name, known))
        elif name in branch.follows:
            problems.add(here, value, f"no value: {name} takes that of {branch.follows[name]}", "Leave it out.")
        elif name in branch.fixed:
            if (value if isinstance(value, str | bool) else as_number(value)) != branch.fixed[name]:
                problems.add(here, value, f"{branch.fixed[name]!r}, at which the sweep fixes it")
        elif (own := meant(branch.searched[name], value)) is None:
            problems.add(here, value, f"a value of the sweep's own: {branch.searched[name]}")
        else:
            out[name] = own
    # A deciding knob without a value, or a wrong one, decides nothing.
    beside = {**branch.fixed, **out}
    for name, domain in branch.searched.items():
        is_there = branch.is_there(name, beside)
        if name not in given and is_there:
            problems.add(f"{path}.{name}", Absent.ABSENT, f"a value of the sweep's own: {domain}", f"Add `{name}`.")
        elif name in out and not is_there:
            expected = f"no value: {name} is there only when {domain.condition}"
            problems.add(f"{path}.{name}", given[name], expected, "Leave it out.")
    return out


# The grid of a space, in an order of its own: point number k is found without walking there.
#
# What other knobs depend on decides which of them are there, and so how many points there are beside it; what
# constraints speak of decides whether there are any. These deciding knobs stand outermost; a combination of theirs is
# a block of points, the product of the knobs that are there beside it. A knob that is not there has no values: a point
# without it counts once.


Values = tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    """Points of one branch at one budget that share the values of its deciding knobs.

    free    values of the other knobs that are there beside these
    broken  whether they break a constraint
    """

    branch: Branch
    epsilon: float
    deciding: Mapping[str, Scalar]
    free: dict[str, Values]
    broken: bool

    @property
    def size(self) -> int:
        return prod(map(len, self.free.values()))


@dataclass(frozen=True, slots=True)
class SearchGrid:
    """Every point of a space once: systems and budgets outermost, the last knob innermost.

    ends      numbers at which each block ends
    left_out  how many points there are besides that break a constraint
    """

    space: Space
    blocks: Sequence[_Block]
    ends: Sequence[int]
    left_out: int

    @classmethod
    def of(cls, space: Space) -> SearchGrid:
        """The grid of a space. Raises ValueError for a continuous range without `points`."""
        every = list(_blocks(space))
        blocks = [block for block in every if not block.broken]
        ends = list(accumulate(block.size for block in blocks))
        return cls(space, blocks, ends, sum(block.size for block in every if block.broken))

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def point(self, index: int) -> dict[str, Scalar]:
        """Point `index`, from 0. Raises IndexError."""
        if not 0 <= index < len(self):
            raise IndexError(f"grid point {index} of {len(self)}")
        place = bisect_right(self.ends, index)
        block = self.blocks[place]
        knobs, index = dict(block.deciding), index - (self.ends[place] - block.size)
        for name, values in reversed(block.free.items()):
            index, position = divmod(index, len(values))
            knobs[name] = values[position]
        return self.space.config(block.branch, block.epsilon, knobs)


def _blocks(space: Space) -> Iterator[_Block]:
    for branch in space.branches:
        grids = {name: domain.grid() for name, domain in branch.searched.items()}
        names = _deciding(space, branch)
        for epsilon in space.epsilons:
            for values in product(*(grids[name] for name in names)):
                deciding = dict(zip(names, values, strict=True))
                beside = {**branch.fixed, **deciding}
                there = {name for name in grids if branch.is_there(name, beside)}
                # Of values of a knob that is not there the first stands for all.
                if any(name not in there and beside[name] != grids[name][0] for name in names):
                    continue
                free = {name: grid for name, grid in grids.items() if name in there and name not in deciding}
                broken = bool(space.constraints and space.broken(space.config(branch, epsilon, beside)))
                yield _Block(branch, epsilon, deciding, free, broken)


def _deciding(space: Space, branch: Branch) -> list[str]:
    """Searched knobs on which others depend, or of which constraints speak."""
    named = {other for domain in branch.searched.values() for other, _ in domain.when}
    for one in space.constraints:
        named |= {branch.follows.get(name, name) for name in one.names}
    return [name for name in branch.searched if name in named]
