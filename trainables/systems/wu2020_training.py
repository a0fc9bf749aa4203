"""Training without protection: shuffled batches, one step each, the last iterates' predictions kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax
from torch import nn

from dpcore.audit.attacks import auc, decide, mean_training_loss_threshold
from dpcore.mechanisms.protocol import Scheduled
from dpcore.noise import NoiseSource
from dpcore.randomness import Purpose
from trainables.metrics import share_error
from trainables.models.networks import with_dropout
from trainables.planning import Fit
from trainables.system import Dataset, Run, State
from trainables.team import limited_threads
from trainables.training.loop import Pace, run_steps
from trainables.training.losses import answers, chosen, loss_function, tensors
from trainables.training.noise import noise_source
from trainables.training.optimisers import Optimiser
from trainables.training.private_sgd import device_of, initial_model
from trainables.training.released import with_seed
from trainables.validation.evaluate import mean_of

# The leakage Mpl of a converged sampler, from its own iterates. K draws, N records.
#
# The attacker of Wu et al. (2020), Theorem 1, knows every record but one: S is D without z. Its posterior is the
# sampler's own, tilted, p_S = p_D exp(l(z, .)) / E_{p_D} exp(l(z, .)), so draws from p_D serve for every z:
#
# t_{p_S}(z) = -ln E_{p_S} exp(-l) = ln E_{p_D} exp(l) (lemma 1) E_{p_S} l = E_{p_D}[l exp(l)] / E_{p_D} exp(l)
# (equation 10)
#
# The draws are few and dependent, and whether the sampler has converged is not known: an estimate, `membership-only`.
# Iterates that lie close together, as the last ones of a falling step size do, understate it.

Array = NDArray[np.float64]


def leave_one_out_thresholds(losses_KN: Array) -> Array:
    """t_{p_S}(z) of every record [N], in nats, from losses under K draws of p_D."""
    thresholds: Array = logsumexp(losses_KN, axis=0) - np.log(len(losses_KN))
    return thresholds


def leave_one_out_means(losses_KN: Array) -> Array:
    """E_{p_S} l of every record [N], in nats."""
    means: Array = (softmax(losses_KN, axis=0) * losses_KN).sum(axis=0)
    return means


def leakage_metrics(draws_KN: Array, last_N: Array, averaged_N: Array) -> dict[str, float]:
    """Mean leakage and bounds over the members, at prior 1/2.

    draws_KN    members' losses under the draws
    last_N      under the released last iterate
    averaged_N  under the averaged prediction
    """
    score = leave_one_out_thresholds(draws_KN) - last_N
    ensemble_score = leave_one_out_means(draws_KN) - averaged_N
    return {
        "mpl": float(np.maximum(expit(score) - 0.5, 0.0).mean()),
        "mpl_bound": float(np.maximum(score / 4, 0.0).mean()),
        "ensemble_mpl_bound": float(np.maximum(ensemble_score / 4, 0.0).mean()),
    }


# What the published table holds about a predictor: accuracy on both sides, the gap, and the threshold attack.

Probabilities = NDArray[np.float32]


def predicted(model: nn.Module, data: Dataset, device: torch.device) -> Probabilities:
    """Softmax of the model in evaluation mode: training records, then validation records, [n + n_validation, C]."""
    parts = [
        outputs.softmax(1).cpu().numpy()
        for split in (data.train, data.validation)
        for _, outputs in answers(model, split, device)
    ]
    return np.concatenate(parts)


def losses(probabilities: Probabilities, targets: NDArray[np.generic]) -> NDArray[np.float64]:
    """-ln of the true class's probability, [..., N]; a probability of 0 counts as the smallest positive one."""
    true = probabilities[..., np.arange(len(targets)), targets].astype(np.float64)
    return -np.log(np.maximum(true, np.finfo(np.float32).tiny))


def table_metrics(probabilities: Probabilities, data: Dataset) -> dict[str, float]:
    """The metrics of one predictor, from its probabilities [n + n_validation, C]."""
    members, outsiders = np.split(probabilities, [len(data.train)])
    inside, outside = losses(members, data.train.targets), losses(outsiders, data.validation.targets)
    attack = decide(-inside, -outside, mean_training_loss_threshold(inside))
    train_accuracy = float((members.argmax(1) == data.train.targets).mean())
    accuracy = float((outsiders.argmax(1) == data.validation.targets).mean())
    loss = mean_of(outside)
    return {
        "accuracy": accuracy,
        "accuracy_se": share_error(accuracy, len(outside)),
        "loss": loss.value,
        "loss_se": loss.standard_error,
        "train_accuracy": train_accuracy,
        "gap": train_accuracy - accuracy,
        "attack_auc": auc(-inside, -outside),
        "attack_f1": attack.f1,
        "attack_accuracy": attack.accuracy,
        "loss_bound": float(max(inside.max(), outside.max())),
    }


def judged(draws: Probabilities, data: Dataset, *, average: int, samples: bool) -> Mapping[str, float]:
    """Every metric of a finished run, from the probabilities of its last iterates [K, n + n_validation, C]."""
    averaged = draws[-average:].mean(axis=0)
    metrics = table_metrics(averaged, data)
    metrics |= {f"last_{name}": value for name, value in table_metrics(draws[-1], data).items()}
    if samples:
        members = slice(0, len(data.train))
        under_draws = losses(draws[:, members], data.train.targets)
        metrics |= leakage_metrics(under_draws, under_draws[-1], losses(averaged[members], data.train.targets))
    return metrics


DRAWS = "draws.probabilities"


Moved = Callable[[nn.Module, NoiseSource], Optimiser]
"""What moves the weights of a model, with the sampler's noise."""


def train(fit: Fit[Any, Scheduled], optimiser: Moved) -> None:
    """Execute one run up to its `member.to_step`. Raises InvalidValue (model)."""
    device = device_of(fit.settings)
    devices = [torch.cuda.current_device()] if device.type == "cuda" else []
    with limited_threads(fit.settings.threads), torch.random.fork_rng(devices=devices):
        # Dropout draws its masks from the global generator, which is put back afterwards.
        seed = fit.run.streams.derived_seed(Purpose.SAMPLING, step=fit.run.start_step)
        torch.manual_seed(int.from_bytes(seed[:8], "big") >> 1)
        run_steps(fit.run, _Unprotected(fit, device, optimiser), Pace(fit.settings.checkpoint_seconds))


class _Unprotected:
    """One run, as `run_steps` executes it."""

    stopped = False

    def __init__(self, fit: Fit[Any, Scheduled], device: torch.device, optimiser: Moved) -> None:
        self._run, self._params, self._data, self._device = fit.run, fit.params, fit.data, device
        run, params, data = fit.run, fit.params, fit.data
        model = with_dropout(initial_model(run, data, device), getattr(params, "dropout", 0.0))
        self._model, self._loss = run.attach(model, loss_function(data.facts))
        self._optimiser = optimiser(self._model, noise_source(run, fit.settings, device))
        self._draws: list[Probabilities] = []
        if run.state is not None:
            self._optimiser.restore(run.state)
            self._draws = list(run.state[DRAWS])
        self._train = tensors(data.train, device)
        per_epoch = sum(phase.steps for phase in params.phases(data.facts.n)) // params.epochs
        self._batches = _batches(run, len(data.train), params.batch_size, per_epoch)

    def step(self, number: int) -> None:
        """See `Training.step`."""
        inputs, targets = chosen(self._train, next(self._batches))
        mean_loss = self._loss(self._model(*inputs), targets).mean()
        parameters = self._optimiser.parameters
        found = torch.autograd.grad(mean_loss, list(parameters.values()))
        self._optimiser.update(dict(zip(parameters, found, strict=True)), number)
        if number >= self._run.member.to_step - self._params.window:
            self._draws.append(predicted(self._model, self._data, self._device))

    @property
    def _kept(self) -> Probabilities:
        last = self._draws[-self._params.window :]
        return np.stack(last) if last else np.zeros((0, 0, 0), dtype=np.float32)

    def state(self) -> State:
        """See `Training.state`."""
        return with_seed({**self._optimiser.state(), DRAWS: self._kept}, self._run)

    def metrics(self, step: int) -> Mapping[str, float]:
        """See `Training.metrics`."""
        return judged(self._kept, self._data, average=self._params.average, samples=self._params.samples)


def _batches(run: Run, n: int, batch_size: int, per_epoch: int) -> Iterator[NDArray[np.int64]]:
    """The records of each step: a fresh permutation each epoch, cut into batches; a resumed epoch goes on with another
    permutation."""
    generator = run.streams.numpy(Purpose.SAMPLING, step=run.start_step)
    order = generator.permutation(n)
    for position in (step % per_epoch for step in count(run.start_step)):
        if position == 0:
            order = generator.permutation(n)
        yield order[position * batch_size : (position + 1) * batch_size]
