"""A trial in small, on made-up records: what would break after hours, or on a cluster, breaks here in seconds.

No record of the data is read, so everything here may be printed.
"""

from __future__ import annotations

from trainables.rehearsal.findings import CannotRun, MemoryLimits, Rehearsed, Setting, Step

__all__ = ["CannotRun", "MemoryLimits", "Rehearsed", "Setting", "Step"]
