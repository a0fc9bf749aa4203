"""Models whose per-record gradients cannot be had or trusted: by their structure, or because they keep something."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm


class Refused(ValueError):
    """A model that private gradients do not serve; the message names the layer, the reason and a remedy."""


class MixesExamples(Refused):
    """One record's gradient depends on other records, so clipping bounds nobody's influence."""


class NotComputed(Refused):
    """An operation raised an error while records passed: for all of them, or for the values of some."""


def of_the_machine(error: BaseException) -> bool:
    """Whether memory or a device failed, whatever the values of records."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError | torch.AcceleratorError) or "memory" in str(error)


def label(name: str, module: nn.Module) -> str:
    """How messages name a module."""
    return f"layer {name or '(model)'!r} ({type(module).__name__})"


def refuse(model: nn.Module) -> None:
    """Raises Refused for what is plain from the model's structure alone."""
    for name, module in model.named_modules():
        _refuse_mixing(label(name, module), module)
        _refuse_wrappers(label(name, module), module)
    if torch_module._global_backward_hooks or torch_module._global_backward_pre_hooks:
        raise Refused("a global backward hook is registered; under a mapped pass it would do nothing. Remove it.")
    for name, one in model.named_parameters():
        _refuse_parameter(f"parameter {name!r}", one)


def _refuse_mixing(named: str, module: nn.Module) -> None:
    """Raises MixesExamples for a layer that mixes the records of a batch or keeps statistics of them.

    A normalisation in evaluation mode is a fixed map and passes. Its statistics have to be public: nothing can be seen
    of where they come from.
    """
    if isinstance(module, _BatchNorm) and (module.training or not module.track_running_stats):
        raise MixesExamples(
            f"{named} normalises over the batch: every record's loss depends on all others, and clipping "
            "bounds nobody's influence. Use GroupNorm, or evaluation mode with public statistics."
        )
    if isinstance(module, _InstanceNorm) and module.training and module.track_running_stats:
        raise MixesExamples(
            f"{named} keeps running statistics of private records, released without noise. "
            "Use track_running_stats=False, or GroupNorm."
        )
    normalised = [module, *module._forward_pre_hooks.values()]
    if module.training and any(isinstance(one, _SpectralNorm | SpectralNorm) for one in normalised):
        raise Refused(
            f"{named} changes its estimate of the weight's largest singular value at every pass, so that the model "
            "follows from how many passes there were. Use evaluation mode, or weight_norm, which keeps nothing."
        )
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        if module.scale_grad_by_freq:
            raise MixesExamples(f"{named} divides by token counts over the whole batch. Use scale_grad_by_freq=False.")
        if module.max_norm is not None:
            raise MixesExamples(
                f"{named} rescales the rows that private tokens touch, without noise. Use max_norm=None."
            )


def _refuse_wrappers(named: str, module: nn.Module) -> None:
    if isinstance(module, torch.jit.ScriptModule) and any(one.requires_grad for one in module.parameters()):
        raise Refused(f"{named} is scripted: its parameters cannot be given per record. Use the Python module.")
    if isinstance(module, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise Refused(f"{named} spreads and synchronises by itself. Give the module inside it.")
    if module._backward_hooks or module._backward_pre_hooks:
        raise Refused(f"{named} has a backward hook, which a mapped pass would not run. Remove it.")


def _refuse_parameter(named: str, one: nn.Parameter) -> None:
    if is_lazy(one):
        raise Refused(f"{named} has no shape yet. Run the lazy model once on public input first.")
    if not one.requires_grad:
        return
    if one.is_complex():
        # Normal noise on a complex tensor has variance 1/2 per real coordinate: a factor sqrt 2 too little.
        raise Refused(f"{named} is complex, for which neither norm nor noise is defined here. Use two real ones.")
    if type(one) is not nn.Parameter:
        raise Refused(f"{named} is a {type(one).__name__}, whose operations may do anything. Use a plain nn.Parameter.")
    if one._backward_hooks or one._post_accumulate_grad_hooks:  # type: ignore[attr-defined]
        raise Refused(f"{named} has a gradient hook, which private gradients would not run. Remove it.")


Versions = dict[tuple[str, str], Hashable]


def versions(modules: Mapping[str, nn.Module]) -> Versions:
    """{(module, name): which tensor stands there, and how often it was written to} of parameters and buffers."""
    return {
        (name, key): _version(one)
        for name, module in modules.items()
        for key, one in (*module._parameters.items(), *module._buffers.items())
        if one is not None
    }


def _version(one: Tensor) -> Hashable:
    try:
        return id(one), one._version, one.data_ptr()
    except (RuntimeError, NotImplementedError):
        # A mapped tensor left behind has no memory of its own.
        return id(one), -1, -1


def refuse_changes(modules: Mapping[str, nn.Module], before: Versions) -> None:
    """Raises Refused where a parameter or buffer is not as it was: what one record leaves there reaches the next."""
    after = versions(modules)
    if after != before:
        name, key = next(place for place in {**before, **after} if before.get(place) != after.get(place))
        raise Refused(
            f"{label(name, modules[name])} changes {key!r} while it computes: what one record leaves there reaches "
            "the next ones without noise. Keep nothing of a call in the module."
        )
