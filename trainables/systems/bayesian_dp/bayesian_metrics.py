"""Metrics that the Bayesian systems share."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from trainables.metrics import Dependence, Metric
from trainables.training.trained_model import METRICS as TRAINING_METRICS

_DISTANCES_OF_TRAINING = {"distances": "training"}
_figure = partial(
    Metric,
    released="average-case, no DP epsilon; with held-out distances a fact about the released weights and the "
    "validation records, with training distances about private records, without noise: then releasing it is itself a "
    "release that no claim covers",
    depends=Dependence.VALIDATION,
    raw_under=_DISTANCES_OF_TRAINING,
)
SHARES = (0.5, 0.1, 0.01)
"""Shares of the population left outside the percentile metrics."""


def percentile_metric(share: float) -> str:
    """The metric's name for the epsilon of all but `share` of the population."""
    return f"bayesian_epsilon_p{100 * (1 - share):.4g}"


METRICS = (
    *TRAINING_METRICS,
    _figure(
        name="bayesian_epsilon",
        goal="minimize",
        doc="Bayesian epsilon of the run at bayesian_delta (Triastcyn & Faltings 2020); never a DP epsilon",
    ),
    *(
        _figure(
            name=percentile_metric(share),
            goal="minimize",
            doc=f"Bayesian epsilon at percentile_delta for {1 - share:.4g} of the population, by Markov",
        )
        for share in SHARES
    ),
    _figure(
        name="steps_taken",
        goal="maximize",
        worst=0.0,
        doc="steps before the Bayesian budget stopped the run; all planned steps without a budget",
    ),
)
STOPPED_METRICS = tuple(replace(metric, raw_under=_DISTANCES_OF_TRAINING) for metric in METRICS)
"""Of systems that may stop on training distances: then all that is measured at the stop depends on them."""
