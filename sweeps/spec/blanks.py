"""A blank of a spec: a value that nobody may guess, written `???` until a person has filled it in."""

from __future__ import annotations

from typing import Any

from sweeps.spec.problems import Problems
from sweeps.spec.secrecy import texts

BLANK = "???"


def check_no_blanks(raw: Any, problems: Problems) -> None:
    """Every blank is named at once, before anything else is said of the spec."""
    for path, text in texts(raw):
        if text.strip() == BLANK:
            problems.add(path, text, "a value: this blank is not filled in yet")
