"""Sentences for people: beside a label on the terminal, and as HTML."""

from __future__ import annotations

import re
import shutil
import textwrap
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


LABEL = 13
"""Columns of a label at the left; sentences hang behind it."""
_CODE = re.compile(r"`([^`]+)`")


def hanging(label: str, text: str, width: int = 0) -> str:
    """A label, and its text beside it, broken at `width` columns (the terminal's by default); no word is broken."""
    first, rest = f"{label:<{LABEL}}", " " * LABEL
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
