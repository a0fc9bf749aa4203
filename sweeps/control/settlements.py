"""What a result is settled as: what of it may leave, what the trial claims, and why nothing else can be kept of it."""

from __future__ import annotations

import math

from sweeps.control.stopped_trials import claim_of
from sweeps.records import Settlement
from sweeps.release.policy import Release
from trainables.publishing import Undeclared
from trainables.system import PrivacyPlan
from trainables.worker.attempt import Recovered
from trainables.worker.results import Curve, TrialResult


class NoResult(Exception):
    """What was reported is no result; the message is why the trial has failed."""


def settlement_of(result: TrialResult, plan: PrivacyPlan, release: Release) -> Settlement:
    """What the store keeps of a trial's result. Raises NoResult for undeclared metrics, and for any not finite."""
    try:
        metrics = release.metrics(result.metrics, plan.system, plan.config)
        curve = curve_of(result.curve, plan, release)
    except Undeclared as undeclared:
        raise NoResult(str(undeclared)) from undeclared
    if broken := [f"{name}={value}" for name, value in metrics.items() if not math.isfinite(value)]:
        raise NoResult(f"{', '.join(broken)}: expected finite metrics. Lower the learning rate or narrow the space.")
    claim = claim_of(plan)
    own = {"epsilon": claim.epsilon, "seconds": result.seconds, "peak_memory_mb": result.peak_memory_mb}
    return Settlement(
        executed_to=result.step,
        step=result.step,
        metrics=metrics | own,
        guarantee=claim,
        seconds=result.seconds,
        announced=release.policy.at_once,
        curve=curve,
    )


def curve_of(curve: Curve, plan: PrivacyPlan, release: Release) -> Curve:
    """What the store keeps of a curve: what may leave, and of that what is finite. Raises Undeclared."""
    leaving = {step: release.metrics(metrics, plan.system, plan.config) for step, metrics in curve.items()}
    finite = {
        step: {name: value for name, value in metrics.items() if math.isfinite(value)}
        for step, metrics in leaving.items()
    }
    return {step: metrics for step, metrics in finite.items() if metrics}


def doubted(reason: str, left: Recovered) -> str:
    """Why an attempt ended and, where its records did not agree, why all of it is charged."""
    if not left.doubt or left.doubt in reason:
        return reason
    return f"{reason}. Its whole reservation is charged: {left.doubt}"
