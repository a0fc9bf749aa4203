"""The `constraints` section: each relation read, then held against the knobs of the sweep."""

from __future__ import annotations

from collections.abc import Sequence

from dpcore.checks import InvalidValue
from sweeps.process.suggestions import did_you_mean
from sweeps.records import TARGET_EPSILON
from sweeps.spec.constraints import FORM, Constraint
from sweeps.spec.domains import Domain
from sweeps.spec.draft import Draft
from sweeps.spec.problems import Problems
from sweeps.spec.same_as import spelled_out
from trainables.system import Scalar

SECTION = "constraints"


def sound(draft: Draft, problems: Problems) -> Sequence[str]:
    """The constraints of a draft that was checked, unless something is wrong with one."""
    wrong = any(one.path.partition(".")[0] == SECTION for one in problems.errors)
    return () if wrong else draft.constraints or ()


def check_constraints(draft: Draft, problems: Problems) -> None:
    """Each relation speaks of knobs of one system, all of them numbers that are known before a trial is planned."""
    found: set[str] = set()
    for i, text in enumerate(draft.constraints or ()):
        path = f"{SECTION}.{i}"
        try:
            one = Constraint.parse(text)
        except (InvalidValue, OverflowError) as error:
            problems.add(path, text, error.expected if isinstance(error, InvalidValue) else FORM)
            continue
        if one.text in found:
            problems.add(path, text, "each relation once")
        found.add(one.text)
        if draft.systems:
            _check_names(path, one, draft, problems)


def _check_names(path: str, one: Constraint, draft: Draft, problems: Problems) -> None:
    systems = {name: spelled_out(draft.systems, name) for name in draft.systems}
    known = {name for knobs in systems.values() for name in knobs}
    solved = {name for system in draft.chosen for name in system.solves.values()} - known
    before = len(problems.errors)
    for name in sorted(one.names - known - {TARGET_EPSILON}):
        if name in solved:
            limit = f"`limits.{name}` bounds it." if name == "noise_multiplier" else ""
            problems.add(path, one.text, f"knobs with a value before a trial is planned: {name} is solved", limit)
        else:
            problems.add(path, one.text, f"knobs of the sweep, which {name} is not", did_you_mean(name, known))
    if len(problems.errors) > before:
        return
    names = one.names - {TARGET_EPSILON}
    if not names:
        problems.add(path, one.text, "a relation that names a knob")
        return
    together = [knobs for knobs in systems.values() if names <= knobs.keys()]
    if not together:
        problems.add(path, one.text, f"knobs of one system: none has all of {', '.join(sorted(names))}")
    for name in sorted(names):
        if any(isinstance(value, bool | str) for knobs in together for value in _values(knobs[name])):
            remedy = "With `when`, a knob depends on what is no number."
            problems.add(path, one.text, f"knobs that are numbers, which {name} is not", remedy)


def _values(knob: Scalar | Domain) -> Sequence[Scalar]:
    return knob.values if isinstance(knob, Domain) else (knob,)
