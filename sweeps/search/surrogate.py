"""A sampler that models the results of one system: a Gaussian process over natural coordinates and the budget.

Budgets share what they learn, since epsilon is a coordinate: a point that is good at one is likely good at the next.
Which budget a proposal gets is none of its business: that is given.

Nothing is remembered: a proposal is computed from seed, number and the records, so that a restart changes none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

from sweeps.privacy.release import Published
from sweeps.search import warm_start
from sweeps.search.asha import judged, objective_at
from sweeps.search.coordinates import Config, Coordinates, ends, is_logarithmic, is_numeric
from sweeps.search.gaussian_process import Process, log_odds, normal_scores
from sweeps.search.space import Space
from sweeps.search.turns import ORDER, POINT, sequence
from sweeps.spec.domains import Domain
from sweeps.spec.sections import SweepSpec
from sweeps.store.records import TARGET_EPSILON
from trainables.publishing import declared
from trainables.system import Scalar, System, search_hints_of

WINDOW = 300
"""Trials that it looks at, besides the best of the earlier ones: its cost grows with their cube."""
DESIGN = 8
"""Proposals that fill the space evenly before results count."""
DRAWS, NEAR, MOVES = 500, 8, 25
"""Candidates: draws from the prior, and moves around each of so many good points."""
ROUNDS = 2
"""Of moves around the candidate that is best so far."""
REACH = (0.02, 0.1, 0.3)
"""How far such moves go, in parts of a knob's range."""
CHEAPER = 0.02
"""Deviations of results that a point is worth less for each factor e of planned work: of two about as good, the cheaper
one. Five times that found worse trials."""
EVEN = 0.05
"""Of several objectives: the weight of their sum beside that of the worst (Knowles 2006, "ParEGO")."""


class Surrogate:
    """Proposals for the one system of `spec`, at budgets that are given."""

    def __init__(self, spec: SweepSpec, warm: Iterable[Published] = ()) -> None:
        from trainables.registry import SYSTEMS

        self._spec, self._space = spec, Space.of(spec)
        (self._branch,) = self._space.branches
        natural = search_hints_of(SYSTEMS.known(self._branch.system))
        self._coordinates = Coordinates(self._branch, self._space.epsilons, natural)
        self._share = _share_that_decides(spec, SYSTEMS.known(self._branch.system))
        self._warm, self.warm_start = warm_start.fitting(spec, self._space, warm)
        self._records: dict[int, Published] = {}

    def rebuild(self, records: Iterable[Published]) -> None:
        """Know these records and no others."""
        self._records = {record.number: record for record in records}

    def tell(self, record: Published) -> None:
        """Know a trial's latest state."""
        self._records[record.number] = record

    def point(self, number: int, index: int, epsilon: float) -> dict[str, Scalar] | None:
        """The configuration of trial `number`, the sampler's own proposal `index`, at budget `epsilon`."""
        rng = np.random.Generator(np.random.PCG64(sequence(self._spec.search.seed, number, POINT)))
        seen = self._seen(number)
        known = _Known(self._spec, self._coordinates, seen, rng)
        if not self._branch.searched or (index < DESIGN and len(known.values) < DESIGN):
            return self._designed(index, epsilon)
        if len(np.unique(known.values)) < 2:
            return self._space.draw(rng, (self._branch.system, epsilon))
        running = [one.config for one in seen if warm_start.lesson(self._spec, one) is None]
        process = Process(known.points, self._scaled(known.values), known.whole(running))
        return self._best(process, known, epsilon, rng)

    def _seen(self, number: int) -> list[Published]:
        start = warm_start.window_start(number, WINDOW)
        known = [record for _, record in sorted(self._records.items()) if record.number < number]
        kept = warm_start.kept(self._spec, [record for record in known if record.number < start])
        return [*self._warm, *kept, *(record for record in known if record.number >= start)]

    def _scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._share is None:
            return normal_scores(values)
        return log_odds(values if self._share == "maximize" else 1 + values)

    def _designed(self, index: int, epsilon: float) -> dict[str, Scalar]:
        """Point `index` of a scrambled Sobol sequence (Owen 1998), which goes round in each knob."""
        rng = np.random.Generator(np.random.PCG64(sequence(self._spec.search.seed, 0, ORDER)))
        size = 2 ** math.ceil(math.log2(max(DESIGN, index + 1)))
        places = qmc.Sobol(max(1, len(self._branch.searched)), rng=rng).random(size)[index]
        return self._at(places, epsilon)

    def _best(self, process: Process, known: _Known, epsilon: float, rng: np.random.Generator) -> dict[str, Scalar]:
        """The candidate that could be best at this budget."""
        tried = [{**config, TARGET_EPSILON: epsilon} for config in known.configs]
        expected, _ = process.predict(known.whole(tried))
        places = [rng.random((DRAWS, len(self._branch.searched)))]
        places += [self._moved(tried[place], rng) for place in np.argsort(-expected, kind="stable")[:NEAR]]
        candidates = [self._at(row, epsilon) for row in np.vstack(places)]
        for _ in range(ROUNDS):
            top = self._top(process, known, candidates)
            candidates = [top, *(self._at(row, epsilon) for row in self._moved(top, rng))]
        return self._top(process, known, candidates)

    def _top(self, process: Process, known: _Known, candidates: list[dict[str, Scalar]]) -> dict[str, Scalar]:
        worth = process.upper(known.whole(candidates)) - CHEAPER * self._coordinates.log_work(candidates)
        # Exactly: a process knows of a constraint only what the trials that broke it told.
        held = np.array([not self._space.broken(one) for one in candidates])
        return candidates[int(np.argmax(np.where(held, worth, -np.inf) if held.any() else worth))]

    def _moved(self, config: Config, rng: np.random.Generator) -> NDArray[np.float64]:
        """Places around a configuration: each moves some knobs by a little."""
        domains = self._branch.searched
        placed = self._branch.placed(config)
        here = np.array([_place(domain, placed[knob]) for knob, domain in domains.items()])
        reach = rng.choice(REACH, (MOVES, 1))
        places = here + reach * rng.standard_normal((MOVES, len(here)))
        # Reflected at the ends, which would otherwise be tried too often.
        places = 1 - np.abs(1 - np.abs(places) % 2)
        words = [place for place, domain in enumerate(domains.values()) if not is_numeric(domain)]
        for place in words:
            anew = rng.random(MOVES) < 0.2
            places[:, place] = np.where(anew, rng.random(MOVES), here[place])
        return np.clip(places, 0.0, 1 - 1e-12)

    def _at(self, places: NDArray[np.float64], epsilon: float) -> dict[str, Scalar]:
        pairs = zip(self._branch.searched.items(), places, strict=False)
        return self._space.config(self._branch, epsilon, {knob: domain.draw(float(u)) for (knob, domain), u in pairs})


def _share_that_decides(spec: SweepSpec, system: System | None) -> str | None:
    """The goal of the one objective that results decide, where it is a share of its own name in the system's metrics;
    else None."""
    goals = judged(spec)
    metric = None if system is None else declared(system, [one.metric for one in goals]).get(goals[0].metric)
    if len(goals) > 1 or metric is None or not metric.is_share or metric.goal != goals[0].goal:
        return None
    return metric.goal


class _Known:
    """What is known of the results, as points and values; a trial that early stopping paused is known at its rungs.

    configs  of the trials, each once
    points   one row per result: the coordinates, and how much of its steps the trial had done
    values   (n,), larger is better
    """

    def __init__(
        self, spec: SweepSpec, coordinates: Coordinates, seen: Sequence[Published], rng: np.random.Generator
    ) -> None:
        self._coordinates, self._stops_early = coordinates, spec.early_stopping is not None
        self.configs: list[Config] = []
        rows: list[tuple[Config, float]] = []
        costs: list[tuple[float, ...] | None] = []
        for record in seen:
            lesson = warm_start.lesson(spec, record)
            if lesson is None:
                continue
            self.configs.append(record.config)
            if lesson.violation > 0:
                rows.append((record.config, 1.0))
                costs.append(None)
                continue
            for step in sorted({*record.reports, record.step}) if self._stops_early else [record.step]:
                if (cost := _costs(spec, record, step)) is not None:
                    rows.append((record.config, _share(record, step) if self._stops_early else 1.0))
                    costs.append(cost)
        found = [cost for cost in costs if cost is not None]
        worst = tuple(map(max, zip(*found, strict=True))) if found else (0.0,) * len(judged(spec))
        # An infeasible or failed trial is as bad as the worst.
        self.values = _scalarised(np.array([worst if cost is None else cost for cost in costs]), rng)
        self.points = self._with_share([config for config, _ in rows], [share for _, share in rows])

    def whole(self, configs: Sequence[Config]) -> NDArray[np.float64]:
        """Points of these configurations, trained to their end."""
        return self._with_share(configs, [1.0] * len(configs))

    def _with_share(self, configs: Sequence[Config], shares: Sequence[float]) -> NDArray[np.float64]:
        points = self._coordinates.of(configs)
        if not self._stops_early:
            return points
        return np.column_stack([points, np.log(np.array(shares, dtype=float).reshape(len(points)))])


def _costs(spec: SweepSpec, record: Published, step: int) -> tuple[float, ...] | None:
    """The objectives that results decide, after `step` steps, smaller is better; None where one is missing."""
    found = [objective_at(record, one.metric, step) for one in judged(spec)]
    signs = [1.0 if one.goal == "minimize" else -1.0 for one in judged(spec)]
    known = [sign * value for sign, value in zip(signs, found, strict=True) if value is not None]
    return tuple(known) if len(known) == len(signs) else None


def _scalarised(costs: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """One number for each row, larger is better: of several costs by weights that are drawn anew for each proposal."""
    if costs.ndim < 2 or len(costs) == 0:
        return np.zeros(len(costs))
    if costs.shape[1] == 1:
        return -costs[:, 0]
    low, high = costs.min(axis=0), costs.max(axis=0)
    weighed = rng.dirichlet(np.ones(costs.shape[1])) * (costs - low) / np.where(high > low, high - low, 1.0)
    return np.asarray(-(weighed.max(axis=1) + EVEN * weighed.sum(axis=1)))


def _place(domain: Domain, value: Scalar) -> float:
    """A quantile at which the domain has this value, nearly: the inverse of `Domain.draw`."""
    if domain.kind == "choice":
        return (domain.values.index(value) + 0.5) / len(domain.values)
    (low, high), at = ends(domain), float(value)
    if low == high:
        return 0.5
    if is_logarithmic(domain):
        low, high, at = math.log(low), math.log(high), math.log(at)
    return min(max((at - low) / (high - low), 0.0), 1.0)


def _share(record: Published, step: int) -> float:
    """How much of its planned steps a trial has done after `step` of them."""
    return step / record.planned_steps if record.planned_steps else 1.0
