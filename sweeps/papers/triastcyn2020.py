"""Triastcyn & Faltings (2020), "Bayesian differential privacy for machine learning": Figures 1-5 and Table 1.

    formulas    what needs no data: Theorems 3 and 4, Figures 1 and 5, attack success, Table 1's arithmetic
    trainings   Table 1's sweeps on MNIST, CIFAR-10, Abalone and Adult
    distances   Figures 2-4, from the weights that those sweeps end with

Every run states its ordinary epsilon and its Bayesian one; they are different notions and never share a column.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import logsumexp

from dpcore import calibrate
from dpcore.accountants.bayesian import attack_success, estimated_cost, left_cost, right_cost, step_cost
from dpcore.accounting import headline
from dpcore.events import Adjacency
from dpcore.guarantee import Notion
from sweeps import papers
from sweeps.store.records import TrialRecord
from sweeps.store.workspace import Workspace
from trainables.data import SOURCES
from trainables.registry import SYSTEMS
from trainables.worker.attempt import Attempt

# What the paper states that needs no data: Theorems 3 and 4, Figures 1 and 5, attack success, Table 1's arithmetic.

PAPER = papers.Paper.load("triastcyn2020")
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
PLOTS = "reproductions/triastcyn2020"
Found = tuple[dict[str, Any], list[papers.Panel], papers.ResultTable]
"""Of a figure: values for its statements, its panels, and its numbers."""


def without_data(run: papers.Reproduction, sizes: papers.Values) -> None:
    """Everything that needs no data: so many gradients in Figure 1, so many samples that test Theorem 4."""
    for epsilon, printed in PAPER.printed["attack"].items():
        run.hold("attack", attack(epsilon, printed))
    values: dict[str, Any] = {**theorem_3(), "missed": theorem_4(sizes["samples"]), "samples": sizes["samples"]}
    for number, (found, panels, table) in ((1, figure_1(sizes["gradients"])), (5, figure_5())):
        values |= found
        run.result.tables.append(table)
        run.draw(PLOTS, f"figure-{number}.png", panels)
    run.hold("formulas", {**values, **table_1(), "delta": DELTA, "delta_mu": DELTA_MU})


Lines = Sequence[tuple[str, Sequence[float]]]
"""Of one panel, each with its label."""


def curves(
    title: str, x: str, at: Sequence[float], lines: Lines, ordinary: Lines = (), most: float | None = None
) -> papers.Panel:
    """Epsilon along `at`, on logarithmic axes: differential privacy as dashed lines beside the Bayesian ones."""
    shown = {name: dict(zip(at, y, strict=True)) for name, y in (*ordinary, *lines)}
    styles = dict.fromkeys(shown, papers.PLAIN) | {name: papers.DASHED for name, _ in ordinary}
    limits = None if most is None else (None, most)
    return papers.Panel(title=title, x=x, y="epsilon", curves=shown, styles=styles, log="xy", limits=limits)


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
    lines: dict[bool, list[tuple[str, list[float]]]] = {False: [], True: []}
    rows, below = [], True
    for quantile in QUANTILES:
        sigma = float(np.quantile(norms, quantile))
        for clip, distances in ((False, norms), (True, np.minimum(norms, sigma))):
            cost = estimated_costs(distances, RATE, sigma, STEPS, sigma if clip else None)
            epsilons = [bayesian_epsilon(t * cost, DELTA_MU, failures) for t in ticks]
            lines[clip].append((f"BDP, noise at quantile {quantile:g}", epsilons))
        free, clipped = lines[False][-1][1], lines[True][-1][1]
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
        # E exp(a u^2) diverges for every Weibull shape below 2.
        "finite": False,
        "growing": ", ".join(f"{one:.3g}" for one in _estimates_of_an_infinite_cost()),
        "most": max(row[3] for row in rows),
        "equal": equal[-1],
        "below": below,
        "failures": failures,
    }
    first, second = "Figure 1, no clip for BDP", "Figure 1(d), clipped at the noise"
    panels = [
        curves(title, "steps", ticks, lines[clip], [(name, ordinary)])
        for clip, title, name in ((False, first, "DP, clip = noise"), (True, second, "DP"))
    ]
    columns = ("quantile", "noise", "BDP, no clip", "BDP, clipped", "DP", "DP at the same delta")
    return values, panels, papers.ResultTable(f"Figure 1: epsilon after {STEPS} steps", columns, rows)


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
        lines.append((f"distance / noise = {ratio:g}", y.tolist()))
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
    panel = curves("Figure 5", "order", FIGURE_5_ORDERS, lines, most=1e3)
    columns = ("distance / noise", "best order", "epsilon", "at order 1", f"at order {last}")
    return values, [panel], papers.ResultTable("Figure 5: the best order", columns, rows)


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


# Table 1's trainings: each data set one or two ordinary sweeps over the noise, and what their trials say.

AGREEMENT = 0.02
"""Two points of accuracy: the paper prints whole per cents of one run."""
PERCENTILES = {
    "99.999%": "bayesian_epsilon",
    "99%": "bayesian_epsilon_p99",
    "90%": "bayesian_epsilon_p90",
    "50%": "bayesian_epsilon_p50",
}
_ACCOUNTING = {
    "bayesian_orders": ",".join(map(str, ORDERS)),
    "bayesian_delta": DELTA_MU,
    "estimate_failure": FAILURE,
    "percentile_delta": DELTA,
}


PARTS = [papers.Row(**{"quick": None, "note": "", "delta": DELTA, **one}) for one in PAPER.printed["parts"]]
"""Sweeps; see the paper's file."""


def knobs_at(part: papers.Row, effort: papers.Effort) -> dict[str, Any]:
    """The knobs of an effort."""
    return {**part.knobs, **({"quick": part.quick or {}, "paper": part.paper}.get(effort.name, {}))}


@dataclass(frozen=True, slots=True)
class GridPoint:
    """All trials of one point of a grid, averaged.

    knobs      what was varied
    metrics    means; `epsilon` is the ordinary one, infinite where the claim is in another notion
    record     one of the trials, for its weights
    """

    knobs: Mapping[str, Any]
    metrics: Mapping[str, float]
    record: TrialRecord = field(repr=False)


def sweep_of(part: papers.Row, data: Path, effort: papers.Effort) -> dict[str, Any]:
    """The sweep behind a part."""
    known = {parameter.name for parameter in SYSTEMS[part.system].hyperparameters}
    accounting = {name: one for name, one in _ACCOUNTING.items() if name in known}
    values = {**PAPER.sized(effort), **vars(part), "effort": effort.name, "data": papers.section(part.data, data)}
    return papers.filled(PAPER.sweeps, {**values, "knobs": {**accounting, **knobs_at(part, effort)}})


def cut(part: papers.Row, effort: papers.Effort) -> list[str]:
    """What of the part's grid an effort leaves out, with both numbers."""
    ours, full = (PAPER.sized(one)["repeats"] for one in (effort, papers.FULL))
    each = "trainings of each"
    told = papers.reduced(
        {**knobs_at(part, effort), each: min(ours, full)}, {**knobs_at(part, papers.FULL), each: full}
    )
    return [f"Table 1, {part.name}: {'; '.join(told)}"] if told else []


def settings_of(records: Sequence[TrialRecord]) -> list[GridPoint]:
    """Finished trials by configuration, in the order of their ordinary epsilon. Raises Missing where there is none."""
    groups: dict[str, list[TrialRecord]] = defaultdict(list)
    for record in records:
        if record.metrics:
            groups[repr(sorted(record.config.items()))].append(record)
    if not groups:
        raise papers.Missing("no trial has a result")
    names = [name for name in records[0].config if len({record.config.get(name) for record in records}) > 1]
    varied = names or [name for name in ("noise_multiplier", "learning_rate") if name in records[0].config][:1]
    points = [
        GridPoint(
            knobs={name: own[0].config[name] for name in sorted(varied)},
            metrics={name: float(np.mean([_ordinary(one)[name] for one in own])) for name in own[0].metrics},
            record=own[0],
        )
        for own in groups.values()
    ]
    return sorted(points, key=lambda one: (one.metrics["epsilon"], one.metrics["bayesian_epsilon"]))


def _ordinary(record: TrialRecord) -> Mapping[str, float]:
    """The trial's metrics, its epsilon infinite unless its claim is one of ordinary differential privacy."""
    assert record.guarantee is not None
    return record.metrics if record.guarantee.notion is Notion.DP else {**record.metrics, "epsilon": math.inf}


def table_of(part: papers.Row, settings: Sequence[GridPoint]) -> papers.ResultTable:
    """Both epsilons of every run, never in one column."""
    names = list(settings[0].knobs)
    bayesian = tuple(f"Bayesian {share}" for share in PERCENTILES)
    columns = (*names, "steps", "accuracy", "DP epsilon", "its attack", *bayesian, "its attack")
    rows = []
    for one, found in ((one, one.metrics) for one in settings):
        claimed = found["epsilon"], attack_success(found["epsilon"])
        shares = [found[metric] for metric in PERCENTILES.values()]
        own = (*one.knobs.values(), int(found["steps_taken"]), found["accuracy"], *claimed)
        rows.append((*own, *shares, attack_success(found["bayesian_epsilon"])))
    return papers.ResultTable(f"Table 1, {part.name} ({part.system})", columns, rows)


def hold(run: papers.Reproduction, part: papers.Row, settings: Sequence[GridPoint]) -> None:
    """What the part's row of Table 1 states."""
    ordinary, bayesian = "epsilon", "bayesian_epsilon"
    values: dict[str, Any] = {"name": part.name, **part.published}
    for kind, metric, other in (("Bayesian", bayesian, ordinary), ("ordinary", ordinary, bayesian)):
        if kind.lower() not in part.published:
            continue
        limit, least = part.published[kind.lower()], part.published["private"] - AGREEMENT
        within = [one.metrics for one in settings if one.metrics[metric] <= limit and one.metrics["steps_taken"] > 0]
        best = max(within, key=lambda one: one["accuracy"], default=None)
        found: dict[str, Any] = {"accuracy": "none", "enough": None, "note": "no run of the grid is within it"}
        if best is not None:
            note = f"{kind} {best[metric]:.3g}, the other notion {best[other]:.3g}. {part.note}"
            found = {"accuracy": best["accuracy"], "enough": best["accuracy"] >= least, "note": note}
        run.hold("private", {**values, "kind": kind, "limit": limit, **found})
    if "ordinary" in part.published:
        example = max(settings, key=lambda one: one.metrics[ordinary] / one.metrics[bayesian]).metrics
        smaller = sum(one.metrics[bayesian] < one.metrics[ordinary] for one in settings)
        most = {"most_ordinary": example[ordinary], "most_bayesian": example[bayesian]}
        run.hold("below", {**values, **most, "smaller": smaller, "settings": len(settings)})


Parts = Mapping[str, Sequence[GridPoint]]
"""Settings by the name of their part."""


def trade_off(parts: Parts) -> list[papers.Panel]:
    """Table 1: accuracy against each epsilon, on panels of their own notion."""
    panels, bayesian = [], "Bayesian (average-case), delta 1e-10"
    for metric, title in (("epsilon", "ordinary DP, delta 1e-5"), ("bayesian_epsilon", bayesian)):
        points = {
            name: dict(sorted((one.metrics[metric], one.metrics["accuracy"]) for one in own))
            for name, own in parts.items()
            if math.isfinite(own[0].metrics[metric])
        }
        panels.append(papers.Panel(title=title, x="epsilon", y="validation accuracy", curves=points, log="x"))
    return panels


def percentiles(parts: Parts) -> list[papers.Panel]:
    """The percentile curve of each part's least noisy run, and the attack success that each epsilon allows."""
    shares = [1 - float(share.rstrip("%")) / 100 for share in PERCENTILES]
    by_share: dict[str, Mapping[float, float]] = {}
    success = {"equation 1": {float(one): attack_success(float(one)) for one in np.geomspace(0.05, 30, 200)}}
    for name, own in parts.items():
        run = own[-1].metrics
        by_share[name] = {at: run[one] for at, one in zip(shares, PERCENTILES.values(), strict=True)}
        success[name] = {run["bayesian_epsilon"]: attack_success(run["bayesian_epsilon"])}
        if math.isfinite(run["epsilon"]):
            by_share[f"{name}, DP"] = dict.fromkeys(shares, run["epsilon"])
            success[f"{name}, DP"] = {run["epsilon"]: attack_success(run["epsilon"])}
    title = "epsilon at delta 1e-5 for all but a share (dotted: DP, for everybody)"
    x = "share of the population left outside"
    dotted = {name: {**papers.PLAIN, "linestyle": ":"} for name in by_share if name.endswith(", DP")}
    first = papers.Panel(title=title, x=x, y="epsilon", curves=by_share, styles=dotted, log="xy")
    styles = {"equation 1": papers.PLAIN}
    return [first, papers.Panel(title="attack success", x="epsilon", y="P(A)", curves=success, styles=styles, log="x")]


# Figures 2-4: gradients of a trained model, over its training records and over records it never saw.

FIGURES_3_4_STEPS, FIGURES_3_4_RATE = 1000, 1024 / 60_000
CLIP_QUANTILES = (0.05, 0.5, 0.75, 0.99)
"""Clips of Figures 3 and 4 as quantiles of the gradient norm; the steps and the quantiles are ours."""
NOISES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 8.0)
"""Noise over clip."""
AT_ONE = NOISES.index(1.0)


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
    from trainables.training.released import record_gradients

    assert record.plan is not None
    attempt = Attempt.of(workspace.trials(record.key.rsplit("-", 1)[0]), record.key, record.attempts)
    state = attempt.read(record.step).state
    data = SOURCES[str(options["source"])].load({key: one for key, one in options.items() if key != "source"})
    rng = np.random.default_rng(7)
    sides = [
        record_gradients(record.plan, data, split, state, rng.choice(len(split), size=2 * pairs, replace=False))
        for split in (data.train, data.validation)
    ]
    apart = [np.linalg.norm(one[0::2] - one[1::2], axis=1).astype(np.float64) for one in sides]
    return Gradients(name, apart[0], apart[1], np.linalg.norm(sides[0], axis=1).astype(np.float64))


def figure_2(run: papers.Reproduction, found: Gradients) -> None:
    """Whether distances tell training records from others."""
    sides = found.training, found.held_out
    values = {"name": found.name, "pairs": len(found.training)}
    means, spreads = stats.ttest_ind(*sides, equal_var=False), stats.levene(*sides)
    run.hold("figure_2", {**values, "what": "means", "test": "Welch's t-test", "pvalue": means.pvalue})
    run.hold("figure_2", {**values, "what": "variances", "test": "Levene's test", "pvalue": spreads.pvalue})


def histogram(found: Gradients) -> papers.Panel:
    """Figure 2: distances of pairs, from training records and from others."""
    top = float(np.quantile(np.concatenate([found.training, found.held_out]), 0.99))
    bins, shown = np.linspace(0, top, 40), {}
    for name, distances in (("train", found.training), ("test", found.held_out)):
        counts = np.histogram(np.minimum(distances, top), bins)[0]
        shown[name] = dict(zip(bins[:-1].tolist(), counts.tolist(), strict=True))
    x = "distance of a pair's gradients (last bin: the rest)"
    steps = {name: {**papers.PLAIN, "drawstyle": "steps-post"} for name in shown}
    return papers.Panel(title=found.name, x=x, y="pairs", curves=shown, styles=steps)


def figures_3_and_4(found: Gradients) -> Found:
    """Epsilon over the noise, with the clip at quantiles of the gradient norm, and without one for BDP."""
    steps, rate = FIGURES_3_4_STEPS, FIGURES_3_4_RATE
    failures = steps * len(ORDERS) * FAILURE
    deltas = DELTA, DELTA_MU - failures
    ordinary, same = ([moments_epsilon(1 / noise, rate, steps, delta) for noise in NOISES] for delta in deltas)
    clipped: list[tuple[str, list[float]]] = []
    free: list[tuple[str, list[float]]] = []
    rows = []
    for quantile in CLIP_QUANTILES:
        clip = float(np.quantile(found.norms, quantile))
        for lines, distances, largest, name in (
            (clipped, np.minimum(found.norms, clip), clip, "BDP, clip at quantile"),
            (free, found.norms, None, "BDP, noise in units of quantile"),
        ):
            costs = (estimated_costs(distances, rate, noise * clip, steps, largest) for noise in NOISES)
            epsilons = [bayesian_epsilon(steps * cost, DELTA_MU, failures) for cost in costs]
            lines.append((f"{name} {quantile:g}", epsilons))
        ends = (ordinary[AT_ONE], same[AT_ONE], clipped[-1][1][AT_ONE], free[-1][1][AT_ONE])
        rows.append((quantile, clip, *ends))
    gaps = [row[3] / row[4] for row in rows]
    under = sum(a < b for _, line in free for a, b in zip(line, same, strict=True))
    points = len(CLIP_QUANTILES) * len(NOISES)
    values = {
        "name": found.name,
        "steps": steps,
        "delta_mu": DELTA_MU,
        "points": points,
        "below": all(never_above(line, same) for _, line in clipped),
        "published_below": sum(row[4] <= row[2] for row in rows),
        "clips": len(rows),
        "gaps": ", ".join(f"{q:g}: {gap:.3g}" for q, gap in zip(CLIP_QUANTILES, gaps, strict=True)),
        "approaching": all(a <= b * (1 + 1e-9) for a, b in pairwise(gaps)) and gaps[0] < 1.05,
        "unclipped": under,
        "mixed": 0 < under < points,
    }
    drawn = ("Figure 3, clipped", clipped), ("Figure 4, no clip for BDP", free)
    dashed = [("DP (delta 1e-5)", ordinary)]
    panels = [curves(title, "noise over clip", NOISES, lines, dashed) for title, lines in drawn]
    columns = ("quantile", "clip", "DP 1e-5", "DP at BDP's delta", "BDP, clipped", "BDP, no clip")
    return values, panels, papers.ResultTable(f"Figures 3 and 4 ({found.name}): epsilon at noise 1", columns, rows)


PAIRS = 300
"""Pairs of gradients a side in Figure 2."""
FIGURES = {"mnist-whole": "MNIST", "cifar10": "CIFAR-10"}
"""Parts whose last weights Figures 2-4 look at."""


def reproduce(run: papers.Reproduction) -> None:
    """Every figure and Table 1."""
    run.say("Theorems 3 and 4, Figures 1 and 5")
    sizes = PAPER.sized(run.effort)
    without_data(run, sizes)
    if smaller := PAPER.cut(sizes):
        run.result.cut.append(f"Without data: {'; '.join(smaller)} (--quick)")
    found: dict[str, Sequence[GridPoint]] = {}
    for part in PARTS:
        name, trained = f"Table 1, {part.name}", partial(_train, run, part, found)
        if why := run.part(part.data, trained, title=name, quick=part.quick is not None):
            epsilons = (f"{part.published[one]:g}" for one in ("ordinary", "bayesian") if one in part.published)
            run.untried(name, f"not trained ({why})", " -> ".join(epsilons))
            run.result.cut.append(f"{name}: not trained ({why})")
    if not found:
        run.result.cut.append("Figures 2-4: not looked at, nothing was trained")
        return
    named = {part.name: found[part.id] for part in PARTS if part.id in found}
    run.draw(PLOTS, "table-1.png", trade_off(named))
    run.draw(PLOTS, "percentiles.png", percentiles(named))
    several: list[Gradients] = []
    for part in (one for one in PARTS if one.id in FIGURES):
        name = f"Figures 2-4, {FIGURES[part.id]}"
        if part.id in found:
            run.part(part.data, partial(_look, run, part, found[part.id][-1].record, several), title=name)
        else:
            run.result.cut.append(f"{name}: not looked at, its part was not trained")
    if several:
        values, panels, table = figures_3_and_4(several[0])
        run.hold("figures_3_and_4", values)
        run.result.tables.append(table)
        run.draw(PLOTS, "figure-2.png", [histogram(one) for one in several])
        run.draw(PLOTS, "figures-3-4.png", panels)


def _train(run: papers.Reproduction, part: papers.Row, found: dict[str, Sequence[GridPoint]], data: Path) -> None:
    """One part of Table 1."""
    _, trials = run.trained(sweep_of(part, data, run.effort))
    found[part.id] = settings_of(trials)
    run.result.cut += cut(part, run.effort)
    hold(run, part, found[part.id])
    run.result.tables.append(table_of(part, found[part.id]))


def _look(
    run: papers.Reproduction, part: papers.Row, record: TrialRecord, several: list[Gradients], data: Path
) -> None:
    """Figures 2-4 from the last weights of a part's least noisy run."""
    several.append(gradients(FIGURES[part.id], record, papers.section(part.data, data), run.workspace, PAIRS))
    figure_2(run, several[-1])
