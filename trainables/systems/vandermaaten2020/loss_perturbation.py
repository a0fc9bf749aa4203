"""Noise in the objective, whose minimiser is released."""

from __future__ import annotations

from dataclasses import replace

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, PureDP
from dpcore.guarantee import FLOATING_POINT, Guarantee, Status
from dpcore.mechanisms import loss_perturbation
from dpcore.mechanisms.loss_perturbation import PerturbationLaw, PerturbedMinimiser
from dpcore.mechanisms.output_perturbation import SOFTMAX_LIPSCHITZ, UNIT_INPUTS
from trainables.hyperparameters import read
from trainables.measures.hooks import Neighbours
from trainables.planning import ClaimTerms
from trainables.system import Config, Dataset, DatasetSpec, PrivacyPlan, PrivacyTarget, Refusal, Run, RunSettings
from trainables.systems.answering import check_present
from trainables.systems.linear import classes_of, labels_of
from trainables.systems.vandermaaten2020.minimiser import (
    LinearModel,
    LossPerturbationKnobs,
    at_delta_zero,
    descent_work,
    pure_claim,
)
from trainables.systems.vandermaaten2020.neighbours import of_perturbed_minimiser
from trainables.training.noise import normals

PERTURBED_TAU = 1e-11
"""Gradient norm of perturbed minimisers: small, so that hiding the rest takes next to no noise."""
_LINES = (UNIT_INPUTS, "The optimiser's distance from the minimiser is bounded and hidden by output noise.")
_PROVED = Status.PROVED_UNDER_ASSUMPTIONS


class LossPerturbation(LinearModel[LossPerturbationKnobs, PerturbedMinimiser]):
    """Theorems 3 and 4 (repaired, or as printed), with output noise for what the optimiser leaves open.

    The noise is in the objective: no two runs share a training.
    """

    name = "loss-perturbation"
    knobs = LossPerturbationKnobs

    def check(
        self, knobs: LossPerturbationKnobs, facts: DatasetSpec, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (noise)."""
        if knobs.noise is PerturbationLaw.PUBLISHED and target.adjacency is not Adjacency.ADD_REMOVE:
            raise InvalidValue(
                "noise",
                str(knobs.noise),
                f"gaussian or pure under {target.adjacency}",
                "The printed theorem counts a record more or less: or set privacy.adjacency to add-remove.",
            )
        return None

    def noise(self, knobs: LossPerturbationKnobs, facts: DatasetSpec, target: PrivacyTarget) -> float:
        """See `SolvedSystem.noise`."""
        classes, objective = classes_of(facts), target.epsilon * (1 - knobs.output_share)
        if knobs.noise is PerturbationLaw.PURE:
            return 2 / objective
        if knobs.noise is PerturbationLaw.PUBLISHED:
            perturbed = loss_perturbation.gaussian_published(objective, target.delta, facts.n, classes)
        else:
            perturbed = loss_perturbation.gaussian(objective, target.delta, facts.n, classes, target.adjacency)
        shift = SOFTMAX_LIPSCHITZ * (2 if target.adjacency is Adjacency.REPLACE_ONE else 1)
        return perturbed.noise.sigma / shift

    def mechanism(self, knobs: LossPerturbationKnobs, facts: DatasetSpec, terms: ClaimTerms) -> PerturbedMinimiser:
        """See `PlannedSystem.mechanism`."""
        return PerturbedMinimiser(
            law=knobs.noise,
            jacobian=knobs.jacobian,
            noise_multiplier=knobs.noise_multiplier,
            output_share=knobs.output_share,
            regularisation=knobs.regularisation,
            tau=PERTURBED_TAU,
            records=facts.n,
            classes=classes_of(facts),
            delta=terms.delta,
            adjacency=terms.adjacency,
        )

    def claim(
        self, knobs: LossPerturbationKnobs, released: PerturbedMinimiser, facts: DatasetSpec, target: PrivacyTarget
    ) -> Guarantee:
        """See `PlannedSystem.claim`: what is proved, or for noise as printed what the paper claims."""
        each = released.each
        if isinstance(each, PureDP):
            return pure_claim(each, 1, target, _PROVED, _LINES)
        if released.law is PerturbationLaw.GAUSSIAN:
            return _repaired(released, target)
        printed = loss_perturbation.gaussian_published(released.objective, target.delta, facts.n, released.classes)
        return replace(
            _repaired(released, target),
            epsilon=released.objective + released.output,
            accountant=printed.guarantee.accountant,
            status=printed.guarantee.status,
            theorem=printed.guarantee.theorem,
        )

    def beside(
        self,
        knobs: LossPerturbationKnobs,
        released: PerturbedMinimiser,
        claim: Guarantee,
        facts: DatasetSpec,
        target: PrivacyTarget,
    ) -> tuple[Guarantee, ...]:
        """See `PlannedSystem.beside`: the pure claim of pure noise, what is proved of noise as printed."""
        each = released.each
        if isinstance(each, PureDP):
            return (at_delta_zero(claim, each, 1),)
        return (_repaired(released, target),) if released.law is PerturbationLaw.PUBLISHED else ()

    def describe(self, knobs: LossPerturbationKnobs, released: PerturbedMinimiser, facts: DatasetSpec) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"the minimiser of a loss with a random linear term ({released.law} noise of "
            f"{released.noise_multiplier:.5g} times the gradient shift) and output noise "
            f"({released.output_share:.3g} of epsilon), released once"
        )

    def work(self, knobs: LossPerturbationKnobs, released: PerturbedMinimiser, facts: DatasetSpec) -> float:
        """See `PlannedSystem.work`."""
        return descent_work(facts.n, knobs.regularisation)

    def train(
        self,
        run: Run,
        knobs: LossPerturbationKnobs,
        released: PerturbedMinimiser,
        data: Dataset,
        execution: RunSettings,
    ) -> None:
        """See `PlannedSystem.train`. Raises InvalidValue as `check_present` does."""
        check_present(run.member.plan, data)
        run.reserve_until(1)
        inputs, labels = knobs.rows(data.facts, data.train), labels_of(data.train)
        self.keep(run, knobs, data, released.release(inputs, labels, normals(run, execution)))

    def neighbours(self, plan: PrivacyPlan, facts: DatasetSpec) -> Neighbours:
        """See `trainables.measures.hooks.Auditable`."""
        return of_perturbed_minimiser(read(self.knobs, plan.config), self.mechanism_of(plan, facts), facts)


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
