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

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Event, Gaussian, PoissonSampled, UnsupportedEvent, phases
from dpcore.guarantee import Guarantee
from dpcore.rounding import epsilon_text
from sweeps.certificate.checks import SAME, Check
from sweeps.certificate.document import Body

_GRID = 1e-3
_MOST_PHASES = 8
"""Distinct releases that it is asked about; each costs it a fifth of a second."""
_LEAST_NOISE = 0.3
"""Below it the losses reach farther than a grid of this step holds in a second."""


def second_opinion(body: Body) -> tuple[list[Check], str]:
    """What it finds of the events that the claim bounds, or why it was not asked: checks, and a sentence."""
    claim, checks = body.claim, list[Check]()
    try:
        from dp_accounting.pld import privacy_loss_distribution as theirs

        events = body.mode.opinions(claim, body.ledger)
        if reason := _unasked(events, claim):
            return [], f"no second opinion: {reason}"
        for event in events:
            low, high = (_epsilon(theirs, event, claim.delta, pessimistic) for pessimistic in (False, True))
            least, most = epsilon_text(low, up=False, digits=6), epsilon_text(high, digits=6)
            claimed, held = epsilon_text(claim.epsilon, digits=6), low <= claim.epsilon * (1 + SAME)
            said = f"epsilon in [{least}, {most}] on a grid of {_GRID:g}; {claimed} is claimed"
            checks.append(Check("dp_accounting does not contradict", held, said))
    except ImportError:
        return [], "no second opinion: dp_accounting is not installed here"
    except (InvalidValue, UnsupportedEvent, ValueError, OverflowError, MemoryError) as error:
        return checks, f"no second opinion: it could not be counted ({error})"
    return checks, ""


def _unasked(events: Sequence[Event], claim: Guarantee) -> str:
    parts = [part for event in events for part in phases(event)]
    if not parts:
        return "the claim is of no event that dp_accounting could count"
    if claim.adjacency is not Adjacency.ADD_REMOVE:
        return f"dp_accounting is asked under add-remove alone, and this is {claim.adjacency}"
    noises = [_noise(part) for part in parts]
    if None in noises:
        return "an event is none that dp_accounting is asked about"
    if len(parts) > _MOST_PHASES:
        return f"{len(parts)} distinct releases, and it is asked about at most {_MOST_PHASES}"
    if any((noise or math.inf) < _LEAST_NOISE for noise in noises):
        return f"noise multipliers below {_LEAST_NOISE} take it minutes"
    return ""


def _noise(part: Event) -> float | None:
    """The noise multiplier of a Gaussian, subsampled or not, under add-remove; None of any other event."""
    match part:
        case (
            Gaussian(noise_multiplier=noise, adjacency=Adjacency.ADD_REMOVE)
            | PoissonSampled(event=Gaussian(noise_multiplier=noise, adjacency=Adjacency.ADD_REMOVE))
        ):
            return noise
    return None


def _epsilon(theirs: Any, event: Event, delta: float, pessimistic: bool) -> float:
    whole = None
    logger, level = logging.getLogger(), logging.getLogger().level
    # It warns at every call that one of its algorithms has no optimistic form.
    logger.setLevel(logging.ERROR)
    try:
        for part, count in phases(event).items():
            one = theirs.from_gaussian_mechanism(
                _noise(part),
                pessimistic_estimate=pessimistic,
                value_discretization_interval=_GRID,
                sampling_prob=part.rate if isinstance(part, PoissonSampled) else 1.0,
                use_connect_dots=pessimistic,
            )
            repeated = one.self_compose(count)
            whole = repeated if whole is None else whole.compose(repeated)
        return 0.0 if whole is None else float(whole.get_epsilon_for_delta(delta))
    finally:
        logger.setLevel(level)
