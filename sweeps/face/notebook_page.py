"""Lines for people as a notebook shows them: the same words, what the statuses rest on folded away."""

from __future__ import annotations

from html import escape

from sweeps.ledger.assumptions import HEADING
from sweeps.util.suggest import as_html


def as_page(head: str, *lines: str) -> str:
    """HTML of what `print` says: `head` and the label of each line in bold.

    lines  "claim    one trial by itself: ...": a label ends at two blanks; what statuses rest on comes last
    """
    said = list(lines)
    where = said.index(f"{HEADING}:") if f"{HEADING}:" in said else len(said)
    listed = "<br>".join(_labelled(line) for line in said[:where])
    return f"<p><b>{escape(head)}</b></p><p>{listed}</p>{folded([line.strip() for line in said[where + 1 :]])}"


def folded(sentences: list[str]) -> str:
    """What statuses rest on, numbered as they are cited, seen by whoever opens it. Empty without a sentence."""
    listed = "<br>".join(map(as_html, sentences))
    return f"<details><summary>{HEADING}</summary><p>{listed}</p></details>" if sentences else ""


def _labelled(line: str) -> str:
    label, blanks, rest = line.partition("  ")
    return f"<b>{escape(label)}</b> {as_html(rest.strip())}" if blanks and label else as_html(line)
