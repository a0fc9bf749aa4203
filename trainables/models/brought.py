"""What a model of the user's own brings with it: tensors that no seed draws, as files of weights give them.

A code fingerprint holds the files of the user's packages. Weights that one module loads from elsewhere are in none, and
neither are those of a hub or of a folder that an environment names. They are known by a sketch of what comes of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from trainables.models.registry import build
from trainables.system import DatasetSpec

SEEDS = (0, 1)


def brought(models: Iterable[str], facts: DatasetSpec) -> dict[str, list[float]]:
    """{model: sketch} of tensors that are the same under two seeds of torch's generator. Reads no record.

    Raises InvalidValue as `build` does, or the user's own error.
    """
    import torch

    from trainables.models.sketch import sketch, to_list

    found = {}
    for model in sorted(set(models)):
        made = []
        for seed in SEEDS:
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(seed)
                made.append(build(model, facts, hidden=1))
        one, other = (dict([*each.named_parameters(), *each.named_buffers()]) for each in made)
        given = {name: held for name, held in one.items() if name in other and torch.equal(held, other[name])}
        found[model] = to_list(sketch(given))
    return found


def moved(before: str, now: str) -> list[str]:
    """Of JSON {name: sketch} twice, those of both that bring something else now, in order."""
    import numpy as np

    from trainables.models.sketch import alike

    earlier, later = json.loads(before), json.loads(now)
    return [
        name
        for name in sorted(earlier.keys() & later.keys())
        if not alike(*map(np.array, (earlier[name], later[name])))
    ]


def kept(before: str, now: str) -> str:
    """What is recorded where nothing moved: last digits stay as they were recorded first."""
    return json.dumps({**json.loads(now), **json.loads(before)}, sort_keys=True)
