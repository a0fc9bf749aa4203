"""The one door that a system's noise, and the batches whose secrecy its claim counts on, come through.

`noise_source: pseudorandom` draws both from statistical generators that are seeded from the session's secret, so that
one secret gives one release. `noise_source: secure` draws noise from a keystream of AES-256 whose key the operating
system chooses and nobody keeps, and batches from one whose key follows from the session's secret: all processes of a
trial have to draw the same batch, and none of them the noise.

What needs no secret comes from elsewhere: starting weights, the order of questions, which weights a step leaves alone,
and all that systems without a claim shuffle or drop.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from dpcore.guarantee import Guarantee
from dpcore.mechanisms.output_perturbation import Normals
from dpcore.noise import Keystream, NoiseSource, PseudorandomNoise, SecureNoise
from dpcore.randomness import Purpose, numpy_generator
from dpcore.sampling import Uniforms
from trainables.system import PrivacyPlan, Run, RunSettings

if TYPE_CHECKING:
    import torch

Name = Literal["pseudorandom", "secure"]

_FLOATING_POINT = "floating-point"
"""How the line of a claim begins that says what the numbers and their generator leave open."""


def noise_source(
    run: Run, execution: RunSettings, device: torch.device | None = None, report_at: int | None = None
) -> NoiseSource:
    """Noise for tensors: of this attempt, from its first step on.

    report_at  of the report on private validation records after so many steps, instead: a stream of its own, since two
               reports of one attempt with the same noise would tell their exact difference
    """
    if execution.noise_source == "secure":
        return SecureNoise()
    purpose, step = (Purpose.NOISE, run.start_step) if report_at is None else (Purpose.REPORT, report_at)
    return PseudorandomNoise(run.streams.torch(purpose, step=step, device="cpu" if device is None else device.type))


def unseeded_noise() -> NoiseSource:
    """Noise of no attempt, for a report that is asked for once, outside of training: nobody can seed it."""
    return SecureNoise()


def normals(run: Run, execution: RunSettings, stream: str = "") -> Normals:
    """Noise for arrays: of this attempt, from its first step on.

    stream  names a second stream of the same run, independent of the first
    """
    if execution.noise_source == "secure":
        return SecureNoise().normals
    streams = replace(run.streams, key=f"{run.streams.key}/{stream}") if stream else run.streams
    return streams.numpy(Purpose.NOISE, step=run.start_step).standard_normal


def batches(run: Run, execution: RunSettings) -> Uniforms:
    """Coins for this attempt's batches, from its first step on."""
    return batches_of(batch_key(run), execution.noise_source)


def batch_key(run: Run) -> bytes:
    """The 32 bytes that this attempt's batches follow from: for the processes of the trial, and nobody else."""
    return run.streams.derived_seed(Purpose.SAMPLING, step=run.start_step)


def batches_of(key: bytes, source: Name) -> Uniforms:
    """Coins for the batches of the attempt that `key` belongs to: the same in every process."""
    return Keystream.derived(key) if source == "secure" else numpy_generator(key)


def named(plan: PrivacyPlan, source: Name) -> PrivacyPlan:
    """The plan whose claims say which generator their noise comes from, and what that leaves open."""
    return replace(
        plan,
        guarantee=_named(plan.guarantee, source),
        beside=tuple(_named(one, source) for one in plan.beside),
    )


def named_generators(assumptions: Iterable[str], claims: Iterable[Guarantee]) -> tuple[str, ...]:
    """The assumptions of several claims together: where those name generators, each of them once."""
    lines = dict.fromkeys(line for one in claims for line in one.assumptions if line.startswith(_FLOATING_POINT))
    if not lines:
        return tuple(assumptions)
    return (*(line for line in assumptions if not line.startswith(_FLOATING_POINT)), *lines)


def _named(claim: Guarantee, source: Name) -> Guarantee:
    if claim.epsilon == float("inf"):
        # Nothing is promised, so nothing rests on a generator.
        return claim
    others = tuple(line for line in claim.assumptions if not line.startswith(_FLOATING_POINT))
    sentence = SecureNoise.floating_point if source == "secure" else PseudorandomNoise.floating_point
    return replace(claim, assumptions=(*others, sentence))
