"""Names that a person may have meant by one that nobody knows: one rule for specs, sweeps, options and columns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

ALIKE = 0.75
"""Least share of letters that two names have in common, in order, to be called alike (Ratcliff and Metzener 1988):
`noise` and `none` (.67) or `sweep` and `steps` (.6) are different words, `sgd` and `sgld` (.86) are not.
"""
SHORTEST = 3
"""Letters from which the beginning of a name stands for it (`batch` for `batch_size`), and one wrong letter is a slip
(`tpy` for `toy`)."""
LISTED = 12
OTHER_WORDS = {"gpu": "cuda"}
"""What some call by another word, which may look like the opposite: `gpu` is one letter from `cpu`."""


def closest(word: object, known: Iterable[str]) -> str:
    """A remedy for a misspelt name: the known one that is alike, if any is."""
    near = nearest(word, known, 1)
    return f"Did you mean `{near[0]}`?" if near else ""


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A remedy for an unknown name: the known one that is alike, else all of them."""
    names = sorted(known)
    return closest(word, names) or ("Known: " + ", ".join(f"`{name}`" for name in names) + "." if names else "")


def nearest(word: object, known: Iterable[str], count: int) -> list[str]:
    """At most `count` known names that are alike, the most alike first."""
    given, known = _plain(str(word)), set(known)
    if OTHER_WORDS.get(given) in known:
        return [OTHER_WORDS[given]][:count]
    alike = sorted((-_likeness(given, _plain(name)), name) for name in known)
    return [name for likeness, name in alike if -likeness >= ALIKE][:count]


def _likeness(given: str, name: str) -> float:
    shorter, longer = sorted((given, name), key=len)
    if len(shorter) >= SHORTEST and longer.startswith(shorter):
        return max(ALIKE, len(shorter) / len(longer))
    if len(given) == len(name) >= SHORTEST and sum(a != b for a, b in zip(given, name, strict=True)) == 1:
        return ALIKE
    return difflib.SequenceMatcher(None, given, name).ratio()


def _plain(name: str) -> str:
    return name.strip().lower().replace("_", "-")
