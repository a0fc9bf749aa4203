"""The training loop without protection: shuffled batches, one step each, the last iterates' predictions kept."""

from __future__ import annotations

import numpy as np
import torch

from dpcore.randomness import Purpose
from trainables.measures import watching
from trainables.models.resnet import with_dropout
from trainables.system import Dataset, Execution, Run
from trainables.systems.noisy_training import Pace, device_of, initial_model, limited_threads
from trainables.systems.sgld_blocks import schedule
from trainables.systems.sgmcmc.judging import Probabilities, judged, predicted
from trainables.systems.sgmcmc.updates import UPDATES
from trainables.training.losses import loss_function, tensor
from trainables.training.noise import noise_source
from trainables.training.released import with_origin

DRAWS = "draws.probabilities"


def train(run: Run, data: Dataset, execution: Execution, *, rate: str, samples: bool) -> None:
    """Execute one run up to its `member.to_step`. Raises InvalidValue (model, no validation records)."""
    device = device_of(execution)
    devices = [torch.cuda.current_device()] if device.type == "cuda" else []
    with limited_threads(execution.threads), torch.random.fork_rng(devices=devices):
        # Dropout draws its masks from the global generator, which is put back afterwards.
        seed = run.streams.derived_seed(Purpose.SAMPLING, step=run.start_step)
        torch.manual_seed(int.from_bytes(seed[:8], "big") >> 1)
        _train(run, data, execution, device, rate, samples)


def _train(run: Run, data: Dataset, execution: Execution, device: torch.device, rate: str, samples: bool) -> None:
    config, n = run.member.plan.config, len(data.train)
    rates = [phase.step_size for phase in schedule(config, data.facts.n, rate) for _ in range(phase.steps)]
    model = with_dropout(initial_model(run, data, device), float(config.get("dropout", 0.0)))
    model, loss = watching.attach(run, model, loss_function(data.facts))
    update = UPDATES[run.member.plan.system](config, model, data.facts.n, noise_source(run, execution, device))
    window = max(int(config["average"]), int(config.get("draws", 1)))
    draws: list[Probabilities] = []
    if run.state is not None:
        update.restore(run.state)
        draws = list(run.state[DRAWS])
    inputs = tuple(tensor(array, device) for array in data.train.inputs.values())
    targets = tensor(data.train.targets, device)
    batches = _Batches(run, n, int(config["batch_size"]), len(rates) // int(config["epochs"]))
    step, stop = run.start_step, run.member.to_step
    pace = Pace(execution.checkpoint_seconds)
    while step < stop:
        until = min(stop, step + pace.steps)
        run.may_execute(until)
        for now in range(step, until):
            rows = torch.from_numpy(batches.rows(now)).to(device)
            outputs = model(*(one.index_select(0, rows) for one in inputs))
            mean_loss = loss(outputs, targets.index_select(0, rows)).mean()
            found = torch.autograd.grad(mean_loss, list(update.parameters.values()))
            update.step(dict(zip(update.parameters, found, strict=True)), rates[now])
            if now >= stop - window:
                draws.append(predicted(model, data, device))
        pace.after(until - step)
        step = until
        kept = np.stack(draws[-window:]) if draws else np.zeros((0, 0, 0), dtype=np.float32)
        metrics = judged(kept, data, average=int(config["average"]), samples=samples) if step == stop else {}
        run.checkpoint(step, with_origin(run, {**update.state(), DRAWS: kept}), metrics)


class _Batches:
    """A fresh permutation each epoch, cut into batches; a resumed epoch goes on with another permutation."""

    def __init__(self, run: Run, n: int, batch_size: int, per_epoch: int) -> None:
        self._generator = run.streams.numpy(Purpose.SAMPLING, step=run.start_step)
        self._n, self._batch_size, self._per_epoch = n, batch_size, per_epoch
        self._order = self._generator.permutation(n)

    def rows(self, step: int) -> np.ndarray:
        """The records of step number `step`; called for each step in order."""
        position = step % self._per_epoch
        if position == 0:
            self._order = self._generator.permutation(self._n)
        return self._order[position * self._batch_size : (position + 1) * self._batch_size]
