"""Canaries in gradient space that go through a system's own sampling, clipping, summing and noise.

Each canary is a record (where a claim is about units, a unit of equal records) whose gradient lies along a private
direction of PIECES extra parameters, in as many tensors, and is a hundred times too long: the model gets an embedding
with one row per canary and tensor, and the loss of a canary is its rows' sum times SCALE * clip norm. Ordinary records
do not touch those parameters. So a missing clip, a clip per tensor, a wrong rate, a wrong divisor of the noise, too
little noise or noise that repeats show in them, and the claim, which holds at any number of parameters, covers them.

Under add-remove a canary is there or not; under replace-one it is there in one of two ways, its direction or the
opposite one. The coins that decide are as far apart as neighbours in either case.

The attacker is Nasr, Hayes, Steinke, Balle, Tramer, Jagielski, Carlini & Terzis's (2023): he reads every noisy update.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore import checks
from dpcore.audit.attacks import sampled_log_likelihood_ratio
from dpcore.events import Event, Gaussian, PoissonSampled, blocks
from trainables.data import records
from trainables.hooks import Twin
from trainables.system import Dataset, PrivacyPlan
from trainables.training.losses import CANARY, LossFunction

PIECES = 4
SCALE = 100.0
AIM = 0.7
"""The likelihood ratio is taken for this share of the planned noise: the score then finds halved noise more often, and
the planned noise hardly less often."""


def planted(data: Dataset, coins: NDArray[np.bool_], rng: np.random.Generator, *, replaced: bool) -> Dataset:
    """The training records and the canaries as `coins` [M] have them, in random order.

    Where the data name a unit a canary is one: as many equal records as a unit may have.

    replaced  all canaries are there, those without a coin the opposite way; else only those with a coin are

    The public facts stay: n is a constant that neighbours share. So do the validation records, which some systems look
    at while they train.
    """
    numbers = np.arange(1, len(coins) + 1)
    chosen = np.where(coins, numbers, -numbers) if replaced else numbers[coins]
    # A canary has the inputs of some record; its loss does not depend on them.
    models = rng.integers(0, len(data.train), len(chosen))
    each = data.facts.unit_records
    rows = np.concatenate([np.arange(len(data.train)), np.repeat(models, each)])
    codes = np.concatenate([np.zeros(len(data.train), dtype=np.int64), np.repeat(chosen, each)])
    if data.units is None:
        order, units = rng.permutation(len(rows)), None
    else:
        together = data.units.followed_by(rng.integers(2**64, size=len(chosen), dtype=np.uint64), each)
        order, units = together.picked(rng.permutation(len(together)))
    train = records.taken(data.train, rows[order])
    ordinary = np.zeros(len(data.validation), dtype=np.int64)
    return replace(
        data,
        train=replace(train, inputs={**train.inputs, CANARY: codes[order]}),
        units=units,
        validation=replace(data.validation, inputs={**data.validation.inputs, CANARY: ordinary}),
    )


class WithCanaries(nn.Module):
    """`model` with one more input, the canary codes [B], and one more output column: the canary's mark, 0 for others.

    The column is there in training alone: a model that is judged answers as it would without canaries.

    signs  [M + 1, PIECES]; row 0 belongs to ordinary records
    """

    def __init__(self, model: nn.Module, signs: Tensor) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("signs", signs)
        self.rows = nn.ModuleList(nn.Embedding(len(signs), 1, padding_idx=0) for _ in range(signs.shape[1]))
        for one in self.rows:
            nn.init.zeros_(one.weight)  # type: ignore[arg-type]

    def forward(self, *inputs: Tensor) -> Tensor:
        *ordinary, codes_B = inputs
        outputs = self.model(*ordinary)
        if not self.training:
            return outputs
        # A canary leaves every ordinary parameter alone.
        ordinary_B = (codes_B == 0).reshape(-1, *[1] * (outputs.ndim - 1))
        outputs = torch.where(ordinary_B, outputs, outputs.detach())
        canaries_B = codes_B.abs()
        signs_BP = self.signs[canaries_B] * codes_B.sign()[:, None]  # type: ignore[index]
        marks_BP = torch.cat([rows(canaries_B) for rows in self.rows], 1) * signs_BP
        return torch.cat([outputs.flatten(1), marks_BP.sum(1, keepdim=True)], 1)


@dataclass(slots=True)
class Watched(Twin):
    """A twin that adds up what every canary showed, step by step.

    signs      [M, PIECES], each -1 or 1: the canaries' private directions
    clip_norm  C
    divisor    what the noisy sum is divided by before it is shown
    replaced   canaries are there in one of two ways
    """

    watched = True
    signs: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, PIECES)))
    clip_norm: float = 1.0
    divisor: float = 1.0
    replaced: bool = False
    _steps: int = 0
    _sum: NDArray[np.float64] | float = 0.0
    _likelihood: NDArray[np.float64] | float = 0.0
    _highest: NDArray[np.float64] | float = -math.inf
    _lowest: NDArray[np.float64] | float = math.inf

    def attach(self, model: nn.Module, loss: LossFunction) -> tuple[nn.Module, LossFunction]:
        """The model with canaries, and the loss that makes their gradients too long."""
        device = next(model.parameters()).device
        padded = np.concatenate([np.zeros((1, PIECES)), self.signs]).astype(np.float32)
        with_canaries = WithCanaries(model, torch.from_numpy(padded)).to(device)
        length = SCALE * self.clip_norm

        def loss_with_canaries(outputs: Any, targets: Any) -> Tensor:
            ordinary = outputs[:, :-1].unflatten(1, (*targets.shape[1:], -1))
            return loss(ordinary, targets) + length * outputs[:, -1]

        return with_canaries, loss_with_canaries

    def saw(self, step: int, gradient: Mapping[str, Tensor]) -> None:
        """Read off each canary's inner product with the gradient: about 1 in a step with it (-1 the opposite way), 0
        without, plus noise."""
        pieces = [gradient[f"rows.{piece}.weight"][1:, 0] for piece in range(PIECES)]
        found = torch.stack(pieces, 1).detach().cpu().double().numpy()
        response = (found * self.signs).sum(1) * (self.divisor / (self.clip_norm * math.sqrt(PIECES)))
        # A release that is not a number is the loudest of all.
        response = np.nan_to_num(response, nan=np.inf)
        noise, rate = _gaussian(self.member.plan, step)
        likelihood = sampled_log_likelihood_ratio(response[None], AIM * noise, rate)
        if self.replaced:
            likelihood = likelihood - sampled_log_likelihood_ratio(-response[None], AIM * noise, rate)
        # In units of the noise: so noise that repeats cancels even where its scale changes.
        response = response / noise
        self._likelihood = self._likelihood + likelihood
        self._sum = self._sum + response
        self._highest, self._lowest = np.maximum(self._highest, response), np.minimum(self._lowest, response)
        self._steps += 1

    def scores(self) -> dict[str, NDArray[np.float64]]:
        """[M] each: the likelihood ratio of the planned steps; and, of several steps, the spread of the responses, or
        how far it leans to one side, which fresh noise hides and repeated noise lays bare.

        Raises RuntimeError where no gradient was shown.
        """
        if not self._steps:
            raise RuntimeError(f"{self.member.plan.system} showed no gradient to its audit")
        found = {"likelihood ratio": np.asarray(self._likelihood)}
        if self._steps > 1 and self.replaced:
            leans = self._highest + self._lowest - 2 * self._sum / self._steps
            found["lean"] = np.nan_to_num(leans, nan=0.0)
        elif self._steps > 1:
            # Infinite responses have no spread, and say enough by themselves.
            found["spread"] = np.nan_to_num(self._highest - self._lowest, nan=np.inf)
        return found


def draw_signs(canaries: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Private directions, shape [canaries, PIECES]."""
    return rng.choice([-1.0, 1.0], size=(canaries, PIECES))


def check(plan: PrivacyPlan) -> None:
    """Raises InvalidValue where some planned step is no (sampled) Gaussian."""
    for event, _ in blocks(plan.event()):
        _parameters(plan, event)


def chance_unseen(plan: PrivacyPlan, steps: int) -> float:
    """Probability that none of the first `steps` steps draws a given record."""
    log_chance = 0.0
    for event, count in blocks(plan.event(0, min(steps, plan.steps))):
        _, rate = _parameters(plan, event)
        log_chance += count * math.log1p(-min(rate, 1 - 1e-12))
    return math.exp(log_chance)


def _gaussian(plan: PrivacyPlan, step: int) -> tuple[float, float]:
    ((event, _),) = blocks(plan.event(step, step + 1))
    return _parameters(plan, event)


def _parameters(plan: PrivacyPlan, event: Event) -> tuple[float, float]:
    """(noise multiplier, sampling rate)."""
    inside, rate = (event.event, event.rate) if isinstance(event, PoissonSampled) else (event, 1.0)
    if not isinstance(inside, Gaussian):
        raise checks.InvalidValue(f"{plan.system}: step", type(inside).__name__, "a (sampled) Gaussian for canaries")
    return inside.noise_multiplier, rate
