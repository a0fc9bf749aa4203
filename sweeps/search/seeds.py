"""Public random bits of the search: a stream for each use, a pure function of the spec's seed and a trial's number."""

from __future__ import annotations

import numpy as np

# Streams of one proposal. The numbers are part of the format: changing one changes every sweep's proposals.
POINT, TRIAL, ORDER = 0, 1, 2


def sequence(seed: int, number: int, stream: int) -> np.random.SeedSequence:
    """The stream of proposal `number`."""
    # spawn_key keeps (seed, number, stream) apart; a flat list of large and small integers would not.
    return np.random.SeedSequence(seed, spawn_key=(number, stream))


def seed_of_point(seed: int, number: int) -> int:
    """32 public bits that seed the sampler for proposal `number`."""
    return int(sequence(seed, number, POINT).generate_state(1)[0])


def seed_of_trial(seed: int, number: int) -> int:
    """31 public bits for the trial's initial weights and the like; never noise, never batches."""
    return int(sequence(seed, number, TRIAL).generate_state(1)[0] >> 1)
