"""A trial in small, on made-up records: what would break after hours, or on a cluster, breaks here in seconds.

setting    how much of a trial is run, and on how many records
made_up    records drawn from public facts alone, the same every time
step       one gradient step looked at closely: shapes, loss, isolation, routes, seconds, memory
rehearse   the system's own `fit` over the made-up records, and what it reports
findings   what came of it, and why it did not

No record of the data is read, so everything here may be printed.
"""

from __future__ import annotations

from trainables.rehearsal.findings import CannotRun, Rehearsed, Step
from trainables.rehearsal.rehearse import rehearse
from trainables.rehearsal.setting import SetsItsRehearsal, Setting, setting_of

__all__ = ["CannotRun", "Rehearsed", "SetsItsRehearsal", "Setting", "Step", "rehearse", "setting_of"]
