"""The budgets of a spec, and the references of a front that follow from them."""

from __future__ import annotations

from collections.abc import Sequence

from sweeps.spec.model import SweepSpec
from sweeps.spec.sections import FrontOptions, Reference

BEYOND = 1.1
"""Of the largest budget: a trial exactly at a reference would add no volume."""
BUDGET_AXES = ("epsilon", "target_epsilon")


def beyond(budgets: Sequence[float]) -> Reference:
    """Where the axes of epsilon end."""
    largest = max(budgets)
    # Its words are part of a spec and its digest: sweeps of earlier versions have them so.
    source = f"a tenth beyond the largest budget, {largest:g}"
    return Reference(value=float(f"{BEYOND * largest:.12g}"), source=source, derived=True)


def with_budgets(spec: SweepSpec, budgets: Sequence[float]) -> SweepSpec:
    """The spec over other budgets."""
    given = spec.front.reference
    ends = {name: beyond(budgets) for name in BUDGET_AXES if name in given and given[name].derived}
    return spec.model_copy(
        update={
            "privacy": spec.privacy.model_copy(update={"epsilon": tuple(sorted(budgets))}),
            "front": FrontOptions(reference={**given, **ends}),
        }
    )
