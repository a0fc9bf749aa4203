"""Hyperparameters of the Bayesian systems: what their accountant looks at, where it stops, and a record for each."""

from __future__ import annotations

from dpcore.checks import InvalidValue
from trainables.knobs import knob, knobs
from trainables.system import PublicFacts
from trainables.systems.noisy_sgd import DescentKnobs, NoisySGDKnobs
from trainables.training.hyperparameters import ModelKnobs, PassKnobs, PriorKnobs, RateKnobs

NO_BUDGET = 0.0
ORDERS = "2,4,8,16,32"
PAIR = 2


@knobs
class DeltaKnobs:
    """Of a figure beside an ordinary claim."""

    bayesian_delta: float = knob(
        low=1e-200,
        high=0.5,
        default=1e-10,
        doc="delta_mu of the Bayesian figure, the estimates' failures included; 1e-10 is 1e-5 for 99.999% of records",
    )


@knobs
class EstimateKnobs:
    """What is estimated before each step."""

    percentile_delta: float = knob(
        low=1e-200,
        high=0.5,
        default=1e-5,
        doc="delta of the percentile metrics: what each record inside the share is promised",
    )
    bayesian_orders: str = knob(
        default=ORDERS,
        doc="orders lambda of the Bayesian figure, whole numbers separated by commas; each one is charged its failures",
    )
    estimate_failure: float = knob(
        low=1e-200,
        high=0.4,
        default=1e-15,
        doc="gamma, probability that one estimate is too small, under the estimator's own prior",
    )
    distance_records: int = knob(
        low=3,
        high=100_000,
        default=64,
        unit="records",
        doc="records (or pairs) whose gradients are looked at before each step",
    )
    distances: str = knob(
        choices=("held-out", "training"),
        default="held-out",
        doc="whose gradients: the public validation records, or private training records as published",
    )

    @property
    def held_out(self) -> bool:
        """Whether they are those of public validation records."""
        return self.distances == "held-out"

    @property
    def orders(self) -> tuple[int, ...]:
        """The orders lambda. Raises InvalidValue."""
        try:
            orders = tuple(int(one) for one in self.bayesian_orders.split(","))
        except ValueError:
            orders = ()
        if not orders or min(orders) < 1 or len(set(orders)) < len(orders):
            expected = "whole numbers from 1, each once"
            raise InvalidValue("bayesian_orders", self.bayesian_orders, expected, f"For example {ORDERS}.")
        return orders


@knobs
class StoppedKnobs(EstimateKnobs, PassKnobs):
    """What every system reads that a filter stops."""


@knobs
class BudgetKnobs:
    """Where a run beside an ordinary claim stops."""

    bayesian_budget: float = knob(
        low=NO_BUDGET,
        high=1e6,
        default=NO_BUDGET,
        doc="Bayesian epsilon at bayesian_delta before which the run stops; 0 never stops it. Needs held-out distances",
    )


@knobs
class ShareKnobs:
    """How many weights a step moves."""

    updated_share: float = knob(
        low=1e-6,
        high=1.0,
        default=1.0,
        doc="share of the weights, drawn anew for every step, that a step updates",
    )


@knobs
class WatchedKnobs(BudgetKnobs, EstimateKnobs, DeltaKnobs, DescentKnobs):
    """What both systems read."""


@knobs
class BayesianSGDKnobs(WatchedKnobs, ShareKnobs, NoisySGDKnobs):
    """Of `bayesian-sgd`."""


@knobs
class VariationalKnobs(PriorKnobs):
    """Of a mean-field Gaussian over weights."""

    first_sd: float = knob(
        low=1e-6, high=1e3, default=0.1, doc="standard deviation of every weight before the first step"
    )
    draws: int = knob(
        low=1,
        high=100_000,
        default=100,
        unit="draws",
        doc="draws of the weights that a prediction is averaged over",
    )


@knobs
class BayesianVariationalKnobs(WatchedKnobs, VariationalKnobs, PriorKnobs, DescentKnobs):
    """Of `bayesian-variational`."""


@knobs
class AverageCaseKnobs(PassKnobs, RateKnobs, ModelKnobs):
    """Of `average-case-sgd`, the accountant's apart."""

    sensitivity: str = knob(
        choices=("unbounded", "bounded"),
        default="unbounded",
        doc="unbounded: gradients are not clipped; bounded: each is clipped to clip_norm",
    )
    clip_norm: float = knob(
        low=1e-6,
        high=1e6,
        unit="gradient norm",
        doc="the clip where sensitivity is bounded, and in any case the unit of the noise",
    )
    noise_multiplier: float = knob(
        low=1e-3, high=1e6, doc="noise standard deviation on the sum of gradients, divided by clip_norm"
    )
    batches: str = knob(
        choices=("fixed", "poisson"),
        default="fixed",
        doc="fixed: batch_size records without replacement, distances between pairs; poisson: coins, distances are "
        "norms",
    )


@knobs
class AverageCaseSGDKnobs(StoppedKnobs, ShareKnobs, AverageCaseKnobs):
    """Of `average-case-sgd`."""

    @property
    def fixed(self) -> bool:
        """Whether batches have a fixed size."""
        return self.batches == "fixed"


@knobs
class VariationalDrawsKnobs(StoppedKnobs, VariationalKnobs, PriorKnobs, PassKnobs, RateKnobs):
    """Of `variational-draws`."""


def check_records(knobs: EstimateKnobs, facts: PublicFacts, pairs: bool) -> None:
    """Raises InvalidValue when there are not as many records as each step looks at."""
    each = PAIR if pairs else 1
    present = facts.n_validation if knobs.held_out else facts.n
    if knobs.distance_records * each > present:
        raise InvalidValue(
            "distance_records",
            knobs.distance_records,
            f"at most {present // each}, {facts.dataset} has {present} "
            f"{'validation' if knobs.held_out else 'training'} records",
            "Lower distance_records, or use a split with more of them.",
        )
