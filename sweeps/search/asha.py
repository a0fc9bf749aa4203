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
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sweeps.privacy.ledger import compared
from sweeps.privacy.release import Published
from sweeps.spec.sections import EarlyStopping, ObjectiveOptions, SweepSpec
from sweeps.store.records import DECIDED, Reservation, TrialState
from trainables.system import System, traits_of

# An order of points by several costs: non-dominated sorting, ties by what each adds to the hypervolume.
#
# Fronts are those of Deb, Pratap, Agarwal & Meyarivan (2002), "A fast and elitist multiobjective genetic algorithm:
# NSGA-II": the non-dominated points, then those that are non-dominated once these are gone, and so on. Within a front
# the larger hypervolume contribution comes first, the criterion of Emmerich, Beume & Naujoks (2005), "An EMO
# algorithm using the hypervolume measure as selection criterion" (SMS-EMOA). Costs are scaled to the range of all the
# points, so that no unit weighs more than another; the volume ends a tenth of the range beyond the worst. Of equal
# points the first counts, and later ones add nothing.

BEYOND = 1.1
"""Where volumes end, in ranges above the least cost: points at the worst end of one cost still add something."""


def best_first(costs: Sequence[Sequence[float]]) -> list[int]:
    """Indices of the rows of `costs` (n, d), finite and to be minimised, best first.

    By front, then by contribution, then by index. With one cost that is: by cost, then by index.
    """
    if not costs:
        return []
    # Order alone decides fronts, and ranks are small numbers, alike for costs of any size.
    values = np.asarray(costs, dtype=float)
    ranks = np.stack([np.unique(column, return_inverse=True)[1] for column in values.T], axis=1)
    if ranks.shape[1] == 1:
        return [int(place) for place in np.argsort(ranks[:, 0], kind="stable")]
    from moocore import hv_contributions, pareto_rank

    points, first, whose = np.unique(ranks, axis=0, return_index=True, return_inverse=True)
    scaled = _scaled(values[first])
    fronts = np.asarray(pareto_rank(points.astype(float)))
    added: NDArray[np.float64] = np.zeros(len(points))
    for front in np.unique(fronts):
        members = fronts == front
        added[members] = hv_contributions(scaled[members], ref=[BEYOND] * scaled.shape[1])
    whose = whose.reshape(-1)
    own = np.where(first[whose] == np.arange(len(values)), added[whose], 0.0)
    return [int(place) for place in np.lexsort((np.arange(len(values)), -own, fronts[whose]))]


def _scaled(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each column to [0, 1]; a column of one value to 0."""
    least, most = values.min(axis=0), values.max(axis=0)
    # Halves first: the range of the largest numbers is no number.
    half = most / 2 - least / 2
    return np.asarray((values / 2 - least / 2) / np.where(half > 0, half, 1.0))


# The objectives of a trial as numbers, by which it is ranked.


def objective_values(spec: SweepSpec, record: Published, step: int | None = None) -> tuple[float, ...] | None:
    """One number per objective, in the spec's order, as reported after `step` steps (default: its last); None unless
    all are reported there and finite.

    What the plan decides is the same at every step: a trial claims its whole plan wherever it stops.
    """
    at, values = record.step if step is None else step, list[float]()
    for one in spec.objectives:
        if at == record.step or (one.metric in DECIDED and at < record.step):
            value = compared(record, one.metric)
        else:
            value = record.reports.get(at, {}).get(one.metric)
        if value is None or not math.isfinite(value):
            return None
        values.append(float(value))
    return tuple(values)


def judged(spec: SweepSpec) -> tuple[ObjectiveOptions, ...]:
    """The objectives that results decide; what plans decide is known beforehand."""
    open_ones = tuple(one for one in spec.objectives if one.metric not in DECIDED)
    return open_ones or spec.objectives


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
        if (values := objective_values(spec, record, ends[rung])) is not None:
            found.append((record, ends))
            costs.append([sign * value for sign, value in zip(signs, values, strict=True)])
    return [found[place] for place in best_first(costs)]


def _ends(stopping: EarlyStopping, steps: int) -> tuple[int, ...]:
    """One end for each rung. Where a short trial's rungs coincide, its one report is its value in each of them."""
    shares = [stopping.reduction ** (k - stopping.rungs + 1) for k in range(stopping.rungs)]
    return tuple(max(1, math.ceil(steps * share - 1e-9)) for share in shares)


# After which of its planned steps a trial reports: at the ends of its launches, and at the points of its curve.
#
# All of them follow from the spec and the planned steps, which are public: what is measured when was fixed before the
# first step, whoever is stopped, killed or resumed on the way.


def report_steps(spec: SweepSpec, system: System, steps: int) -> tuple[int, ...]:
    """In order, for a trial of `system` with `steps` planned steps; the last is `steps`.

    Point k of n is after the share k / n of the steps, rounded up: a trial of few steps has fewer points. One of a
    system without a curve reports at the ends of its launches alone.
    """
    count = spec.curve if spec.curve is not None and traits_of(system).curve else 1
    points = (-(-steps * k // count) for k in range(1, count + 1))
    return tuple(sorted({*points, *stops(spec, steps)}))


def between(steps: Iterable[int], launch: Reservation) -> tuple[int, ...]:
    """Those of `steps` inside of a launch: at its end it reports anyway."""
    return tuple(step for step in steps if launch.from_step < step < launch.to_step)
