"""Whether a feature map keeps records apart: tried on made-up records, before any real one.

A real record is always mapped alone, so that its features are a function of it whatever the map does with a batch. An
exported model is asked with many at once: there a map that mixes would say something else, and it is refused here.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.export import ExportedProgram

from dpcore.checks import InvalidValue
from trainables.system import PublicFacts
from trainables.training.made_up import made_up

RECORDS = 6
ROUNDING = 1e-4
"""Of the largest number: what several records at once may differ by from each alone."""


def made_up_inputs(facts: PublicFacts, records: int = RECORDS) -> tuple[Tensor, ...]:
    """Tensors [records, ...] of nobody's, in the order of the features."""
    split = made_up(facts, records, 0).train.inputs
    return tuple(torch.from_numpy(one[:records].copy()) for one in split.values())


def check_apart(name: str, map_: ExportedProgram, facts: PublicFacts) -> None:
    """Raises InvalidValue for a map that mixes records, draws at random, keeps something, or gives no finite numbers.

    Also for one that takes other inputs than `facts` declare, or a fixed number of records.
    """
    module, inputs = map_.module(check_guards=False), made_up_inputs(facts)
    held = (*module.parameters(), *module.buffers(), *inputs)
    before = [one.clone() for one in held]

    def mapped(rows: list[int]) -> Tensor:
        found = module(*(one[rows] for one in inputs))
        if not isinstance(found, Tensor) or found.dtype != torch.float32 or found.ndim < 2 or len(found) != len(rows):
            raise _refused(name, f"one float32 tensor [records, ...] for any number of records, found {_of(found)}")
        return found

    forwards = list(range(len(inputs[0])))
    try:
        with torch.no_grad():
            alone = torch.cat([mapped([row]) for row in forwards])
            again = torch.cat([mapped([row]) for row in reversed(forwards)]).flip(0)
            together = mapped(forwards)
            # In other company: the first record stays, the others are copies of the last.
            company = mapped([0, *([forwards[-1]] * (len(forwards) - 1))])
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        if isinstance(error, InvalidValue):
            raise
        given = ", ".join(f"{key} {one.shape}" for key, one in facts.features.items())
        why = f"a map of {given}, for any number of records ({str(error).strip().partition(chr(10))[0]})"
        remedy = "Export it with a dynamic first axis: dynamic_shapes=({0: Dim('records')},)."
        raise _refused(name, why, remedy) from error
    if any(not torch.equal(one, other) for one, other in zip(before, held, strict=True)):
        raise _refused(name, "a map that keeps nothing of a record: called, it writes to its tensors or to its inputs")
    if not torch.isfinite(alone).all():
        raise _refused(name, "finite features of made-up records")
    if not torch.equal(alone, again):
        raise _refused(name, "the same features each time: it draws at random, or remembers", "Use evaluation mode.")
    slack = ROUNDING * float(alone.abs().max())
    if max(float((together - alone).abs().max()), float((company[0] - alone[0]).abs().max())) > slack:
        raise _refused(
            name,
            "features of a record that do not depend on the records beside it",
            "BatchNorm has to be in evaluation mode, with public statistics.",
        )


def _refused(name: str, expected: str, remedy: str = "Write it as a function of one record alone.") -> InvalidValue:
    return InvalidValue("data.features", name, expected, remedy)


def _of(found: object) -> str:
    return f"{found.dtype} {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
