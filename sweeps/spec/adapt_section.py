"""`sampler: adaptive` against the rest of a private selection: what its price does not cover is refused."""

from __future__ import annotations

import math

from dpcore.checks import InvalidValue
from dpcore.rounding import budget_text, epsilon_text
from sweeps.search import registry
from sweeps.spec.draft import Draft
from sweeps.spec.problems import Problems
from sweeps.spec.sections import AdaptOptions


def check_adapt(draft: Draft, problems: Problems) -> None:
    """`search.sampler: adaptive` with `selection`, and `selection.adapt` without it."""
    search, selection = draft.search, draft.selection
    if search is None:
        return
    if not registry.is_sealed(search.sampler):
        if selection is not None and selection.adapt is not None:
            said = selection.adapt.model_dump()
            expected = f"null with sampler {search.sampler}, which no result leads"
            problems.add("selection.adapt", said, expected, "Write `sampler: adaptive`, or drop it.")
        return
    if (release := draft.written_privacy.get("release")) in ("first", "front"):
        expected = f"random with release: {release}: no price is known of proposals that follow results there"
        problems.add("search.sampler", search.sampler, expected, "Use random, or release: best.")
        return
    if search.repeats > 1:
        expected = f"1 with {search.sampler}: only a grid has points to repeat"
        problems.add("search.repeats", search.repeats, expected, "Drop `repeats`.")
    if selection is not None:
        _check_price(draft, selection.adapt or AdaptOptions(), problems)


def _check_price(draft: Draft, adapt: AdaptOptions, problems: Problems) -> None:
    """The law has a price, and the bounds alone leave something of the budget."""
    from dpcore.selection.counts import TruncatedNegativeBinomial
    from sweeps.sealed.law import law_of  # scipy.optimize takes a while

    assert draft.selection is not None
    assert draft.search is not None
    if draft.selection.count in ("poisson", "binomial"):
        expected = "geometric, logarithmic or tnb: of other laws no price of adaptive proposals is known"
        problems.add("selection.count", draft.selection.count, expected, "Use geometric, or the random sampler.")
        return
    try:
        law = law_of(draft.selection, draft.search.trials).priced
    except InvalidValue:
        # `sweeps.spec.selection_section` says why.
        return
    assert isinstance(law, TruncatedNegativeBinomial)
    if draft.privacy is None or len(draft.privacy.epsilon) != 1:
        return
    (epsilon,) = draft.privacy.epsilon
    least = (2 + law.shape) * math.log(adapt.high / adapt.low)
    if least >= epsilon:
        expected = (
            f"bounds that cost less than the budget, {budget_text(epsilon)}: of epsilon these alone take (2 + shape) "
            f"ln(high/low) = {epsilon_text(least)}"
        )
        remedy = "Bring low and high nearer to 1, raise privacy.epsilon, or use the random sampler."
        problems.add("selection.adapt", adapt.model_dump(), expected, remedy)
