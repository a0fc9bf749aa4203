"""A model that leaves says of a record what it says of it alone, whichever others it is asked about beside it.

In training, validation and test no record sees another, whatever a model's code does with a batch
(`dpcore.gradients.isolated`). A program over many records at once has no such care: there a model that subtracts the
mean of its batch would say something else than the model that was scored. So code that is not ours is written down
mapped over the records, each as a batch of one. Where torch.export cannot write that (recurrent layers, fused
attention), it leaves as it is, if it is seen to keep made-up records apart, and not at all if it does not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor, nn

from dpcore.gradients.chain import proves_isolation
from trainables.features.programs import NotExportable, program
from trainables.models.pretrained import FolderModel
from trainables.system import InputSpec, with_masks

ROUNDING = 1e-4
"""Of the largest number: what several records at once may differ by from each alone."""
_OURS = "trainables."
_RECORDS = 4


class Mapped(nn.Module):
    """`model` over many records, each of which passes through it as a batch of one; its tensors have their names."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        # The same tables, so that whoever exchanges a tensor here does so there; as a child it would rename them all.
        self._parameters, self._buffers, self._modules = model._parameters, model._buffers, model._modules
        self.__dict__["_model"] = model

    def forward(self, *inputs: Tensor) -> Tensor:
        model = self.__dict__["_model"]
        found: Tensor = torch.func.vmap(lambda *record: model(*(one.unsqueeze(0) for one in record))[0])(*inputs)
        return found


def apart(model: nn.Module, features: Mapping[str, InputSpec]) -> nn.Module:
    """`model`, in evaluation mode, as what may be asked about many records at once and written down as a program.

    Raises NotExportable for one that mixes records and cannot be mapped over them.
    """
    inputs = _made_up(features)
    ours = type(model).__module__.startswith(_OURS) and not isinstance(model, FolderModel)
    if ours or proves_isolation(model, inputs):
        return model
    mapped = Mapped(model).eval()
    with torch.no_grad():
        inputs, alone = _answered(model, inputs)
        if _is_close(_said(lambda: program(mapped, features).module(), inputs), alone):
            return mapped
        if _is_close(_said(lambda: model, inputs), alone):
            return model
    raise NotExportable(
        "what this model says of a record depends on the records beside it, and torch.export cannot write it down for "
        "each record apart: take nothing of a batch (its mean, its largest value, its longest text) in its forward pass"
    )


def _answered(model: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
    """Those records for which `model` can be computed, and what it says of each of them alone. Raises NotExportable."""
    found = {row: _said(lambda: model, tuple(one[[row]] for one in inputs)) for row in range(len(inputs[0]))}
    said = {row: one for row, one in found.items() if one is not None}
    if not said:
        raise NotExportable("this model says nothing of records within the declared bounds: each raises an error")
    return tuple(one[list(said)] for one in inputs), torch.cat(list(said.values()))


def _said(made: Callable[[], Callable[..., Tensor]], inputs: tuple[Tensor, ...]) -> Tensor | None:
    """What a model says of records; None where it cannot be made, or raises an error for these."""
    try:
        # What torch.export thinks of a program that may never be.
        with warnings.catch_warnings(action="ignore"):
            # Copies: a model may change its inputs in place.
            return made()(*(one.clone() for one in inputs))
    except Exception:
        # Whatever code of the user's own raises for values.
        return None


def _is_close(said: Tensor | None, alone: Tensor) -> bool:
    if said is None or said.shape != alone.shape:
        return False
    slack = ROUNDING * float(alone.abs().nan_to_num(posinf=0.0).max())
    return torch.allclose(said, alone, rtol=0.0, atol=slack, equal_nan=True)


def _made_up(features: Mapping[str, InputSpec]) -> tuple[Tensor, ...]:
    """Records of nobody's within the declared bounds: drawn, at either bound, and at the lower one from the middle on,
    as padded texts are. [records, *shape] each."""
    draw = torch.Generator().manual_seed(0)
    own = {name: one for name, one in features.items() if not one.mask_of}
    inputs = {name: torch.stack(list(_values(one, draw))).numpy() for name, one in own.items()}
    return tuple(map(torch.from_numpy, with_masks(features, inputs).values()))


def _values(feature: InputSpec, draw: torch.Generator) -> Iterator[Tensor]:
    codes, shape, fill = feature.cardinality, feature.shape, feature.padding
    low, high = (feature.low, feature.high) if codes is None else (0, codes - 1)
    for record in range(_RECORDS):
        if codes is None:
            one = low + (high - low) * torch.rand(shape, generator=draw)
        else:
            one = torch.randint(codes, shape, generator=draw)
        if record % 2 and one.ndim:
            one[..., one.shape[-1] // 2 :] = low if fill is None else fill
        yield one
    kind = torch.float32 if codes is None else torch.int64
    yield torch.full(shape, low, dtype=kind)
    yield torch.full(shape, high, dtype=kind)
