"""Where the volume under a front ends: what the spec says, else what is public beforehand, never what was observed.

A reference that depended on the results would move with them: two sweeps, or one at two times, could not be compared.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sweeps.process.suggestions import did_you_mean
from sweeps.spec.budgets import BUDGET_AXES, beyond
from sweeps.spec.draft import Draft
from sweeps.spec.problems import Problems
from sweeps.spec.sections import FrontOptions, Limits, Privacy, Reference
from trainables.measures.objectives import MEASURES
from trainables.measures.quality import GROUPED, QUALITY
from trainables.publishing import OWN_METRICS, declared
from trainables.system import PublicFacts, System
from trainables.worst import natural_worst


def references(
    given: FrontOptions,
    privacy: Privacy,
    limits: Limits,
    chosen: Sequence[System],
    facts: PublicFacts | None,
    asked: Collection[str],
) -> FrontOptions:
    """With every reference that follows from budgets, limits and the metrics of the systems; given ones go before.

    asked  metrics that the spec names: of `trainables.measures.quality` no other is ever reported
    """
    found: dict[str, Reference] = {}
    found |= dict.fromkeys(BUDGET_AXES, beyond(privacy.epsilon))
    if limits.work is not None:
        found["work"] = _derived(limits.work, "limits.work")
    if facts is not None:
        for metric in {name: one for system in chosen for name, one in declared(system, asked).items()}.values():
            told = metric.name in asked or metric.name not in (*QUALITY, *GROUPED)
            worst = natural_worst(metric, facts) if told else None
            if worst is not None:
                found[metric.name] = _derived(*worst)
    own = {name: one for name, one in given.reference.items() if not one.derived}
    return FrontOptions(reference=dict(sorted((found | own).items())))


def _derived(value: float, source: str) -> Reference:
    return Reference(value=value, source=source, derived=True)


def check_references(draft: Draft, problems: Problems) -> None:
    """A reference of a metric that no system reports is a slip of the pen."""
    chosen, given = draft.chosen, {} if draft.front is None else draft.front.reference
    asked = [name for _, name in draft.asked]
    known = set(OWN_METRICS).union(MEASURES, *(declared(system, asked) for system in chosen))
    for name, one in given.items():
        if chosen and name not in known:
            expected = f"a metric that {', '.join(system.name for system in chosen)} reports"
            problems.add(f"front.reference.{name}", one.value, expected, did_you_mean(name, known))
