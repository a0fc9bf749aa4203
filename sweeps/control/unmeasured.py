"""Metrics that a spec asks for and that finished trials do not have, in words for the end of a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from sweeps.records import TrialState
from sweeps.release.published import Published
from trainables.metrics import Metric


def unmeasured_lines(
    records: Iterable[Published], asked: Sequence[str], declared: dict[str, Metric]
) -> tuple[str, ...]:
    """One sentence for each of `asked` that is missing or no number in a finished trial, with what the metric is."""
    finished = [record for record in records if record.state is TrialState.COMPLETE]
    lines = []
    for name in asked:
        without = [record for record in finished if _is_unmeasured(record.metric(name))]
        if without and name in declared:
            lines.append(
                f"{name} is no number in {len(without)} of {len(finished)} finished trials, the first of them "
                f"{without[0].key}: {declared[name].doc}."
            )
    return tuple(lines)


def _is_unmeasured(value: float | None) -> bool:
    return value is None or math.isnan(value)
