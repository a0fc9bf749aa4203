"""The comparison that the guide shows is the one that is printed, and DP-SGD is compared in half a minute."""

from __future__ import annotations

import time
from pathlib import Path

import sweeps
from sweeps.selection.compare import compared, table

PAGE = (Path(__file__).parents[3] / "sweeps/guide/paying.md").read_text(encoding="utf-8")


def test_the_page_shows_what_is_printed() -> None:
    begun = time.process_time()
    found = compared(sweeps.load("quickstart"))
    assert time.process_time() - begun < 30
    assert "\n".join(f"  {line}" for line in table(found)) in PAGE
