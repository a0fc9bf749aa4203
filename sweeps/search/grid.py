"""The grid of a space, in an order of its own: point number k is found without walking there.

What other knobs depend on decides which of them are there, and so how many points there are beside it; what constraints
speak of decides whether there are any. These deciding knobs stand outermost; a combination of theirs is a block of
points, the product of the knobs that are there beside it. A knob that is not there has no values: a point without it
counts once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from math import prod

from sweeps.search.space import Branch, Space
from trainables.system import Scalar

Values = tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    """Points of one branch at one budget that share the values of its deciding knobs.

    index   of this combination in the product of their grids
    broken  whether it breaks a constraint
    """

    branch: int
    epsilon: float
    index: int
    size: int
    broken: bool


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
        branch = self.space.branches[block.branch]
        deciding = _grids(branch, _deciding(self.space, branch))
        knobs = _at(deciding, block.index)
        beside = {**branch.fixed, **knobs}
        free = _grids(
            branch, [name for name in branch.searched if name not in deciding and branch.is_there(name, beside)]
        )
        knobs |= _at(free, index - (self.ends[place] - block.size))
        return self.space.config(branch, block.epsilon, knobs)


def points_up_to(limit: int, space: Space) -> int:
    """How many points the grid has for each budget, rounded up; where counting them would pass the limit itself, as
    many as without conditions and constraints.

    Raises ValueError for a continuous range without `points`.
    """
    product, looks = 0, 0
    for branch in space.branches:
        sizes = {name: domain.grid_size for name, domain in branch.searched.items()}
        product += prod(sizes.values())
        looks += max(prod(sizes[name] for name in _deciding(space, branch)), *sizes.values(), 0)
    if looks > limit or (product <= limit and not space.constraints):
        return product
    return -(-len(SearchGrid.of(space)) // len(space.epsilons))


def _blocks(space: Space) -> Iterator[_Block]:
    for number, branch in enumerate(space.branches):
        deciding = _deciding(space, branch)
        grids = _grids(branch, deciding)
        others = {name: len(branch.searched[name].grid()) for name in branch.searched if name not in grids}
        for epsilon in space.epsilons:
            for index, values in enumerate(product(*grids.values())):
                chosen = {**branch.fixed, **dict(zip(grids, values, strict=True))}
                if any(chosen[name] != own[0] and not branch.is_there(name, chosen) for name, own in grids.items()):
                    continue
                size = prod(count for name, count in others.items() if branch.is_there(name, chosen))
                broken = bool(space.constraints and space.broken(space.config(branch, epsilon, chosen)))
                yield _Block(number, epsilon, index, size, broken)


def _deciding(space: Space, branch: Branch) -> list[str]:
    """Searched knobs on which others depend, or of which constraints speak."""
    named = {other for domain in branch.searched.values() for other, _ in domain.when}
    for one in space.constraints:
        named |= {branch.follows.get(name, name) for name in one.names}
    return [name for name in branch.searched if name in named]


def _grids(branch: Branch, names: Sequence[str]) -> dict[str, Values]:
    return {name: branch.searched[name].grid() for name in names}


def _at(grids: Mapping[str, Values], index: int) -> dict[str, Scalar]:
    """Combination `index` of the product of these grids, the last one innermost."""
    found: dict[str, Scalar] = {}
    for name, values in reversed(list(grids.items())):
        index, place = divmod(index, len(values))
        found[name] = values[place]
    return found
