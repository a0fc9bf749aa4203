"""NoisySGD and NoisyAdam: clipped, noised, Poisson-sampled gradient steps.

Source      Bu, Dong, Long & Su (2020), Algorithms 1 and 2; the mechanism is Abadi et al. (2016), Algorithm 1.
Claim       (epsilon, delta) of `steps` Poisson-subsampled Gaussians by the PLD, add-remove or replace-one (where a
            drawn record may give way to another, two clip norms away); any number of queries. Momentum
            (Polyak 1964) moves by gradients whose noise is in: it is in no claim.
Departures  The paper divides by the realised batch size, a fact about the data that its own proof does not
            cover; here the divisor is the public q * n. The headline is the PLD's upper bound; the paper's CLT
            value stands beside it as `asymptotic`.

One step, with rate q = batch_size / n, clip norm R and noise multiplier s:

    g = (sum over the batch of clip(gradient, R) + s R N(0, I)) / (q n)
    noisy-sgd    theta -= learning_rate * g;  with momentum m:  v = m v + g;  theta -= learning_rate * v
    noisy-adam   m = beta1 m + (1 - beta1) g;  u = beta2 u + (1 - beta2) g^2;
                 theta -= learning_rate * m / (sqrt(u) + xi)

The printed Algorithm 2 has no bias correction, which makes the first hundreds of steps several times larger; the
released code calls an Adam that has it. `bias_correction: true` is the released code.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from dpcore import calibrate
from dpcore.accounting import guarantee
from dpcore.events import Adjacency
from dpcore.guarantee import Guarantee
from dpcore.mechanisms.sampled_gaussian import SampledGaussian
from dpcore.sampling import PoissonSampling
from trainables import models
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.planning import NOISE_MAX, STEPS_MAX, Case, Fit, PlannedSystem, check_at_most, check_batch, goal_of
from trainables.system import Scalar, Traits
from trainables.training.hyperparameters import (
    ClipHyperparameters,
    ModelHyperparameters,
    NoiseHyperparameters,
    PassHyperparameters,
    RateHyperparameters,
    epochs_of,
)
from trainables.training.trained_model import METRICS, TrainedByNoisedGradients

if TYPE_CHECKING:
    from torch import nn

    from trainables.training.optimisers import Optimiser

SCHEDULES = ("constant", "cosine", "linear")


@hyperparameters
class DescentHyperparameters(NoiseHyperparameters, PassHyperparameters, ClipHyperparameters, RateHyperparameters):
    """Of every system whose steps are noised gradients."""


@hyperparameters
class NoisySGDHyperparameters(DescentHyperparameters, ModelHyperparameters):
    """Of `noisy-sgd`, and of every system whose noised gradients train a model."""


@hyperparameters
class RecipeHyperparameters(NoisySGDHyperparameters):
    """Of `noisy-sgd`."""

    learning_rate: float = hyperparameter(low=1e-6, high=1e3, inner="peak", doc="size of a step, the largest of them")
    schedule: str = hyperparameter(
        name="learning_rate.schedule",
        choices=SCHEDULES,
        default="constant",
        doc="how the size of a step goes down, over the steps after the warm-up",
        absent_unless_given=True,
    )
    warmup: float = hyperparameter(
        name="learning_rate.warmup",
        low=0.0,
        high=0.9999,
        default=0.0,
        doc="share of the steps over which the size of a step rises to its largest",
        absent_unless_given=True,
    )
    momentum: float = hyperparameter(
        low=0.0,
        high=0.9999,
        default=0.0,
        doc="share of the last step that the next one keeps; a step then goes about 1 / (1 - momentum) times as far",
        absent_unless_given=True,
    )


@hyperparameters
class NoisyAdamHyperparameters(NoisySGDHyperparameters):
    """Of `noisy-adam`."""

    beta1: float = hyperparameter(low=0.0, high=0.999999, default=0.9, doc="memory of the mean")
    beta2: float = hyperparameter(low=0.0, high=0.999999, default=0.999, doc="memory of the square")
    xi: float = hyperparameter(low=1e-12, high=1.0, default=1e-8, doc="keeps the division finite")
    bias_correction: bool = hyperparameter(
        choices=(False, True),
        default=False,
        doc="false: Algorithm 2 as printed; true: Adam of Kingma & Ba 2015, as in the paper's released code",
    )


Steps = TypeVar("Steps", bound=DescentHyperparameters)


class NoisedDescent(PlannedSystem[Steps, SampledGaussian]):
    """How every system with a sampled Gaussian for each step is planned: one rate, one clip, one noise."""

    solves = MappingProxyType({"noise": "noise_multiplier", "steps": "epochs"})

    def check(self, case: Case[Steps]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch above n)."""
        if isinstance(case.params, ModelHyperparameters):
            models.check(
                case.params.model, case.facts, case.params.arguments, case.params.adaptation, case.params.hidden
            )
        check_batch(case.params.batch_size, case.facts)

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
            clip_norm=params.clip_norm,
            noise_multiplier=params.noise_multiplier,
            steps=params.steps(n),
            # The public n of the facts, not the number of records present.
            expected_batch_size=sampling.rate * n,
        )

    def describe(self, case: Case[Steps], released: SampledGaussian) -> str:
        """See `PlannedSystem.describe`."""
        facts = case.facts
        return (
            f"{released.steps} gradient steps on Poisson batches of {facts.counted} (rate {case.params.batch_size}/"
            f"{facts.n}), each with Gaussian noise of {released.noise_multiplier:.5g} times the clip norm "
            f"{released.clip_norm:.4g} on the sum"
        )

    def beside(self, case: Case[Steps], released: SampledGaussian, claim: Guarantee) -> tuple[Guarantee, ...]:
        """The paper's own number, where its theorem reaches. Other notions cost a hundred times a plan: reports count
        them from the event."""
        target = case.target
        if target.adjacency is not Adjacency.ADD_REMOVE:
            return ()
        return (guarantee("gdp-clt", released.event(), target.delta, target.adjacency, unit=target.unit),)

    def work(self, case: Case[Steps], released: SampledGaussian) -> float:
        """See `PlannedSystem.work`."""
        return float(released.steps) * case.params.batch_size * case.facts.unit_records


Model = TypeVar("Model", bound=NoisySGDHyperparameters)


class NoisyOptimiser(TrainedByNoisedGradients, NoisedDescent[Model]):
    """The two systems differ in the update alone."""

    source = "Bu, Dong, Long & Su 2020"
    metrics = METRICS
    traits = Traits(units=True, workers=True, private_reports=True, weights=True, judged_as_released=True, curve=True)

    def __init__(self, name: str, params: type[Model]) -> None:
        self.name, self.params = name, params

    def train(self, fit: Fit[Model, SampledGaussian]) -> None:
        """See `PlannedSystem.train`."""
        from trainables.training.private_sgd import train

        train(
            fit.run,
            fit.data,
            fit.settings,
            mechanism=fit.mechanism,
            optimiser=self.optimiser(fit.params, fit.mechanism.steps),
        )

    def optimiser(self, params: Model, steps: int) -> Callable[[nn.Module], Optimiser]:
        """What moves a model's weights in the `steps` of a trial."""
        from trainables.training.optimisers import Descent, HeavyBall, NoisyAdam, scheduled, steadily

        rate_of = steadily(params.learning_rate)
        if isinstance(params, NoisyAdamHyperparameters):
            return lambda model: NoisyAdam(model, rate_of, params)
        if not isinstance(params, RecipeHyperparameters):
            return lambda model: Descent(model, rate_of)
        rate_of = scheduled(params.learning_rate, params.schedule, params.warmup, steps)
        if params.momentum:
            return lambda model: HeavyBall(model, rate_of, params.momentum)
        return lambda model: Descent(model, rate_of)


NOISY_SGD = NoisyOptimiser("noisy-sgd", RecipeHyperparameters)
NOISY_ADAM = NoisyOptimiser("noisy-adam", NoisyAdamHyperparameters)
