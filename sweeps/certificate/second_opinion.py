"""What another project's accountant says of the same events: dp_accounting, where it is installed and can speak.

It shares no code with ours. Its pessimistic estimate is an upper bound and its optimistic one a lower bound of the
exact epsilon, so a claim below the optimistic one is false, whoever is right elsewhere. On the grid that is asked here
the two may be far apart: it is a second opinion, and decides nothing where it does not contradict.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from dpcore.events import Adjacency, Event, Gaussian, PoissonSampled, phases
from dpcore.rounding import epsilon_text
from sweeps.certificate.claimed import SAME, Check, Claimed

_GRID = 1e-3
_MOST_PHASES = 8
"""Distinct releases that it is asked about; each costs it a fifth of a second."""
_LEAST_NOISE = 0.3
"""Below it the losses reach farther than a grid of this step holds in a second."""


def second_opinion(events: Sequence[Event], claim: Claimed) -> tuple[list[Check], list[str]]:
    """What it finds, and why it was not asked: checks, and sentences. The claim bounds each of `events`."""
    if not events:
        return [], ["no second opinion: the claim is of no event that dp_accounting could count"]
    try:
        from dp_accounting.pld import privacy_loss_distribution as theirs
    except ImportError:
        return [], ["no second opinion: dp_accounting is not installed here"]
    if reason := _beyond(events, claim):
        return [], [f"no second opinion: {reason}"]
    checks: list[Check] = []
    for event in events:
        try:
            low, high = (_epsilon(theirs, event, claim.delta, pessimistic) for pessimistic in (False, True))
        except (ValueError, OverflowError, MemoryError) as error:
            return checks, [f"no second opinion: dp_accounting could not count it ({error})"]
        held = low <= claim.epsilon * (1 + SAME)
        ours = epsilon_text(claim.epsilon, digits=6)
        least, most = epsilon_text(low, up=False, digits=6), epsilon_text(high, digits=6)
        said = f"epsilon in [{least}, {most}] on a grid of {_GRID:g}; {ours} is claimed"
        checks.append(Check("dp_accounting does not contradict", held, said))
    return checks, []


def _beyond(events: Sequence[Event], claim: Claimed) -> str:
    if claim.adjacency is not Adjacency.ADD_REMOVE:
        return f"dp_accounting is asked under add-remove alone, and this is {claim.adjacency}"
    parts = [part for event in events for part in phases(event)]
    if any(not _is_known(part) for part in parts):
        return "an event is none that dp_accounting is asked about"
    if len(parts) > _MOST_PHASES:
        return f"{len(parts)} distinct releases, and it is asked about at most {_MOST_PHASES}"
    if any(_noise(part) < _LEAST_NOISE for part in parts):
        return f"noise multipliers below {_LEAST_NOISE} take it minutes"
    return ""


def _is_known(part: Event) -> bool:
    match part:
        case Gaussian(adjacency=adjacency) | PoissonSampled(event=Gaussian(adjacency=adjacency)):
            return adjacency is Adjacency.ADD_REMOVE
    return False


def _noise(part: Event) -> float:
    match part:
        case Gaussian(noise_multiplier=noise) | PoissonSampled(event=Gaussian(noise_multiplier=noise)):
            return noise
    return math.inf


def _epsilon(theirs: Any, event: Event, delta: float, pessimistic: bool) -> float:
    whole = None
    logger, level = logging.getLogger(), logging.getLogger().level
    # It warns at every call that one of its algorithms has no optimistic form.
    logger.setLevel(logging.ERROR)
    try:
        for part, count in phases(event).items():
            rate = part.rate if isinstance(part, PoissonSampled) else 1.0
            one = theirs.from_gaussian_mechanism(
                _noise(part),
                pessimistic_estimate=pessimistic,
                value_discretization_interval=_GRID,
                sampling_prob=rate,
                use_connect_dots=pessimistic,
            )
            repeated = one.self_compose(count)
            whole = repeated if whole is None else whole.compose(repeated)
        return 0.0 if whole is None else float(whole.get_epsilon_for_delta(delta))
    finally:
        logger.setLevel(level)
