"""Words that a screen or a page cannot avoid, each in a few sentences for somebody who never met them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from dpcore.checks import InvalidValue
from sweeps.util.text import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A word and what it means here.

    meaning  a few sentences
    see      words that belong to it, each explained too
    """

    word: str
    meaning: str
    see: list[str]

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        see = f"\nSee also: {', '.join(self.see)}." if self.see else ""
        return f"{self.word}: {self.meaning}{see}"


def _glossary() -> Mapping[str, Explained]:
    words = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {
        word: Explained(word=word, meaning=told["meaning"], see=told.get("see", [])) for word, told in words.items()
    }


GLOSSARY = _glossary()
"""{word: what it means}."""


def explain(word: str) -> Explained:
    """What a word means that is printed here: `epsilon`, `claim`, `add-remove`, `status`, ... Case does not matter.

    Raises InvalidValue for a word that is not explained, with the closest that is.
    """
    plain = word.strip().lower().replace("_", "-").replace(" ", "-")
    if plain not in GLOSSARY:
        raise InvalidValue("WORD", word, "a word that is explained here", did_you_mean(plain, GLOSSARY))
    return GLOSSARY[plain]
