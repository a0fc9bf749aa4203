"""Every update by a gradient, noised or not. `rate_of` gives the step size of a step by its number, counted from 0.

descend         theta -= r g
TorchOptimiser  whatever an optimiser of torch.optim's does by gradients alone: SGD with momentum, Adam, AdamW, your own
noisy_adam      Bu et al. (2020), Algorithm 2: as printed, or with the bias correction of its released code
langevin_mean   theta -= (e/2) (theta / v + n g), where the noise in the mean g is the sampler's own N(0, e I)
rmsprop         V = a V + (1-a) g^2;  theta -= r g / (sqrt(V) + c)
sgld            theta -= (e/2) G;  theta += N(0, e)                G = theta / v + n g
psgld           V = a V + (1-a) G^2;  P = 1 / (sqrt(V) + c);  theta -= (e/2) P G;  theta += N(0, e P)
sghmc           w = (1-f) w - e G + N(0, 2 f e);  theta += w
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dpcore.checks import InvalidValue
from dpcore.noise import NoiseSource
from trainables import plugins
from trainables.system import State
from trainables.training.released import PARAMETER, arrays, restore

RateOf = Callable[[int], float]
_MOVING, _MEMORY, _COUNT = "moving", "memory", "count"
MOMENTUM = 0.9
"""Of the optimizer `momentum` where none is given."""


def steadily(rate: float) -> RateOf:
    """The same at every step."""
    return lambda number: rate


def scheduled(peak: float, schedule: str, warmup: float, steps: int) -> RateOf:
    """Up to the peak and down again, over the T = `steps` of a trial, a public number.

    The first W = floor(warmup * T) steps rise: step t, counted from 0, has size peak * (t + 1) / W. Of the others, at
    p = (t - W) / (T - W),

        constant  peak
        cosine    peak * (1 + cos(pi p)) / 2          Loshchilov & Hutter (2017), one cycle
        linear    peak * (1 - p)
    """
    rising = math.floor(Fraction(repr(warmup)) * steps)
    falls: dict[str, Callable[[float], float]] = {
        "constant": lambda p: 1.0,
        "cosine": lambda p: (1 + math.cos(math.pi * p)) / 2,
        "linear": lambda p: 1 - p,
    }
    fall = falls[schedule]

    def rate_of(number: int) -> float:
        if number < rising:
            return peak * (number + 1) / rising
        return peak * fall((number - rising) / (steps - rising))

    return rate_of


def descend(one: Tensor, gradient: Tensor, rate: float) -> None:
    """theta -= r g."""
    one.sub_(gradient, alpha=rate)


class Optimiser:
    """Moves the trainable parameters, each by one rule and by what is remembered of it; by plain descent if not said.

    move      (weights, their gradient, step size, *memories) moves the weights and the memories in place
    memories  the kinds of memory, as checkpoints name them: a tensor of its shape for each parameter
    """

    def __init__(self, model: nn.Module, rate_of: RateOf, move: Callable[..., None] = descend, *memories: str) -> None:
        self.parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self.memory = {
            kind: {name: torch.zeros_like(one, requires_grad=False) for name, one in self.parameters.items()}
            for kind in memories
        }
        self._rate_of, self._move = rate_of, move

    @torch.no_grad()
    def update(self, gradient: Mapping[str, Tensor], number: int) -> None:
        """Move every parameter in place by the gradient of step `number`."""
        rate = self._rate_of(number)
        for name, one in self.parameters.items():
            self._move(one, gradient[name], rate, *(several[name] for several in self.memory.values()))

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Copies of all tensors, as checkpoints keep them."""
        kept = arrays(PARAMETER, self.parameters)
        for kind, several in self.memory.items():
            kept |= arrays(f"{kind}.", several)
        return kept

    @torch.no_grad()
    def restore(self, state: State) -> None:
        """Take over the tensors of `state`. Raises ValueError for another model's or another method's."""
        restore(PARAMETER, self.parameters, state)
        for kind, several in self.memory.items():
            restore(f"{kind}.", several, state)

    def released(self) -> AbstractContextManager[None]:
        """Inside, the model has the weights that `state` releases."""
        return nullcontext()


Build = Callable[..., torch.optim.Optimizer]
"""(parameters, lr=step size) -> the optimiser of one run."""


class TorchOptimiser(Optimiser):
    """An optimiser of torch.optim's kind, fed with gradients whose noise is in, and perhaps the mean of the weights.

    ema  0 < d < 1: released are not the weights theta_t that training moves but their exponential mean,
             mean_t = d_t mean_{t-1} + (1 - d_t) theta_t,  d_t = min(d, (1 + t) / (10 + t)),
         t counted from 0 at the first step, mean_{-1} the starting weights: as De et al. (2022) have it, whose decay
         rises so that the starting weights are soon forgotten. 0: the weights themselves

    A state has the released weights as its parameters; beside a mean, those that training goes on from as `moving`.
    """

    def __init__(self, model: nn.Module, rate_of: RateOf, build: Build, ema: float = 0.0) -> None:
        super().__init__(model, rate_of)
        self._inner, self._ema = build(list(self.parameters.values()), lr=rate_of(0)), ema
        self._mean = {name: one.detach().clone() for name, one in self.parameters.items()} if ema else {}

    @torch.no_grad()
    def update(self, gradient: Mapping[str, Tensor], number: int) -> None:
        """See `Optimiser.update`."""
        for group in self._inner.param_groups:
            group["lr"] = self._rate_of(number)
        for name, one in self.parameters.items():
            one.grad = gradient[name].to(one.dtype)
        self._inner.step()
        self._inner.zero_grad()
        decay = min(self._ema, (1 + number) / (10 + number))
        for name, mean in self._mean.items():
            mean.lerp_(self.parameters[name], 1 - decay)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """See `Optimiser.state`."""
        kept = arrays(PARAMETER, self._mean or self.parameters)
        kept |= arrays(f"{_MOVING}.", self.parameters) if self._mean else {}
        for name, one in self.parameters.items():
            for key, value in self._inner.state[one].items():
                if isinstance(value, Tensor):
                    kept |= arrays(f"{_MEMORY}.{key}.", {name: value})
                elif value is not None:
                    kept[f"{_COUNT}.{key}.{name}"] = np.asarray(value)
        return kept

    @torch.no_grad()
    def restore(self, state: State) -> None:
        """See `Optimiser.restore`."""
        restore(PARAMETER, self._mean or self.parameters, state)
        if self._mean:
            restore(f"{_MOVING}.", self.parameters, state)
        remembered: dict[int, dict[str, Any]] = {}
        for place, value in state.items():
            kind, _, rest = place.partition(".")
            key, _, name = rest.partition(".")
            if kind in (_MEMORY, _COUNT):
                # A copy, for it is written to.
                own = value.item() if kind == _COUNT else torch.from_numpy(np.array(value))
                remembered.setdefault(list(self.parameters).index(name), {})[key] = own
        self._inner.load_state_dict({"state": remembered, "param_groups": self._inner.state_dict()["param_groups"]})

    @contextmanager
    def released(self) -> Iterator[None]:
        """See `Optimiser.released`."""
        moving = {name: self.parameters[name].data for name in self._mean}
        for name, mean in self._mean.items():
            self.parameters[name].data = mean
        yield
        for name, own in moving.items():
            self.parameters[name].data = own


def build_of(params: Any) -> Build:
    """The optimiser that `params.optimizer` names, as the system's other hyperparameters have it."""
    decay, betas = params.weight_decay, (params.beta1, params.beta2)
    match params.optimizer:
        case "sgd":
            return partial(torch.optim.SGD, momentum=params.momentum, weight_decay=decay)
        case "momentum":
            return partial(torch.optim.SGD, momentum=params.momentum or MOMENTUM, weight_decay=decay)
        case "adam":
            return partial(torch.optim.Adam, betas=betas, weight_decay=decay, fused=True)
        case "adamw":
            return partial(torch.optim.AdamW, betas=betas, weight_decay=decay, fused=True)
    return own_optimiser(params.optimizer, decay)


@lru_cache(maxsize=64)
def own_optimiser(name: str, decay: float = 0.0) -> Build:
    """The user's own, `package.module:function` of (parameters, lr=...).

    It is held to what a run needs of it: that it moves weights by their gradients alone, and that one which goes on
    from its state, as a checkpoint keeps it, moves them as one that was never broken off does, to the last bit.
    Raises InvalidValue.

    decay  given as weight_decay, where it is not 0
    """
    remedy = (
        "Use sgd, momentum, adam or adamw, or a function of (parameters, lr=...) that returns a torch.optim.Optimizer."
    )
    if not plugins.OBJECT.fullmatch(name):
        raise InvalidValue("optimizer", name, "a known optimizer, or `package.module:function`", remedy)
    build: Any = plugins.function("optimizer", name, remedy)
    if decay:
        build = partial(build, weight_decay=decay)
    with plugins.raised_as("optimizer", name, "an optimizer that moves weights by gradients alone", remedy):
        whole, broken = _practised(build, whole=True), _practised(build, whole=False)
    if not torch.equal(whole, broken):
        expected = "an optimizer whose state is in `state`, as tensors and numbers: broken off and restored it moves "
        raise InvalidValue("optimizer", name, f"{expected}elsewhere", "Keep nothing in param_groups or attributes.")
    return build  # type: ignore[no-any-return]


def _practised(build: Any, whole: bool) -> Tensor:
    """Where some weights are after ten steps, broken off after five or not."""
    generator = torch.Generator().manual_seed(0)
    model = nn.ParameterDict({"weight": torch.full((2, 3), 0.5), "bias": torch.zeros(2)})
    optimiser = TorchOptimiser(model, steadily(0.1), build)
    for number in range(10):
        if number == 5 and not whole:
            optimiser, kept = TorchOptimiser(model, steadily(0.1), build), optimiser.state()
            optimiser.restore(kept)
        gradient = {name: torch.randn(one.shape, generator=generator) for name, one in model.named_parameters()}
        optimiser.update(gradient, number)
    return torch.cat([one.detach().flatten() for one in model.values()])


def noisy_adam(model: nn.Module, rate_of: RateOf, params: Any) -> Optimiser:
    """m = beta1 m + (1 - beta1) g;  u = beta2 u + (1 - beta2) g^2;  theta -= r m / (sqrt(u) + xi).

    With `bias_correction` r is that times sqrt(1 - beta2^t) / (1 - beta1^t) at the t-th step.

    params  beta1, beta2, xi and bias_correction, as a system's hyperparameters have them
    """

    def corrected(number: int) -> float:
        return rate_of(number) * math.sqrt(1 - params.beta2 ** (number + 1)) / (1 - params.beta1 ** (number + 1))

    def move(one: Tensor, gradient: Tensor, rate: float, mean: Tensor, square: Tensor) -> None:
        mean.lerp_(gradient, 1 - params.beta1)
        one.addcdiv_(mean, _root(square, gradient, params.beta2, params.xi), value=-rate)

    return Optimiser(model, corrected if params.bias_correction else rate_of, move, "mean", "square")


def _root(square: Tensor, gradient: Tensor, decay: float, floor: float) -> Tensor:
    """sqrt(V) + c, V updated."""
    square.mul_(decay).addcmul_(gradient, gradient, value=1 - decay)
    return square.sqrt().add_(floor)


def langevin_mean(model: nn.Module, rate_of: RateOf, n: int, prior_variance: float) -> Optimiser:
    """theta -= (e/2) (theta / v + n g) by the noisy mean g.

    n               the public number of records
    prior_variance  v
    """

    def move(one: Tensor, gradient: Tensor, rate: float) -> None:
        one.mul_(1 - rate / (2 * prior_variance)).sub_(gradient, alpha=rate / 2 * n)

    return Optimiser(model, rate_of, move)


def rmsprop(model: nn.Module, rate_of: RateOf, params: Any) -> Optimiser:
    """V = a V + (1-a) g^2; theta -= r g / (sqrt(V) + c), with a and c the `decay` and `floor` of `params`."""

    def move(one: Tensor, gradient: Tensor, rate: float, square: Tensor) -> None:
        one.addcdiv_(gradient, _root(square, gradient, params.decay, params.floor), value=-rate)

    return Optimiser(model, rate_of, move, "square")


@dataclass(frozen=True, slots=True)
class NoisyPosterior:
    """What a sampler walks on: n records, a prior N(0, prior_variance), and where its own noise comes from."""

    n: int
    prior_variance: float
    noise: NoiseSource

    def gradient(self, one: Tensor, gradient: Tensor) -> Tensor:
        """G = theta / v + n g, the gradient of minus the log posterior."""
        return one / self.prior_variance + self.n * gradient

    def normal(self, like: Tensor) -> Tensor:
        """Independent N(0, 1), of the shape of `like`."""
        return self.noise.fill_(torch.empty_like(like, requires_grad=False))


def sgld(model: nn.Module, rate_of: RateOf, posterior: NoisyPosterior) -> Optimiser:
    """theta -= (e/2) G; theta += N(0, e)."""

    def move(one: Tensor, gradient: Tensor, rate: float) -> None:
        drift = posterior.gradient(one, gradient)
        one.sub_(drift, alpha=rate / 2).add_(posterior.normal(one), alpha=math.sqrt(rate))

    return Optimiser(model, rate_of, move)


def psgld(model: nn.Module, rate_of: RateOf, posterior: NoisyPosterior, params: Any) -> Optimiser:
    """V = a V + (1-a) G^2; P = 1 / (sqrt(V) + c); theta -= (e/2) P G; theta += N(0, e P)."""

    def move(one: Tensor, gradient: Tensor, rate: float, square: Tensor) -> None:
        drift = posterior.gradient(one, gradient)
        root, normal = _root(square, drift, params.decay, params.floor), posterior.normal(one)
        one.addcdiv_(drift, root, value=-rate / 2).addcdiv_(normal, root.sqrt(), value=math.sqrt(rate))

    return Optimiser(model, rate_of, move, "square")


def sghmc(model: nn.Module, rate_of: RateOf, posterior: NoisyPosterior, friction: float) -> Optimiser:
    """w = (1-f) w - e G + N(0, 2 f e); theta += w."""

    def move(one: Tensor, gradient: Tensor, rate: float, velocity: Tensor) -> None:
        velocity.mul_(1 - friction).sub_(posterior.gradient(one, gradient), alpha=rate)
        one.add_(velocity.add_(posterior.normal(one), alpha=math.sqrt(2 * friction * rate)))

    return Optimiser(model, rate_of, move, "velocity")
