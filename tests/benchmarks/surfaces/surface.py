"""Scores between recorded trials: a Gaussian process for each data set, over the knobs by themselves.

Score   the expected accuracy, by a scikit-learn Gaussian process (Matern 5/2, a length for each input, noise) of its
        logit over the model and the logarithms of learning rate, clip norm, batch size, epochs and epsilon, of at most
        `FITTED` trials. It knows no product of knobs: the ridges that a sampler may look for come from the records.
Seen    what a search is told of a point is its score plus the noise of a validation set of the recorded size,
        N(0, p (1 - p) / n); its regret is counted by the score.
Error   root mean square of recorded minus scored accuracy over five parts, each scored by the process of the others:
        the noise of a single training and of its validation included.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

TABLE = Path(__file__).with_name("trials.parquet")
KNOBS = ("learning_rate", "clip_norm", "batch_size", "epochs", "target_epsilon")
FITTED = 800
PARTS = 5
VALIDATION = {"digits": 360, "adult": 16_281, "mnist": 10_000}

Numbers = NDArray[np.float64]


def rows(data: str, path: Path = TABLE) -> list[dict[str, Any]]:
    """The recorded trials of a data set."""
    return [row for row in pq.read_table(path).to_pylist() if row["data"] == data]


def inputs(configs: Sequence[Mapping[str, Any]]) -> Numbers:
    """1 for the model with a hidden layer, and the logarithms of the knobs, one row each."""
    hidden = [[float(config["model"] == "mlp")] for config in configs]
    return np.hstack([hidden, np.log([[float(config[knob]) for knob in KNOBS] for config in configs])])


def _logit(accuracy: Numbers) -> Numbers:
    """Of an accuracy that is kept off 0 and 1."""
    inside = np.clip(accuracy, 0.01, 0.99)
    return np.asarray(np.log(inside / (1 - inside)))


def _accuracy(logit: Numbers) -> Numbers:
    return np.asarray(1 / (1 + np.exp(-logit)))


def _process(points: Numbers, values: Numbers, like: Any = None) -> GaussianProcessRegressor:
    """`like`: a kernel that was fitted already."""
    kernel = like or ConstantKernel(1.0) * Matern(np.ones(points.shape[1]) * 2, (0.1, 50.0), nu=2.5) + WhiteKernel(
        0.05, (1e-4, 1.0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        optimizer = None if like is not None else "fmin_l_bfgs_b"
        return GaussianProcessRegressor(kernel, alpha=1e-8, normalize_y=True, optimizer=optimizer).fit(points, values)


@dataclass(frozen=True)
class Surface:
    """Accuracy of a data set at any point of the recorded space.

    error   of the scores of whole trials, left out
    spread  standard deviation of the recorded accuracies
    count   trials that it is fitted to
    """

    data: str
    process: GaussianProcessRegressor
    error: float
    spread: float
    count: int

    @classmethod
    def of(cls, data: str, path: Path = TABLE) -> Surface:
        """The surface of the table."""
        found = rows(data, path)[:FITTED]
        points = inputs(found)
        whole, part = _logit(np.array([row["accuracy"] for row in found])), np.arange(len(found)) % PARTS
        process = _process(points, whole)
        # Its lengths serve the parts.
        parts = [_process(points[part != one], whole[part != one], process.kernel_) for one in range(PARTS)]
        left_out = np.concatenate(
            [
                _accuracy(whole[part == one]) - _accuracy(scoring.predict(points[part == one]))
                for one, scoring in enumerate(parts)
            ]
        )
        error = float(np.sqrt(np.mean(left_out**2)))
        return cls(data, process, error, float(_accuracy(whole).std()), len(found))

    def scores(self, configs: Sequence[Mapping[str, Any]]) -> Numbers:
        """The expected accuracy of each configuration."""
        return _accuracy(self.process.predict(inputs(configs)))

    def seen(self, score: float, rng: np.random.Generator) -> float:
        """What a validation set says of a model of that accuracy."""
        deviation = math.sqrt(score * (1 - score) / VALIDATION[self.data])
        return float(np.clip(score + deviation * rng.standard_normal(), 0.0, 1.0))
