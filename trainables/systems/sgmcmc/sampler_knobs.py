"""Hyperparameters of the unprotected samplers and optimisers, a record for each method."""

from __future__ import annotations

from dpcore.papers.sgld import Phase, halving_schedule
from trainables.knobs import knob, knobs
from trainables.training.hyperparameters import ModelKnobs


@knobs
class CommonKnobs(ModelKnobs):
    """Of every method."""

    model: str = knob(default="mlp3", doc="name of a model or package.module:function")
    hidden: int = knob(low=1, high=65536, default=64, unit="units", doc="hidden ReLU units")
    batch_size: int = knob(low=1, unit="records", doc="records of a shuffled batch")
    epochs: int = knob(low=1, high=1_000_000, unit="passes", doc="ceil(n / batch_size) steps each")
    halve_every: int = knob(low=1, high=1_000_000, unit="epochs", doc="the rate halves after these")
    average: int = knob(
        low=1,
        high=1000,
        default=3,
        unit="iterates",
        doc="predicted probabilities of so many last iterates are averaged; 1 is no ensemble",
    )

    @property
    def rate(self) -> float:
        """What halves: r or e of the first block."""
        raise NotImplementedError

    @property
    def window(self) -> int:
        """How many last iterates are kept."""
        return self.average

    def phases(self, n: int) -> tuple[Phase, ...]:
        """The blocks of a trial on n records."""
        return halving_schedule(self.rate, self.halve_every, self.epochs, -(-n // self.batch_size))


@knobs
class NoiselessDescentKnobs(CommonKnobs):
    """Of `sgd`, and of every optimiser."""

    learning_rate: float = knob(low=1e-12, high=1e6, doc="r of the first block, on the mean loss of a batch")

    @property
    def rate(self) -> float:
        """r"""
        return self.learning_rate


@knobs
class DropoutKnobs(NoiselessDescentKnobs):
    """Of `dropout`."""

    dropout: float = knob(low=0.0, high=0.95, default=0.3, doc="share of hidden units that a step leaves out")


@knobs
class SquareKnobs:
    """Of a method that divides by the root of a remembered square."""

    decay: float = knob(low=0.0, high=0.999999, default=0.99, doc="a of the squared gradient")
    floor: float = knob(low=1e-12, high=1.0, default=1e-5, doc="c beside the root")


@knobs
class RMSpropKnobs(SquareKnobs, NoiselessDescentKnobs):
    """Of `rmsprop`."""


@knobs
class PosteriorKnobs(CommonKnobs):
    """Of `sgld`, and of every sampler: its iterates stand for a posterior."""

    step_size: float = knob(low=1e-12, high=10.0, doc="e of the first block, on the summed loss")
    prior_variance: float = knob(low=1e-6, high=1e6, default=1.0, doc="v of the weights' Gaussian prior")
    draws: int = knob(
        low=2,
        high=1000,
        default=20,
        unit="iterates",
        doc="last iterates that stand for the posterior in the leakage Mpl",
    )

    @property
    def rate(self) -> float:
        """e"""
        return self.step_size

    @property
    def window(self) -> int:
        """How many last iterates are kept."""
        return max(self.average, self.draws)


@knobs
class PSGLDKnobs(SquareKnobs, PosteriorKnobs):
    """Of `psgld`."""


@knobs
class SGHMCKnobs(PosteriorKnobs):
    """Of `sghmc`."""

    friction: float = knob(low=1e-6, high=1.0, default=0.1, doc="f; a step keeps 1 - f of w")
