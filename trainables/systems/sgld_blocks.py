"""What a configuration of Langevin dynamics means: blocks of steps of one size, and the clip norm behind its noise."""

from __future__ import annotations

import math

from dpcore.sgld import Phase, halving_schedule
from trainables.system import Config


def schedule(config: Config, n: int, rate: str = "step_size") -> tuple[Phase, ...]:
    """The blocks of constant `rate` that a complete configuration means; ceil(n / batch_size) steps make an epoch."""
    per_epoch = -(-n // int(config["batch_size"]))
    return halving_schedule(float(config[rate]), int(config["halve_every"]), int(config["epochs"]), per_epoch)


def clip_norm(config: Config, n: int) -> float:
    """C = 2 b / (n z sqrt(e)) of the first step: what makes its noise multiplier the configured one."""
    noise, step_size = float(config["noise_multiplier"]), float(config["step_size"])
    return 2 * int(config["batch_size"]) / (n * noise * math.sqrt(step_size))
