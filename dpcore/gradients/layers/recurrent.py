"""nn.LSTM, nn.GRU and nn.RNN: two linear maps for each layer and direction, of what comes in and of what came out last.

N records, b sequences of a record, T steps, D inputs, H outputs. The steps run for all records at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def _lstm(_: Tensor, gates: Tensor, state: State) -> State:
    (i, f), g, o = gates[:, : 2 * len(state[0][0])].sigmoid().chunk(2, 1), *gates.chunk(4, 1)[2:]
    memory = f * state[1] + i * g.tanh()
    return o.sigmoid() * memory.tanh(), memory


def _gru(by_input: Tensor, by_last: Tensor, state: State) -> State:
    (r, z, n), (r_last, z_last, n_last) = by_input.chunk(3, 1), by_last.chunk(3, 1)
    new, kept = (n + (r + r_last).sigmoid() * n_last).tanh(), (z + z_last).sigmoid()
    return (new + kept * (state[0] - new),)


_CELLS: Mapping[str, Callable[[Tensor, Tensor, State], State]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": lambda _, both, state: (both.tanh(),),
    "RNN_RELU": lambda _, both, state: (both.relu(),),
}
"""From one step's map of what comes in, that of what came out last (but for a GRU with the first added), and the state
before, to the state after."""


def recurrent_forward(module: nn.Module, tap: Tap, input: Any, hx: Any = None) -> tuple[Tensor, Any]:
    """What the layer returns for a sequence [b, T, D] or [T, b, D] of each record, its linear maps tapped."""
    layer = cast(nn.RNNBase, module)
    at = mapping.axis(input) if isinstance(input, Tensor) else None
    if at is None or input.ndim != 3 or layer.proj_size:
        raise NotServed
    # None of these operations is answered otherwise than by torch.
    with torch._C.DisableTorchFunction():
        return _stacked(layer, tap, mapping.whole(input).movedim(at, 0), hx)


def _stacked(layer: nn.RNNBase, tap: Tap, inputs: Tensor, hx: Any) -> tuple[Tensor, Any]:
    first = (lambda one: one) if layer.batch_first else (lambda one: one.transpose(1, 2))
    memory = first(inputs)
    lead, states = memory.shape[:2], 2 if layer.mode == "LSTM" else 1
    started = None if hx is None else [_rows(one, lead) for one in (hx if states == 2 else (hx,))]

    def noted(x: Tensor, output: Tensor, part: str) -> Tensor:
        with temporarily_pop_interpreter_stack():
            # Where nothing before it is trained, its gradient is asked for all the same.
            output.requires_grad_()
        records, shown = (mapping.mapped(one.unflatten(0, lead), 0) for one in (x, output))
        return mapping.whole(tap(records, shown, part)).flatten(0, 1)

    x, ways = memory.flatten(0, 1), ("", "_reverse")[: 1 + layer.bidirectional]
    ends: list[State] = []
    for number in range(layer.num_layers):
        outputs = []
        for way in ways:
            part = f"l{number}{way}"
            of_input, of_last = (getattr(layer, f"weight_{one}_{part}") for one in ("ih", "hh"))
            by_input = noted(x, x @ of_input.T, f"ih_{part}")
            # The output before each step, which is not known yet.
            lasts = x.new_empty(*x.shape[:2], layer.hidden_size)
            # Added to the map of it, for all steps at once: so one place has the gradients of all.
            added = torch.zeros_like(by_input) if layer.mode == "GRU" else by_input
            added = noted(lasts, added, f"hh_{part}")
            if layer.bias:
                by_bias, by_last_bias = (getattr(layer, f"bias_{one}_{part}") for one in ("ih", "hh"))
                if layer.mode == "GRU":
                    by_input, added = by_input + by_bias, added + by_last_bias
                else:
                    added = added + (by_bias + by_last_bias)
            state = tuple(
                x.new_zeros(len(x), layer.hidden_size) if started is None else started[one][len(ends)]
                for one in range(states)
            )
            before: list[Tensor] = []
            steps: list[Tensor] = []
            with temporarily_pop_interpreter_stack():
                pairs = list(zip(by_input.unbind(1), added.unbind(1), strict=True))
                for one, other in reversed(pairs) if way else pairs:
                    before.append(state[0].detach())
                    state = _CELLS[layer.mode](one, torch.addmm(other, state[0], of_last.T), state)
                    steps.append(state[0])
                turned = slice(None, None, -1 if way else 1)
                with torch.autograd._unsafe_preserve_version_counter(lasts):
                    torch.stack(before[turned], 1, out=lasts)
                outputs.append(torch.stack(steps[turned], 1))
            ends.append(state)
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
