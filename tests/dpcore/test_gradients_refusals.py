"""What cannot be seen through is refused at once, or as soon as it comes."""

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_full_backward_hook

from dpcore.gradients import PrivateGradients, Refused
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.gradient_models import Partly

torch.set_num_threads(1)
B = 5


def complex_bias(model):
    model.shift = nn.Parameter(torch.zeros(2, dtype=torch.complex64))


REFUSED = {
    "is complex": complex_bias,
    "has a gradient hook": lambda model: model.used.weight.register_hook(lambda g: g),
    "has a backward hook": lambda model: model.used.register_full_backward_hook(lambda *_: None),
    "is a Wrapped": lambda model: setattr(model.used, "weight", type("Wrapped", (nn.Parameter,), {})(torch.ones(2, 3))),
    "has no shape yet": lambda model: setattr(model, "used", nn.LazyLinear(2)),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_seen_through_is_refused_at_once(words):
    model = Partly()
    REFUSED[words](model)
    with pytest.raises(Refused, match=words):
        PrivateGradients(model, oracle.squared_loss)


def test_a_global_backward_hook_is_refused():
    handle = register_module_full_backward_hook(lambda *_: None)
    try:
        with pytest.raises(Refused, match="global backward hook"):
            PrivateGradients(Partly(), oracle.squared_loss)
    finally:
        handle.remove()
