"""Sentences for people as HTML: what stands between backticks is code there too."""

from __future__ import annotations

import re
from html import escape

_CODE = re.compile(r"`([^`]+)`")


def as_html(sentence: str) -> str:
    """`sentence` with nothing in it that a page would take for markup of its own."""
    return _CODE.sub(r"<code>\1</code>", escape(sentence))
