"""One self-contained HTML page about a sweep, for a person who has to defend its epsilons."""

from __future__ import annotations

from pathlib import Path

from sweeps.release.publisher import Publisher
from sweeps.report.content import Content, gather
from sweeps.report.page import front_page, report_page
from sweeps.util.files import write_output

__all__ = ["Content", "front_page", "gather", "report_page", "write_report"]


def write_report(store: Publisher, sweep: str, path: Path | str) -> Path:
    """Write the page of `sweep` to `path` and return it. Raises UnknownSweep, OSError."""
    return write_output(report_page(gather(store, sweep)), Path(path))
