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
from trainables.hyperparameters import knob, knobs
from trainables.planning import NOISE_MAX, STEPS_MAX, ClaimTerms, PlannedSystem, check_batch, goal_of, too_large
from trainables.system import (
    Config,
    Dataset,
    DatasetSpec,
    PrivacyTarget,
    Refusal,
    Run,
    RunSettings,
    Scalar,
    SearchHints,
    Traits,
)
from trainables.training.hyperparameters import ClipKnobs, ModelKnobs, NoiseKnobs, PassKnobs, RateKnobs, epochs_of
from trainables.training.trained_model import REPORTED, TrainedByNoisedGradients

if TYPE_CHECKING:
    from torch import nn

    from trainables.training.optimisers import Optimiser


@knobs
class DescentKnobs(NoiseKnobs, PassKnobs, ClipKnobs, RateKnobs):
    """Of every system whose steps are noised gradients."""


@knobs
class NoisySGDKnobs(DescentKnobs, ModelKnobs):
    """Of every system whose noised gradients train a model."""


@knobs
class MomentumKnobs(NoisySGDKnobs):
    """Of `noisy-sgd`."""

    momentum: float = knob(
        low=0.0,
        high=0.9999,
        default=0.0,
        doc="share of the last step that the next one keeps; a step then goes about 1 / (1 - momentum) times as far",
        absent_unless_given=True,
    )


@knobs
class NoisyAdamKnobs(NoisySGDKnobs):
    """Of `noisy-adam`."""

    beta1: float = knob(low=0.0, high=0.999999, default=0.9, doc="memory of the mean")
    beta2: float = knob(low=0.0, high=0.999999, default=0.999, doc="memory of the square")
    xi: float = knob(low=1e-12, high=1.0, default=1e-8, doc="keeps the division finite")
    bias_correction: bool = knob(
        choices=(False, True),
        default=False,
        doc="false: Algorithm 2 as printed; true: Adam of Kingma & Ba 2015, as in the paper's released code",
    )


Steps = TypeVar("Steps", bound=DescentKnobs)


class NoisedDescent(PlannedSystem[Steps, SampledGaussian]):
    """How every system with a sampled Gaussian for each step is planned: one rate, one clip, one noise."""

    solves = MappingProxyType({"noise": "noise_multiplier", "steps": "epochs"})
    hints = SearchHints(
        # Clipped, a step goes as far as learning rate times clip norm.
        products={"learning_rate": {"learning_rate": 1, "clip_norm": 1}},
        # Expected passes over the data: so many gradients of each record.
        work={"epochs": 1},
    )

    def check(self, knobs: Steps, facts: DatasetSpec, target: PrivacyTarget, given: Config) -> Refusal | None:
        """See `PlannedSystem.check`."""
        check_batch(knobs.batch_size, facts)
        return None

    def solve(
        self, knobs: Steps, facts: DatasetSpec, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> dict[str, Scalar]:
        """See `PlannedSystem.solve`: the noise, or the epochs."""
        if target.solve != "steps":
            return super().solve(knobs, facts, target, calibrations)
        rate, noise = knobs.batch_size / facts.n, knobs.noise_multiplier
        steps = calibrate.steps(goal_of(target), rate=rate, noise_multiplier=noise, cache=calibrations)
        return {"epochs": epochs_of(steps, knobs.batch_size, facts.n)}

    def check_solved(self, knobs: Steps, facts: DatasetSpec, target: PrivacyTarget) -> Refusal | None:
        """See `PlannedSystem.check_solved`."""
        remedy, needed = (
            "Change epsilon, or take fewer epochs or smaller batches.",
            f" needed for epsilon={target.epsilon}",
        )
        return too_large("noise", knobs.noise_multiplier, NOISE_MAX, remedy, needed) or too_large(
            "steps", knobs.steps(facts.n), STEPS_MAX, remedy, needed
        )

    def mechanism(self, knobs: Steps, facts: DatasetSpec, terms: ClaimTerms) -> SampledGaussian:
        """See `PlannedSystem.mechanism`."""
        sampling = PoissonSampling(rate=knobs.batch_size / facts.n)
        return SampledGaussian(
            sampling=sampling,
            clip_norm=knobs.clip_norm,
            noise_multiplier=knobs.noise_multiplier,
            steps=knobs.steps(facts.n),
            # The public n of the facts, not the number of records present.
            expected_batch_size=sampling.rate * facts.n,
        )

    def describe(self, knobs: Steps, released: SampledGaussian, facts: DatasetSpec) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"{released.steps} gradient steps on Poisson batches of {facts.counted} (rate {knobs.batch_size}/{facts.n})"
            f", each with Gaussian noise of {released.noise_multiplier:.5g} times the clip norm "
            f"{released.clip_norm:.4g} on the sum"
        )

    def beside(
        self, knobs: Steps, released: SampledGaussian, claim: Guarantee, facts: DatasetSpec, target: PrivacyTarget
    ) -> tuple[Guarantee, ...]:
        """The paper's own number, where its theorem reaches. Other notions cost a hundred times a plan: reports count
        them from the event."""
        if target.adjacency is not Adjacency.ADD_REMOVE:
            return ()
        return (guarantee("gdp-clt", released.event(), target.delta, target.adjacency, unit=target.unit),)

    def work(self, knobs: Steps, released: SampledGaussian, facts: DatasetSpec) -> float:
        """See `PlannedSystem.work`."""
        return float(released.steps) * knobs.batch_size * facts.unit_records


Model = TypeVar("Model", bound=NoisySGDKnobs)


class NoisyOptimiser(NoisedDescent[Model], TrainedByNoisedGradients[Model, SampledGaussian]):
    """The two systems differ in the update alone."""

    source = "Bu, Dong, Long & Su 2020"
    metrics = REPORTED
    traits = Traits(units=True, workers=True, private_reports=True, weights=True, judged_as_released=True, curve=True)

    def __init__(self, name: str, knobs: type[Model]) -> None:
        self.name, self.knobs = name, knobs
        if issubclass(knobs, NoisyAdamKnobs):
            # Its steps are as long as the learning rate says, whatever the gradient's length.
            self.hints = SearchHints(work=self.hints.work)

    def check(self, knobs: Model, facts: DatasetSpec, target: PrivacyTarget, given: Config) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (model, batch above n)."""
        models.check(knobs.model, facts)
        return super().check(knobs, facts, target, given)

    def train(self, run: Run, knobs: Model, released: SampledGaussian, data: Dataset, execution: RunSettings) -> None:
        """See `PlannedSystem.train`."""
        from trainables.training.private_sgd import train

        train(run, data, execution, mechanism=released, optimiser=self.optimiser(knobs))

    def optimiser(self, knobs: Model) -> Callable[[nn.Module], Optimiser]:
        """What moves a model's weights."""
        from trainables.training.optimisers import Descent, HeavyBall, NoisyAdam, steadily

        rate_of = steadily(knobs.learning_rate)
        if isinstance(knobs, NoisyAdamKnobs):
            return lambda model: NoisyAdam(model, rate_of, knobs)
        if isinstance(knobs, MomentumKnobs) and knobs.momentum:
            return lambda model: HeavyBall(model, rate_of, knobs.momentum)
        return lambda model: Descent(model, rate_of)


NOISY_SGD = NoisyOptimiser("noisy-sgd", MomentumKnobs)
NOISY_ADAM = NoisyOptimiser("noisy-adam", NoisyAdamKnobs)
