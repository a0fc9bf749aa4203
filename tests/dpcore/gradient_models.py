"""Small models whose records must not meet, and what is expected of their gradients."""

import torch
from torch import nn

from dpcore.gradients import Route

torch.set_num_threads(1)


class Twice(nn.Module):
    """A layer used twice in one pass."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(torch.tanh(self.layer(x)))


class TwoTables(nn.Module):
    """Two inputs, one table used for both, as a factorisation of ratings does."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 4)
        self.head = nn.Linear(4, 1)

    def forward(self, left, right):
        return self.head(self.table(left) * self.table(right))


class PooledWords(nn.Module):
    def __init__(self, padding_idx=None) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 5, padding_idx=padding_idx)
        self.head = nn.Linear(5, 2)

    def forward(self, codes):
        return self.head(self.table(codes).mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(6, 4, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0][:, -1]


class Branching(nn.Module):
    """Control flow by value: vmap cannot serve it."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x):
        return x * self.scale if float(x.detach().sum()) > 0 else -2 * x * self.scale


def frozen(model: nn.Module, *names: str) -> nn.Module:
    for name in names:
        model.get_parameter(name).requires_grad_(False)
    return model


def codes(*shape: int):
    return lambda: torch.randint(0, 7, shape)


def normal(*shape: int):
    return lambda: torch.randn(*shape)


B = 6

# name: (model, inputs, how the gradients must be found)
CASES = {
    "linear small": (lambda: nn.Linear(3, 2), normal(B, 9, 3), Route.ONE_PASS),
    "linear gram": (lambda: nn.Linear(40, 50), normal(B, 3, 40), Route.ONE_PASS),
    "linear gram no bias": (lambda: nn.Linear(40, 50, bias=False), normal(B, 3, 40), Route.ONE_PASS),
    "linear frozen weight, sequence": (lambda: frozen(nn.Linear(6, 5), "weight"), normal(B, 4, 6), Route.ONE_PASS),
    "linear frozen bias": (lambda: frozen(nn.Linear(6, 5), "bias"), normal(B, 6), Route.ONE_PASS),
    "linear twice, wide": (lambda: Twice(nn.Linear(40, 40)), normal(B, 40), Route.ONE_PASS),
    "linear twice, sequence": (lambda: Twice(nn.Linear(5, 5, bias=False)), normal(B, 3, 5), Route.ONE_PASS),
    "conv1d groups": (lambda: nn.Conv1d(4, 6, 3, groups=2, bias=False), normal(B, 4, 9), Route.ONE_PASS),
    "conv2d": (
        lambda: nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 4, (2, 3), stride=(2, 1))),
        normal(B, 3, 7, 6),
        Route.ONE_PASS,
    ),
    "conv2d dilated groups": (
        lambda: nn.Conv2d(6, 4, 3, stride=2, padding=(2, 1), dilation=(1, 2), groups=2),
        normal(B, 6, 8, 9),
        Route.ONE_PASS,
    ),
    "conv2d same": (lambda: nn.Conv2d(2, 3, (3, 4), padding="same"), normal(B, 2, 6, 5), Route.ONE_PASS),
    "conv2d circular": (
        lambda: nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="circular"),
        normal(B, 2, 6, 5),
        Route.ONE_PASS,
    ),
    "conv2d frozen weight": (lambda: frozen(nn.Conv2d(2, 3, 3), "weight"), normal(B, 2, 6, 5), Route.ONE_PASS),
    "conv2d twice": (lambda: Twice(nn.Conv2d(3, 3, 3, padding=1)), normal(B, 3, 5, 5), Route.ONE_PASS),
    "conv2d transposed input": (
        lambda: nn.Conv2d(2, 3, 3),
        lambda: torch.randn(B, 2, 6, 5).transpose(2, 3),
        Route.ONE_PASS,
    ),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2, stride=(1, 2, 1)), normal(B, 2, 3, 4, 3), Route.ONE_PASS),
    "embedding, repeated words": (PooledWords, codes(B, 12), Route.ONE_PASS),
    "embedding, padding": (lambda: PooledWords(padding_idx=0), codes(B, 12), Route.ONE_PASS),
    "embedding twice": (TwoTables, lambda: (torch.randint(0, 11, (B,)), torch.randint(0, 11, (B,))), Route.ONE_PASS),
    "layer norm, no bias": (lambda: nn.LayerNorm(5, bias=False), normal(B, 4, 5), Route.ONE_PASS),
    "layer norm twice": (lambda: Twice(nn.LayerNorm(5)), normal(B, 5), Route.ONE_PASS),
    "group norm, frozen bias": (lambda: frozen(nn.GroupNorm(2, 4), "bias"), normal(B, 4, 3), Route.ONE_PASS),
    "recurrent": (Recurrent, normal(B, 3, 6), Route.LOOP),
}


def case(name: str):
    torch.manual_seed(len(name))
    make, draw, route = CASES[name]
    model, inputs = make(), draw()
    return model, inputs, torch.randn(B), route


def assert_same(found, expected) -> None:
    """float32 against float32 rows summed in float64: 2e-5 of the largest entry."""
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        torch.testing.assert_close(found[name].double(), one, rtol=2e-5, atol=2e-5 * max(1.0, float(one.abs().max())))


class Positions(nn.Module):
    """The second table is called with positions, not with a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(7, 4), nn.Embedding(9, 4)

    def forward(self, x):
        return self.words(x) + self.places(torch.arange(x.shape[1]))


class Centred(nn.Module):
    def __init__(self, detached: bool) -> None:
        super().__init__()
        self.layer, self.detached = nn.Linear(3, 2), detached

    def forward(self, x):
        mean = x.mean(0)
        return self.layer(x - (mean.detach() if self.detached else mean))


class Partly(nn.Module):
    """One of its layers is reached by no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.idle = nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x):
        with torch.no_grad():
            shift = self.idle(x)
        return self.used(x) + shift


class Masked(nn.Module):
    """Draws at random by `mask`."""

    def __init__(self, mask) -> None:
        super().__init__()
        self.layer, self.mask = nn.Linear(6, 4), mask

    def forward(self, x):
        return self.layer(x * self.mask(x))
