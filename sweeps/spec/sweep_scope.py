"""Checks of a budget for everything that leaves a sweep (`scope: sweep`, `release: all`), and of what belongs to it.

Whatever would leave such a sweep without being counted is refused: then its total would promise more than it keeps.
"""

from __future__ import annotations

from dpcore.checks import InvalidValue
from sweeps.budget.sweep_budget import budget_of_sections
from sweeps.spec.draft import Draft
from sweeps.spec.problems import Problems
from trainables.data import SOURCES
from trainables.data.splits import HasTestRecords
from trainables.metrics import Dependence
from trainables.publishing import OWN_METRICS, declared

OWN = ("spread", "shares", "filter", "order")
"""Settings of such a budget alone."""


def check_sweep_scope(draft: Draft, problems: Problems) -> None:
    """A budget of the whole sweep, or settings that nothing would read."""
    privacy, search = draft.privacy, draft.search
    if privacy is None:
        return
    if (privacy.scope, privacy.release) != ("sweep", "all"):
        for name in OWN:
            if name in draft.written_privacy:
                problems.add(
                    f"privacy.{name}",
                    draft.written_privacy[name],
                    "left out unless scope is sweep and release is all: it spreads a budget of the whole sweep",
                    "Add `scope: sweep`, or drop it.",
                )
        return
    if len(privacy.epsilon) > 1:
        problems.add(
            "privacy.epsilon",
            list(privacy.epsilon),
            "one number with scope: sweep, which is spread over the trials",
            "Name the total alone; several totals are several sweeps.",
        )
    if privacy.spread == "halving" and draft.early_stopping is None:
        problems.add(
            "privacy.spread",
            "halving",
            "equal or front-loaded without early_stopping: it counts on rungs that most trials never reach",
            "Add `early_stopping: {method: asha}`, or choose equal.",
        )
    if (privacy.order is None) != (privacy.filter == "gdp"):
        problems.add(
            "privacy.order",
            privacy.order,
            "an order above 1 with filter: renyi, fixed before the first trial, and none with gdp",
            "For example `filter: renyi`, `order: 8`." if privacy.order is None else "Drop it, or use filter: renyi.",
        )
    elif search is not None:
        try:
            budget = budget_of_sections(privacy, search, draft.early_stopping)
            assert budget is not None
            _ = budget.trial_epsilon
        except InvalidValue as error:
            problems.add(f"privacy.{error.name}", error.value, error.expected, "A higher order leaves more.")
    _check_uncounted(draft, problems)


def _check_uncounted(draft: Draft, problems: Problems) -> None:
    """What would leave, or steer the search, without being counted."""
    privacy = draft.privacy
    assert privacy is not None
    for name in ("allow_raw_measures", "allow_unprotected"):
        if (why := getattr(privacy, name)) is not None:
            problems.add(
                f"privacy.{name}",
                why,
                "left out with scope: sweep: what no claim covers is in no total",
                "Drop it, or use scope: trial.",
            )
    for path, metric in draft.asked:
        if not path.startswith("objectives"):
            continue
        named = [OWN_METRICS.get(metric), *(declared(one, [metric]).get(metric) for one in draft.chosen)]
        if any(one is not None and one.depends is Dependence.SIDE_CHANNEL for one in named):
            problems.add(
                path,
                metric,
                "a metric that the total covers: running times and memory depend on the records, and would choose "
                "trials by them",
                "List it under `report`.",
            )
    if draft.data is None or draft.facts is None:
        return
    source = SOURCES.get(draft.data.source)
    held = source.held_out(draft.data.options()) if isinstance(source, HasTestRecords) else None
    if held is not None and held.private:
        problems.add(
            "data.test.records",
            "private",
            "public with scope: sweep: its filter counts launches, and no readings of private test records",
            "Declare the test records public if that is true, or use scope: trial.",
        )
