"""Figures 2-4: gradients of a trained model, over its training records and over records it never saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sweeps.reproductions.pictures import Axes, Histogram, Series
from sweeps.reproductions.result import ResultTable
from sweeps.reproductions.run import Reproduction
from sweeps.reproductions.triastcyn2020.formulas import (
    DELTA,
    DELTA_MU,
    FAILURE,
    ORDERS,
    Found,
    bayesian_epsilon,
    estimated_costs,
    moments_epsilon,
    never_above,
    ordinary_line,
)
from trainables.data import SOURCES
from trainables.worker.attempt import Attempt

if TYPE_CHECKING:
    from sweeps.process.workspace import Workspace
    from sweeps.records import TrialRecord

STEPS, RATE = 1000, 1024 / 60_000
CLIP_QUANTILES = (0.05, 0.5, 0.75, 0.99)
"""Clips of Figures 3 and 4 as quantiles of the gradient norm; the steps and the quantiles are ours."""
NOISES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 8.0)
"""Noise over clip."""
AT_ONE = NOISES.index(1.0)

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Gradients:
    """Of one trained model: distances of independent pairs [pairs] on both sides, norms of training gradients."""

    name: str
    training: Array
    held_out: Array
    norms: Array


def gradients(
    name: str, record: TrialRecord, options: Mapping[str, Any], workspace: Workspace, pairs: int
) -> Gradients:
    """Gradients of 2 * pairs records from either side at the trial's last weights."""
    # Brings torch, which the formulas do without.
    from trainables.training.record_gradients import record_gradients

    assert record.plan is not None
    state = Attempt.of(workspace.trials(record.key.rsplit("-", 1)[0]), record.key, record.attempts).load(record.step)
    data = SOURCES[str(options["source"])].load({key: one for key, one in options.items() if key != "source"})
    rng = np.random.default_rng(7)
    sides = [
        record_gradients(record.plan, data, split, state, rng.choice(len(split), size=2 * pairs, replace=False))
        for split in (data.train, data.validation)
    ]
    apart = [np.linalg.norm(one[0::2] - one[1::2], axis=1).astype(np.float64) for one in sides]
    return Gradients(name, apart[0], apart[1], np.linalg.norm(sides[0], axis=1).astype(np.float64))


def figure_2(run: Reproduction, found: Gradients) -> None:
    """Whether distances tell training records from others."""
    sides = found.training, found.held_out
    for what, test, result in (
        ("means", "Welch's t-test", stats.ttest_ind(*sides, equal_var=False)),
        ("variances", "Levene's test", stats.levene(*sides)),
    ):
        values = {"name": found.name, "pairs": len(found.training), "what": what, "test": test}
        run.hold("figure_2", {**values, "pvalue": result.pvalue})


def histogram(found: Gradients) -> Axes:
    """Figure 2: distances of pairs, from training records and from others."""
    top = float(np.quantile(np.concatenate([found.training, found.held_out]), 0.99))
    sides = (("train", found.training), ("test", found.held_out))
    bars = [Histogram(label, values.tolist(), top) for label, values in sides]
    return Axes(title=found.name, x="distance of a pair's gradients (last bin: the rest)", y="pairs", lines=bars)


def figures_3_and_4(found: Gradients) -> Found:
    """Epsilon over the noise, with the clip at quantiles of the gradient norm, and without one for BDP."""
    failures = STEPS * len(ORDERS) * FAILURE
    ordinary, same = (
        [moments_epsilon(1 / noise, RATE, STEPS, delta) for noise in NOISES] for delta in (DELTA, DELTA_MU - failures)
    )
    clipped: list[Series] = []
    free: list[Series] = []
    rows = []
    for quantile in CLIP_QUANTILES:
        clip = float(np.quantile(found.norms, quantile))
        for lines, distances, largest, label in (
            (clipped, np.minimum(found.norms, clip), clip, "BDP, clip at quantile"),
            (free, found.norms, None, "BDP, noise in units of quantile"),
        ):
            costs = [estimated_costs(distances, RATE, noise * clip, STEPS, largest) for noise in NOISES]
            epsilons = [bayesian_epsilon(STEPS * cost, DELTA_MU, failures) for cost in costs]
            lines.append(Series(f"{label} {quantile:g}", NOISES, epsilons))
        ends = (ordinary[AT_ONE], same[AT_ONE], clipped[-1].y[AT_ONE], free[-1].y[AT_ONE])
        rows.append((quantile, clip, *ends))
    gaps = [row[3] / row[4] for row in rows]
    under = sum(a < b for line in free for a, b in zip(line.y, same, strict=True))
    points = len(CLIP_QUANTILES) * len(NOISES)
    values = {
        "name": found.name,
        "steps": STEPS,
        "delta_mu": DELTA_MU,
        "points": points,
        "below": all(never_above(line.y, same) for line in clipped),
        "published_below": sum(row[4] <= row[2] for row in rows),
        "clips": len(rows),
        "gaps": ", ".join(f"{q:g}: {gap:.3g}" for q, gap in zip(CLIP_QUANTILES, gaps, strict=True)),
        "approaching": all(a <= b * (1 + 1e-9) for a, b in pairwise(gaps)) and gaps[0] < 1.05,
        "unclipped": under,
        "mixed": 0 < under < points,
    }
    first = ordinary_line("DP (delta 1e-5)", NOISES, ordinary)
    panels = [
        Axes(title=title, x="noise over clip", y="epsilon", lines=[first, *lines], log="xy")
        for title, lines in (("Figure 3, clipped", clipped), ("Figure 4, no clip for BDP", free))
    ]
    columns = ("quantile", "clip", "DP 1e-5", "DP at BDP's delta", "BDP, clipped", "BDP, no clip")
    return values, panels, ResultTable(f"Figures 3 and 4 ({found.name}): epsilon at noise 1", columns, rows)
