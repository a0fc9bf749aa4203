"""What the paper states that needs no data: Theorems 3 and 4, Figures 1 and 5, attack success, Table 1's arithmetic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpcore import calibrate
from dpcore.accountants.bayesian import attack_success
from dpcore.accountants.bayesian_cost import left_cost, right_cost
from dpcore.accountants.bayesian_estimator import estimated_cost, step_cost
from dpcore.accounting import headline
from dpcore.adjacency import Adjacency
from sweeps.reproductions.paper import Paper
from sweeps.reproductions.pictures import Axes, Series
from sweeps.reproductions.result import ResultTable
from sweeps.reproductions.run import Reproduction
from sweeps.reproductions.templates import Values

PAPER = Paper.load("triastcyn2020")
DELTA, DELTA_MU, FAILURE = 1e-5, 1e-10, 1e-15
"""delta of the ordinary epsilon, delta_mu (99.999% of the population at delta), gamma: the paper's."""
PUBLISHED_ORDERS = (2, 4, 8, 16, 32)
ORDERS = (2, 4, 8, 16, 32, 64, 128)

STEPS, RATE, SHAPE = 10_000, 0.01, 0.5
"""Of Figure 1; the shape of its Weibull gradients and the rate are ours."""
QUANTILES = (0.05, 0.5, 0.75, 0.99)
"""Noise levels of Figure 1 as quantiles of the gradient norm; ours."""
RATIOS = (1.0, 0.5, 0.2, 0.1, 0.05)
"""Distance over noise of Figure 5."""
FIGURE_5_ORDERS = tuple(range(1, 257))

Array = NDArray[np.float64]
Found = tuple[dict[str, Any], list[Axes], ResultTable]
"""Of a figure: values for its statements, what is drawn, and its numbers."""


def without_data(run: Reproduction, sizes: Values) -> None:
    """Everything that needs no data: so many gradients in Figure 1, so many samples that test Theorem 4."""
    for epsilon, printed in PAPER.printed["attack"].items():
        run.hold("attack", attack(epsilon, printed))
    values: dict[str, Any] = {**theorem_3(), "missed": theorem_4(sizes["samples"]), "samples": sizes["samples"]}
    for number, (found, panels, table) in ((1, figure_1(sizes["gradients"])), (5, figure_5())):
        values |= found
        run.result.tables.append(table)
        run.draw(run.workspace.folder("triastcyn2020-plots"), f"figure-{number}.png", panels)
    run.hold("formulas", {**values, **table_1(), "delta": DELTA, "delta_mu": DELTA_MU})


def bayesian_epsilon(costs: Array, delta: float, failures: float) -> float:
    """min over ORDERS of (cost - ln(delta - failures)) / order, at least 0; costs [len(ORDERS)] of the whole run."""
    return max(0.0, float(np.min((costs - math.log(delta - failures)) / np.array(ORDERS))))


def estimated_costs(distances: Array, rate: float, sigma: float, steps: int, largest: float | None = None) -> Array:
    """One step's estimated cost at each of ORDERS."""
    costs = [step_cost(distances, rate, sigma, one, steps=steps, failure=FAILURE, largest=largest) for one in ORDERS]
    return np.array(costs)


def moments_epsilon(ratio: float, rate: float, steps: float, delta: float) -> float:
    """The moments accountant at sensitivity over noise `ratio`: the same costs with the clip norm as distance."""
    costs = np.array([left_cost([ratio], rate, 1.0, order)[0] for order in ORDERS])
    return bayesian_epsilon(steps * costs, delta, 0.0)


def attack(epsilon: float, printed: float) -> dict[str, Any]:
    """Equation 1 at an epsilon that the paper quotes, to the printed digits."""
    note = "To the printed digits." if epsilon in (2, 5, 10) else "Table 1's printed digits are recalled."
    half = 0.5 * 10 ** -(len(str(printed)) - 2) + 1e-12
    values = {"epsilon": epsilon, "printed": printed, "success": attack_success(epsilon)}
    return {**values, "half_a_digit": half, "note": note}


def theorem_3() -> dict[str, float]:
    """The reverse direction never exceeds the forward one, and its published bound is far above it."""
    worst, loosest = -math.inf, 1.0
    for ratio, rate, order in product((0.2, 1.0, 2.0), (0.01, 0.1), (2, 8, 32)):
        forward = left_cost([ratio], rate, 1.0, order)[0]
        worst = max(worst, _backward(ratio, rate, order) - forward)
        loosest = max(loosest, right_cost([ratio], rate, 1.0, order)[0] / forward)
    return {"worst": worst, "loosest": loosest}


def _backward(ratio: float, rate: float, order: int) -> float:
    """ln E_{x ~ N(0, 1)} (1 - q + q exp(u x - u^2 / 2))^-order on a fine grid."""
    x = np.linspace(-14, 14, 28_001)
    mixture = np.logaddexp(math.log1p(-rate), math.log(rate) + ratio * x - ratio**2 / 2)
    logs = -0.5 * x**2 - 0.5 * math.log(2 * math.pi) - order * mixture
    return float(logsumexp(logs) + math.log(x[1] - x[0]))


def theorem_4(samples: int) -> float:
    """Share of samples of 28 whose estimate is too small: outliers are rarer than such a sample shows."""
    rng = np.random.default_rng(20)
    common, rare = left_cost([0.05, 1.0], 0.01, 1.0, 8)
    true = float(logsumexp([1000 * common, 1000 * rare], b=[0.999, 0.001])) / 1000
    missed = 0
    for _ in range(samples):
        usual = 0.05 * rng.uniform(0.99, 1.01, size=28)
        sample = np.where(rng.random(28) < 1e-3, 1.0, usual)
        missed += estimated_cost(left_cost(sample, 0.01, 1.0, 8), 1000, FAILURE) < true
    return missed / samples


def figure_1(records: int) -> Found:
    """Epsilon over steps for heavy-tailed gradients: without a clip, with one at the noise."""
    norms = np.random.default_rng(1).weibull(SHAPE, records)
    ticks = [float(one) for one in np.unique(np.geomspace(1, STEPS, 25).astype(int))]
    failures = STEPS * len(ORDERS) * FAILURE
    # One less the failures, which the moments accountant does not have to pay.
    ordinary, equal = ([moments_epsilon(1.0, RATE, t, delta) for t in ticks] for delta in (DELTA, DELTA_MU - failures))
    lines: dict[bool, list[Series]] = {False: [], True: []}
    rows, below = [], True
    for quantile in QUANTILES:
        sigma = float(np.quantile(norms, quantile))
        for clip, distances in ((False, norms), (True, np.minimum(norms, sigma))):
            cost = estimated_costs(distances, RATE, sigma, STEPS, sigma if clip else None)
            epsilons = [bayesian_epsilon(t * cost, DELTA_MU, failures) for t in ticks]
            lines[clip].append(Series(f"BDP, noise at quantile {quantile:g}", ticks, epsilons))
        free, clipped = lines[False][-1].y, lines[True][-1].y
        below = below and never_above(clipped, equal)
        rows.append((quantile, sigma, free[-1], clipped[-1], ordinary[-1], equal[-1]))
    ends = [row[2] for row in rows]
    values = {
        "ends": " > ".join(f"{end:.3g}" for end in ends),
        "slower": all(a > b for a, b in pairwise(ends)),
        "steps": STEPS,
        "quantiles": ", ".join(f"{quantile:g}" for quantile in QUANTILES),
        "least": min(ends),
        "ordinary": ordinary[-1],
        "shape": SHAPE,
        "growing": ", ".join(f"{one:.3g}" for one in _estimates_of_an_infinite_cost()),
        "most": max(row[3] for row in rows),
        "equal": equal[-1],
        "below": below,
        "failures": failures,
    }
    first, second = "Figure 1, no clip for BDP", "Figure 1(d), clipped at the noise"
    panels = [
        Axes(title=title, x="steps", y="epsilon", log="xy", lines=[ordinary_line(name, ticks, ordinary), *lines[clip]])
        for clip, title, name in ((False, first, "DP, clip = noise"), (True, second, "DP"))
    ]
    columns = ("quantile", "noise", "BDP, no clip", "BDP, clipped", "DP", "DP at the same delta")
    return values, panels, ResultTable(f"Figure 1: epsilon after {STEPS} steps", columns, rows)


def ordinary_line(label: str, x: Sequence[float], y: Sequence[float]) -> Series:
    """Differential privacy beside the Bayesian lines."""
    return Series(label, x, y, {"color": "k", "linestyle": "--"})


def never_above(one: Sequence[float], other: Sequence[float]) -> bool:
    """Point by point, up to the last digits."""
    return all(a <= b * (1 + 1e-9) for a, b in zip(one, other, strict=True))


def _estimates_of_an_infinite_cost() -> list[float]:
    """The estimated cost of one step at order 2 from more and more gradients."""
    everyone = np.random.default_rng(2).weibull(SHAPE, 100_000)
    sigma = float(np.quantile(everyone, 0.99))
    return [estimated_cost(left_cost(everyone[:m], RATE, sigma, 2), 1, 1e-3) for m in (100, 1000, 10_000, 100_000)]


def figure_5() -> Found:
    """Epsilon over the order for fixed distances, and the best orders."""
    lines, rows, last = [], [], FIGURE_5_ORDERS[-1]
    for ratio in RATIOS:
        costs = np.array([left_cost([ratio], RATE, 1.0, order)[0] for order in FIGURE_5_ORDERS])
        y = (STEPS * costs - math.log(DELTA_MU)) / np.array(FIGURE_5_ORDERS)
        lines.append(Series(f"distance / noise = {ratio:g}", FIGURE_5_ORDERS, y.tolist()))
        best = int(np.argmin(y))
        rows.append((ratio, FIGURE_5_ORDERS[best], float(y[best]), float(y[0]), float(y[-1])))
    sharp = [min(row[3], row[4]) / row[2] for row in rows if row[1] < last]
    orders = [row[1] for row in rows]
    values = {
        "flattest": min(sharp),
        "steepest": max(sharp),
        "rate": RATE,
        "largest_order": last,
        "best_orders": ", ".join(f"{row[0]:g}: {row[1]}" for row in rows),
        "growing_orders": all(a <= b for a, b in pairwise(orders)) and orders[-1] > 64,
    }
    panel = Axes(title="Figure 5", x="order", y="epsilon", lines=lines, log="xy", limits=(None, 1e3))
    columns = ("distance / noise", "best order", "epsilon", "at order 1", f"at order {last}")
    return values, [panel], ResultTable("Figure 5: the best order", columns, rows)


def table_1() -> Mapping[str, Any]:
    """What Table 1's numbers can be at all under the settings that the appendix gives."""
    floor, published = -math.log(DELTA_MU) / PUBLISHED_ORDERS[-1], PAPER.printed["bayesian"]
    batch, n, steps = 1024, 60_000, 32 * 60_000 // 1024
    as_read = headline(calibrate.sampled_gaussian(0.1 * batch, batch / n, steps), DELTA, Adjacency.ADD_REMOVE).epsilon
    goal = calibrate.Target(epsilon=2.2, delta=DELTA)
    event = partial(calibrate.sampled_gaussian, rate=batch / n, steps=steps)
    return {
        "floor": floor,
        "smallest": min(published.values()),
        "under": ", ".join(name for name, value in published.items() if value < floor),
        "as_read": float(f"{as_read:.3g}"),
        "apart": abs(as_read - 2.2),
        "multiplier": 0.1 * batch,
        "needed": calibrate.solve(goal, calibrate.NOISE, event, cache={}),
    }
