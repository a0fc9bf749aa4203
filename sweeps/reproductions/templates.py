"""Templates of a paper's file: texts and trees of values in which names in braces stand for measured or given ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import Any

Values = Mapping[str, Any]
"""Values by the names that a paper's file gives them."""

ALONE = re.compile(r"\{[\w.]+\}")


def value(name: str, values: Values) -> Any:
    """A name among the values, or "name.part" of one: an attribute, or an entry. Raises KeyError, AttributeError."""
    head, *rest = name.split(".")
    return reduce(lambda one, part: one[part] if isinstance(one, Mapping) else getattr(one, part), rest, values[head])


def filled(tree: Any, values: Values) -> Any:
    """A template with its values; of one name in braces alone, the value itself. An entry that becomes None is absent.

    tree  a text, or mappings and lists of such; anything else stays as it is
    """
    if isinstance(tree, str):
        return value(tree[1:-1], values) if ALONE.fullmatch(tree) else tree.format_map(values)
    if isinstance(tree, Mapping):
        made = ((filled(name, values), filled(one, values)) for name, one in tree.items())
        return {name: one for name, one in made if one is not None}
    return [filled(one, values) for one in tree] if isinstance(tree, list) else tree
