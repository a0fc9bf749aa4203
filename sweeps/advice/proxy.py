"""What a sweep on public records lets one expect: how good the best of so many trials is at an epsilon of each.

Its trials stand for draws of a prior. Of n of them at one budget, ascending, the best of k draws is expected to be

    sum over i of x_i ((i/n)^k - ((i-1)/n)^k),

and between two budgets it is read by the logarithm of epsilon. Nothing is said beyond the budgets that the sweep had:
what more or less noise does there, nobody measured.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from dpcore.checks import InvalidValue
from sweeps.execution.final_run import check_all_public, reads_the_same
from sweeps.privacy.published_store import PublishedStore
from sweeps.provenance.recorded_spec import RecordedSpec
from sweeps.search import samplers
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import TARGET_EPSILON, SweepState, TrialState

FEWEST = 5
"""Trials at a budget, of which fewer say nothing of the best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A sweep that has ended, whose records are public and none of those that it advises on.

    sweep    its name
    because  why its records are public
    metric   that its trials and the spec's are judged by; `goal` is "maximize" or "minimize"
    budgets  (epsilon of a trial by itself, its trials' values, the worst first), ascending
    chosen   why its finished trials are no draws of a prior: what chose them by results, or beforehand
    """

    sweep: str
    because: str
    metric: str
    goal: str
    budgets: tuple[tuple[float, tuple[float, ...]], ...]
    chosen: tuple[str, ...] = ()

    @classmethod
    def of(cls, published: PublishedStore, sweep: str, spec: SweepSpec) -> Self:
        """By the first objective of `spec` that the sweep's trials measured.

        Raises UnknownSweep, and InvalidValue for one that runs or is deleted, is not public, is on the records of
        `spec`, has no such objective, or too few trials.
        """
        record = published.sweep(sweep)
        if record.state in (SweepState.RUNNING, SweepState.DELETED):
            expected = f"a sweep that has ended; it is {record.state}"
            raise InvalidValue("--proxy", sweep, expected, "What it tells so far is of the trials that ended first.")
        check_all_public(record, "--proxy")
        if spec.data.records_are_public is None and reads_the_same(spec, record):
            expected = "a sweep on other records than this spec, which calls the same ones private"
            raise InvalidValue("--proxy", sweep, expected, "What private records told is no advice: leave it out.")
        done = [one for one in published.trials(record.name) if one.state is TrialState.COMPLETE]
        goals = {one.metric: str(one.goal) for one in spec.objectives}
        measured = next((name for name in goals if any(name in one.metrics for one in done if name != "epsilon")), None)
        if measured is None:
            expected = f"a sweep that has finished trials with {' or '.join(goals)}, which this spec is judged by"
            raise InvalidValue("--proxy", sweep, expected, "Name it among the proxy's objectives or `report`.")
        found: dict[float, list[float]] = defaultdict(list)
        for one in done:
            value = one.metrics.get(measured, math.nan)
            if math.isfinite(value):
                found[float(one.config[TARGET_EPSILON])].append(value)
        enough = {epsilon: values for epsilon, values in found.items() if len(values) >= FEWEST}
        if not enough:
            most = max(map(len, found.values()), default=0)
            expected = f"a sweep with at least {FEWEST} finished trials at some budget (this one has {most})"
            raise InvalidValue("--proxy", sweep, expected, "Let it run longer.")
        sign = 1.0 if goals[measured] == "maximize" else -1.0
        because = record.spec.public_because
        assert because is not None, "all of it is declared public"
        return cls(
            sweep=record.called,
            because=because,
            metric=measured,
            goal=goals[measured],
            budgets=tuple((one, tuple(sorted(enough[one], key=lambda x: sign * x))) for one in sorted(enough)),
            chosen=tuple(_chosen(record.spec)),
        )

    def predicted(self, epsilon: float, trials: float) -> float | None:
        """Of the best of `trials` draws at `epsilon` each; None outside of the sweep's budgets.

        trials  at least 1; infinite for the best there is
        """
        known = [one for one, _ in self.budgets]
        if not known[0] <= epsilon <= known[-1]:
            return None
        best = [_best_of(values, trials) for _, values in self.budgets]
        return float(np.interp(math.log(epsilon), np.log(known), best))


def _chosen(spec: RecordedSpec) -> Iterator[str]:
    if samplers.learns(spec.sampler or ""):
        yield "its sampler learned"
    if spec.early_stopping is not None:
        yield "its early stopping let only the better ones finish"
    if spec.first or spec.warm_start:
        yield "some of its points were known beforehand"


def _best_of(values: Sequence[float], trials: float) -> float:
    """Of draws with replacement from `values`, the worst first."""
    places = np.arange(len(values) + 1) / len(values)
    return float(np.diff(places**trials) @ np.array(values))
