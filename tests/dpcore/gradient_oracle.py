"""The slow truth that the gradient tests compare with: one example, one backward pass, one clip at a time."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rows(model: nn.Module, loss_fn, inputs, targets) -> dict[str, Tensor]:
    """{parameter: [B, *shape]}: each example's own gradient, in the parameters' type."""
    columns = inputs if isinstance(inputs, tuple) else (inputs,)
    names = [name for name, one in model.named_parameters() if one.requires_grad]
    parameters = [one for one in model.parameters() if one.requires_grad]
    out: dict[str, list[Tensor]] = {name: [] for name in names}
    for b in range(len(targets)):
        loss = loss_fn(model(*(one[b : b + 1] for one in columns)), targets[b : b + 1]).sum()
        found = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
        for name, one in zip(names, found, strict=True):
            out[name].append(one)
    return {name: torch.stack(several) for name, several in out.items()}


def clipped_sum(model: nn.Module, loss_fn, inputs, targets, clip_norm: float) -> dict[str, Tensor]:
    """Sum of rows, each scaled by min(1, clip_norm / norm) in float64, rows that are not finite left out."""
    by_name = rows(model, loss_fn, inputs, targets)
    total = {name: torch.zeros_like(several[0], dtype=torch.float64) for name, several in by_name.items()}
    for b in range(len(targets)):
        row = {name: several[b].double() for name, several in by_name.items()}
        norm = torch.stack([one.norm() for one in row.values()]).norm()
        if torch.isfinite(norm):
            for name, one in row.items():
                total[name] += one * min(1.0, clip_norm / max(float(norm), 1e-300))
    return total


def squared_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Half the squared distance of all outputs to the example's target number; shape [B]."""
    return 0.5 * (outputs.flatten(1) - targets[:, None]).square().sum(1)


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


def norm(tensors) -> float:
    return float(torch.sqrt(sum(one.double().square().sum() for one in tensors.values())))


def assert_same(found, expected, near: float = 2e-5) -> None:
    """float32 against float32 rows summed in float64: 2e-5 of the largest entry."""
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        close = near * max(1.0, float(one.abs().max()))
        torch.testing.assert_close(found[name].double(), one, rtol=near, atol=close)


class Positions(nn.Module):
    """The second table is called with positions, not with a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(7, 4), nn.Embedding(9, 4)

    def forward(self, x):
        return self.words(x) + self.places(torch.arange(x.shape[1]))


class Centred(nn.Module):
    """Takes the mean of its batch."""

    def __init__(self, detached: bool) -> None:
        super().__init__()
        self.layer, self.detached = nn.Linear(3, 2), detached

    def forward(self, x):
        mean = x.mean(0)
        return self.layer(x - (mean.detach() if self.detached else mean))
