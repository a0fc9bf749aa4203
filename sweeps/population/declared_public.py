"""Records that a sweep over a population declares public: no ledger counts what leaves of them.

Only a file of their own may be declared so: a part of the population's records is private, or the ledger would show
nothing for exact scores on them (`sweeps.spec.rules.check_population`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

PARTS = ("validation", "test")
"""Of a data section: records that nobody trains on."""


def public_files(data: Mapping[str, Any]) -> tuple[str, ...]:
    """A sentence for each part of a data section that is a file declared public."""
    return tuple(_said(data))


def own_public_parts(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the parts of a data section that are records of its own source, and declared public."""
    return tuple(name for name in PARTS if _is_public(data.get(name)) and not data[name].get("path"))


def _said(data: Mapping[str, Any]) -> Iterator[str]:
    for name in PARTS:
        if _is_public(data.get(name)) and data[name].get("path"):
            yield (
                f"the {name} records in {data[name]['path']} are declared public, as people outside of the population: "
                "what leaves of them is not counted here"
            )


def _is_public(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("records") == "public"
