"""Layers that are called in unusual ways: twice, past their hooks, in place, by hand, by some records only."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.dpcore.zoo.case import Case, Demand, normal, squared_loss
from tests.dpcore.zoo.written import Written, lin, number, plain, wide, written

R, S = Demand.RIGHT, Demand.SAFE


def patched() -> nn.Module:
    layer = nn.Linear(4, 3)
    plain = layer.forward
    layer.forward = lambda x: plain(2 * x)  # type: ignore[method-assign]
    return nn.Sequential(layer)


def hidden_alias(m: Written, x: Tensor) -> Tensor:
    """The layer's weight, kept a second time where no list of parameters shows it."""
    return m.layer(x) + F.linear(x, m.kept[0])


def with_alias() -> nn.Module:
    layer = lin()
    return Written(hidden_alias, layer=layer, kept=[layer.weight])


def with_view() -> nn.Module:
    """A view of the parameter made once, in the constructor."""
    scale = number(4)
    return Written(lambda m, x: m.layer(x * m.kept[0]), scale=scale, layer=lin(), kept=[scale.view(1, 4)])


def detached_once(m: Written, x: Tensor) -> Tensor:
    return m.layer(x) + m.layer(2 * x).detach()


def routed_by_index(m: Written, x: Tensor) -> Tensor:
    """Each expert is called on its own records alone."""
    chosen = x[:, 0] > 0
    out = torch.zeros(len(x), 3)
    out[chosen] = m.left(x[chosen])
    out[~chosen] = m.right(x[~chosen])
    return out


def force(m: Written, x: Tensor) -> Tensor:
    """Outputs that are gradients of an energy by the inputs."""
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        energy = torch.tanh(m.layer(x)).sum()
        return torch.autograd.grad(energy, x, create_graph=True)[0]


def penalised(model: nn.Module) -> Callable[..., Tensor]:
    """The loss knows the model, and adds the size of its weight to every record's loss."""
    layer = model.layer

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return squared_loss(outputs, targets) + layer.weight.square().sum()  # type: ignore[union-attr,operator]

    return loss


def learned_loss(model: nn.Module) -> Callable[..., Tensor]:
    """The loss puts the outputs through a layer of the model."""
    head = model.head

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return squared_loss(head(outputs), targets)  # type: ignore[operator]

    return loss


def two_inputs(size: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, 7, (size,)), torch.randn(size, 4)


class Doubled(nn.Linear):
    """A subclass that computes something else than its base."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(2 * x) + x.sum(-1, keepdim=True)


CASES = [
    written("a layer used twice", lambda m, x: m.layer(torch.tanh(m.layer(x))), layer=wide, demand=R),
    written(
        "a layer and its weight by hand",
        lambda m, x: m.layer(x) + F.linear(x.tanh(), m.layer.weight),
        layer=lin,
        demand=R,
    ),
    written("a layer used twice, once detached", detached_once, layer=lin, demand=R),
    plain(
        "activations in place, in a row of layers",
        lambda: nn.Sequential(lin(), nn.ReLU(inplace=True), nn.Linear(3, 2), nn.LeakyReLU(0.1, inplace=True)),
        tolerance=1e-5,
    ),
    written("experts called on their own records", routed_by_index, left=lin, right=lin, demand=S),
    plain("a subclass of nn.Linear", lambda: Doubled(4, 3)),
    plain("a weight kept a second time, hidden", with_alias, demand=S),
    plain("a view of a weight, made once", with_view, demand=S),
    Case(
        name="a loss that adds the weight's size",
        make=lambda: Written(lambda m, x: m.layer(x), layer=lin()),
        draw=normal(4),
        bound=penalised,
    ),
    Case(
        name="a loss with a layer of the model",
        make=lambda: Written(lambda m, x: m.layer(x), layer=lin(), head=nn.Linear(3, 2)),
        draw=normal(4),
        bound=learned_loss,
    ),
    Case(
        name="two inputs, of codes and of numbers",
        make=lambda: Written(lambda m, a, b: m.head(m.table(a) * b), table=nn.Embedding(7, 4), head=lin()),
        draw=two_inputs,
        demand=R,
    ),
]
