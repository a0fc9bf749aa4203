"""Noise in the objective, whose minimiser is released."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, PureDP
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status
from dpcore.mechanisms import loss_perturbation
from dpcore.mechanisms.loss_perturbation import Jacobian, PerturbationLaw, PerturbedMinimiser
from dpcore.mechanisms.output_perturbation import SOFTMAX_LIPSCHITZ, UNIT_INPUTS
from trainables.hooks import Neighbours
from trainables.hyperparameters import hyperparameter, hyperparameters
from trainables.planning import Case, Fit
from trainables.system import Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, State, Traits
from trainables.systems.answering import ACCURACY, SolvedSystem, check_present
from trainables.systems.linear import classes_of, labels_of
from trainables.systems.vandermaaten2020.minimiser import (
    NOISE_MAX,
    NOISE_MIN,
    SOURCE,
    Array,
    MinimiserHyperparameters,
    ReleasesLinearModel,
    at_delta_zero,
    descent_work,
    pure_claim,
)
from trainables.systems.vandermaaten2020.neighbours import moved_furthest, of_model
from trainables.training.noise import normals

PERTURBED_TAU = 1e-11
"""Gradient norm of perturbed minimisers: small, so that hiding the rest takes next to no noise."""
_LINES = (UNIT_INPUTS, "The optimiser's distance from the minimiser is bounded and hidden by output noise.")
_PROVED = Status.PROVED_UNDER_ASSUMPTIONS


@hyperparameters
class LossPerturbationHyperparameters(MinimiserHyperparameters):
    """Of `loss-perturbation`."""

    noise: PerturbationLaw = hyperparameter(
        choices=tuple(map(str, PerturbationLaw)),
        default=str(PerturbationLaw.GAUSSIAN),
        doc="gaussian: Theorem 4, repaired; pure: Theorem 3, density exp(-beta ||N||), (epsilon, 0)-DP; "
        "gaussian-published: Theorem 4 as printed, for add-remove, with what the repaired proof gives it beside",
    )
    jacobian: Jacobian = hyperparameter(
        choices=tuple(map(str, Jacobian)),
        default=str(Jacobian.TRACE),
        doc="how the least regularisation is counted: rank (published) or trace (sharper, also proved)",
    )
    output_share: float = hyperparameter(
        low=1e-4,
        high=0.5,
        default=0.01,
        doc="share of epsilon for output noise, which hides how the optimiser stopped",
    )
    noise_multiplier: float = hyperparameter(
        low=NOISE_MIN,
        high=NOISE_MAX,
        doc="sigma (gaussian) or 1/beta (pure) of the linear term over one record's gradient shift; solved by default",
    )


class LossPerturbation(ReleasesLinearModel, SolvedSystem[LossPerturbationHyperparameters, PerturbedMinimiser]):
    """Theorems 3 and 4 (repaired, or as printed), with output noise for what the optimiser leaves open.

    The noise is in the objective: no two runs share a training.
    """

    name = "loss-perturbation"
    source = SOURCE
    params = LossPerturbationHyperparameters
    metrics = (ACCURACY,)
    noise_range = (NOISE_MIN, NOISE_MAX)
    traits = Traits(judged_as_released=True)

    def check(self, case: Case[LossPerturbationHyperparameters]) -> None:
        """See `PlannedSystem.check`. Raises InvalidValue (noise)."""
        noise, adjacency = case.params.noise, case.target.adjacency
        if noise is PerturbationLaw.PUBLISHED and adjacency is not Adjacency.ADD_REMOVE:
            raise InvalidValue(
                "noise",
                str(noise),
                f"gaussian or pure under {adjacency}",
                "The printed theorem counts a record more or less: or set privacy.adjacency to add-remove.",
            )

    def noise(self, case: Case[LossPerturbationHyperparameters]) -> float:
        """See `SolvedSystem.noise`."""
        params, target, n, classes = case.params, case.target, case.facts.n, classes_of(case.facts)
        objective = target.epsilon * (1 - params.output_share)
        if params.noise is PerturbationLaw.PURE:
            return 2 / objective
        if params.noise is PerturbationLaw.PUBLISHED:
            perturbed = loss_perturbation.gaussian_published(objective, target.delta, n, classes)
        else:
            perturbed = loss_perturbation.gaussian(objective, target.delta, n, classes, target.adjacency)
        shift = SOFTMAX_LIPSCHITZ * (2 if target.adjacency is Adjacency.REPLACE_ONE else 1)
        return perturbed.noise.sigma / shift

    def mechanism(self, case: Case[LossPerturbationHyperparameters]) -> PerturbedMinimiser:
        """See `PlannedSystem.mechanism`."""
        params, target = case.params, case.target
        return PerturbedMinimiser(
            law=params.noise,
            jacobian=params.jacobian,
            noise_multiplier=params.noise_multiplier,
            output_share=params.output_share,
            regularisation=params.regularisation,
            tau=PERTURBED_TAU,
            records=case.facts.n,
            classes=classes_of(case.facts),
            delta=target.delta,
            adjacency=target.adjacency,
        )

    def claim(self, case: Case[LossPerturbationHyperparameters], released: PerturbedMinimiser) -> Guarantee:
        """See `PlannedSystem.claim`: what is proved, or for noise as printed what the paper claims."""
        each, target = released.each, case.target
        if isinstance(each, PureDP):
            return pure_claim(each, 1, target, _PROVED, _LINES)
        if released.law is PerturbationLaw.GAUSSIAN:
            return _repaired(released, target)
        n, objective = case.facts.n, released.objective
        printed = loss_perturbation.gaussian_published(objective, target.delta, n, released.classes).guarantee
        return replace(
            _repaired(released, target),
            epsilon=objective + released.output,
            accountant=printed.accountant,
            status=printed.status,
            theorem=printed.theorem,
        )

    def beside(
        self, case: Case[LossPerturbationHyperparameters], released: PerturbedMinimiser, claim: Guarantee
    ) -> tuple[Guarantee, ...]:
        """See `PlannedSystem.beside`: the pure claim of pure noise, what is proved of noise as printed."""
        each = released.each
        if isinstance(each, PureDP):
            return (at_delta_zero(claim, each, 1),)
        return (_repaired(released, case.target),) if released.law is PerturbationLaw.PUBLISHED else ()

    def describe(self, case: Case[LossPerturbationHyperparameters], released: PerturbedMinimiser) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"the minimiser of a loss with a random linear term ({released.law} noise of "
            f"{released.noise_multiplier:.5g} times the gradient shift) and output noise "
            f"({released.output_share:.3g} of epsilon), released once"
        )

    def work(self, case: Case[LossPerturbationHyperparameters], released: PerturbedMinimiser) -> float:
        """See `PlannedSystem.work`."""
        return descent_work(case.facts.n, case.params.regularisation)

    def train(self, fit: Fit[LossPerturbationHyperparameters, PerturbedMinimiser]) -> None:
        """See `PlannedSystem.train`. Raises InvalidValue as `check_present` does."""
        check_present(fit.run.member.plan, fit.data)
        fit.run.reserve_until(1)
        inputs, labels = fit.params.rows(fit.data.facts, fit.data.train), labels_of(fit.data.train)
        self.keep(fit, fit.mechanism.release(inputs, labels, normals(fit.run, fit.settings)))

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.hooks.Auditable`."""
        params, released = self.read(plan)
        with_it, without_it, groups = moved_furthest(params, released.adjacency, facts)

        def linear(data: Dataset, theta: Array) -> float:
            risk = released.risk(params.rows(facts, data.train), labels_of(data.train))
            return float(np.linalg.norm(facts.n * risk.value_and_gradient(theta)[1]))

        def score(state: State) -> float:
            # The linear term that would make this model the minimiser: shorter under the right data set.
            theta = np.asarray(state["theta"], dtype=np.float64)
            return linear(without_it, theta) - linear(with_it, theta)

        return of_model(with_it, without_it, groups, score)


def _repaired(released: PerturbedMinimiser, target: PrivacyTarget) -> Guarantee:
    return Guarantee(
        epsilon=released.each.epsilon,
        delta=target.delta,
        adjacency=target.adjacency,
        unit=target.unit,
        accountant="tail-bound",
        status=_PROVED,
        theorem="van der Maaten & Hannun 2020, Theorem 4, repaired for c >= 3",
        assumptions=(*_LINES, FLOATING_POINT),
    )


LOSS_PERTURBATION = LossPerturbation()
