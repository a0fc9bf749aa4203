"""The profile of tuning on one part of the records and training finally on the others.

Every record is in one part alone, so one record changes the tuning or the final run, never both; the final run on
unchanged records is post-processing of the tuning's result.

By a coin   each record is in the tuning part with chance `share`, by its own secret coin (or a keyed hash of a stable
            identifier); the final run is on the *others*. delta(e) <= share delta_tune(e) + (1-share) delta_final(e).
Fixed       a public split that does not depend on what records there are: the larger of the two.

Both may so use the whole budget. A final run on *all* records is another release of the tuning part: compose it. The
assignment is drawn once and kept.

Source  Koskela & Kulkarni (2023) for the procedure; the bound is joint convexity of the divergence over the coin.
"""

from __future__ import annotations

from dpcore import checks
from dpcore.selection.profiles import MixtureProfile, TrialProfile, WorstProfile


def split_by_coin(share: float, tune: TrialProfile, final: TrialProfile) -> MixtureProfile:
    """Of tuning on each record with chance `share` in (0, 1), and training finally on the others. Raises InvalidValue.

    tune   of the whole tuning, as it is released: a composition, or the best of it
    final  of the final run
    """
    checks.probability_open(share=share)
    return MixtureProfile((share, 1 - share), (tune, final))


def split_in_public(tune: TrialProfile, final: TrialProfile) -> WorstProfile:
    """Of tuning on one public part, and training finally on the other. Raises InvalidValue."""
    return WorstProfile((tune, final))
