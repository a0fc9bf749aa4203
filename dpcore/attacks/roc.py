"""How well scores separate members from non-members. "Member" is said where the score is at least a threshold.

What is computed over all thresholds (AUC, TPR at a fixed FPR) describes the scores that it was computed from. A
claim about new examples needs a threshold from other data: `threshold_at_fpr` on one half, `decisions.decide` on
the other.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpcore import checks


def samples(name: str, scores: ArrayLike) -> NDArray[np.float64]:
    """Scores as float64 of shape [N], N at least 1; infinities are scores, NaN is not. Raises InvalidValue."""
    found = np.asarray(scores, dtype=np.float64)
    if found.ndim != 1 or not found.size or np.isnan(found).any():
        raise checks.InvalidValue(name, scores, "at least one number (no NaN), of shape [N]")
    return found


def auc(members: ArrayLike, non_members: ArrayLike) -> float:
    """P[member's score > non-member's] + P[equal] / 2: the area under the curve (Mann & Whitney 1947), in [0, 1]."""
    in_, out = samples("members", members), np.sort(samples("non_members", non_members))
    below, not_above = np.searchsorted(out, in_, side="left"), np.searchsorted(out, in_, side="right")
    return float((below + not_above).sum() / (2 * len(in_) * len(out)))


def tpr_at_fpr(members: ArrayLike, non_members: ArrayLike, fpr: float) -> float:
    """The largest TPR among thresholds with an FPR of at most `fpr` in [0, 1] (Carlini et al. 2022).

    With fewer than 1/fpr non-members this is the TPR at no false positive at all.
    """
    return float(np.mean(samples("members", members) >= threshold_at_fpr(non_members, fpr)))


def threshold_at_fpr(non_members: ArrayLike, fpr: float) -> float:
    """The smallest threshold that at most a share `fpr` of these non-members reaches; inf if +inf scores forbid any.

    Raises InvalidValue.
    """
    out = np.sort(samples("non_members", non_members))
    if not 0 <= fpr <= 1:
        raise checks.InvalidValue("fpr", fpr, "a rate in [0, 1]")
    # 0.001 * 3000 is 3 and must not become 2.
    allowed = math.floor(fpr * len(out) + 1e-9)
    return -math.inf if allowed == len(out) else float(np.nextafter(out[len(out) - allowed - 1], np.inf))
