"""The training loop of both gradient systems: look at distances, ask the watch, sample, noise, update, keep records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.accountants.bayesian_distances import random_mask
from dpcore.events import Event, NonPrivate
from dpcore.gradients import PrivateGradients, noise_event, noisy_mean_gradient
from dpcore.sampling import PoissonSampling, Uniforms
from trainables.measures import watching
from trainables.parallel import limited_threads
from trainables.system import Config, Dataset, Execution, PrivacyPlan, Run
from trainables.systems.bayesian_dp.knobs import NO_BUDGET
from trainables.systems.bayesian_dp.sampled import Draws, GradientDistances, looked_at, stream
from trainables.systems.bayesian_dp.watch import Watch
from trainables.systems.noisy_training import (
    Descent,
    Pace,
    WrongEvent,
    device_of,
    initial_model,
)
from trainables.training.losses import loss_function, tensor
from trainables.training.noise import batches, noise_source
from trainables.training.released import with_origin
from trainables.validation.judging import judge

UNCLIPPED = 1e30
"""A clip norm that no finite float32 gradient of a model that still learns reaches."""


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One step as a configuration means it.

    clip_norm  None for gradients that are not clipped
    sigma      standard deviation of the noise on the sum
    fixed      batches of exactly batch_size records; else Poisson ones
    issued     what the step releases
    """

    rate: float
    batch_size: int
    clip_norm: float | None
    sigma: float
    fixed: bool
    issued: Event

    @classmethod
    def of(cls, config: Config, n: int) -> Mechanism:
        """For n records, a public number."""
        unit, noise, batch_size = (config[name] for name in ("clip_norm", "noise_multiplier", "batch_size"))
        rate = int(batch_size) / n
        average = "sensitivity" in config
        return cls(
            rate=rate,
            batch_size=int(batch_size),
            clip_norm=None if config.get("sensitivity") == "unbounded" else float(unit),
            sigma=float(noise) * float(unit),
            fixed=config.get("batches") == "fixed",
            issued=NonPrivate() if average else PoissonSampling(rate=rate).event(noise_event(float(noise))),
        )

    @property
    def largest(self) -> float | None:
        """The largest distance: two clipped contributions of a pair may point opposite ways."""
        return None if self.clip_norm is None else self.clip_norm * (2 if self.fixed else 1)

    def batch(self, present: int, draws: Uniforms) -> NDArray[np.int64]:
        """The rows of one batch."""
        if self.fixed:
            # The records with the smallest of independent marks: every subset is equally likely.
            return np.argsort(draws.random(present))[: self.batch_size]
        return PoissonSampling(rate=self.rate).indices(present, draws)

    def check(self, run: Run) -> None:
        """Raises WrongEvent when the plan counted something else; nothing was drawn."""
        planned = {event for event, _ in run.member.plan.schedule}
        if planned != {self.issued}:
            raise WrongEvent(f"{run.member.key}: the plan counted {planned}, the sampler would issue {self.issued}")


def watch_of(plan: PrivacyPlan, largest: float | None) -> Watch:
    """The watch that a plan asks for: over its knobs, or over its claim where the claim is the average case."""
    if "bayesian_budget" in plan.config:
        delta_mu, budget = float(plan.config["bayesian_delta"]), float(plan.config["bayesian_budget"])
    else:
        delta_mu, budget = plan.guarantee.delta, plan.guarantee.epsilon
    assert budget != NO_BUDGET or "bayesian_budget" in plan.config
    return Watch.of(plan.config, steps=plan.steps, delta_mu=delta_mu, budget=budget, largest=largest)


def train(run: Run, data: Dataset, execution: Execution) -> None:
    """Execute one run up to its `member.to_step`. Raises WrongEvent, InvalidValue (model)."""
    with limited_threads(execution.threads):
        _train(run, data, execution)


def _train(run: Run, data: Dataset, execution: Execution) -> None:
    config = run.member.plan.config
    mechanism = Mechanism.of(config, data.facts.n)
    mechanism.check(run)
    device = device_of(execution)
    model, loss = watching.attach(run, initial_model(run, data, device), loss_function(data.facts))
    descent = MaskedDescent(config, model, run)
    watch = watch_of(run.member.plan, mechanism.largest)
    if run.state is not None:
        descent.restore(run.state)
        watch.restore(run.state)
    split = looked_at(config, data)
    distances = GradientDistances(
        model,
        loss,
        split,
        Draws.of(run, split, pairs=mechanism.fixed),
        device=device,
        clip_norm=mechanism.clip_norm,
        pairs=mechanism.fixed,
    )
    gradient = _noisy_gradient(run, data, execution, mechanism, model, loss, device)
    step, stop = run.start_step, run.member.to_step
    pace = Pace(execution.checkpoint_seconds)
    while step < stop:
        # A stopped run has no steps left to take: it goes to its end as it stands.
        until = stop if watch.stopped else min(stop, step + pace.steps)
        run.may_execute(until)
        for now in range(step, until):
            mask = descent.next_mask()
            if not watch.admits(distances.measure(mask), mechanism.rate, mechanism.sigma):
                break
            noisy = gradient()
            # Before the mask: an ordinary claim covers every coordinate, whether it is used or not.
            watching.saw(run, now, noisy)
            descent.update_masked(noisy, mask)
        pace.after(until - step)
        step = until
        metrics: dict[str, float] = {}
        if step == stop:
            metrics = {**judge(model, data.validation, data.facts, device), **watch.metrics()}
        run.checkpoint(step, with_origin(run, descent.state() | watch.state()), metrics)


def _noisy_gradient(
    run: Run,
    data: Dataset,
    execution: Execution,
    mechanism: Mechanism,
    model: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    device: torch.device,
) -> Callable[[], Mapping[str, Tensor]]:
    """The noisy mean gradient of the next batch, at the current weights."""
    gradients = PrivateGradients(model, loss)
    noise = noise_source(run, execution, device)
    draws = batches(run, execution)
    inputs = tuple(tensor(array, device) for array in data.train.inputs.values())
    targets = tensor(data.train.targets, device)
    clip_norm = UNCLIPPED if mechanism.clip_norm is None else mechanism.clip_norm

    def next_gradient() -> Mapping[str, Tensor]:
        rows = torch.from_numpy(mechanism.batch(len(targets), draws)).to(device)
        total = gradients.clipped_sum(
            tuple(one.index_select(0, rows) for one in inputs),
            targets.index_select(0, rows),
            clip_norm=clip_norm,
            microbatch_size=execution.microbatch,
        )
        # The public batch size, not the number of records drawn.
        return noisy_mean_gradient(
            total,
            noise_multiplier=mechanism.sigma / clip_norm,
            expected_batch_size=mechanism.batch_size,
            noise=noise,
        )

    return next_gradient


class MaskedDescent(Descent):
    """theta -= learning_rate * mask * g, with a fresh random mask for every step."""

    def __init__(self, config: Config, model: nn.Module, run: Run) -> None:
        super().__init__(config, model)
        self._share = float(config["updated_share"])
        self._size = sum(one.numel() for one in self.parameters.values())
        self._rng = stream(run.streams, "masks", run.start_step)

    def next_mask(self) -> NDArray[np.bool_] | None:
        """Which of the weights, side by side in their order, the next step updates; None for all."""
        return None if self._share == 1.0 else random_mask(self._size, self._share, self._rng)

    @torch.no_grad()
    def update_masked(self, gradient: Mapping[str, Tensor], mask: NDArray[np.bool_] | None) -> None:
        """One step; noise on the other coordinates is thrown away unseen."""
        if mask is not None:
            start = 0
            for name, one in self.parameters.items():
                part = torch.from_numpy(mask[start : start + one.numel()]).view(one.shape)
                gradient[name].mul_(part.to(one.device))
                start += one.numel()
        self.update(gradient)
