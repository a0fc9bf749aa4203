"""Lu, Asghar, Kaafar, Webb & Dickinson (2021): DP for deep learning with convexified loss functions.

    shape_formulas  Tables I, V and VI from shapes alone, and the counterexamples to the paper's theorems
    parts           data sets, sizes and the sweeps behind the figures
    set_results     trials as points of a figure; DP-SGD's models under the shadow attack

Every epsilon on an axis is the paper's: of one answer, pure for Laplace noise and a mu for Gaussian noise, of the whole
training for DP-SGD. The trials behind it claim all their answers together; the tables show both.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy import stats

from dpcore.audit.attacks import advantage_bound
from dpcore.papers import lu2021 as counterexamples
from dpcore.papers.lu2021 import Bound, Counting, NeuronNoise, baseline_noise, plotted_leakage_bound, published_noise
from sweeps import papers
from sweeps.store.records import TrialRecord
from trainables.planning import NOISE_MAX, NOISE_MIN
from trainables.worker.attempt import Attempt

# What needs no data: Table I as numbers, Table VI and the OARO column by formula, and the refuted theorems.

PAPER = papers.Paper.load("lu2021")
HIDDEN, REGULARISER = 128, 0.0005
"""Table IV: an L2 weight of 0.001 is 2 lambda."""
PURCHASE = "Only a width of 594 gives these numbers; Table III says 600."


ROWS = {row.name: row for row in PAPER.rows("rows")}
"""Lines of Tables III, V and VI."""


def without_data(run: papers.Reproduction) -> None:
    """Everything that shapes, formulas and counterexamples decide."""
    for row in ROWS.values():
        run.hold("table_vi", by_formula(row))
    rows = list(ROWS.values())[: PAPER.printed["overfitted"]]
    for name, kind, one, other, printed in PAPER.printed["correlations"]:
        columns = ([float(getattr(row, column)) for row in rows] for column in (one, other))
        recomputed = float(getattr(stats, kind)(*columns)[0])
        run.hold("correlation", {"name": name, "printed": printed, "recomputed": recomputed})
    for noise in NeuronNoise:
        found = counterexamples.one_neuron_distinguisher(noise=noise, trials=2000)
        run.hold("theorem_6", {"noise": noise, "claimed": found.claimed, "measured": found.measured})
    net = counterexamples.xor_network(1000.0)
    values = {
        "weight": counterexamples.single_weight(),
        "moved": counterexamples.risk_averse_minimiser(),
        "mean": counterexamples.risk_averse_minimiser(1e-9, 1000, 0.01),
        "lipschitz": counterexamples.output_layer_gradient(),
        "net": net,
        "ends": (net.at_weights + net.at_opposite) / 2,
        "midpoint": round(net.at_midpoint, 4),
    }
    run.hold("theorems", values)
    run.result.tables.append(_table_i())


def by_formula(row: papers.Row) -> dict[str, object]:
    """A row's numbers from its shape."""
    found = published_noise((row.inputs, HIDDEN), row.classes, row.records, REGULARISER)
    # The paper took the exponential of the rounded Dz.
    values = (found.lipschitz, found.weight, found.logit, math.expm1(2 * round(found.logit, 4)))
    chain, oaro = " ".join(f"{value:.4f}" for value in values), f"{found.stability:.4f}"
    width = f" {PURCHASE}" if row.name.startswith("Purchase") else ""
    told = {True: f"The same digits.{width}", False: f"Other last digits.{width}"}
    same, same_oaro = chain == row.chain, oaro == row.oaro
    digits = {"same": same, "digits": told[same], "same_oaro": same_oaro, "oaro_digits": told[same_oaro]}
    return {"row": row, "chain": chain, "oaro": oaro, **digits}


def _table_i() -> papers.ResultTable:
    """The five bounds for the MNIST network: 10,000 records of 784 pixels, Adam's step 0.001 as a constant one."""
    rows = []
    for bound in Bound:
        if bound is Bound.CHAUDHURI_BINARY:
            rows.append([str(bound), "two classes only", "", ""])
            continue
        found = published_noise(
            (784, HIDDEN), 10, 10_000, REGULARISER, bound=bound, input_norm=28.0, learning_rate=0.001
        )
        rows.append([str(bound), f"{found.weights:.4g}", f"{found.logit:.4g}", f"{found.probability:.4g}"])
    return papers.ResultTable(
        "Table I on the MNIST network (none of them bounds this system)", ("bound", "D2W", "Dz", "Dp"), rows
    )


# Data sets, their sizes under an effort, and the sweeps behind Table V and the figures.

BATCH = 100


SETS = [papers.Row(**{**PAPER.printed["of_each"], **one}) for one in PAPER.printed["sets"]]
"""Data sets; see the paper's file."""


def sized(one: papers.Row, sizes: papers.Values) -> papers.Row:
    """A data set as an effort runs it."""
    records = min(one.at_hand or one.records, sizes["records"] or one.records)
    epochs = sizes["epochs"].get(one.name, one.epochs)
    given = {name: sizes[name] or getattr(one, name) for name in ("shadows", "attack_epochs")}
    return papers.Row(**{**vars(one), **given, "records": records, "epochs": epochs})


def delta_of(one: papers.Row) -> float:
    """Table IV."""
    return 1 / (10 * one.records)


def cut(sizes: papers.Values, sets: Sequence[papers.Row]) -> list[str]:
    """What is left out, beside the paper's grid."""
    lines = ["Purchase-2, -10, -20, -50 and CIFAR-100: no source for their records; Table VI and OARO by formula"]
    names = ("records", "shadows", "epochs", "attack_epochs")
    for one in sets:
        full = next(other for other in SETS if other.name == one.name)
        told = papers.reduced(*({name: getattr(size, name) for name in names} for size in (one, full)))
        lines += [f"{one.row}: {'; '.join(told)}"] if told else []
    return lines + PAPER.cut(sizes)


Noises = Mapping[tuple[Counting, float], float]
"""{(accountant, epsilon): noise multiplier} of DP-SGD."""


def baseline_noises(one: papers.Row, sizes: papers.Values) -> Noises:
    """Of every epsilon of DP-SGD; the least that is run where less would do."""
    steps, rate = one.epochs * one.records // BATCH, BATCH / one.records
    return {
        (counting, epsilon): max(NOISE_MIN, baseline_noise(counting, epsilon, delta_of(one), steps, rate))
        for counting, epsilons in ((Counting(name), at) for name, at in sizes["private"].items())
        for epsilon in epsilons
    }


def algorithm_1(one: papers.Row, sizes: papers.Values, data: Path) -> dict[str, Any]:
    """Both laws of noise at every epsilon."""
    return _spec("algorithm_1", one, data, [1 / epsilon for epsilon in sizes["epsilons"]], sizes["repeats"])


def beside(one: papers.Row, sizes: papers.Values, data: Path, baselines: Noises) -> dict[str, Any]:
    """The original loss without noise, and DP-SGD with each of the `baseline_noises` that is worth a training."""
    noises = sorted({noise for noise in baselines.values() if noise <= NOISE_MAX})
    # Once each where not every epsilon is trained.
    is_whole = sizes["private"] == PAPER.sized(papers.FULL)["private"]
    spec = _spec("beside", one, data, noises, sizes["repeats"] if is_whole else None)
    if not noises:
        del spec["systems"]["noisy-adam"]
    return spec


def _spec(name: str, one: papers.Row, data: Path, noises: Sequence[float], repeats: int | None) -> dict[str, Any]:
    asked, made = min(one.asked, one.records), papers.section({**one.options, "train": one.records}, data)
    # As many non-members as members, and twice as many for the attacker.
    made |= {"validation": 3 * one.records} if "of" in one.options else {}
    values = {"data": made, "delta": delta_of(one), "noises": noises or None, "repeats": repeats}
    asking = {"one_side": asked, "both_sides": 2 * asked, "draws": list(range(repeats or 1))}
    return papers.filled(PAPER.sweeps[name], vars(one) | values | asking)


# Trials as points of a figure; and what the shadow attack gets out of DP-SGD's models.

METHODS = {"laplace": "Alg. 1 (Lap)", "gaussian": "Alg. 1 (Gaus)"}
LAPLACE, GAUSSIAN = METHODS.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One place on a curve, averaged over repeats.

    epsilon  the paper's label: per answer for Algorithm 1 (a mu with Gaussian noise), of the training for DP-SGD
    claimed  epsilon of the trial's own claim: all answers together, or the training by the PLD
    loss     Acc_Loss; leak Priv_Leak
    """

    method: str
    epsilon: float
    claimed: float
    loss: float
    leak: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SetResult:
    """One data set: Table V's row, and the curves of its figure.

    original            (train, test) accuracy on the original loss; convexified on the risk-averse one
    leak                Priv_Leak without noise
    answers             of non-members behind each point of Algorithm 1, and as many of members
    untrained           (method, epsilon, noise) that was too much noise to be run
    """

    set: papers.Row
    original: tuple[float, float] | None
    convexified: tuple[float, float]
    leak: float
    stability: float
    answers: int
    points: Sequence[CurvePoint]
    untrained: Sequence[tuple[str, float, float]]

    @property
    def gap(self) -> float:
        """Training accuracy less test accuracy."""
        return self.convexified[0] - self.convexified[1]

    def curves(self) -> dict[str, list[CurvePoint]]:
        """The points of every method, by epsilon."""
        found: dict[str, list[CurvePoint]] = defaultdict(list)
        for point in self.points:
            found[point.method].append(point)
        return {method: sorted(points, key=lambda point: point.epsilon) for method, points in found.items()}


def measured(one: papers.Row, sizes: papers.Values, data: Path, run: papers.Reproduction) -> SetResult:
    """Run what is missing of one data set, and read it.

    Raises Missing where trials failed that no comparison can do without.
    """
    told = f"{one.records} records, {one.shadows} shadows, {one.epochs} epochs, {sizes['repeats']} draws"
    run.say(f"lu2021-{one.name}: {told}")
    _, every = run.trained(algorithm_1(one, sizes, data))
    trials = [trial for trial in every if trial.metrics]
    groups: dict[tuple[str, float], list[TrialRecord]] = defaultdict(list)
    for trial in trials:
        # Trials of one point differ in their draw alone.
        groups[str(trial.config["noise"]), float(trial.config["noise_multiplier"])].append(trial)
    points = [
        CurvePoint(
            method=METHODS[noise],
            epsilon=float(f"{1 / multiplier:.6g}"),
            claimed=max(trial.guarantee.epsilon for trial in same if trial.guarantee is not None),
            loss=_mean(same, "accuracy_loss"),
            leak=_mean(same, "shadow_leak"),
        )
        for (noise, multiplier), same in groups.items()
    ]
    original, private, untrained = _beside(one, sizes, data, run, trials) if sizes["private"] else (None, [], [])
    points += private
    if lacking := sorted({LAPLACE, GAUSSIAN} - {point.method for point in points}):
        raise papers.Missing(f"no trial of {' and '.join(lacking)} has a result")
    return SetResult(
        set=one,
        original=original,
        convexified=(_mean(trials, "train_accuracy"), _mean(trials, "baseline_accuracy")),
        leak=_mean(trials, "baseline_leak"),
        stability=_mean(trials, "stability"),
        answers=min(one.asked, one.records) * sizes["repeats"],
        points=points,
        untrained=untrained,
    )


def _beside(
    one: papers.Row, sizes: papers.Values, data: Path, run: papers.Reproduction, attackers: Sequence[TrialRecord]
) -> tuple[tuple[float, float] | None, list[CurvePoint], list[tuple[str, float, float]]]:
    """`SetResult.original`, then DP-SGD's models attacked as Algorithm 1's answers are, then `SetResult.untrained`."""
    from trainables.data import SOURCES
    from trainables.systems.lu2021 import under_attack

    noises = baseline_noises(one, sizes)
    spec, trials = run.trained(beside(one, sizes, data, noises))
    reported = [trial for trial in trials if trial.metrics]
    plain = [trial for trial in reported if trial.system == "convexified-loss"]
    original = (_mean(plain, "train_accuracy"), _mean(plain, "baseline_accuracy")) if plain else None
    attacker = next((trial for trial in attackers if trial.config["draw"] == 0), None)
    if attacker is None:
        raise papers.Missing("no trial has the attacker's models")
    dataset = SOURCES[spec.data.source].load(spec.data.options())
    judged = under_attack(dataset, _state(run, f"lu2021-{one.name}", attacker), one.records)
    baseline = _mean(attackers, "baseline_accuracy")
    by_noise: dict[float, list[tuple[float, float, float]]] = defaultdict(list)
    for trial in reported:
        if trial.system == "noisy-adam" and trial.guarantee is not None:
            accuracy, leak = judged(_state(run, spec.name, trial))
            found = trial.guarantee.epsilon, 1 - accuracy / baseline, leak
            by_noise[float(trial.config["noise_multiplier"])].append(found)
    points, untrained = [], []
    for (counting, epsilon), noise in noises.items():
        method = f"DP-SGD ({counting})"
        if noise > NOISE_MAX:
            untrained.append((method, epsilon, noise))
        elif noise in by_noise:
            claimed, loss, leak = (fmean(values) for values in zip(*by_noise[noise], strict=True))
            points.append(CurvePoint(method=method, epsilon=epsilon, claimed=claimed, loss=loss, leak=leak))
    return original, points, untrained


def _state(run: papers.Reproduction, sweep: str, trial: TrialRecord) -> Mapping[str, np.ndarray]:
    return Attempt.of(run.workspace.trials(sweep), trial.key, trial.attempts).read(trial.step).state


def _mean(trials: Sequence[TrialRecord], metric: str) -> float:
    return fmean(trial.metrics[metric] for trial in trials)


CLOSE = 0.05
"""Accuracies and leaks that differ by no more agree."""
SLACK = 0.03
"""How far two losses may differ and count as equal, unless the answers are too few to tell."""
EXCEPTED = ("mnist", "adult")
"""Finding 3 names them: models that hardly leak without noise."""


def reproduce(run: papers.Reproduction) -> None:
    """Tables I, V, VI and Figures 2, 3, 10-12. `effort.repeats` averages over that many trainings (coarse: 2)."""
    without_data(run)
    sizes = PAPER.sized(run.effort)
    found: list[SetResult] = []

    def made(data: Path, one: papers.Row) -> None:
        found.append(measured(one, sizes, data, run))

    if run.data is None:
        run.result.cut.append("Table V and Figures 3-13: not run (no --data DIR)")
    for one in (sized(one, sizes) for one in SETS[: sizes["most"]] if run.data is not None):
        if why := run.part(one.options, partial(made, one=one)):
            run.result.cut.append(f"{one.row}: not run ({why})")
    run.result.cut += cut(sizes, [one.set for one in found])
    if not found:
        why = "no --data DIR" if run.data is None else "no data set found"
        for claim in PAPER.printed["untried"]:
            run.untried(claim, f"not run ({why})")
        return
    hold(run, found)
    run.result.tables += tables(found)
    draw(run, found)


def slack(one: SetResult) -> float:
    """`SLACK`, or two standard errors of the difference of two losses."""
    accuracy = max(one.convexified[1], 1e-3)
    return round(max(SLACK, 2 * math.sqrt(0.5 / one.answers) / accuracy), 4)


def hold(run: papers.Reproduction, found: Sequence[SetResult]) -> None:
    """The statements, data set by data set, and those over all of them."""
    for one in found:
        _set(run, one)
    if len(found) < 3:
        return
    for group, attribute, few in (
        ("finding_1", "leak", list(found)),
        ("figure_2a", "stability", [one for one in found if one.convexified[1] > 0.5]),
    ):
        if len(few) > 2:
            rank = stats.spearmanr([getattr(one, attribute) for one in few], [one.gap for one in few])[0]
            run.hold(group, {"sets": len(few), "rank": float(rank)})


def _set(run: papers.Reproduction, one: SetResult) -> None:
    """Table V's row and the figure of one data set."""
    row, curves, times = ROWS[one.set.row], one.curves(), ROWS[one.set.row].records / one.set.records
    smaller = f": Dz, and with it the noise, is {times:.3g} times the paper's" if times != 1 else ", as in the paper"
    values: dict[str, Any] = {
        "one": one,
        "printed": row,
        "train": one.convexified[0],
        "test": one.convexified[1],
        "where": f"Figure {one.set.figure}, {row.name}",
        "close": CLOSE,
        "slack": slack(one),
        "smaller": f"{one.set.records} records{smaller}.",
    }
    run.hold("table_v", values)
    if one.original is not None:
        run.hold("original", {**values, "original": one.original[1], "enough": one.original[1] - CLOSE})
    laplace, gaussian = curves[LAPLACE], curves[GAUSSIAN]
    for method, curve in ((GAUSSIAN, gaussian), (LAPLACE, laplace)):
        rise = max((b.loss - a.loss for a, b in pairwise(curve)), default=0.0)
        own = {**values, "method": method, "first": curve[0], "last": curve[-1], "rise": rise}
        run.hold("noise", own)
        enough = 100.0 if method == LAPLACE or one.set.name == "location" else 10.0
        if late := [point for point in curve if point.epsilon >= enough]:
            loss = max(point.loss for point in late)
            run.hold("gone", {**own, "from_epsilon": late[0].epsilon, "late_loss": loss})
    # Only a pure epsilon has this bound.
    first, error = laplace[0], 3 * math.sqrt(0.5 / one.answers)
    plotted, tight = plotted_leakage_bound(first.epsilon), advantage_bound(first.epsilon)
    more = " The attack contradicts the claimed epsilon." if first.leak > tight + error else ""
    bounds = {"plotted": plotted, "tight": tight, "may_leak": plotted + error, "error": error, "contradicted": more}
    run.hold("bounded", {**values, "first": first, **bounds})
    at = {point.epsilon: point.loss for point in gaussian}
    # Where trials of one law failed, the other has nothing to be held against.
    if gaps := [point.loss - at[point.epsilon] for point in laplace if point.epsilon in at]:
        apart = {"apart": max(map(abs, gaps)), "more": max(0.0, -min(gaps)), "fewer": max(gaps)}
        run.hold("two_classes" if one.set.classes == 2 else "more_classes", values | apart)
    sgd = [point for point in one.points if point.method.startswith("DP-SGD")]
    pairs = [(mine, other) for other in sgd for mine in gaussian if mine.epsilon == other.epsilon]
    if pairs:
        better = [other for mine, other in pairs if other.loss < mine.loss - slack(one)]
        beaten = ", ".join(f"{other.method} at epsilon {other.epsilon:g}" for other in better)
        everywhere = f"more than {beaten}" if beaten else "at every point"
        told = {"pairs": len(pairs), "beaten": len(better), "somewhere": beaten or "at none", "everywhere": everywhere}
        run.hold("excepted" if one.set.name in EXCEPTED else "against_sgd", {**values, **told})


def tables(found: Sequence[SetResult]) -> list[papers.ResultTable]:
    """Table V as measured, and the numbers behind each figure."""
    numbers = {
        one.set.row: (*(one.original or ()), *one.convexified, one.gap, one.leak, one.stability) for one in found
    }
    rows = [[row, *[""] * (7 - len(own)), *(f"{value:.4f}" for value in own)] for row, own in numbers.items()]
    heads = ("data", "train (original)", "test", "train (convexified)", "test", "gap", "Priv_Leak", "OARO")
    out = [papers.ResultTable("Table V, measured here", heads, rows)]
    for one in found:
        cells = [
            [point.method, f"{point.epsilon:g}", f"{point.claimed:.4g}", f"{point.loss:.4f}", f"{point.leak:.4f}"]
            for curve in one.curves().values()
            for point in curve
        ]
        cells += [[name, f"{epsilon:g}", "", f"noise {z:.4g}: not trained", ""] for name, epsilon, z in one.untrained]
        columns = ("method", "epsilon (paper)", "claimed by the trial", "Acc_Loss", "Priv_Leak")
        out.append(papers.ResultTable(f"Figure {one.set.figure}, {one.set.row}", columns, cells))
    return out


def draw(run: papers.Reproduction, found: Sequence[SetResult]) -> None:
    """Acc_Loss and Priv_Leak along epsilon, two panels a data set."""
    panels = []
    for one in found:
        at = sorted({point.epsilon for point in one.points})
        capped = {epsilon: min(plotted_leakage_bound(epsilon), one.leak) for epsilon in at}
        bounds = {"exp(ε) - 1, cut at the baseline": capped, "without noise": dict.fromkeys(at, one.leak)}
        dashed = {name: papers.DASHED for name in bounds}
        for what, name, more in (("Acc_Loss", "loss", {}), ("Priv_Leak", "leak", bounds)):
            own = {method: {p.epsilon: getattr(p, name) for p in curve} for method, curve in one.curves().items()}
            title = f"Figure {one.set.figure}, {one.set.row}: {what}"
            panels.append(papers.Panel(title=title, x=ACROSS, y=what, curves=own | more, styles=dashed, log="x"))
    run.draw("reproductions/lu2021", "figures.png", panels, columns=2, size=(5.5, 3.6))


ACROSS = "ε as the paper labels it (Algorithm 1: per answer, refuted)"
