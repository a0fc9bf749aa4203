"""Asynchronous successive halving as pure decisions over trial records.

Li, Jamieson, Rostamizadeh, Gonina, Ben-tzur, Hardt, Recht & Talwalkar (2020), "A system for massively parallel
hyperparameter tuning", MLSys, algorithm 2 (ASHA): whenever a worker is free, promote a trial that is in the top
1/reduction of its rung and has not been promoted; else start a new one in the first rung. A trial is ranked in a rung
by what it reported at the end of that rung, however far it has gone since.

A trial is planned, and its noise calibrated, for all of its steps. Rung k of R ends after the share
reduction^(k-R) of them (rounded up), and each rung is a reservation of its own, so that a rung that is never
launched is never charged. Trials of different lengths share a rung by that share of their own steps.

With two objectives or more the ranking is that of `search.dominance`: a front after the other (Schmucker, Donini,
Zafar, Salinas & Archambeau 2021, "Multi-objective asynchronous successive halving"). An objective that the plan
decides is what it is at every rung, so a trial at a small budget is not held back for the accuracy of a larger one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sweeps.records import TrialState
from sweeps.release.published import Published
from sweeps.search.dominance import best_first
from sweeps.search.objective_values import objective_at
from sweeps.spec.model import SweepSpec
from sweeps.spec.sections import EarlyStopping


@dataclass(frozen=True, slots=True)
class Promote:
    """Continue trial `key` from `from_step`, where it is paused, to `to_step`, the end of its next rung."""

    key: str
    from_step: int
    to_step: int


def rung_ends(stopping: EarlyStopping, steps: int) -> tuple[int, ...]:
    """The step at which each rung of a trial of `steps` steps ends; the last is `steps`.

    A short trial has fewer rungs: ends that coincide are one.
    """
    return tuple(dict.fromkeys(_ends(stopping, steps)))


def stops(spec: SweepSpec, steps: int) -> tuple[int, ...]:
    """After how many of its `steps` planned steps a trial reports: at the end of each rung, or at its end alone."""
    return (steps,) if spec.early_stopping is None else rung_ends(spec.early_stopping, steps)


def first_stop(spec: SweepSpec, steps: int) -> int:
    """Where the first launch of a trial of `steps` planned steps ends."""
    return stops(spec, steps)[0]


def next_rung(spec: SweepSpec, records: Iterable[Published], running: Collection[str] = ()) -> Promote | None:
    """The promotion to launch now, or None: then a new trial may start.

    running  keys that must not be promoted, whatever their record says

    Highest rung first; within a rung the best by `dominance.best_first`, of equals the lowest number: the same records
    always give the same answer. A trial that lacks a finite value of an objective at the end of a rung (an infinite
    epsilon too) has no place in it.
    """
    stopping = spec.early_stopping
    if stopping is None:
        return None
    reached = [(record, _ends(stopping, record.planned_steps)) for record in records if record.plan is not None]
    for rung in reversed(range(stopping.rungs - 1)):
        ranking = _ranking(spec, reached, rung)
        for record, ends in ranking[: len(ranking) // stopping.reduction]:
            # Neither running again nor lost on the way: only a trial at rest can be promoted, and only from its end.
            at_rest = record.state is TrialState.COMPLETE and record.key not in running
            if at_rest and ends[rung] == record.step < ends[rung + 1]:
                return Promote(record.key, record.step, ends[rung + 1])
    return None


_Ranked = tuple[Published, tuple[int, ...]]


def _ranking(spec: SweepSpec, reached: Iterable[_Ranked], rung: int) -> list[_Ranked]:
    """The trials that have every objective at the end of `rung`, best first: (record, its ends)."""
    signs = [1.0 if objective.goal == "minimize" else -1.0 for objective in spec.objectives]
    found: list[_Ranked] = []
    costs: list[list[float]] = []
    for record, ends in sorted(reached, key=lambda one: one[0].number):
        values = [objective_at(record, objective.metric, ends[rung]) for objective in spec.objectives]
        known = [value for value in values if value is not None]
        if len(known) == len(signs):
            found.append((record, ends))
            costs.append([sign * value for sign, value in zip(signs, known, strict=True)])
    return [found[place] for place in best_first(costs)]


def _ends(stopping: EarlyStopping, steps: int) -> tuple[int, ...]:
    """One end for each rung. Where a short trial's rungs coincide, its one report is its value in each of them."""
    shares = [stopping.reduction ** (k - stopping.rungs + 1) for k in range(stopping.rungs)]
    return tuple(max(1, math.ceil(steps * share - 1e-9)) for share in shares)
