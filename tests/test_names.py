"""A name means one thing: no two public classes of the packages have the same."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("dpcore", "trainables", "sweeps")


def classes() -> Counter[str]:
    """How many files define a public class of each name."""
    found: Counter[str] = Counter()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found.update(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return Counter({name: count for name, count in found.items() if not name.startswith("_")})


def test_no_two_public_classes_have_one_name() -> None:
    found = classes()
    assert len(found) > 300, "the search itself finds what is there"
    assert not {name for name, count in found.items() if count > 1}
