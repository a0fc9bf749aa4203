"""Forward and backward passes in half precision; norms, clipping and sums stay in float32.

The clip bound is a statement about the numbers that are added up, not about how they came to be. A gradient
that half precision has rounded is another gradient than the exact one, and it is this one whose norm is taken,
in float32 from the same float32 copy that is then weighted and summed: the bound holds as it does in full
precision, and sensitivity, noise and claim do not change.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from dpcore import checks
from dpcore.gradients.layers.protocol import Use, accumulated

Name = Literal["float32", "bfloat16", "float16"]
_TYPES: Mapping[str, torch.dtype] = {"bfloat16": torch.bfloat16, "float16": torch.float16}
_FLOAT16_SCALE = 2.0**10

_switch = threading.Lock()
_inside: list[None] = []
_before: list[str] = []


@contextmanager
def all_digits() -> Iterator[None]:
    """Inside the block, products of float32 keep all their digits, whatever a model's own code has asked for.

    TF32 on GPUs and bfloat16 on CPUs round each factor to 11 or 8 bits: a sum that is formed so is not the one whose
    norms were taken, and one record could move it by more than the clip norm. The switch is the whole process's:
    of several threads inside, the last to leave puts it back.
    """
    products = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    with _switch:
        if not _inside:
            _before[:] = [one.fp32_precision for one in products]
            for one in products:
                one.fp32_precision = "ieee"
        _inside.append(None)
    try:
        yield
    finally:
        with _switch:
            _inside.pop()
            if not _inside:
                for one, precision in zip(products, _before, strict=True):
                    one.fp32_precision = precision


@dataclass(frozen=True, slots=True)
class Precision:
    """In which type a model's products are formed.

    half   None: as the model's own parameters are
    scale  what losses are multiplied by before the backward pass, and gradients divided by after it, in float32.
           float16 has no numbers below 6e-8, where the gradients of well-fitted examples lie; a power of two
           costs no digits. A gradient that overflows by it counts as not finite: its example contributes zero.
    """

    half: torch.dtype | None = None
    scale: float = 1.0

    @classmethod
    def named(cls, name: Name) -> Precision:
        """Raises InvalidValue."""
        if name == "float32":
            return cls()
        if name not in _TYPES:
            raise checks.InvalidValue("precision", name, "float32, bfloat16 or float16")
        return cls(_TYPES[name], _FLOAT16_SCALE if name == "float16" else 1.0)

    def products(self, device: torch.device) -> AbstractContextManager[Any]:
        """Inside the block, products are formed in half precision.

        Casts of weights are not cached: a weight that is used twice has to be seen twice, since a use outside its
        layer would escape the norm.
        """
        if self.half is None:
            return nullcontext()
        return torch.autocast(device.type, dtype=self.half, cache_enabled=False)

    def full(self, outputs: Any) -> Any:
        """Outputs of the model as the loss needs them: floating-point tensors in float32."""
        if self.half is None:
            return outputs
        return tree_map(lambda one: one.float() if isinstance(one, Tensor) and one.dtype == self.half else one, outputs)

    def use(self, use: Use) -> Use:
        """Inputs and unscaled gradients of one use of a layer, in float32."""
        if self.half is None:
            return use
        inputs = use.inputs.float() if use.inputs.dtype == self.half else use.inputs
        return replace(use, inputs=inputs, gradients=use.gradients.float() / self.scale)

    def unscaled(self, gradient: Tensor) -> Tensor:
        """A parameter's gradient as it is added up: unscaled, in float32 at least."""
        gradient = accumulated(gradient)
        return gradient if self.scale == 1.0 else gradient / self.scale
