"""Every layer of torch.nn that has parameters: a row for each, found by walking torch.nn, so that none is forgotten."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from dpcore.gradients.layers import KINDS
from tests.dpcore.gradient_oracle import cross_entropy
from tests.dpcore.zoo.case import Case, Demand, Draw, Written, codes, frozen, normal


class First(nn.Module):
    """A layer that returns several things; the first is the output."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        output = self.layer(x)
        while isinstance(output, tuple):
            output = output[0]
        return output


class Itself(nn.Module):
    """A layer of several inputs is given the same one several times."""

    def __init__(self, layer: nn.Module, times: int) -> None:
        super().__init__()
        self.layer, self.times = layer, times

    def forward(self, x: Tensor) -> Tensor:
        output = self.layer(*[x] * self.times)
        return output[0] if isinstance(output, tuple) else output


class SequenceFirst(nn.Module):
    """Records [B, T, ...] for a layer that wants the sequence on axis 0 and the records on axis 1, as it should be."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        output = self.layer(x.transpose(0, 1))
        return (output[0] if isinstance(output, tuple) else output).transpose(0, 1)


class Scored(nn.Module):
    """A layer that is a loss: a linear layer before it, and its own losses as outputs."""

    def __init__(self, layer: nn.Module, classes: int) -> None:
        super().__init__()
        self.below, self.layer, self.classes = nn.Linear(6, 6), layer, classes

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        output = self.layer(torch.tanh(self.below(x)), y)
        return output.output[:, None] if hasattr(output, "output") else output.reshape(len(x), -1)


def evaluated(layer: nn.Module) -> nn.Module:
    """A normalisation with statistics that are not the trivial ones, for evaluation."""
    layer.running_mean.copy_(torch.linspace(-1, 1, len(layer.running_mean)))  # type: ignore[union-attr,operator,arg-type]
    layer.running_var.copy_(torch.linspace(0.5, 2, len(layer.running_var)))  # type: ignore[union-attr,operator,arg-type]
    return layer


def twice(layer: nn.Module) -> nn.Module:
    return Written(lambda m, x: m.layer(torch.tanh(m.layer(x))), layer=layer)


def two_lookups() -> nn.Module:
    """One table for both inputs, as a factorisation of ratings has it."""
    return Written(lambda m, a, b: m.head(m.table(a) * m.table(b)), table=nn.Embedding(7, 4), head=nn.Linear(4, 1))


def tied(*layers: nn.Module) -> nn.Module:
    """Layers one after the other with one weight."""
    for one in layers:
        one.weight = layers[0].weight
    return nn.Sequential(layers[0], nn.Tanh(), *layers[1:])


def conv1d(outputs: int = 5) -> nn.Module:
    from transformers.pytorch_utils import Conv1D

    return Conv1D(outputs, 40)


Make = Callable[[], nn.Module]
R, S, X = Demand.RIGHT, Demand.SAFE, Demand.REFUSED

# Class of torch.nn: (what is added to its name, model, inputs, demand).
ROWS: dict[str, list[tuple[str, Make, Draw, Demand]]] = {
    "Bilinear": [("", lambda: Itself(nn.Bilinear(4, 4, 3), 2), normal(4), R)],
    "BatchNorm1d": [
        ("", lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), normal(4), X),
        ("without statistics", lambda: nn.BatchNorm1d(4, track_running_stats=False).eval(), normal(4), X),
        ("frozen weights", lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, affine=False)), normal(4), X),
    ],
    "BatchNorm2d": [("", lambda: nn.BatchNorm2d(3), normal(3, 4, 4), X)],
    "BatchNorm3d": [("", lambda: nn.BatchNorm3d(2), normal(2, 3, 3, 3), X)],
    "SyncBatchNorm": [("", lambda: nn.Sequential(nn.Linear(4, 4), nn.SyncBatchNorm(4)), normal(4), X)],
    "Conv1d": [
        ("", lambda: nn.Conv1d(2, 3, 3, padding=1), normal(2, 7), R),
        ("groups", lambda: nn.Conv1d(4, 6, 3, groups=2, bias=False), normal(4, 9), R),
    ],
    "Conv2d": [
        ("", lambda: nn.Conv2d(2, 3, 3, stride=2), normal(2, 6, 5), R),
        (
            "dilated groups",
            lambda: nn.Conv2d(6, 4, 3, stride=2, padding=(2, 1), dilation=(1, 2), groups=2),
            normal(6, 8, 9),
            R,
        ),
        ("same", lambda: nn.Conv2d(2, 3, (3, 4), padding="same"), normal(2, 6, 5), R),
        ("circular", lambda: nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="circular"), normal(2, 6, 5), R),
        ("frozen weight", lambda: frozen(nn.Conv2d(2, 3, 3), "bias"), normal(2, 6, 5), R),
        ("used twice", lambda: twice(nn.Conv2d(3, 3, 3, padding=1)), normal(3, 5, 5), R),
        ("transposed input", lambda: nn.Conv2d(2, 3, 3), lambda size: torch.randn(size, 2, 6, 5).mT, R),
    ],
    "Conv3d": [("", lambda: nn.Conv3d(2, 3, 2, stride=(1, 2, 1)), normal(2, 3, 4, 3), R)],
    "ConvTranspose1d": [("", lambda: nn.ConvTranspose1d(2, 3, 3), normal(2, 5), R)],
    "ConvTranspose2d": [("", lambda: nn.ConvTranspose2d(2, 3, 2), normal(2, 3, 3), R)],
    "ConvTranspose3d": [("", lambda: nn.ConvTranspose3d(2, 2, 2), normal(2, 2, 3, 2), R)],
    "Embedding": [
        ("", lambda: nn.Embedding(7, 4), codes(3), R),
        ("padding", lambda: nn.Embedding(7, 4, padding_idx=2), codes(5), R),
        ("used twice", two_lookups, lambda size: (torch.randint(0, 7, (size,)), torch.randint(0, 7, (size,))), R),
        ("sparse", lambda: nn.Embedding(7, 4, sparse=True), codes(3), S),
        ("scale_grad_by_freq", lambda: nn.Embedding(7, 4, scale_grad_by_freq=True), codes(3), X),
        ("max_norm", lambda: nn.Embedding(7, 4, max_norm=1.0), codes(3), X),
    ],
    "EmbeddingBag": [
        ("mean", lambda: nn.EmbeddingBag(7, 4), codes(5), R),
        ("scale_grad_by_freq", lambda: nn.EmbeddingBag(7, 4, scale_grad_by_freq=True), codes(5), X),
        ("max_norm", lambda: nn.EmbeddingBag(7, 4, max_norm=1.0), codes(5), X),
    ],
    "GRU": [
        ("", lambda: First(nn.GRU(4, 3, batch_first=True)), normal(3, 4), R),
        (
            "both ways, no bias",
            lambda: First(nn.GRU(4, 3, 2, bias=False, bidirectional=True, batch_first=True)),
            normal(3, 4),
            R,
        ),
    ],
    "GRUCell": [("", lambda: nn.GRUCell(4, 3), normal(4), R)],
    "GroupNorm": [
        ("", lambda: nn.GroupNorm(2, 4), normal(4, 5), R),
        ("frozen bias", lambda: frozen(nn.GroupNorm(2, 4), "weight"), normal(4, 3), R),
    ],
    "InstanceNorm1d": [
        ("", lambda: nn.InstanceNorm1d(3, affine=True), normal(3, 6), R),
        ("learns statistics", lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True), normal(3, 6), X),
    ],
    "InstanceNorm2d": [("", lambda: nn.InstanceNorm2d(3, affine=True), normal(3, 4, 4), R)],
    "InstanceNorm3d": [("", lambda: nn.InstanceNorm3d(2, affine=True), normal(2, 3, 3, 3), R)],
    "LSTM": [
        ("", lambda: First(nn.LSTM(4, 3, batch_first=True)), normal(3, 4), R),
        (
            "two layers, both ways",
            lambda: First(nn.LSTM(4, 3, 2, batch_first=True, bidirectional=True)),
            normal(3, 4),
            R,
        ),
        ("projected", lambda: First(nn.LSTM(4, 3, batch_first=True, proj_size=2)), normal(3, 4), R),
        ("sequence first", lambda: SequenceFirst(nn.LSTM(4, 3)), normal(3, 4), R),
        ("from a state", lambda: _From(nn.LSTM(4, 3, 2, batch_first=True), 2), normal(3, 4), R),
        (
            "last state, frozen parts",
            lambda: frozen(_Last(nn.LSTM(4, 3)), "weight_hh_l0", "bias_ih_l0"),
            normal(3, 4),
            R,
        ),
        ("records taken for a sequence", lambda: First(nn.LSTM(4, 3)), normal(3, 4), S),
    ],
    "LSTMCell": [("", lambda: First(nn.LSTMCell(4, 3)), normal(4), R)],
    "LayerNorm": [
        ("", lambda: nn.LayerNorm([3, 5]), normal(2, 3, 5), R),
        ("used twice, no bias", lambda: twice(nn.LayerNorm(5, bias=False)), normal(4, 5), R),
    ],
    "Linear": [
        ("", lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3)), normal(6), R),
        ("sequence", lambda: nn.Linear(3, 2), normal(9, 3), R),
        ("sequence, wide", lambda: nn.Linear(40, 50), normal(3, 40), R),
        ("sequence, wide, no bias", lambda: nn.Linear(40, 50, bias=False), normal(3, 40), R),
        ("sequence, frozen weight", lambda: frozen(nn.Linear(6, 5), "bias"), normal(4, 6), R),
        ("frozen bias", lambda: frozen(nn.Linear(6, 5), "weight"), normal(6), R),
        ("used twice, wide", lambda: twice(nn.Linear(40, 40)), normal(40), R),
        ("used twice, sequence", lambda: twice(nn.Linear(5, 5, bias=False)), normal(3, 5), R),
    ],
    "MultiheadAttention": [
        ("", lambda: Itself(nn.MultiheadAttention(4, 2, batch_first=True), 3), normal(3, 4), R),
        ("records taken for a sequence", lambda: Itself(nn.MultiheadAttention(4, 2), 3), normal(3, 4), S),
    ],
    "PReLU": [
        ("", lambda: nn.PReLU(), normal(4), R),
        ("by channel", lambda: nn.Sequential(nn.Conv1d(2, 3, 2), nn.PReLU(3)), normal(2, 6), R),
    ],
    "RMSNorm": [("", lambda: nn.RMSNorm(5), normal(4, 5), R)],
    "RNN": [
        ("", lambda: First(nn.RNN(4, 3, batch_first=True)), normal(3, 4), R),
        ("relu, from a state", lambda: _From(nn.RNN(4, 3, nonlinearity="relu", batch_first=True), 1), normal(3, 4), R),
        ("records taken for a sequence", lambda: First(nn.RNN(4, 3)), normal(3, 4), S),
    ],
    "RNNCell": [("", lambda: nn.RNNCell(4, 3, nonlinearity="relu"), normal(4), R)],
    "Transformer": [
        ("", lambda: Itself(nn.Transformer(8, 2, 1, 1, 6, dropout=0.0, batch_first=True), 2), normal(3, 8), R)
    ],
    "TransformerEncoderLayer": [
        ("", lambda: nn.TransformerEncoderLayer(8, 2, 6, dropout=0.0, batch_first=True), normal(3, 8), R),
    ],
    "TransformerDecoderLayer": [
        ("", lambda: Itself(nn.TransformerDecoderLayer(8, 2, 6, dropout=0.0, batch_first=True), 2), normal(3, 8), R)
    ],
}
"""Layers whose output has all records on axis 0. Those that are losses are in `CASES` below."""

ABSTRACT = {"RNNBase", "RNNCellBase"}
"""Bases of recurrent layers: they have no forward pass of their own."""
PARAMETERLESS = {"TripletMarginWithDistanceLoss"}
"""Contains another module of torch.nn by default, one without parameters."""


def walked() -> set[str]:
    """Names of the classes of torch.nn that make parameters, or other layers of torch.nn, in their constructors."""
    classes = {
        name: one
        for name, one in vars(nn).items()
        if inspect.isclass(one) and issubclass(one, nn.Module) and one is not nn.Module
    }
    makers = {"Parameter", "UninitializedParameter", "register_parameter", *classes}
    made = {name for name, one in classes.items() if _calls_in_constructors(one) & makers}
    # A lazy layer is refused before its first call, and another layer after it.
    return {name for name in made - ABSTRACT - PARAMETERLESS if not name.startswith("Lazy")}


def _calls_in_constructors(layer: type) -> set[str]:
    called: set[str] = set()
    for one in layer.__mro__:
        constructor = vars(one).get("__init__")
        if one in (nn.Module, object) or not inspect.isfunction(constructor):
            continue
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(constructor)))):
            if isinstance(node, ast.Call):
                called.add(getattr(node.func, "id", getattr(node.func, "attr", "")))
    return called


LAYERS = [
    Case(
        name=f"nn.{layer}{', ' * bool(kind)}{kind}",
        make=make,
        draw=draw,
        demand=demand,
        by_rule=demand is R and getattr(nn, layer) in KINDS and kind != "projected",
        # Attention over one record cancels more digits of float32 than other layers do.
        tolerance=3e-5 if "Transformer" in layer else 1e-5,
    )
    for layer, rows in ROWS.items()
    for kind, make, draw, demand in rows
]

CASES = [
    *LAYERS,
    Case(
        name="nn.BatchNorm1d, evaluated with public statistics",
        make=lambda: nn.Sequential(nn.Linear(4, 4), evaluated(nn.BatchNorm1d(4))),
        draw=normal(4),
        trains=False,
        demand=Demand.SAFE,
    ),
    Case(
        name="nn.TransformerEncoderLayer, evaluated",
        make=lambda: nn.TransformerEncoderLayer(8, 2, 6, batch_first=True),
        draw=normal(3, 8),
        trains=False,
        demand=Demand.RIGHT,
        tolerance=3e-5,
    ),
    Case(
        name="nn.InstanceNorm2d, evaluated with public statistics",
        make=lambda: evaluated(nn.InstanceNorm2d(3, affine=True, track_running_stats=True)),
        draw=normal(3, 4, 4),
        trains=False,
    ),
    Case(
        name="nn.AdaptiveLogSoftmaxWithLoss",
        make=lambda: Scored(nn.AdaptiveLogSoftmaxWithLoss(6, 9, [3, 6]), 9),
        draw=lambda size: (torch.randn(size, 6), torch.randint(0, 9, (size,))),
    ),
    Case(
        name="nn.LinearCrossEntropyLoss",
        make=lambda: Scored(nn.LinearCrossEntropyLoss(6, 5, reduction="none", options=None), 5),
        draw=lambda size: (torch.randn(size, 6), torch.randint(0, 5, (size,))),
        demand=Demand.RIGHT,
    ),
    *(
        Case(
            name=f"one weight for {name}",
            make=partial(lambda make: tied(*make()), make),
            draw=draw,
            demand=Demand.RIGHT,
            by_rule=True,
        )
        for name, make, draw in (
            ("a table and an output, few words", lambda: (nn.Embedding(7, 4), nn.Linear(4, 7)), codes(9)),
            ("a table and an output, many", lambda: (nn.Embedding(40, 50), nn.Linear(50, 40)), codes(3, high=40)),
            ("the same with padding", lambda: (nn.Embedding(7, 4, padding_idx=2), nn.Linear(4, 7)), codes(5)),
            ("two linear layers", lambda: (nn.Linear(4, 4), nn.Linear(4, 4, bias=False)), normal(3, 4)),
        )
    ),
    Case(
        name="one weight for two tables and an output",
        make=lambda: _TwoTables(),
        draw=lambda size: (torch.randint(0, 7, (size, 3)), torch.randint(0, 7, (size, 2))),
        demand=Demand.RIGHT,
        by_rule=True,
    ),
    *(
        Case(name=f"transformers.Conv1D, {name}", make=make, draw=draw, demand=Demand.RIGHT, by_rule=True)
        for name, make, draw in (
            ("one position", conv1d, normal(40)),
            ("few", lambda: conv1d(60), normal(3, 40)),
            ("many", lambda: conv1d(5), normal(9, 40)),
            ("frozen weight", lambda: frozen(conv1d(5), "bias"), normal(3, 40)),
        )
        if find_spec("transformers")
    ),
    Case(name="nn.EmbeddingBag with offsets", make=lambda: _Bags(), draw=codes(4)),
    Case(
        name="softmax over classes and cross-entropy",
        make=lambda: nn.Sequential(nn.Linear(6, 5), nn.LogSoftmax(1)),
        draw=normal(6),
        targets=lambda size: torch.randint(0, 5, (size,)),
        loss=cross_entropy,
        demand=Demand.RIGHT,
    ),
]
"""A case for each row, and the layers that need more than one input or a mode of their own."""

NAMED = set(ROWS) | {"AdaptiveLogSoftmaxWithLoss", "LinearCrossEntropyLoss"}


class _From(nn.Module):
    """From a state that each record gives itself."""

    def __init__(self, layer: nn.RNNBase, states: int) -> None:
        super().__init__()
        self.layer, self.states = layer, states

    def forward(self, x: Tensor) -> Tensor:
        start = x[None, :, 0, :3].sin().expand(self.layer.num_layers, -1, -1)
        return self.layer(x, (start, start.cos()) if self.states == 2 else start)[0]


class _Last(nn.Module):
    def __init__(self, layer: nn.LSTM) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        _, (output, memory) = self.layer(x.transpose(0, 1))
        return output[-1] + memory[-1]


class _TwoTables(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Embedding(7, 4), nn.Embedding(7, 4, padding_idx=1), nn.Linear(4, 7)
        self.second.weight = self.head.weight = self.first.weight

    def forward(self, words: Tensor, others: Tensor) -> Tensor:
        return self.head(self.first(words).mean(1) * self.second(others).mean(1))


class _Bags(nn.Module):
    """All records' words in one row, and where each record begins."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(7, 4, mode="mean")

    def forward(self, words: Tensor) -> Tensor:
        starts = torch.arange(0, words.numel(), words.shape[1])
        return self.bag(words.flatten(), starts)
