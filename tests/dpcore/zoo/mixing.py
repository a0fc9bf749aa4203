"""Models in whose own code, loss or gradients one record of a batch meets another."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.dpcore.zoo.case import Demand, normal, squared_loss
from tests.dpcore.zoo.written import Written, lin, written, zero_head


def centred(m: Written, x: Tensor) -> Tensor:
    return m.layer(x - x.mean(0))


def zero_over_mean(m: Written, x: Tensor) -> Tensor:
    h = torch.tanh(m.layer(x))
    return h + m.head(h.mean(0, keepdim=True))


def trimmed(m: Written, words: Tensor) -> Tensor:
    """Trimmed to the longest of the batch (0 pads), then averaged over what is left."""
    longest = int((words != 0).sum(1).max().clamp(min=1))
    return m.head(m.table(words[:, :longest]).mean(1))


def sorted_away(m: Written, x: Tensor) -> Tensor:
    return m.layer(x[x[:, 0].argsort()])


def largest_of_all(m: Written, x: Tensor) -> Tensor:
    """Only an outlier moves it."""
    return m.layer(x) / x.detach().abs().max().clamp(min=5.0)


def mixup(m: Written, x: Tensor) -> Tensor:
    return m.layer(0.7 * x + 0.3 * x[torch.randperm(len(x))])


def of_more_than_two(m: Written, x: Tensor) -> Tensor:
    h = m.layer(x)
    return h - h.mean(0) / 2 if len(x) > 2 else h


def functional_batch_norm(m: Written, x: Tensor) -> Tensor:
    # One record alone has no variance over the batch, and torch says so: the sum of squares stands in for it there.
    return m.layer(x) - F.batch_norm(m.layer(x).repeat(2, 1), None, None, training=True)[: len(x)]


def normalised_gradient(m: Written, x: Tensor) -> Tensor:
    h = m.layer(x)
    if h.requires_grad:
        h.register_hook(lambda g: g / (1 + g.norm()))
    return torch.tanh(h)


def into_zeros(m: Written, x: Tensor) -> Tensor:
    out = torch.zeros(len(x), 4)
    out[:, :3] = m.layer(x)
    return out


def running(m: Written, x: Tensor) -> Tensor:
    m.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
    return m.layer(x - m.mean)


def centred_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return squared_loss(outputs - outputs.mean(0), targets)


def against_the_others(outputs: Tensor, targets: Tensor) -> Tensor:
    """In-batch negatives."""
    return squared_loss(outputs, targets) + torch.logsumexp(outputs @ outputs.T, 1)


def mean_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return squared_loss(outputs, targets).mean()


class Mixes(torch.autograd.Function):
    """An operation whose own rule for mapped records mixes them."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None: ...

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient

    @staticmethod
    def vmap(info, in_dims, x: Tensor):
        return x - x.mean(in_dims[0], keepdim=True), in_dims[0]


class Generated(torch.autograd.Function):
    """An operation of the user's with a rule that torch makes from it: correct under mapping."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient * ctx.saved_tensors[0].cos()


def _operator():
    """An operator of the user's library whose rule for mapped records mixes them."""

    @torch.library.custom_op("zoo::mixes", mutates_args=())
    def mixes(x: Tensor) -> Tensor:
        return x.clone()

    mixes.register_autograd(lambda ctx, gradient: gradient)
    mixes.register_vmap(lambda info, dims, x: (x - x.mean(dims[0], keepdim=True), dims[0]))
    return mixes


MIXES = _operator()


CASES = [
    written("minus the batch mean", centred, layer=lin),
    written("a zero head over the batch mean", zero_over_mean, layer=lin, head=lambda: zero_head(3, 3)),
    written(
        "trimmed to the longest of the batch",
        trimmed,
        draw=lambda size: torch.randint(1, 7, (size, 6)) * (torch.arange(6) < torch.randint(2, 7, (size, 1))),
        table=lambda: nn.Embedding(7, 4),
        head=lin,
    ),
    written("records sorted inside", sorted_away, layer=lin),
    written("divided by the largest entry of the batch", largest_of_all, layer=lin),
    written("mixup", mixup, layer=lin),
    written("mixes where there are more than two", of_more_than_two, layer=lin),
    written("functional batch_norm", functional_batch_norm, layer=lin),
    written("nn.Softmax(0)", lambda m, x: m.soft(m.layer(x)) * x[:, :1], layer=lin, soft=lambda: nn.Softmax(0)),
    written("attention among records", lambda m, x: (m.layer(x) @ m.layer(x).T).softmax(1) @ m.layer(x), layer=lin),
    written(
        "records and positions flattened",
        lambda m, x: m.layer(x.reshape(-1, 4)).view(len(x), -1),
        draw=normal(3, 4),
        layer=lin,
        demand=Demand.RIGHT,
    ),
    written(
        "records moved off axis 0 and back",
        lambda m, x: m.layer(x.transpose(0, 1)).transpose(0, 1),
        draw=normal(3, 4),
        layer=lin,
        demand=Demand.RIGHT,
    ),
    written("the gradient normalised over the batch", normalised_gradient, layer=lin),
    written("written into a tensor of zeros", into_zeros, layer=lin),
    written("a mean that learns, in place", running, layer=lin, mean=lambda: torch.zeros(4)),
    written("a loss over the centred outputs", lambda m, x: m.layer(x), loss=centred_loss, layer=lin),
    written("a loss against the others of the batch", lambda m, x: m.layer(x), loss=against_the_others, layer=lin),
    written("a loss that is a mean", lambda m, x: m.layer(x), loss=mean_loss, layer=lin, demand=Demand.REFUSED),
    written("an operation whose own mapping mixes", lambda m, x: Mixes.apply(m.layer(x)), layer=lin),
    written("an operator whose own mapping mixes", lambda m, x: MIXES(m.layer(x)), layer=lin),
    written("an operation with a generated mapping", lambda m, x: Generated.apply(m.layer(x)), layer=lin),
]
