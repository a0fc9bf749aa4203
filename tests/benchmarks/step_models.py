"""Models that private steps are timed on, and their data; `opacus` where Opacus needs layers of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

CLASSES = 10


def logistic(opacus: bool) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, CLASSES))


def mlp(opacus: bool) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, CLASSES))


def cnn(opacus: bool) -> nn.Module:
    """The two-convolution MNIST model of Opacus's and TensorFlow Privacy's tutorials."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.ReLU(),
        nn.Linear(32, CLASSES),
    )


WIDTH, TIME = 64, 32


class Block(nn.Module):
    def __init__(self, opacus: bool) -> None:
        super().__init__()
        if opacus:
            from opacus.layers import DPMultiheadAttention

            self.attention = DPMultiheadAttention(WIDTH, 4, batch_first=True)
        else:
            self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norms[0](x + self.attention(x, x, x, need_weights=False)[0])
        return self.norms[1](x + self.narrow(torch.relu(self.wide(x))))


class Transformer(nn.Module):
    """Two layers over sequences [B, 32, 28]. Opacus has no rule for a parameter of the model's own: there its table of
    positions is an embedding that is asked for every record."""

    def __init__(self, opacus: bool) -> None:
        super().__init__()
        self.inner = nn.Linear(28, WIDTH)
        self.opacus = opacus
        if opacus:
            self.places = nn.Embedding(TIME, WIDTH)
        else:
            self.positions = nn.Parameter(torch.randn(TIME, WIDTH))
        self.blocks = nn.ModuleList([Block(opacus), Block(opacus)])
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        places = self.places(torch.arange(TIME).expand(len(x), -1)) if self.opacus else self.positions
        h = self.inner(x) + places
        for block in self.blocks:
            h = block(h)
        return self.head(h.mean(1))


WORDS, LENGTH, EMBEDDED = 10_000, 128, 32


class MeanOfWords(nn.Module):
    def __init__(self, opacus: bool) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(WORDS, EMBEDDED), nn.Linear(EMBEDDED, CLASSES)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.table(words).mean(1))


def bag_of_words(opacus: bool) -> nn.Module:
    return nn.Sequential(nn.EmbeddingBag(WORDS, EMBEDDED, mode="mean"), nn.Linear(EMBEDDED, CLASSES))


@dataclass(frozen=True)
class Timed:
    """make: from whether Opacus will run it to the model. draw: inputs of so many records. goal: least speed against
    plain SGD, None without one."""

    make: Callable[[bool], nn.Module]
    draw: Callable[[int], Tensor]
    goal: float | None = None


def _images(size: int) -> Tensor:
    return torch.randn(size, 1, 28, 28)


def _words(size: int) -> Tensor:
    return torch.randint(0, WORDS, (size, LENGTH))


TIMED = {
    "LR 784-10": Timed(logistic, _images),
    "MLP 784-256-10": Timed(mlp, _images, 0.8),
    "CNN": Timed(cnn, _images, 0.7),
    "Transformer": Timed(Transformer, lambda size: torch.randn(size, TIME, 28), 0.6),
    "Embedding, mean": Timed(MeanOfWords, _words),
    "EmbeddingBag": Timed(bag_of_words, _words),
}
