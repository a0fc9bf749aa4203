"""The exam's spec (`tests.sweeps.toys.SPEC`), loaded with the toys' systems and sources, and with one value changed."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from sweeps.spec.parse import load_spec
from sweeps.spec.sections import SweepSpec
from tests.sweeps.toys import SOURCES, SPEC, SYSTEMS


def load(raw: Any, **changes: Any) -> SweepSpec:
    return load_spec(raw, systems=SYSTEMS, sources=SOURCES, **changes)


def changed(path: str, value: Any) -> dict[str, Any]:
    """The exam's spec with one value put in, or taken out when it is `...`."""
    raw = deepcopy(SPEC)
    *parents, last = path.split("/")
    inner: Any = raw
    for parent in parents:
        inner = inner[int(parent)] if isinstance(inner, list) else inner.setdefault(parent, {})
    if isinstance(inner, list):
        inner[int(last)] = value
    elif value is ...:
        del inner[last]
    else:
        inner[last] = value
    return raw
