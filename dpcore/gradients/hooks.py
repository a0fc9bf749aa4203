"""One forward and one backward pass that keep, for each use of a captured layer, its input and its output's gradient.

A captured layer computes with its parameters as they are, once for all records. Everywhere else in the model the same
parameters are mapped over the records, so that a weight used outside its layer still has a gradient per record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._autograd import _make_saved_tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from dpcore import checks
from dpcore.gradients import mapping
from dpcore.gradients.chain import chain_of, loss_proves_isolation, passed, uses_of
from dpcore.gradients.isolation import alone, isolating, over_records
from dpcore.gradients.layers.embedding import SHARING, shared_table
from dpcore.gradients.layers.linear import product
from dpcore.gradients.layers.protocol import (
    Contribution,
    Kind,
    Kinds,
    NotServed,
    Use,
    kind_of,
    tapped_at_the_end,
    trainable,
)
from dpcore.gradients.mapping import SUBSTITUTES, Slots, computing, forward_of, one_at_a_time, standing_in
from dpcore.gradients.precision import Precision
from dpcore.gradients.refusals import NotComputed, Refused, label, of_the_machine


class Hooks:
    """The uses of captured layers seen during one forward pass over N records.

    layers     captured, by name
    owned      names of their trainable parameters
    kinds      how they are served
    uses       by layer, [N, *shape], after the backward pass; an output that no loss depends on counts for nothing
    level      the transformation over records, None outside of it
    edges      where outputs' gradients are found; None once the forward pass is over: a checkpoint passes again
    stand_ins  for parameters, mapped over the records
    """

    def __init__(
        self, layers: Mapping[str, nn.Module], owned: Mapping[str, list[str]], kinds: Mapping[str, Kind], slots: Slots
    ) -> None:
        self._layers, self._owned, self._kinds, self._slots = layers, owned, kinds, slots
        self.uses: dict[str, list[Use]] = {}
        self.level: int | None = None
        self.stand_ins: Mapping[str, Tensor] = {}
        self.edges: list[GradientEdge] | None = []

    def listening(self) -> AbstractContextManager[None]:
        """Captured layers note their uses for the length of the block."""
        return computing({layer: self._forward_of(name, layer) for name, layer in self._layers.items()})

    def _forward_of(self, name: str, layer: nn.Module) -> Callable[..., Any]:
        own, captured = forward_of(layer), self._kinds[name].forward
        # An alias: the parameters themselves must not appear in the graph (see Passes._backward).
        held = [
            (place, self._slots.parameters[one].detach().requires_grad_())
            for one in self._owned[name]
            for place in self._slots.places[one]
        ]

        def tap(inputs: Tensor, output: Tensor, part: str = "") -> Tensor:
            # A tenth of a small model's step otherwise.
            with torch._C.DisableTorchFunction():
                return self._tapped(name, part, inputs, output)

        def forward(*args: Any, **kwargs: Any) -> Any:
            # Inside a transformation of the model's own, and without gradients, nothing is captured.
            if mapping.level() != self.level or not torch.is_grad_enabled():
                return own(layer, *args, **kwargs)
            try:
                with standing_in(held):
                    return captured(layer, tap, *args, **kwargs)
            except NotServed:
                return own(layer, *args, **kwargs)

        return forward

    def _tapped(self, name: str, part: str, inputs: Tensor, output: Tensor) -> Tensor:
        # A mapped tensor says nothing of gradients; the memory under it does.
        whole = mapping.whole(output)
        if not whole.requires_grad:
            return output
        at = mapping.axis(output)
        if at is None:
            # Its gradient would be the sum over records.
            raise NotServed
        inputs_at = mapping.axis(inputs)
        # As autograd saves it: a checkpoint computes it again, and a change in place is an error.
        input_now = mapping.whole(inputs).detach()
        version, saved = input_now._version, _make_saved_tensor(input_now, is_output=False)
        del input_now

        def note(gradient: Tensor) -> None:
            gradient, noted = gradient.movedim(at, 0), saved.unpack()
            if noted._version != version:
                # Nobody looks at what a checkpoint computed again, where the same change follows it.
                raise Refused(
                    f"layer {name!r}: its input was changed in place after the call, so the gradient of its parameters "
                    "is lost. Use the out-of-place operation in the model."
                )
            shown = noted.expand(len(gradient), *noted.shape) if inputs_at is None else noted.movedim(inputs_at, 0)
            self.uses.setdefault(name, []).insert(0, Use(shown, gradient, part))

        alias = mapping.apart(whole)
        alias.register_hook(note)
        if self.edges is not None:
            self.edges.append(get_gradient_edge(alias))
        return mapping.mapped(alias, at)


Columns = tuple[Tensor, ...]
LossFunction = Callable[[Any, Any], Tensor]


@dataclass(frozen=True, slots=True)
class Recorded:
    """Of N records: the uses of captured layers, by layer, and the gradients of other parameters, {name: [N, *shape]}.

    A parameter that is in neither is one that no loss depends on.
    """

    uses: dict[str, list[Use]]
    gradients: Mapping[str, Tensor]


Part = tuple[Mapping[str, str], Contribution]
"""With the full names of parameters by the contribution's own."""


class Passes:
    """The passes over a model whose structure does not change.

    captured  layers served by their rule, by name; a layer that turns out to be used in other ways too leaves it
    in_loops  parameters of layers that go through records one at a time, and those layers
    """

    def __init__(self, model: nn.Module, loss_fn: LossFunction, kinds: Kinds, precision: Precision) -> None:
        self.model, self.loss_fn, self.precision = model, loss_fn, precision
        self.slots = Slots(model)
        served = _served(model, kinds)
        self.captured = {name: module for name, module, _ in served}
        self.kinds = {name: kind for name, _, kind in served}
        self._modules = dict(model.named_modules()) | _loss_modules(loss_fn)
        names = {id(one): name for name, one in self.slots.parameters.items()}
        self.in_loops = {
            names[id(one)]: label(name, module)
            for name, module in model.named_modules()
            if SUBSTITUTES.get(type(module)) is one_at_a_time
            for one in trainable(module).values()
        }
        self.owned = {
            layer: [names[id(one)] for one in trainable(module).values()] for layer, module in self.captured.items()
        }
        self._names = {id(module): layer for layer, module in self.captured.items()}
        self._all_at_ends = self.slots.parameters.keys() == {
            name for one in self.owned.values() for name in one
        } and all(kind.forward is tapped_at_the_end for kind in self.kinds.values())

    def sharing(self, layer: str) -> list[str]:
        """The captured layers that have a parameter in common with this one, itself among them."""
        own = self.slots.tied.intersection(self.owned[layer])
        return [other for other in self.captured if own.intersection(self.owned[other])] if own else [layer]

    def parts(self, uses: Mapping[str, Sequence[Use]]) -> list[Part]:
        """Of units' gradients, from all uses [U, k, ...] of layers that share their weight, or of a single one."""
        if len(uses) == 1:
            [(name, own)] = uses.items()
            layer = self.captured[name]
            return [(self._named(name), self.kinds[name].rule(layer, own))]
        used = {name: own for name, own in uses.items() if own}
        found: list[Part] = [
            (self._named(name), product(own, {"bias"}))
            for name, own in used.items()
            if "bias" in trainable(self.captured[name])
        ]
        shared = shared_table([self.captured[name] for name in used], list(used.values()))
        return [*found, (self._named(next(iter(used))), shared)]

    def _named(self, layer: str) -> dict[str, str]:
        """Full names of a captured layer's parameters, by its own."""
        return dict(zip(trainable(self.captured[layer]), self.owned[layer], strict=True))

    def chain(self, inputs: Columns) -> list[nn.Module] | None:
        """Layers through which records pass one after the other without being mapped, where structure proves isolation
        and rules serve all parameters."""
        return chain_of(self.model, inputs) if self._all_at_ends else None

    def recorded(self, inputs: Columns, targets: Columns) -> Recorded:
        """One forward and one backward pass. inputs and targets are [N, ...], N at least 1. Raises Refused."""
        chain = self.chain(inputs)
        if chain is not None:
            return self._along(chain, inputs[0], targets)
        while True:
            hooks = Hooks(self.captured, self.owned, self.kinds, self.slots)
            mapped = self.per_record(len(targets[0]))
            with hooks.listening(), isolating(self._modules):
                losses_N = self._losses(hooks, mapped, inputs, targets)
                # Asked for by captured outputs and stand-ins alone, PyTorch skips every product for a shared weight's
                # gradient. A checkpoint computes with the stand-ins again.
                edges, hooks.edges = hooks.edges or [], None
                with self.slots.holding(hooks.stand_ins):
                    found = self._by(losses_N, [*edges, *mapped.values()])[len(edges) :]
            uses = self._full(hooks.uses)
            gradients = {
                name: self.precision.unscaled(one) for name, one in zip(mapped, found, strict=True) if one is not None
            }
            both = [layer for layer in uses if any(name in gradients for name in self.owned[layer])]
            if not both:
                return Recorded(uses, gradients)
            # A use inside the layer and one outside it: their gradients add up before the norm is taken.
            for layer in both:
                del self.captured[layer]
            self._all_at_ends = False

    def _along(self, chain: list[nn.Module], inputs: Tensor, targets: Columns) -> Recorded:
        inputs, targets = inputs.clone(), copied(targets)
        with torch.enable_grad():
            with self.precision.products(inputs.device):
                outputs, seen, edges = passed(chain, self._names, inputs)
            outputs = self.precision.full(outputs)
            if loss_proves_isolation(self.loss_fn, outputs, targets):
                last: Tensor = self.loss_fn(outputs, targets[0])
                by_last: Tensor | None = torch.full_like(last, self.precision.scale)
            else:
                # A loss of the user's own may hold on to a parameter, which shows where the model is cut off from it.
                last, cut = outputs, outputs.detach().requires_grad_()
                with isolating(_loss_modules(self.loss_fn)):
                    losses_N = over_records(lambda *one: self._loss_of(*alone(one)), mapping.apart(cut), targets)
                (by_last,) = self._by(losses_N, [cut])
        if by_last is None or not last.requires_grad:
            return Recorded({}, {})
        return Recorded(self._full(uses_of(seen, backward(last, edges, by_last))), {})

    def _losses(self, hooks: Hooks, mapped: Mapping[str, Tensor], inputs: Columns, targets: Columns) -> Tensor:
        """Each record's own loss, [N]; `mapped` are stand-ins for parameters, one for every record, [N, *shape]."""

        def of_one(stand_ins: Mapping[str, Tensor], inputs: Columns, targets: Columns) -> Tensor:
            hooks.level, hooks.stand_ins = mapping.level(), stand_ins
            with self.slots.holding(stand_ins):
                outputs = self.outputs(*alone(inputs))
            return self._loss_of(outputs, alone(targets))

        with torch.enable_grad():
            losses_N: Tensor = over_records(of_one, mapped, copied(inputs), copied(targets))
        return losses_N

    def outputs(self, *inputs: Tensor) -> Any:
        """What the model says, as the loss needs it: [B, ...] each."""
        with self.precision.products(inputs[0].device):
            return self.precision.full(self.model(*inputs))

    def _loss_of(self, outputs: Any, targets: Columns) -> Tensor:
        single = self.loss_fn(outputs, targets[0] if len(targets) == 1 else targets)
        if single.shape != (1,):
            raise checks.InvalidValue(
                "loss_fn",
                f"shape {tuple(single.shape)} for one record",
                "one loss per example, shape (1,) for a batch of one",
                'Use reduction="none".',
            )
        found: Tensor = single[0]
        return found

    def per_record(self, size: int) -> dict[str, Tensor]:
        """Every trainable parameter once per record, on the same memory."""
        return {
            name: one.detach().expand(size, *one.shape).requires_grad_() for name, one in self.slots.parameters.items()
        }

    def _by(self, losses_N: Tensor, wanted: Any) -> Sequence[Tensor | None]:
        """Gradients of the sum of the losses, scaled. Raises Refused where the parameters themselves are reached: a use
        that went round what stands for them would count for nothing."""
        if not losses_N.requires_grad:
            return [None] * len(wanted)
        weights_N = torch.full_like(losses_N, self.precision.scale)
        found = backward(losses_N, [*wanted, *self.slots.parameters.values()], weights_N)
        for name, one in zip(self.slots.parameters, found[len(wanted) :], strict=True):
            if one is not None:
                raise Refused(
                    f"parameter {name!r} is used through a reference of its own, which private gradients do not see. "
                    "Reach it as an attribute of its module at every call."
                )
        return found[: len(wanted)]

    def _full(self, uses: dict[str, list[Use]]) -> dict[str, list[Use]]:
        if self.precision.half is None:
            return uses
        return {name: [self.precision.use(one) for one in several] for name, several in uses.items()}


def copied(columns: Columns) -> Columns:
    """What a pass may work on in place: another pass over the same records has to find them as they were."""
    return tuple(one.clone() for one in columns)


def backward(losses_N: Tensor, wanted: Any, weights_N: Tensor) -> Sequence[Tensor | None]:
    """Gradients of the weighted sum of the losses; None where they do not depend. Raises Refused."""
    try:
        return torch.autograd.grad(losses_N, wanted, weights_N, allow_unused=True)
    except RuntimeError as error:
        if of_the_machine(error):
            raise
        raise NotComputed(
            f"the backward pass over single records failed: {error}\nUse out-of-place operations in the model. Where a "
            "layer computes again in the backward pass, switch that off, and use a microbatch size to save memory."
        ) from error


def _loss_modules(loss_fn: LossFunction) -> dict[str, nn.Module]:
    """A loss may keep something too."""
    return {f"loss_fn.{name}": one for name, one in loss_fn.named_modules()} if isinstance(loss_fn, nn.Module) else {}


def _served(model: nn.Module, kinds: Kinds) -> list[tuple[str, nn.Module, Kind]]:
    """Outermost layers with a rule and something to train, by name."""
    found: list[tuple[str, nn.Module, Kind]] = []
    inside: set[int] = set()
    for name, module in model.named_modules():
        kind = kind_of(kinds, module)
        if id(module) in inside or kind is None or not _as_its_kind(module):
            continue
        inside |= {id(child) for child in module.modules()}
        found.append((name, module, kind))
    holders: dict[int, list[nn.Module]] = {}
    for _, module, _ in found:
        for one in trainable(module).values():
            holders.setdefault(id(one), []).append(module)
    apart = {
        id(module)
        for one, modules in holders.items()
        if len(modules) > 1 and not all(type(module) in SHARING and id(module.weight) == one for module in modules)
        for module in modules
    }
    return [one for one in found if id(one[1]) not in apart]


def _as_its_kind(module: nn.Module) -> bool:
    """Whether the layer computes what its type says."""
    return (
        bool(trainable(module))
        # On constant inputs it divides by zero.
        and getattr(module, "eps", None) != 0
        and all(_untouched(one) for one in module.modules())
        # A part may have been replaced, by an adapter for one.
        and all(type(one).__module__.startswith("torch.nn.modules.") for one in module.modules() if one is not module)
    )


def _untouched(module: nn.Module) -> bool:
    # A tensor among the attributes is a weight computed from others, by weight normalisation or pruning.
    return not any(key == "forward" or isinstance(one, Tensor) for key, one in vars(module).items())
