"""What the claim of a private selection rests on besides what its trials' claims do: one sentence each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sweeps.spec.sections import Selection

SEALED = (
    "The number of trials, the other trials, and which of them won stay inside the release boundary for ever: nobody "
    "outside sees the load, memory, power or bill of the machines, Ray's dashboard, logs, object store and what that "
    "spills to disk, or the sweep's folder while it runs."
)
FAILURES = (
    "Whether a trial fails or is late does not depend on the records but through its private state: nothing is added "
    "to delta for memory that ran out, an exception, or a deadline that was missed."
)
LOSSES = (
    "Workers are lost independently of the records; what they ran is run again with the same randomness, on machines "
    "that compute alike."
)
OF_THE_PRIOR = "The space and its prior were"
"""As every sentence on it begins."""
PRIOR = f"{OF_THE_PRIOR} not chosen by looking at these records."
ADAPTED = (
    "Which configurations were proposed, of those that might have been, did not decide whether the search was over by "
    "its deadline: that leaves time for the dearest of them in every place."
)
TARGET = "The target was fixed before the search, and not by looking at these records."
OF_EVERY_SEARCH = (SEALED, FAILURES, LOSSES)
"""Whatever its prior was chosen by."""


def rests_on(selection: Selection) -> tuple[str, ...]:
    """What the claim of a private selection rests on, or leaves out, besides what its trials' claims do."""
    said = selection.chosen_by
    chosen = (
        PRIOR
        if said is None
        else f"{OF_THE_PRIOR} chosen by looking at these records, which this claim does not cover: {said}"
    )
    adapted = () if selection.adapt is None else (ADAPTED,)
    return *OF_EVERY_SEARCH, *adapted, chosen, *(() if selection.target is None else (TARGET,))
