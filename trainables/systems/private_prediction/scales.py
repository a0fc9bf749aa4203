"""What a configuration says of its minimiser and its noise before any training: certificate, sensitivity, shares."""

from __future__ import annotations

import math

from dpcore.adjacency import Adjacency
from dpcore.mechanisms import loss_perturbation
from dpcore.mechanisms.minimiser import MinimiserSensitivity
from trainables.system import Config


def certificate(n: int) -> float:
    """The gradient norm that minimisers are certified to: 1% of K/n.

    It adds 1% to the sensitivity under replace-one, 2% under add-remove.
    """
    return 0.01 * math.sqrt(2) / n


def sensitivity_of(config: Config, n: int, adjacency: Adjacency) -> MinimiserSensitivity:
    """Of the certified minimiser of a configuration."""
    return MinimiserSensitivity(n=n, modulus=float(config["regularisation"]), adjacency=adjacency, tau=certificate(n))


def split_of(config: Config, delta: float, classes: int, adjacency: Adjacency) -> tuple[float, float]:
    """(epsilon of the objective's noise, epsilon of the output noise) of a loss perturbation; delta is the first's."""
    noise = float(config["noise_multiplier"])
    if config["noise"] == "pure":
        objective = 2 / noise
    elif config["noise"] == "gaussian-published":
        objective = loss_perturbation.published_epsilon_of(noise, delta)
    else:
        objective = loss_perturbation.epsilon_of(noise, delta, classes, adjacency)
    share = float(config["output_share"])
    return objective, objective * share / (1 - share)
