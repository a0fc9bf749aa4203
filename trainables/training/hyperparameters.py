"""Hyperparameters that several systems share, a record for each idea; a system puts its own together from them."""

from __future__ import annotations

import math
from fractions import Fraction

from trainables.adaptation import AS_BUILT, Adaptation, folder_of
from trainables.hyperparameters import builder_arguments, hyperparameter, hyperparameters
from trainables.metrics import Arguments

# How many steps a number of passes over the data means.


def steps_of(epochs: float, batch_size: int, n: int) -> int:
    """ceil(epochs * n / batch_size), exact for `epochs` as it is written in decimal.

    In floating point 0.1 * 1000 / 10 and 1 / (1 / 234) go wrong by one step.
    """
    return math.ceil(Fraction(repr(float(epochs))) * n / batch_size)


def epochs_of(steps: int, batch_size: int, n: int) -> float:
    """The largest float of epochs that means exactly `steps` steps or, where floats are too coarse, fewer."""
    epochs = steps * batch_size / n
    while steps_of(epochs, batch_size, n) > steps:
        epochs = math.nextafter(epochs, 0.0)
    return epochs


@hyperparameters
class ModelHyperparameters:
    """Which model.

    model    name of a model (linear, mlp, mlp3, cnn, resnet20, resnet18, ...), package.module:function, hf:FOLDER or
             timm:FOLDER
    hidden   hidden ReLU units of mlp and text
    weights  file or folder of safetensors that the model starts from
    train    which of the model's own weights are trained: all (beside lora: the head), head, last-K or bias, the head
             with each of them
    rank     of low-rank adapters beside the model's linear layers; 0: none
    alpha    what adapters say is multiplied by alpha / rank
    targets  ends of the names of layers that have adapters, a list or with commas between; by default those that peft
             knows for such a transformer, else every linear layer but the head
    """

    model: str = hyperparameter(default="mlp")
    hidden: int = hyperparameter(low=1, high=65536, default=64, unit="units")
    arguments: Arguments = builder_arguments()
    weights: str = hyperparameter(default="")
    train: str = hyperparameter(default="all")
    rank: int = hyperparameter(name="lora.rank", low=0, high=65536, default=0)
    alpha: float = hyperparameter(name="lora.alpha", low=1e-6, high=1e6, default=8.0)
    targets: str = hyperparameter(name="lora.targets", default="", listed=True)

    @property
    def is_fine_tuned(self) -> bool:
        """Whether the model starts from weights, has adapters, or is trained in part."""
        return bool(folder_of(self.model)) or self.adaptation != AS_BUILT

    @property
    def adaptation(self) -> Adaptation:
        """What becomes of the model before it is trained."""
        return Adaptation(
            weights=self.weights, train=self.train, rank=self.rank, alpha=self.alpha, targets=self.targets
        )


@hyperparameters
class RateHyperparameters:
    """How far a step goes.

    learning_rate  size of a step
    """

    learning_rate: float = hyperparameter(low=1e-6, high=1e3)


@hyperparameters
class ClipHyperparameters:
    """What bounds one record.

    clip_norm  largest L2 norm of the gradient of one record, or unit, over all weights
    """

    clip_norm: float = hyperparameter(low=1e-6, high=1e6, unit="gradient norm")


@hyperparameters
class BatchHyperparameters:
    """How many records a Poisson batch has, of those a step is made.

    batch_size  expected number of records, or of units, in a Poisson batch; the sampling rate is batch_size / n
    """

    batch_size: int = hyperparameter(low=1, unit="records")


@hyperparameters
class PassHyperparameters(BatchHyperparameters):
    """How many steps, counted in passes over the data.

    epochs  expected passes over the data; ceil(epochs * n / batch_size) steps
    """

    epochs: float = hyperparameter(low=1e-6, high=1e6, unit="passes")

    def steps(self, n: int) -> int:
        """Of a trial on n records, a public number."""
        return steps_of(self.epochs, self.batch_size, n)


@hyperparameters
class PriorHyperparameters:
    """What the weights are before any record is seen.

    prior_variance  of the weights' Gaussian prior
    """

    prior_variance: float = hyperparameter(low=1e-6, high=1e6, default=1.0)
