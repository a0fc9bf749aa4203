"""The leakage Mpl of a converged sampler, from its own iterates. K draws, N records.

The attacker of Wu et al. (2020), Theorem 1, knows every record but one: S is D without z. Its posterior is the
sampler's own, tilted, p_S = p_D exp(l(z, .)) / E_{p_D} exp(l(z, .)), so draws from p_D serve for every z:

    t_{p_S}(z) = -ln E_{p_S} exp(-l) = ln E_{p_D} exp(l)          (lemma 1)
    E_{p_S} l  = E_{p_D}[l exp(l)] / E_{p_D} exp(l)               (equation 10)

The draws are few and dependent, and whether the sampler has converged is not known: an estimate, `membership-only`.
Iterates that lie close together, as the last ones of a falling step size do, understate it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

Array = NDArray[np.float64]


def leave_one_out_thresholds(losses_KN: Array) -> Array:
    """t_{p_S}(z) of every record [N], in nats, from losses under K draws of p_D."""
    thresholds: Array = logsumexp(losses_KN, axis=0) - np.log(len(losses_KN))
    return thresholds


def leave_one_out_means(losses_KN: Array) -> Array:
    """E_{p_S} l of every record [N], in nats."""
    means: Array = (softmax(losses_KN, axis=0) * losses_KN).sum(axis=0)
    return means


def leakage_metrics(draws_KN: Array, last_N: Array, averaged_N: Array) -> dict[str, float]:
    """Mean leakage and bounds over the members, at prior 1/2.

    draws_KN    members' losses under the draws
    last_N      under the released last iterate
    averaged_N  under the averaged prediction
    """
    score = leave_one_out_thresholds(draws_KN) - last_N
    ensemble_score = leave_one_out_means(draws_KN) - averaged_N
    return {
        "mpl": float(np.maximum(expit(score) - 0.5, 0.0).mean()),
        "mpl_bound": float(np.maximum(score / 4, 0.0).mean()),
        "ensemble_mpl_bound": float(np.maximum(ensemble_score / 4, 0.0).mean()),
    }
