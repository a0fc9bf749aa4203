"""The numbers that a trial reports, and on what each of them depends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

Scalar = bool | int | float | str
Config = Mapping[str, Scalar]
WITH = "with."
"""How the names of hyperparameters begin that are arguments of the user's own builder of a model."""
Arguments = tuple[tuple[str, Scalar], ...]
"""Those of one trial by their names, without `WITH`, in order."""


class Dependence(StrEnum):
    """On what a number depends that leaves a trial: whether a claim, a declaration or nothing covers its release."""

    PUBLIC = "public"
    """Configuration, plan and declared facts: no record."""
    RELEASED = "released"
    """Post-processing of a release whose event is in the plan."""
    VALIDATION = "validation"
    """The validation records, through what was released."""
    SIDE_CHANNEL = "side channel"
    """Time and memory that the machine took over private records. Whoever watches the machine sees them too: no
    claim of any system here covers them."""
    RAW = "raw"
    """Training records outside of every event, or quantities before their noise."""


class Task(StrEnum):
    """What is predicted; decides loss and metrics."""

    CLASSIFICATION = "classification"
    RATING = "rating"
    """Classes in order, equally far apart: trained as classes, judged by the expected class."""
    REGRESSION = "regression"
    TOKENS = "prediction of tokens"
    """Codes of a sequence, by those in front of them or around them."""
    MEAN = "mean"


LOSS = "data.loss"
NEXT_TOKEN, MASKED = "next-token", "masked"
TOKEN_LOSSES = (NEXT_TOKEN, MASKED)
"""Losses of tokens by name: of each by those in front of it, or of masked ones by all others."""


class Worst(StrEnum):
    """The natural worst value of a metric that depends on the data's public facts (`trainables.publishing`)."""

    GUESSED_LOSS = "the loss of guessing: log of the number of classes"
    GUESSED_PERPLEXITY = "the perplexity of guessing: the number of codes"
    TARGET_RANGE = "the public range of the target"


STANDARD_ERROR = "_se"
"""Behind the name of a metric: its standard error, which stands beside every score of validation or test records."""

WITHHELD = frozenset({Dependence.RAW})
"""What leaves no trial, unless the spec of its sweep says why it may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number that a finished trial reports.

    released   on what it depends, in one sentence for people
    depends    the same as a value: it decides whether the number may leave the trial
    raw_under  values of hyperparameters under which it depends on raw records, whatever `depends` says
    goal       which way is better; None where only a spec says so
    worst      its natural worst value, where the volume under a front ends unless a spec says otherwise; None: it has
               none, and a spec has to say
    tasks      what has to be predicted for it to be reported; None: whatever the system predicts
    """

    name: str
    goal: Literal["maximize", "minimize"] | None
    doc: str
    released: str
    depends: Dependence
    raw_under: Mapping[str, Scalar] = field(default_factory=dict)
    worst: float | Worst | None = None
    tasks: frozenset[Task] | None = None

    @property
    def error(self) -> Metric:
        """The standard error that is reported beside it."""
        return replace(
            self,
            name=self.name + STANDARD_ERROR,
            goal=None,
            worst=None,
            doc=f"standard error of {self.name}: of the records as a sample, and of the noise on a release",
        )

    def depends_under(self, config: Config) -> Dependence:
        """On what it depends under this complete configuration; a hyperparameter that is missing counts as raw."""
        raw = any(config.get(name, value) == value for name, value in self.raw_under.items())
        return Dependence.RAW if raw else self.depends


def share_error(share: float, n: int, alike: int = 1) -> float:
    """Standard error of a share of n >= 1 records, of drawing other records.

    alike  largest number of records that belong together, of which all may be right at once: the variance is at most so
           many times as large

    sqrt(p (1 - p) / (n + 4)) with p as if two records more had been right, and two wrong (Agresti & Coull 1998): of ten
    that are all right the share itself would say 0, and be sure.
    """
    p = (n * min(max(share, 0.0), 1.0) + 2) / (n + 4)
    return math.sqrt(alike * p * (1 - p) / (n + 4))


def with_error(metrics: Mapping[str, float], name: str) -> str:
    """A metric for people: "0.933 ± 0.013", to two digits of its standard error; four digits where it has none.

    Empty where it was not reported.
    """
    if name not in metrics:
        return ""
    value, error = metrics[name], metrics.get(name + STANDARD_ERROR)
    if error is None or not 0 < error < math.inf or not math.isfinite(value):
        return f"{value:.4g}"
    digits = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def scores_of(metrics: Iterable[str]) -> list[str]:
    """The names of metrics that are no errors of others."""
    return [name for name in metrics if not name.endswith(STANDARD_ERROR)]


@dataclass(frozen=True, slots=True)
class Scalarisation:
    """A public order of trials by what they put out: one metric, or a weighted sum of several. Larger is better.

    weights  (metric, weight) each; a metric that is to be small has a weight below 0
    """

    weights: tuple[tuple[str, float], ...]

    @classmethod
    def by(cls, metric: str, goal: str) -> Scalarisation:
        """That of one objective; `goal` is "maximize" or "minimize"."""
        return cls(((metric, -1.0 if goal == "minimize" else 1.0),))

    def worth(self, metrics: Mapping[str, float]) -> float | None:
        """The sum; None where a metric is missing, or it or the sum is not finite."""
        terms = [weight * metrics.get(metric, math.nan) for metric, weight in self.weights]
        if not all(map(math.isfinite, terms)):
            return None
        try:
            return math.fsum(terms)
        except OverflowError:
            # Finite terms whose sum leaves double precision.
            return None

    def __str__(self) -> str:
        match self.weights:
            case ((metric, 1.0),):
                return metric
            case ((metric, -1.0),):
                return f"least {metric}"
        return " + ".join(f"{weight:g} {metric}" for metric, weight in self.weights).replace("+ -", "- ")
