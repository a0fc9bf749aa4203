"""Domains under Optuna's names: {float: {low, high, log, step}}, {int: {...}} and {categorical: [...]}.

They are other spellings of the domains of a spec, into which they are translated before anything looks at them: one
form is checked, stored and digested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweeps.process.suggestions import did_you_mean
from sweeps.spec.domains import KINDS
from sweeps.spec.problems import Problems

NAMES = ("float", "int", "categorical")
_KEYS = ("low", "high", "log", "step")


def translated(path: str, raw: Mapping[Any, Any], problems: Problems) -> Mapping[Any, Any] | None:
    """`raw` with such a domain in the words of a spec; as it is without one; None after noting what is wrong."""
    given = [name for name in NAMES if name in raw]
    if not given:
        return raw
    if len(given) + sum(kind in raw for kind in KINDS) > 1:
        problems.add(path, dict(raw), "exactly one domain of " + ", ".join((*KINDS, *NAMES)))
        return None
    name, others = given[0], {key: value for key, value in raw.items() if key != given[0]}
    inside, here = raw[name], f"{path}.{name}"
    if name == "categorical":
        return {"choice": inside, **others}
    before = len(problems.errors)
    if "step" in others:
        problems.add(f"{path}.step", others["step"], f"`step` among the keys of `{name}`", "Move it there.")
    if not isinstance(inside, Mapping) or "low" not in inside or "high" not in inside:
        problems.add(here, inside, "{low: A, high: B}, and log: true or step: C where it is meant")
        return None
    for key in inside:
        if key not in _KEYS:
            problems.add(f"{here}.{key}", inside[key], f"a key of `{name}`", did_you_mean(key, _KEYS))
    log, step = inside.get("log", False), inside.get("step")
    if not isinstance(log, bool):
        problems.add(f"{here}.log", log, "true or false")
    if len(problems.errors) > before:
        return None
    # Optuna writes the step of 1 of an int too, where it is the only one that may be.
    stepped = step is not None and not (name == "int" and step == 1 and not isinstance(step, bool))
    kind = ("int_" if name == "int" else "") + ("log_" if log else "") + "uniform"
    return {kind: [inside["low"], inside["high"]], **({"step": step} if stepped else {}), **others}
