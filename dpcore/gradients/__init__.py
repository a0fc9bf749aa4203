"""Private gradients: every unit's gradient kept apart and clipped, noise, and the public divisor.

engine = PrivateGradients(model, loss_fn)
engine.check(made_up_inputs, made_up_targets)
clipped = engine.clipped_sum(inputs, targets, clip_norm=1.0)
mean = noisy_mean_gradient(clipped, noise_multiplier=1.1, expected_batch_size=rate * n, noise=SecureNoise())

Models are judged with the records apart as well: isolated(model)(inputs).
"""

from dpcore.gradients.engine import ClippedSum, PrivateGradients, Route, noisy_mean_gradient
from dpcore.gradients.isolation import isolated, seeded_draws
from dpcore.gradients.refusals import MixesExamples, NotComputed, Refused, of_the_machine

__all__ = [
    "ClippedSum",
    "MixesExamples",
    "NotComputed",
    "PrivateGradients",
    "Refused",
    "Route",
    "isolated",
    "noisy_mean_gradient",
    "of_the_machine",
    "seeded_draws",
]
