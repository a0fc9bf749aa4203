"""DPVI as the paper ran it under its own accountant: nothing is noised, each draw of the weights is counted as noise.

One step draws w = mean + exp(log_sd) z, takes the plain gradient of a Poisson batch at w, and moves (mean, log_sd) by
AdaGrad. The release counted is the next draw: N(mean, sd^2) with and without the record, its mean moved by this step's
share of the record alone.

That count is refuted. The mean is never replaced by what was drawn, so a record's shares of all earlier steps are still
in it: where each step moves it by d deviations, step t shows t d, not d. After T steps without sampling the true
divergence is (T + 1)(2 T + 1) / 6 times the counted one. The deviations depend on the records too, and the draws that
predictions are averaged over are not counted at all.
"""

from __future__ import annotations

from dataclasses import replace

from dpcore.guarantee import Guarantee, Status
from dpcore.mechanisms.protocol import Scheduled, unprotected
from trainables.planner import ClaimTerms, check_batch
from trainables.system import Config, Dataset, Execution, PrivacyTarget, PublicFacts, Refusal, Run
from trainables.systems.bayesian_dp.average import StoppedSystem, unlike_ordinary
from trainables.systems.bayesian_dp.bayesian_knobs import VariationalDrawsKnobs, check_records
from trainables.systems.bayesian_dp.clipped import BAYESIAN_VARIATIONAL, check_two_classes
from trainables.systems.bayesian_dp.watch import filter_for

REFUTED = (
    "Refuted: a record's share of earlier steps stays in the mean and is counted once, not at every later draw; after "
    "T steps the divergence is up to (T + 1)(2 T + 1) / 6 times what is claimed."
)


class VariationalDraws(StoppedSystem[VariationalDrawsKnobs, Scheduled]):
    """The System."""

    name = "variational-draws"
    knobs = VariationalDrawsKnobs
    membership_scores = BAYESIAN_VARIATIONAL.membership_scores

    def check(
        self, knobs: VariationalDrawsKnobs, facts: PublicFacts, target: PrivacyTarget, given: Config
    ) -> Refusal | None:
        """See `PlannedSystem.check`. Raises InvalidValue (classes, batch, records)."""
        check_two_classes(facts)
        check_batch(knobs.batch_size, facts)
        check_records(knobs, facts, pairs=False)
        return None

    def mechanism(self, knobs: VariationalDrawsKnobs, facts: PublicFacts, terms: ClaimTerms) -> Scheduled:
        """See `PlannedSystem.mechanism`: nothing is noised."""
        return unprotected(knobs.steps(facts.n))

    def claim(
        self, knobs: VariationalDrawsKnobs, released: Scheduled, facts: PublicFacts, target: PrivacyTarget
    ) -> Guarantee:
        """See `PlannedSystem.claim`: what the paper would claim, `refuted`."""
        claim = filter_for(target.epsilon, target.delta, released.steps, knobs.estimate_failure).guarantee(target.unit)
        lines = (REFUTED, *unlike_ordinary(knobs), *claim.assumptions)
        return replace(claim, status=Status.REFUTED, assumptions=lines)

    def describe(self, knobs: VariationalDrawsKnobs, released: Scheduled, facts: PublicFacts) -> str:
        """See `PlannedSystem.describe`."""
        return (
            f"at most {released.steps} AdaGrad steps on Poisson batches ({knobs.batch_size}/{facts.n}) without noise; "
            "each draw of the weights is counted as if it were fresh noise"
        )

    def train(
        self, run: Run, knobs: VariationalDrawsKnobs, released: Scheduled, data: Dataset, execution: Execution
    ) -> None:
        """See `PlannedSystem.train`."""
        from trainables.systems.bayesian_dp.draws_training import train

        train(run, knobs, data, execution)


VARIATIONAL_DRAWS = VariationalDraws()
