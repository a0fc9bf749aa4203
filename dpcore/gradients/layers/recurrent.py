"""nn.LSTM, nn.GRU and nn.RNN: two linear maps for each layer and direction, of what comes in and of what came out last.

N records, b sequences of a record, T steps, D inputs, H outputs. The steps run for all records at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack

from dpcore.gradients import mapping
from dpcore.gradients.layers.attention import Piece, Together
from dpcore.gradients.layers.linear import product
from dpcore.gradients.layers.protocol import Contribution, NotServed, Tap, Use, trainable

State = tuple[Tensor, ...]
"""The output before, and the cell's memory where it has one."""


def _lstm(by_input: Tensor, by_last: Tensor, state: State) -> State:
    i, f, g, o = (by_input + by_last).chunk(4, 1)
    memory = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * memory.tanh(), memory


def _gru(by_input: Tensor, by_last: Tensor, state: State) -> State:
    (r, z, n), (r_last, z_last, n_last) = by_input.chunk(3, 1), by_last.chunk(3, 1)
    new, kept = (n + (r + r_last).sigmoid() * n_last).tanh(), (z + z_last).sigmoid()
    return (new + kept * (state[0] - new),)


def recurrent_forward(module: nn.Module, tap: Tap, input: Any, hx: Any = None) -> tuple[Tensor, Any]:
    """What the layer returns for a sequence [b, T, D] or [T, b, D] of each record, its linear maps tapped."""
    layer = cast(nn.RNNBase, module)
    at = mapping.axis(input) if isinstance(input, Tensor) else None
    if at is None or input.ndim != 3 or layer.proj_size:
        raise NotServed
    first = (lambda one: one) if layer.batch_first else (lambda one: one.transpose(1, 2))
    memory = first(mapping.whole(input).movedim(at, 0))
    lead, states = memory.shape[:2], 2 if layer.mode == "LSTM" else 1
    started = None if hx is None else [_rows(one, lead) for one in (hx if states == 2 else (hx,))]
    cells: dict[str, Callable[..., State]] = {
        "LSTM": _lstm,
        "GRU": _gru,
        "RNN_TANH": lambda x, last, _: ((x + last).tanh(),),
        "RNN_RELU": lambda x, last, _: ((x + last).relu(),),
    }

    def linear_map(x: Tensor, part: str) -> Tensor:
        bias = getattr(layer, f"bias_{part}") if layer.bias else None
        with temporarily_pop_interpreter_stack():
            output = F.linear(x, getattr(layer, f"weight_{part}"), bias)
        noted, shown = (mapping.mapped(one.unflatten(0, lead), 0) for one in (x, output))
        return mapping.whole(tap(noted, shown, part)).flatten(0, 1)

    x, ways = memory.flatten(0, 1), ("", "_reverse")[: 1 + layer.bidirectional]
    ends: list[State] = []
    for number in range(layer.num_layers):
        outputs = []
        for way in ways:
            part = f"l{number}{way}"
            by_input = linear_map(x, f"ih_{part}").unbind(1)
            state = tuple(
                x.new_zeros(len(x), layer.hidden_size) if started is None else started[one][len(ends)]
                for one in range(states)
            )
            steps: list[Tensor] = []
            for one in reversed(by_input) if way else by_input:
                by_last = linear_map(state[0], f"hh_{part}")
                with temporarily_pop_interpreter_stack():
                    state = cells[layer.mode](one, by_last, state)
                steps.append(state[0])
            ends.append(state)
            outputs.append(torch.stack(steps[::-1] if way else steps, 1))
        x = torch.cat(outputs, 2)
        if number < layer.num_layers - 1 and layer.training and layer.dropout:
            with temporarily_pop_interpreter_stack():
                x = F.dropout(x, layer.dropout)
    last = [mapping.mapped(torch.stack(one).unflatten(1, lead), 1) for one in zip(*ends, strict=True)]
    return mapping.mapped(first(x.unflatten(0, lead)), 0), tuple(last) if states == 2 else last[0]


def _rows(state: Tensor, lead: torch.Size) -> Tensor:
    """[layers and directions, b, H] of each record, or the same for all, as [layers and directions, N * b, H]."""
    at = mapping.axis(state)
    whole = mapping.whole(state).unsqueeze(1) if at is None else mapping.whole(state).movedim(at, 1)
    return whole.expand(-1, *lead, -1).flatten(1, 2)


def recurrent(module: nn.Module, uses: Sequence[Use]) -> Contribution:
    """The rule for nn.LSTM, nn.GRU and nn.RNN, their uses tapped by `recurrent_forward`."""
    names, by_part, pieces = trainable(module), dict[str, list[Use]](), []
    for use in uses:
        by_part.setdefault(use.part, []).append(use)
    for part, several in by_part.items():
        own = {one: f"{one}_{part}" for one in ("weight", "bias") if f"{one}_{part}" in names}
        if own:
            pieces.append(Piece(product(several, set(own)), own, None))
    return Together(pieces, names)
