"""Hyperparameters and metrics that the Bayesian systems share."""

from __future__ import annotations

from dataclasses import replace

from dpcore.checks import InvalidValue
from trainables.system import Config, Dependence, Metric, Parameter, PublicFacts
from trainables.systems.noisy_sgd import METRICS as TRAINING_METRICS

NO_BUDGET = 0.0
ORDERS = "2,4,8,16,32"
PAIR = 2

ACCOUNTING = (
    Parameter(
        name="bayesian_delta",
        kind="float",
        low=1e-200,
        high=0.5,
        default=1e-10,
        doc="delta_mu of the Bayesian figure, the estimates' failures included; 1e-10 is 1e-5 for 99.999% of records",
    ),
    Parameter(
        name="percentile_delta",
        kind="float",
        low=1e-200,
        high=0.5,
        default=1e-5,
        doc="delta of the percentile metrics: what each record inside the share is promised",
    ),
    Parameter(
        name="bayesian_orders",
        kind="choice",
        default=ORDERS,
        doc="orders lambda of the Bayesian figure, whole numbers separated by commas; each one is charged its failures",
    ),
    Parameter(
        name="estimate_failure",
        kind="float",
        low=1e-200,
        high=0.4,
        default=1e-15,
        doc="gamma, probability that one estimate is too small, under the estimator's own prior",
    ),
    Parameter(
        name="distance_records",
        kind="int",
        low=3,
        high=100_000,
        default=64,
        unit="records",
        doc="records (or pairs) whose gradients are looked at before each step",
    ),
    Parameter(
        name="distances",
        kind="choice",
        choices=("held-out", "training"),
        default="held-out",
        doc="whose gradients: the public validation records, or private training records as published",
    ),
)
BUDGET = Parameter(
    name="bayesian_budget",
    kind="float",
    low=NO_BUDGET,
    high=1e6,
    default=NO_BUDGET,
    doc="Bayesian epsilon at bayesian_delta before which the run stops; 0 never stops it. Needs held-out distances",
)
SHARE = Parameter(
    name="updated_share",
    kind="float",
    low=1e-6,
    high=1.0,
    default=1.0,
    doc="share of the weights, drawn anew for every step, that a step updates",
)

_RELEASED = (
    "average-case, no DP epsilon; with held-out distances a fact about the released weights and the validation "
    "records, with training distances about private records, without noise: then releasing it is itself a release "
    "that no claim covers"
)
_DISTANCES_OF_TRAINING = {"distances": "training"}
SHARES = (0.5, 0.1, 0.01)
"""Shares of the population left outside the percentile metrics."""


def percentile_metric(share: float) -> str:
    """The metric's name for the epsilon of all but `share` of the population."""
    return f"bayesian_epsilon_p{100 * (1 - share):.4g}"


METRICS = (
    *TRAINING_METRICS,
    Metric(
        name="bayesian_epsilon",
        goal="minimize",
        doc="Bayesian epsilon of the run at bayesian_delta (Triastcyn & Faltings 2020); never a DP epsilon",
        released=_RELEASED,
        depends=Dependence.VALIDATION,
        raw_under=_DISTANCES_OF_TRAINING,
    ),
    *(
        Metric(
            name=percentile_metric(share),
            goal="minimize",
            doc=f"Bayesian epsilon at percentile_delta for {1 - share:.4g} of the population, by Markov",
            released=_RELEASED,
            depends=Dependence.VALIDATION,
            raw_under=_DISTANCES_OF_TRAINING,
        )
        for share in SHARES
    ),
    Metric(
        name="steps_taken",
        goal="maximize",
        worst=0.0,
        doc="steps before the Bayesian budget stopped the run; all planned steps without a budget",
        released=_RELEASED,
        depends=Dependence.VALIDATION,
        raw_under=_DISTANCES_OF_TRAINING,
    ),
)
STOPPED_METRICS = tuple(replace(metric, raw_under=_DISTANCES_OF_TRAINING) for metric in METRICS)
"""Of systems that may stop on training distances: then all that is measured at the stop depends on them."""


def orders_of(config: Config) -> tuple[int, ...]:
    """The orders that a configuration lists. Raises InvalidValue."""
    text = str(config["bayesian_orders"])
    try:
        orders = tuple(int(one) for one in text.split(","))
    except ValueError:
        orders = ()
    if not orders or min(orders) < 1 or len(set(orders)) < len(orders):
        raise InvalidValue("bayesian_orders", text, "whole numbers from 1, each once", f"For example {ORDERS}.")
    return orders


def check_records(config: Config, facts: PublicFacts, pairs: bool) -> None:
    """Raises InvalidValue when there are not as many records as each step looks at."""
    looked = int(config["distance_records"]) * (PAIR if pairs else 1)
    held_out = config["distances"] == "held-out"
    present = facts.n_validation if held_out else facts.n
    if looked > present:
        raise InvalidValue(
            "distance_records",
            config["distance_records"],
            f"at most {present // (PAIR if pairs else 1)}, {facts.dataset} has {present} "
            f"{'validation' if held_out else 'training'} records",
            "Lower distance_records, or use a split with more of them.",
        )
