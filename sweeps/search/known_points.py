"""Points that a person knows to be good, read and held against the space: `search.first` of a spec, and enqueued ones.

Each is one point, complete: a value for every knob that is searched and is there beside the others, the system where
there are several, and the budget where there are several. A point never leaves a budget open: what chose the point
would then have chosen that too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpcore.rounding import budget_text
from sweeps.process.suggestions import closest, did_you_mean
from sweeps.records import SYSTEM, TARGET_EPSILON
from sweeps.search.space import Branch, Space
from sweeps.spec.problems import Absent, Problems
from sweeps.spec.values import as_number, meant
from trainables.system import Scalar


def read_point(space: Space, written: object, path: str, problems: Problems) -> dict[str, Scalar] | None:
    """The whole configuration of a point; None, and every problem is noted under `path`, where it is none of the space.

    written  {knob: value}, with `system` and `target_epsilon` where the space has several
    """
    if not isinstance(written, Mapping) or not written:
        problems.add(path, written, "a mapping from knobs to values", "For example {learning_rate: 0.1}.")
        return None
    before = len(problems.errors)
    given = {str(name): value for name, value in written.items()}
    branch = _branch(space, given.pop(SYSTEM, Absent.ABSENT), path, problems)
    epsilon = _one_of(space.epsilons, given.pop(TARGET_EPSILON, Absent.ABSENT), f"{path}.{TARGET_EPSILON}", problems)
    if branch is None:
        return None
    knobs = _knobs(branch, given, path, problems)
    if epsilon is None or len(problems.errors) > before:
        return None
    config = space.config(branch, epsilon, knobs)
    if broken := space.broken(config):
        problems.add(path, dict(written), f"a point of which {' and '.join(broken)} holds")
    return config if len(problems.errors) == before else None


def _branch(space: Space, system: object, path: str, problems: Problems) -> Branch | None:
    names = [branch.system for branch in space.branches]
    absent = system is Absent.ABSENT
    if absent and len(names) == 1:
        return space.branches[0]
    if system not in names:
        remedy = "Say which of them." if absent else closest(system, names)
        problems.add(f"{path}.{SYSTEM}", system, f"a system of the sweep: {', '.join(names)}", remedy)
        return None
    return space.branch(str(system))


def _one_of(epsilons: Sequence[float], given: object, path: str, problems: Problems) -> float | None:
    absent = given is Absent.ABSENT
    if absent and len(epsilons) == 1:
        return epsilons[0]
    number = None if absent else as_number(given)
    if number not in epsilons:
        budgets = ", ".join(map(budget_text, epsilons))
        problems.add(path, given, f"a budget of the sweep: {budgets}", "Say which of them." if absent else "")
        return None
    return number


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
