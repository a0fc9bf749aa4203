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

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import replace

from dpcore.accountants.bayesian import beside_ordinary
from dpcore.checks import InvalidValue
from dpcore.events import NonPrivate
from dpcore.guarantee import Status
from trainables.system import Config, Dataset, Execution, PrivacyPlan, PrivacyTarget, PublicFacts, Refusal, Run
from trainables.systems.bayesian_dp.average import FROM_TRAINING, NO_ORDINARY, AverageCaseSGD
from trainables.systems.bayesian_dp.clipped import BAYESIAN_VARIATIONAL, check_two_classes
from trainables.systems.bayesian_dp.knobs import check_records
from trainables.systems.bayesian_dp.watch import check_figures, filter_for
from trainables.systems.noisy_sgd import ASSUMPTIONS, STEPS_MAX, steps_of

REFUTED = (
    "Refuted: a record's share of earlier steps stays in the mean and is counted once, not at every later draw; after "
    "T steps the divergence is up to (T + 1)(2 T + 1) / 6 times what is claimed."
)
_NOT_HERE = ("clip_norm", "noise_multiplier", "bayesian_delta", "bayesian_budget")


class VariationalDraws(AverageCaseSGD):
    """The System."""

    name = "variational-draws"
    parameters = tuple(one for one in BAYESIAN_VARIATIONAL.parameters if one.name not in _NOT_HERE)

    def plan(
        self, config: Config, facts: PublicFacts, target: PrivacyTarget, calibrations: MutableMapping[str, float]
    ) -> PrivacyPlan | Refusal:
        """See `System.plan`: what the paper would claim, `refuted`. Raises InvalidValue (classes, batch, knobs)."""
        full = self._complete(config, target)
        check_two_classes(facts)
        batch_size = int(full["batch_size"])
        if batch_size > facts.n:
            raise InvalidValue(
                "batch_size", batch_size, f"at most n={facts.n} records of {facts.dataset}", "Lower batch_size."
            )
        check_records(full, facts, pairs=False)
        steps = steps_of(float(full["epochs"]), batch_size, facts.n)
        if steps > STEPS_MAX:
            return Refusal(
                violations={"steps": math.log(steps / STEPS_MAX)},
                reason=f"steps={steps}: expected at most {STEPS_MAX}. Take fewer epochs or larger batches.",
            )
        check_figures(full, target.delta, steps)
        claim = filter_for(target.epsilon, target.delta, steps, float(full["estimate_failure"])).guarantee(target.unit)
        lines = (REFUTED, NO_ORDINARY, *(() if full["distances"] == "held-out" else (FROM_TRAINING,)))
        claim = replace(
            claim,
            status=Status.REFUTED,
            assumptions=(*lines, *claim.assumptions, *ASSUMPTIONS, *facts.assumptions),
        )
        return PrivacyPlan(
            system=self.name,
            config=full,
            solved=(),
            mechanism=f"at most {steps} AdaGrad steps on Poisson batches ({batch_size}/{facts.n}) without noise; each "
            "draw of the weights is counted as if it were fresh noise",
            schedule=((NonPrivate(), steps),),
            guarantee=claim,
            beside=(beside_ordinary(claim, None, target.delta)[1],),
            work=float(steps) * batch_size,
        )

    def fit(self, runs: Sequence[Run], data: Dataset, execution: Execution) -> None:
        """See `System.fit`; one run after the other."""
        from trainables.systems.bayesian_dp.draws_training import train

        for run in runs:
            train(run, data, execution)

    membership_scores = BAYESIAN_VARIATIONAL.membership_scores


VARIATIONAL_DRAWS = VariationalDraws()
