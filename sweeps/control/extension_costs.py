"""What all trials of an extended sweep will have released, estimated before any more of them runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, islice

from sweeps.held_out.readings import charged
from sweeps.ledger.spending import choices_of
from sweeps.ledger.text import TOTAL_SHOWN_UP_TO
from sweeps.planning.plan import plan_proposal
from sweeps.records import TARGET_EPSILON, Extension
from sweeps.release.published import Published
from sweeps.release.publisher import Publisher
from sweeps.search import samplers
from sweeps.spec import SweepSpec, public_facts
from sweeps.store import Store
from trainables.system import PrivacyPlan

PLANS = 200
"""Of the trials so far, from which the cost of more of them is estimated."""
AT_A_NEW_BUDGET = 4
"""Points so far that are planned at each budget that is new: a plan may take a second."""


def cost_of(store: Store, sweep: str, spec: SweepSpec, extension: Extension) -> str:
    """The total of all trials, estimated from those that are there; empty where nothing tells it in seconds.

    spec       what the sweep goes on under, the extension included
    extension  the last one, which is recorded by now
    """
    from sweeps.planning.estimate import estimated_total

    if spec.search.trials > TOTAL_SHOWN_UP_TO:
        return ""
    seen = Publisher(store)
    record, records = seen.sweep(sweep), seen.trials(sweep)
    latest = [one for one in records if one.plan is not None][-PLANS:]
    plans = [one.plan for one in latest if one.plan is not None]
    if extension.epsilon and plans:
        later = _to_come(store, spec, extension, latest)
        launched = min(extension.launched, spec.search.trials)
        plans = [*islice(cycle(plans), launched), *islice(later, spec.search.trials - launched)]
    estimate, _ = estimated_total(spec, plans, choices_of(record, records), charged(seen, record))
    return "" if estimate is None else str(estimate)


def _to_come(store: Store, spec: SweepSpec, extension: Extension, latest: Sequence[Published]) -> Iterator[PrivacyPlan]:
    """Plans as of trials that are not proposed yet, without end: budgets in turn, the largest first; of a grid, those
    that are new."""
    known: dict[float, list[PrivacyPlan]] = {}
    for one in latest:
        if one.plan is not None:
            known.setdefault(float(one.config[TARGET_EPSILON]), []).append(one.plan)
    facts, calibrations = public_facts(spec), store.calibrations()
    budgets = extension.epsilon if samplers.walks_grid(spec.search.sampler) else spec.privacy.epsilon
    for budget in budgets:
        if budget not in known:
            points = [{**one.config, TARGET_EPSILON: budget} for one in latest[-AT_A_NEW_BUDGET:]]
            planned = [plan_proposal(spec, point, facts, calibrations) for point in points]
            known[budget] = [plan for plan in planned if isinstance(plan, PrivacyPlan)]
    every = [cycle(known[one]) for one in sorted(budgets, reverse=True) if known[one]]
    # Nothing can be planned at the new budgets: then none of their trials is ever launched.
    every = every or [cycle([one.plan for one in latest if one.plan is not None])]
    for plans in cycle(every):
        yield next(plans)
