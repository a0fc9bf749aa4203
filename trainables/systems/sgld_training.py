"""The training loop of clipped SGLD and DP-SGLD: sample, clip, Langevin step, keep records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from dpcore.events import Event
from dpcore.gradients import noise_event, noisy_mean_gradient
from dpcore.sampling import PoissonSampling
from dpcore.sgld import Phase, noise_multiplier
from trainables.measures import watching
from trainables.parallel import clipped_sums, limited_threads
from trainables.system import Dataset, Execution, Run
from trainables.systems.noisy_training import Descent, Pace, WrongEvent, device_of, initial_model
from trainables.systems.sgld_blocks import clip_norm, schedule
from trainables.training.losses import loss_function
from trainables.training.noise import noise_source
from trainables.training.released import with_origin
from trainables.validation.judging import report


def train(run: Run, data: Dataset, execution: Execution) -> None:
    """Execute one run of clipped SGLD up to its `member.to_step`. Raises WrongEvent, InvalidValue (model)."""
    config, n = run.member.plan.config, data.facts.n
    clip, phases = clip_norm(config, n), schedule(config, n)
    noises = [noise_multiplier(phase.step_size, n, int(config["batch_size"]), clip) for phase in phases]
    walk(run, data, execution, clip=clip, phases=phases, noises=noises)


def walk(
    run: Run, data: Dataset, execution: Execution, *, clip: float, phases: tuple[Phase, ...], noises: Sequence[float]
) -> None:
    """Langevin steps on clipped Poisson batches, one noise multiplier of `noises` for each block of `phases`.

    Raises WrongEvent when they are not what the plan counted, InvalidValue (model).
    """
    with limited_threads(execution.threads):
        _walk(run, data, execution, clip, phases, noises)


def _walk(
    run: Run, data: Dataset, execution: Execution, clip: float, phases: tuple[Phase, ...], noises: Sequence[float]
) -> None:
    config, n = run.member.plan.config, data.facts.n
    batch_size = int(config["batch_size"])
    sampling = PoissonSampling(rate=batch_size / n)
    _as_planned(run, tuple((sampling.event(noise_event(z)), p.steps) for z, p in zip(noises, phases, strict=True)))
    device = device_of(execution)
    model, loss = watching.attach(run, initial_model(run, data, device), loss_function(data.facts))
    sampler = Langevin({"learning_rate": 0.0}, model)
    if run.state is not None:
        sampler.restore(run.state)
    noise = noise_source(run, execution, device)
    step, stop = run.start_step, run.member.to_step
    pace = Pace(execution.checkpoint_seconds)
    with clipped_sums(
        run, data, execution, rate=sampling.rate, clip_norm=clip, model=model, loss=loss, device=device
    ) as sums:
        while step < stop:
            until = min(stop, step + pace.steps)
            run.may_execute(until)
            for now in range(step, until):
                block = block_of(phases, now)
                # The public b and n of plan and facts, not the numbers of records drawn or present.
                mean = noisy_mean_gradient(
                    sums.next(), noise_multiplier=noises[block], expected_batch_size=batch_size, noise=noise
                )
                watching.saw(run, now, mean)
                sampler.langevin(mean, phases[block].step_size, n, float(config["prior_variance"]))
            pace.after(until - step)
            step = until
            # Validation costs time, and a metric in the middle would be one more release: only the end is judged.
            metrics = report(run, model, data, device, execution) if step == stop else {}
            run.checkpoint(step, with_origin(run, sampler.state()), metrics)


def block_of(phases: tuple[Phase, ...], step: int) -> int:
    """The index of the block that holds step number `step`, counted from 0. Raises IndexError past the last."""
    for block, phase in enumerate(phases):
        if step < phase.steps:
            return block
        step -= phase.steps
    raise IndexError("a step past the schedule")


class Langevin(Descent):
    """theta -= (e/2) (theta / v + n * noisy mean): the noise in the mean is the sampler's own N(0, e I)."""

    @torch.no_grad()
    def langevin(self, mean: Mapping[str, Tensor], step_size: float, n: int, prior_variance: float) -> None:
        """One step; `mean` is the noisy sum of clipped gradients over the expected batch size."""
        for name, one in self.parameters.items():
            one.mul_(1 - step_size / (2 * prior_variance)).sub_(mean[name], alpha=step_size / 2 * n)


def _as_planned(run: Run, issued: tuple[tuple[Event, int], ...]) -> None:
    if run.member.plan.schedule != issued:
        raise WrongEvent(
            f"{run.member.key}: the plan counted {run.member.plan.schedule}, the sampler would issue {issued}"
        )
