"""Sentences for people: beside a label on the terminal, as HTML, and what they may have meant by a name."""

from __future__ import annotations

import difflib
import re
import shutil
import textwrap
from collections.abc import Iterable
from html import escape

from dpcore.checks import InvalidValue


def check_text(name: str, text: str) -> str:
    """A text from outside, as it is. Raises InvalidValue where it is no UTF-8: nothing that keeps it could be read."""
    try:
        text.encode()
    except UnicodeEncodeError:
        remedy = "Write it in UTF-8; a file or folder with such a name has to be renamed."
        raise InvalidValue(name, text, "a text that UTF-8 can hold", remedy) from None
    return text


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def check_name(option: str, name: str, of: str = "") -> None:
    """What may name a folder too.  of  what is named: "a key of ". Raises InvalidValue."""
    if not _NAME.fullmatch(name):
        raise InvalidValue(option, name, f"{of}letters, digits, dots, dashes and underscores, at most 100")


LABEL = 13
"""Columns of a label at the left; sentences hang behind it."""
_CODE = re.compile(r"`([^`]+)`")


def hanging(label: str, text: str, width: int = 0) -> str:
    """A label, and its text beside it, broken at `width` columns (the terminal's by default); no word is broken."""
    first, rest = f"{label:<{LABEL - 1}} ", " " * LABEL
    return textwrap.fill(
        text, max(width or shutil.get_terminal_size().columns, 40), initial_indent=first, subsequent_indent=rest,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def as_html(sentence: str) -> str:
    """`sentence` with nothing in it that a page would take for markup of its own; what is in backticks is code."""
    return _CODE.sub(r"<code>\1</code>", escape(sentence))


# Words of an exception, for the person at the terminal.

LONGEST = 600
"""Characters of a message that a terminal shows; the file has them all."""
QUOTES = "Its words may quote a record: they are in that file and here, in no store and no view."


def shortened(text: str) -> str:
    """At most LONGEST characters of it."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


# Names that a person may have meant by one that nobody knows: one rule for specs, sweeps, options and columns.

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
