"""The rows of the table: each a thing that a person wants of a sweep, in one sentence."""

from __future__ import annotations

from enum import StrEnum


class Row(StrEnum):
    """A row; a peer tries it in a function of the same name (lower case), whose text says what was seen."""

    KILLED = "killed (SIGKILL) in the middle of a trial, then resumed: what was finished stays, the trial goes on"
    EXTENDED = "a finished search gets more trials"
    ENQUEUED = "a known point is tried next, asked for from another process"
    STOPPED = "stopped from another process, so that it can be resumed"
    LISTED = "trials as a table, filtered and sorted"
    FRONT = "the front of two objectives"
    JOINED = "one front over two searches"
    CONDITIONAL = "a knob that is there only for some values of another"
    CONSTRAINED = "a relation between knobs that has to hold, before anything runs"
    PRUNED = "early stopping with two objectives"
    EXPORTED = "the best model taken out without a pickle"
    PREDICTED = "predictions of that model for the rows of a file"
    NOTED = "a note and a tag, written beside a running search"
    DELETED = "deleted; what it did stays on record"
    MISSPELLED = "a misspelled knob is refused before anything runs"
    CHARGED = "says what the whole search has spent of a privacy budget"


class NotThere(Exception):
    """The peer has no such thing; the text says what was looked for, or what one writes in its place."""
