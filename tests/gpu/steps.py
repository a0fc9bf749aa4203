"""Seconds of one private step on the device: plain SGD, Opacus by hooks and by ghost clipping, and ours."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

import torch
from torch import nn

from tests.benchmarks.private_step import OPACUS, Step, step_of, task_of
from tests.benchmarks.step_models import CLASSES, TIMED, Timed
from tests.gpu.results import Figure, Setting
from trainables import models
from trainables.system import DatasetSpec, InputSpec, Task

SIDE = 32
ENGINES = ("plain SGD", *OPACUS, "one pass", "one pass, secure noise")


def _resnet20(opacus: bool) -> nn.Module:
    facts = DatasetSpec(
        dataset="images",
        task=Task.CLASSIFICATION,
        n=1,
        n_validation=0,
        features={"image": InputSpec(shape=(3, SIDE, SIDE))},
        classes=CLASSES,
    )
    return models.build("resnet20", facts, hidden=1)


MODELS = {
    "MLP": TIMED["MLP 784-256-10"],
    "CNN": TIMED["CNN"],
    "ResNet-20": Timed(_resnet20, lambda size: torch.randn(size, 3, SIDE, SIDE)),
    "transformer": TIMED["Transformer"],
}


def steps(name: str, setting: Setting) -> Iterator[Figure]:
    """Median milliseconds of a step, engines in turn, and the speed of ours over the faster Opacus's."""
    batch, rounds = (4, 1) if setting.small else (256, 30)
    medians: dict[str, float] = {}
    made = {one: step_of(one, task_of(one, MODELS[name], batch, setting.device)) for one in ENGINES}
    ran = {one: step for one, step in made.items() if step is not None}
    assert {"plain SGD", "one pass", "one pass, secure noise"} <= ran.keys(), f"{name}: our own step does not run"
    seconds: dict[str, list[float]] = {one: [] for one in ran}
    for turn in range(rounds + 1):
        for one, step in ran.items():
            took = _timed(step, setting)
            if turn or setting.small:
                seconds[one].append(took)
    medians = {one: statistics.median(values) for one, values in seconds.items()}
    for one, median in medians.items():
        yield Figure(one, 1e3 * median, "ms")
    theirs = [medians[one] for one in OPACUS if one in medians]
    if theirs:
        yield Figure("ours over the faster Opacus", min(theirs) / medians["one pass"], "times its speed")
    yield Figure("ours over plain SGD", medians["plain SGD"] / medians["one pass"], "times its speed")


def _timed(step: Step, setting: Setting) -> float:
    """Of one step, after one that only warms what the last engine cooled."""
    step()
    _wait(setting)
    began = time.perf_counter()
    step()
    _wait(setting)
    return time.perf_counter() - began


def _wait(setting: Setting) -> None:
    if setting.device == "cuda":
        torch.cuda.synchronize()
