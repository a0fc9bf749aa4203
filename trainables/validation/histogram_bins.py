"""The histogram that a task is judged by: in which cell a record falls, and what noised counts say.

    two classes   label x prediction x bin of the confidence: accuracy, auc, loss
    more classes  right or wrong x bin of the loss: accuracy, loss; with `bins: score` as for two: accuracy, auc
    ratings       right or wrong x bin of the squared error: accuracy, rmse
    regressions   bin of the squared error: loss, rmse
    tokens        bin of the loss: loss, perplexity

Edges are public constants, or follow from the public bounds of the target. A cell counts with one value: the loss at
the middle of its bin (in logits, for confidences), or the mean square over its bin. What lies beyond the last edge
counts as just beyond it, so that one record's loss is bounded. Labels and predictions are counted apart only where a
metric asks for them: every cell brings noise of its own, and a mean over fewer cells has less of it.

Score and auc. A record's score for class c is its confidence where c is predicted, and minus its confidence in another
class where that is: for two classes the order of P(c). The auc is that of two classes, or the mean over classes of one
against the rest.

Groups. The histogram of a task, counted for each declared group of records apart.

A record is in one group, by its own value of a declared column, and so still in one cell of the whole: cells are
disjoint, and one record more or less changes one count by one. Mechanism, sensitivity and event are those of
`dpcore.mechanisms.noisy_histogram` with more cells. What more cells cost is noise: a number over all groups adds up
the noise of each, a number of one group has fewer records under the same noise.

How many records a group has is private: the noised count stands for it. A group whose noised count is below
`FEWEST` standard deviations of its noise says nothing of its accuracy, and is left out of the worst;
`smallest_group` says so. Where none is left there is no worst one, and nothing is said of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpcore.mechanisms.noisy_histogram import Estimate, area_under_curve, mean
from trainables.metrics import STANDARD_ERROR
from trainables.reports import Bins
from trainables.system import DatasetSpec, Task

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

LOGITS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Edges of the confidence, as ln(p / (1 - p)); of two classes the predicted one has at least 0."""
_MIDDLES = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 7.0])
BELOW_HALF = (-2.0, -1.0, 0.0)
"""Further edges where there are more classes."""

LOSSES = (0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0, 4.5, 6.5)
"""Edges of the cross-entropy, in nats."""
_LOSS_VALUES = np.array([0.005, 0.02, 0.065, 0.15, 0.3, 0.55, 0.85, 1.25, 1.75, 2.5, 3.75, 5.5, 8.0])

ERROR_BINS = 16
"""Bins of the absolute error, as shares of the target's range: edges (j / 16)^2, finer near 0."""


@dataclass(frozen=True, slots=True)
class Judgements:
    """One entry [n] for each record; each depends on that record and the model alone.

    labels, predictions  class codes; zeros for a regression
    confidences          of the predicted class under the softmax; of tokens the share of a record's that is predicted;
                         zeros for a regression
    losses               what is trained on: cross-entropy, or squared error of a regression
    squared_errors       of a regression, or of a rating's expected class; zeros for classes
    groups               position of its group among the declared ones; None where records have no groups
    """

    labels: NDArray[np.int64]
    predictions: NDArray[np.int64]
    confidences: Floats
    losses: Floats
    squared_errors: Floats
    groups: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the predicted class is the record's; outputs that are no numbers predict nothing."""
        right: NDArray[np.bool_] = (self.predictions == self.labels) & np.isfinite(self.confidences)
        return right


TOKEN_EDGES = (*LOSSES, 8.0, 10.0, 12.0)
_TOKEN_VALUES = np.array([*_LOSS_VALUES[:-1], 7.25, 9.0, 11.0, 13.0])
_SAID: Mapping[str, Callable[[Estimate], Estimate]] = {
    "loss": lambda found: found,
    "perplexity": Estimate.exp,
    "rmse": Estimate.root,
}
"""{metric: what it is of the mean}"""


@dataclass(frozen=True, slots=True)
class Cells:
    """Bins of one number of each record, on each of several sides apart; the bin runs fastest.

    number   of each record [n]
    edges    between the bins
    values   [size] what a record in each cell counts with
    right    [size] 1 where records are predicted right, else 0
    most     that their mean may be
    side     on which side each record is [n]
    metrics  what the counts say
    classes  labels and predictions whose sides give the auc, if that is one of them
    """

    number: Callable[[Judgements], Floats]
    edges: tuple[float, ...]
    values: Floats
    right: Floats
    most: float
    side: Callable[[Judgements], Codes | int]
    metrics: tuple[str, ...]
    classes: int = 0

    @property
    def size(self) -> int:
        """How many cells there are."""
        return len(self.values)

    def of(self, judged: Judgements) -> Codes:
        """The cell of each record [n]."""
        bins: Codes = np.digitize(np.nan_to_num(self.number(judged), nan=np.inf, posinf=np.inf), self.edges)
        return self.side(judged) * (len(self.edges) + 1) + bins

    def estimates(
        self, counts: Floats, deviation: float, between: tuple[float, float], alike: int = 1
    ) -> Mapping[str, Estimate]:
        """Every metric from noised counts [size].

        deviation  of the noise on a count
        between    public bounds of the number of records
        alike      the largest number of records that belong together
        """
        found = mean(counts, self.values, between, deviation, alike).clipped(0.0, self.most)
        share = mean(counts, self.right, between, deviation, alike).clipped(0.0, 1.0)
        area = self._area(counts, deviation, alike) if "auc" in self.metrics else share
        known = {"accuracy": share, "auc": area}
        return {name: known[name] if name in known else _SAID[name](found) for name in self.metrics}

    def _area(self, counts: Floats, deviation: float, alike: int) -> Estimate:
        table = counts.reshape(self.classes, self.classes, -1)
        # Of two classes both areas are the same one.
        areas = [self._area_of(table, one, deviation, alike) for one in range(1 if self.classes == 2 else self.classes)]
        # The deviation of a mean is at most the mean of the deviations, however the areas depend on each other.
        return Estimate(
            float(np.mean([one.value for one in areas])), float(np.mean([one.standard_error for one in areas]))
        )

    def _area_of(self, table: Floats, one: int, deviation: float, alike: int) -> Estimate:
        """Of class `one` against the rest: confident in another class, ..., confident in this one."""
        others = np.delete(np.arange(self.classes), one)
        rest = len(others)

        def scores(labels: Codes) -> Floats:
            own = table[labels]
            return np.concatenate([own[:, others].sum(axis=(0, 1))[::-1], own[:, one].sum(axis=0)])

        merged = np.repeat([rest, 1], table.shape[2])
        return area_under_curve(
            scores(np.array([one])),
            scores(others),
            deviation * np.sqrt(merged),
            deviation * np.sqrt(merged * rest),
            alike,
        )


def score_cells(classes: int, cross_entropy: bool = True) -> Cells:
    """label x prediction x bin of the confidence.

    cross_entropy  whether that is the loss, which confidences tell of two classes
    """
    edges = LOGITS if classes == 2 else BELOW_HALF + LOGITS
    right = np.repeat(np.eye(classes).ravel(), len(edges) + 1)
    told = classes == 2 and cross_entropy
    losses = np.logaddexp(0.0, np.where(right == 1, -1, 1) * np.tile(_MIDDLES, 4)) if told else np.zeros(len(right))

    def logits(judged: Judgements) -> Floats:
        confidence = np.nan_to_num(judged.confidences, nan=0.0).clip(0.0, 1.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(confidence) - np.log1p(-confidence))

    def side(judged: Judgements) -> Codes:
        # Outputs that are no numbers predict nothing: they count as a wrong class.
        other = (judged.labels + 1) % classes
        return judged.labels * classes + np.where(np.isfinite(judged.confidences), judged.predictions, other)

    metrics = ("accuracy", "auc", "loss") if told else ("accuracy", "auc")
    return Cells(logits, edges, losses, right, float(losses.max()), side, metrics, classes)


def _binned(
    number: Callable[[Judgements], Floats], edges: tuple[float, ...], values: Floats, most: float, *metrics: str
) -> Cells:
    """Bins of a number of at least 0, for wrong and right predictions apart where accuracy is told."""
    if "accuracy" not in metrics:
        return Cells(number, edges, values, np.zeros(len(values)), most, lambda judged: 0, metrics)
    right = np.repeat([0.0, 1.0], len(values))
    return Cells(number, edges, np.tile(values, 2), right, most, lambda judged: judged.right.astype(np.int64), metrics)


def error_cells(span: float, *metrics: str) -> Cells:
    """Bin of the absolute error over the public range of targets."""
    edges: Floats = (np.arange(ERROR_BINS + 1) / ERROR_BINS) ** 2
    low, high = edges[:-1], edges[1:]
    values = (low**2 + low * high + high**2) / 3 * span**2
    return _binned(lambda judged: np.sqrt(judged.squared_errors) / span, tuple(edges[1:-1]), values, span**2, *metrics)


FEWEST = 2.0


@dataclass(frozen=True, slots=True)
class GroupedCells:
    """group x the cells of `each`, these running fastest."""

    each: Cells
    groups: int

    @property
    def size(self) -> int:
        """How many cells there are."""
        return self.groups * self.each.size

    @property
    def metrics(self) -> tuple[str, ...]:
        """What its counts say."""
        return (*self.each.metrics, "worst_group_accuracy", "smallest_group")

    def of(self, judged: Judgements) -> Codes:
        """The cell of each record [n]."""
        assert judged.groups is not None
        cells: Codes = judged.groups * self.each.size + self.each.of(judged)
        return cells

    def estimates(
        self, counts: Floats, deviation: float, between: tuple[float, float], alike: int = 1
    ) -> Mapping[str, Estimate]:
        """The error of the worst accuracy is that of the group which has it; that of the smallest one is its noise's.

        Without a worst accuracy where every group is below its noise.
        """
        table = counts.reshape(self.groups, self.each.size)
        found = dict(self.each.estimates(table.sum(axis=0), deviation * math.sqrt(self.groups), between, alike))
        totals, noise = table.sum(axis=1), deviation * math.sqrt(self.each.size)
        held = (1.0, between[1])
        enough = [
            mean(one, self.each.right, held, deviation, alike).clipped(0.0, 1.0)
            for one in table[totals >= FEWEST * noise]
        ]
        if enough:
            found["worst_group_accuracy"] = min(enough, key=lambda one: one.value)
        return found | {"smallest_group": Estimate(float(np.min(totals)), noise)}


def cells_for(facts: DatasetSpec, bins: Bins) -> Cells | GroupedCells:
    """The layout of a task, for each of the groups that the data declare where classes are predicted."""
    if facts.groups is not None and facts.task is Task.CLASSIFICATION:
        return GroupedCells(_cells_for(facts, bins), len(facts.groups.categories))
    return _cells_for(facts, bins)


def _cells_for(facts: DatasetSpec, bins: Bins) -> Cells:
    if facts.task is Task.REGRESSION:
        return error_cells(facts.target_high - facts.target_low, "rmse", *(() if facts.own_loss else ("loss",)))
    if facts.task is Task.TOKENS:
        metrics = ("loss",) if facts.own_loss else ("loss", "perplexity")
        return _binned(lambda judged: judged.losses, TOKEN_EDGES, _TOKEN_VALUES, float(_TOKEN_VALUES[-1]), *metrics)
    assert facts.classes is not None
    if facts.task is Task.RATING:
        return error_cells(float(facts.classes - 1), "rmse", "accuracy")
    if facts.classes == 2 or bins == "score":
        return score_cells(facts.classes, not facts.own_loss)
    return _binned(lambda judged: judged.losses, LOSSES, _LOSS_VALUES, float(_LOSS_VALUES[-1]), "accuracy", "loss")


def reported(facts: DatasetSpec, bins: Bins) -> frozenset[str]:
    """Names of all that a report on private validation records tells, each with its error."""
    names = cells_for(facts, bins).metrics
    return frozenset(names) | {name + STANDARD_ERROR for name in names}
