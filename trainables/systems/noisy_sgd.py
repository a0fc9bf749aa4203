"""NoisySGD and NoisyAdam: clipped, noised, Poisson-sampled gradient steps.

Source      Bu, Dong, Long & Su (2020), Algorithms 1 and 2; the mechanism is Abadi et al. (2016), Algorithm 1.
Claim       (epsilon, delta) of `steps` Poisson-subsampled Gaussians by the PLD, add-remove or replace-one (where a
            drawn record may give way to another, two clip norms away); any number of queries. What moves by
            gradients whose noise is in is in no claim: optimizer, schedule, weight decay, mean of the weights. In the
            clip, `automatic` (Bu et al. 2023) leaves less than 1 of every record; augmentations (De et al. 2022) are
            made of a record alone, before the clip.
Departures  The paper divides by the realised batch size, a fact about the data that its own proof does not
            cover; here the divisor is the public q * n. The headline is the PLD's upper bound; the paper's CLT
            value stands beside it as `asymptotic`.

One step, with rate q = batch_size / n, clip norm R and noise multiplier s:

    g = (sum over the batch of clip(gradient, R) + s R N(0, I)) / (q n)
    noisy-sgd    theta -= learning_rate * g, or another update by g (`trainables.training.optimisers`);
                 where the clip is automatic, each gradient / (|gradient| + 0.01) stands for clip(gradient, R), R = 1
    noisy-adam   m = beta1 m + (1 - beta1) g;  u = beta2 u + (1 - beta2) g^2;
                 theta -= learning_rate * m / (sqrt(u) + xi)

The printed Algorithm 2 has no bias correction, which makes the first hundreds of steps several times larger; the
released code calls an Adam that has it. `bias_correction: true` is the released code.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, MutableMapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from dpcore import calibrate
from dpcore.accounting import guarantee
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee
from dpcore.mechanisms.noisy_sums import SampledGaussian
from dpcore.randomness import Purpose
from dpcore.sampling import PoissonSampling
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.planning import NOISE_MAX, NOISE_MIN, STEPS_MAX, Case, Fit, PlannedSystem, check_at_most, goal_of
from trainables.system import Scalar, Traits
from trainables.training.hyperparameters import (
    ClipHyperparameters,
    ModelHyperparameters,
    PassHyperparameters,
    RateHyperparameters,
    epochs_of,
)
from trainables.training.trained_model import FINE_TUNED, METRICS, TrainedByNoisedGradients

if TYPE_CHECKING:
    from torch import nn

    from trainables.team import RecordGradient
    from trainables.training.optimisers import Optimiser

SCHEDULES = ("constant", "cosine", "linear")
OPTIMISERS = ("sgd", "momentum", "adam", "adamw")
AUTOMATIC = "automatic"


@hyperparameters
class DescentHyperparameters(PassHyperparameters, ClipHyperparameters, RateHyperparameters):
    """Of every system whose steps are noised gradients.

    noise_multiplier  noise standard deviation divided by clip_norm; solved from epsilon by default
    """

    noise_multiplier: float = hyperparameter(low=NOISE_MIN, high=NOISE_MAX)

    @property
    def bound(self) -> float:
        """What no record's contribution to a sum is longer than."""
        return self.clip_norm


@hyperparameters
class NoisySGDHyperparameters(DescentHyperparameters, ModelHyperparameters):
    """Of `noisy-sgd`, and of every system whose noised gradients train a model."""


@hyperparameters
class RecipeHyperparameters(NoisySGDHyperparameters):
    """Of `noisy-sgd`.

    clip_norm      largest L2 norm of the gradient of one record, or unit, over all weights; automatic: each is divided
                   by its norm and 0.01 more, so that none is longer than 1
    learning_rate  size of a step, the largest of them
    schedule       how the size of a step goes down, over the steps after the warm-up
    warmup         share of the steps over which the size of a step rises to its largest
    optimizer      sgd, momentum (sgd whose momentum is 0.9 where none is given), adam, adamw, or
                   package.module:function of (parameters, lr=...)
    momentum       share of the last step that the next one of sgd or momentum keeps; a step then goes about 1 / (1 -
                   momentum) times as far
    beta1          memory of the mean, of adam and adamw
    beta2          memory of the square, of adam and adamw
    weight_decay   pull of the weights towards zero: times the size of a step in adamw, in the gradient in the others
    ema            decay of the exponential mean of the weights, which is then what is judged and released; 0: the
                   weights
    copies         augmentations of a record at each step, over which its gradient is the mean before it is clipped
    augmentation   none, flip, crop (images moved by up to 4 pixels), or package.module:function of one record
    """

    clip_norm: float = hyperparameter(low=1e-6, high=1e6, unit="gradient norm", word=AUTOMATIC)
    learning_rate: float = hyperparameter(low=1e-6, high=1e3, inner="peak")
    schedule: str = hyperparameter(name="learning_rate.schedule", choices=SCHEDULES, default="constant")
    warmup: float = hyperparameter(name="learning_rate.warmup", low=0.0, high=0.9999, default=0.0)
    optimizer: str = hyperparameter(default="sgd")
    momentum: float = hyperparameter(low=0.0, high=0.9999, default=0.0)
    beta1: float = hyperparameter(low=0.0, high=0.999999, default=0.9)
    beta2: float = hyperparameter(low=0.0, high=0.999999, default=0.999)
    weight_decay: float = hyperparameter(low=0.0, high=1e3, default=0.0)
    ema: float = hyperparameter(low=0.0, high=0.999999, default=0.0)
    copies: int = hyperparameter(name="augmentation.multiplicity", low=1, high=1024, default=1)
    augmentation: str = hyperparameter(name="augmentation.of", default="none")

    @property
    def bound(self) -> float:
        """What no record's contribution is longer than: 1 where the clip is automatic."""
        return self.clip_norm or 1.0


@hyperparameters
class NoisyAdamHyperparameters(NoisySGDHyperparameters):
    """Of `noisy-adam`.

    beta1            memory of the mean
    beta2            memory of the square
    xi               keeps the division finite
    bias_correction  false: Algorithm 2 as printed; true: Adam of Kingma & Ba 2015, as in the paper's released code
    """

    beta1: float = hyperparameter(low=0.0, high=0.999999, default=0.9)
    beta2: float = hyperparameter(low=0.0, high=0.999999, default=0.999)
    xi: float = hyperparameter(low=1e-12, high=1.0, default=1e-8)
    bias_correction: bool = hyperparameter(choices=(False, True), default=False)


Steps = TypeVar("Steps", bound=DescentHyperparameters)


class NoisedDescent(PlannedSystem[Steps, SampledGaussian]):
    """How every system with a sampled Gaussian for each step is planned: one rate, one clip, one noise."""

    solves = MappingProxyType({"noise": "noise_multiplier", "steps": "epochs"})
    sentence = (
        "{released.steps} gradient steps on Poisson batches of {facts.counted} (rate {params.batch_size}/{facts.n}), "
        "each with Gaussian noise of {released.noise_multiplier:.5g} times the clip norm "
        "{released.clip_norm:.4g} on the sum"
    )

    def solve(self, case: Case[Steps], calibrations: MutableMapping[str, float]) -> dict[str, Scalar]:
        """See `PlannedSystem.solve`: the noise, or the epochs."""
        params, n = case.params, case.facts.n
        if case.target.solve != "steps":
            return super().solve(case, calibrations)
        rate, noise = params.batch_size / n, params.noise_multiplier
        steps = calibrate.steps(goal_of(case.target), rate=rate, noise_multiplier=noise, cache=calibrations)
        return {"epochs": epochs_of(steps, params.batch_size, n)}

    def check_solved(self, case: Case[Steps]) -> None:
        """See `PlannedSystem.check_solved`."""
        remedy = "Change epsilon, or take fewer epochs or smaller batches."
        needed = f" needed for epsilon={case.target.epsilon}"
        check_at_most(NOISE_MAX, remedy, needed, noise=case.params.noise_multiplier)
        check_at_most(STEPS_MAX, remedy, needed, steps=case.params.steps(case.facts.n))

    def mechanism(self, case: Case[Steps]) -> SampledGaussian:
        """See `PlannedSystem.mechanism`."""
        params, n = case.params, case.facts.n
        sampling = PoissonSampling(rate=params.batch_size / n)
        return SampledGaussian(
            sampling=sampling,
            clip_norm=params.bound,
            noise_multiplier=params.noise_multiplier,
            steps=params.steps(n),
            # The public n of the facts, not the number of records present.
            expected_batch_size=sampling.rate * n,
        )

    def claims(self, case: Case[Steps], released: SampledGaussian) -> list[Guarantee]:
        """And the paper's own number, where its theorem reaches. Other notions cost a hundred times a plan: reports
        count them from the event."""
        claims, target = super().claims(case, released), case.target
        if target.adjacency is Adjacency.ADD_REMOVE:
            claims.append(guarantee("gdp-clt", released.event(), target.delta, target.adjacency, unit=target.unit))
        return claims


Model = TypeVar("Model", bound=NoisySGDHyperparameters)


class NoisyOptimiser(TrainedByNoisedGradients, NoisedDescent[Model]):
    """The two systems differ in the update, and in what is bounded of each record."""

    source = "Bu, Dong, Long & Su 2020"
    metrics = (*METRICS, *FINE_TUNED)
    traits = Traits(units=True, workers=True, private_reports=True, weights=True, judged_as_released=True, curve=True)

    def train(self, fit: Fit[Model, SampledGaussian]) -> None:
        """See `PlannedSystem.train`."""
        from trainables.training.private_sgd import train

        train(fit, self.optimiser(fit.params, fit.mechanism.steps), self.gradient(fit))

    def gradient(self, fit: Fit[Model, SampledGaussian]) -> RecordGradient:
        """What is bounded of each record."""
        from trainables.team import RecordGradient

        return RecordGradient()

    @abstractmethod
    def optimiser(self, params: Model, steps: int) -> Callable[[nn.Module], Optimiser]:
        """What moves a model's weights in the `steps` of a trial."""


class NoisyAdam(NoisyOptimiser[NoisyAdamHyperparameters]):
    """Algorithm 2."""

    name = "noisy-adam"
    params = NoisyAdamHyperparameters

    def optimiser(self, params: NoisyAdamHyperparameters, steps: int) -> Callable[[nn.Module], Optimiser]:
        """See `NoisyOptimiser.optimiser`."""
        from trainables.training import optimisers

        return lambda model: optimisers.noisy_adam(model, optimisers.steadily(params.learning_rate), params)


class NoisySGD(NoisyOptimiser[RecipeHyperparameters]):
    """Algorithm 1, with what may stand before its clip and after its noise."""

    name = "noisy-sgd"
    params = RecipeHyperparameters

    def check(self, case: Case[RecipeHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (optimizer, augmentation) besides."""
        super().check(case)
        params = case.params
        if params.optimizer not in OPTIMISERS:
            from trainables.training.optimisers import build_of

            build_of(params)
        if params.augmentation != "none":
            from trainables.training.augmentation import check_augmentation

            check_augmentation(params.augmentation, case.facts)
        elif params.copies > 1:
            expected = "1 without an augmentation: more copies of a record have the gradient that it has"
            raise InvalidValue("augmentation.multiplicity", params.copies, expected, "Give `of` beside it.")

    def describe(self, case: Case[RecipeHyperparameters], released: SampledGaussian) -> str:
        """See `PlannedSystem.describe`."""
        params, parts = case.params, [super().describe(case, released)]
        if params.augmentation != "none":
            parts.append(f"each gradient the mean over {params.copies} augmentations of its record")
        if not params.clip_norm:
            parts.append("clipped automatically: divided by its norm and 0.01 more")
        if params.ema:
            parts.append("released is the exponential mean of the weights")
        return "; ".join(parts)

    def work(self, case: Case[RecipeHyperparameters], released: SampledGaussian) -> float:
        """See `PlannedSystem.work`."""
        return super().work(case, released) * case.params.copies

    def gradient(self, fit: Fit[RecipeHyperparameters, SampledGaussian]) -> RecordGradient:
        """See `NoisyOptimiser.gradient`."""
        from trainables.team import RecordGradient

        automatic, seed = not fit.params.clip_norm, fit.run.streams.derived_seed(Purpose.AUGMENTATION)
        return RecordGradient(
            automatic=automatic, copies=fit.params.copies, augmentation=fit.params.augmentation, seed=seed
        )

    def optimiser(self, params: RecipeHyperparameters, steps: int) -> Callable[[nn.Module], Optimiser]:
        """See `NoisyOptimiser.optimiser`."""
        from trainables.training.optimisers import Optimiser, TorchOptimiser, build_of, scheduled

        rate_of = scheduled(params.learning_rate, params.schedule, params.warmup, steps)
        if params.optimizer == "sgd" and not (params.momentum or params.weight_decay or params.ema):
            # What torch.optim.SGD does, in a third of its time.
            return lambda model: Optimiser(model, rate_of)
        return lambda model: TorchOptimiser(model, rate_of, build_of(params), params.ema)


NOISY_SGD = NoisySGD()
NOISY_ADAM = NoisyAdam()
