"""Wu et al. (2020), membership privacy of SGLD: Table 1 on German Credit, the theory's statements, the path of Table 2.

The paper's 400/300/300 split is one random draw, and an attack's AUC on 400 members and 300 others has a standard error
of about 0.022 by the draw alone. So every training here is repeated over public splits, methods are compared split by
split, and standard errors are those of split means.

The paper gives one initial rate e for all methods, the batch, the epochs and the halving. The samplers use e as it is.
SGD and dropout take the samplers' own drift without noise and prior, learning rate (e/2) N on the mean loss: with e
itself on the mean loss nothing would be learned in 30 epochs, and the printed training accuracy is 1.000. RMSprop,
whose step does not depend on the scale of the loss, takes e. The width of the net is not printed.

The unprotected methods claim nothing: their epsilon is infinite, and the specs say why they may run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from dpcore.accounting import headline
from dpcore.events import Adjacency, Gaussian, PoissonSampled, Repeated
from dpcore.guarantee import Status, epsilon_text
from dpcore.papers import wu2020 as membership
from dpcore.papers.wu2020 import clipped_event, halving_schedule, noise_multiplier, published_noise_factor
from sweeps import papers
from sweeps.store.records import TrialRecord

PAPER = papers.Paper.load("wu2020")
HIDDEN = 64
LAST = "last_"
METRICS = {
    "attack_auc": "attack AUC",
    "attack_f1": "attack F1",
    "attack_accuracy": "attack accuracy",
    "train_accuracy": "train",
    "accuracy": "test",
}
PROTECTED = ("clipped-sgld", "dp-sgld")
SCHEDULES: Mapping[str, Mapping[str, Any]] = PAPER.printed["schedules"]


TABLE_1, TABLE_2 = PAPER.rows("table_1"), PAPER.rows("table_2")


def metric_of(row: papers.Row, name: str) -> str:
    """A plain row is the last iterate alone; a `+` row the average of the last three."""
    return name if row.ensemble else LAST + name


def reproduce(run: papers.Reproduction) -> None:
    """Table 1 in full, the theory, and a few steps of the ResNet-18 behind Table 2."""
    run.hold("theory", theory())
    run.result.tables.append(clipping())
    sizes = PAPER.sized(run.effort)
    if why := run.part({"source": "german_credit"}, lambda data: _credit(run, sizes, data)):
        run.result.cut.append(f"Table 1: not trained ({why})")
        table_1(run, Measurements(), f"not trained ({why})")
    title = "ResNet-18 on IDC"
    if why := run.part({"source": "idc"}, partial(_images, run, sizes), title=title, quick=False):
        told = f"Table 2: ResNet-18 not run ({why})"
        run.result.cut.append(told)
        run.hold("table_2", {}, told)


# Theory


def theory() -> dict[str, Any]:
    """The paper's theorems in numbers: Theorem 1 at the loss of a coin flip, Property 1, the noise of DP-SGLD."""
    coin, counter = math.log(2), membership.property_1_counterexample()
    one_out, lemma_2 = membership.leave_one_out_constant(1.0), math.expm1(2.0)
    records, batch, passes, _, _, delta, _ = SCHEDULES["German Credit"].values()
    noise = math.sqrt(published_noise_factor(records, passes, 1.0, batch, 1.0, delta)) * batch / records
    step = PoissonSampled(rate=batch / records, event=Gaussian(noise_multiplier=noise))
    exact = headline(Repeated(event=step, count=passes * math.ceil(records / batch)), delta, Adjacency.ADD_REMOVE)
    return {
        "above": membership.vacuity_thresholds(),
        "coin": coin,
        "theorem_1": membership.published_bound(coin),
        "trivial": membership.trivial_bound(coin),
        "membership_only": Status.MEMBERSHIP_ONLY,
        "leave_one_out": one_out,
        "lemma_2": lemma_2,
        "times": lemma_2 / one_out,
        "repaired": membership.repaired_bound(1.0),
        "at_one": membership.published_bound(1.0),
        "counter": counter,
        "with_delta": membership.property_1_status(counter.delta),
        "without_delta": membership.property_1_status(0.0),
        "pure_leakage": membership.dp_leakage_bound(1.0),
        "exact": exact,
        "spent": epsilon_text(exact.epsilon),
        "less": 1 / exact.epsilon,
        "noise": noise,
    }


def clipping() -> papers.ResultTable:
    """The published schedules with every gradient clipped, counted exactly. Without a clip nothing can be counted."""
    rows: list[tuple[object, ...]] = []
    for name, printed in SCHEDULES.items():
        records, batch, epochs, rate, every, delta, clips = printed.values()
        schedule = halving_schedule(rate, every, epochs, math.ceil(records / batch))
        rows.append((name, "none", "undefined", "inf", f"{delta:g}", "nothing is claimed"))
        for clip in clips:
            exact = headline(clipped_event(schedule, records, batch, clip), delta, Adjacency.ADD_REMOVE)
            counted = epsilon_text(exact.epsilon), f"{delta:g}", f"{exact.status}, {exact.accountant}"
            rows.append((name, clip, noise_multiplier(rate, records, batch, clip), *counted))
    return papers.ResultTable(
        "SGLD with the paper's schedules, clipped: one draw's epsilon, add-remove, per record",
        ("data", "clip norm", "first noise multiplier", "epsilon", "delta", "status"),
        rows,
    )


# Sweeps


def credit(sizes: papers.Values, data: Path, split: int) -> dict[str, Any]:
    """All methods of Table 1, SGHMC and the two protected relatives on one split."""
    values = {**SCHEDULES["German Credit"], **sizes, "split": split}
    return papers.filled(PAPER.sweeps["german"], _steps(values, data, values["records"]))


def images(sizes: papers.Values, data: Path) -> dict[str, Any]:
    """The ResNet-18 of Table 2 on IDC: all of it, or a few images of it for SGD and SGLD alone."""
    schedule, few = SCHEDULES["IDC"], sizes["images"]
    values = {**schedule, **sizes, "validate": 512 if few else None}
    part = papers.filled(PAPER.sweeps["resnet18"], _steps(values, data, few or schedule["records"]))
    if few:
        part["systems"] = {name: part["systems"][name] for name in ("sgd", "sgld")}
    return dict(part)


def _steps(values: papers.Values, data: Path, records: int) -> dict[str, Any]:
    rate = values["rate"]
    return {**values, "path": str(data.absolute()), "drift": rate / 2 * records, "tenth": rate / 10}


def cut(sizes: papers.Values) -> list[str]:
    """What of Table 1 is left out, in sentences."""
    lines = [f"Table 1: {told}" for told in PAPER.cut(sizes)]
    alone = "Table 1: one split, so no standard errors and no orderings (--quick)"
    return [*lines, alone] if sizes["splits"] == 1 else lines


# Results


@dataclass(frozen=True, slots=True)
class Measurements:
    """Finished trials, each with its split. Repeats on one split share its members: they are averaged first."""

    trials: Sequence[tuple[int, TrialRecord]] = ()

    def of(self, system: str, hidden: int | None = None) -> list[tuple[int, TrialRecord]]:
        """Those of one system; of all widths by default."""
        own = ((split, one) for split, one in self.trials if one.system == system and one.guarantee is not None)
        return [(split, one) for split, one in own if hidden in (None, one.config.get("hidden", 0))]

    def epsilon(self, system: str) -> float:
        """The largest claim of a system."""
        return max(one.guarantee.epsilon for _, one in self.of(system) if one.guarantee is not None)

    def by_split(self, system: str, hidden: int, metric: str) -> dict[int, float]:
        """{split: mean over its trainings}; a split where none reported the metric is absent."""
        found: dict[int, list[float]] = defaultdict(list)
        for split, one in self.of(system, hidden):
            if metric in one.metrics:
                found[split].append(one.metrics[metric])
        return {split: fmean(one) for split, one in found.items()}

    def mean(self, system: str, hidden: int, metric: str) -> papers.Uncertain | None:
        """Over splits; None when nothing was trained."""
        values = self.by_split(system, hidden, metric).values()
        return papers.Uncertain.of(values) if values else None

    def beside(self, row: papers.Row, hidden: int) -> list[str]:
        """The cells of a published row: printed | ours."""
        ours = ((one, self.mean(row.system, hidden, metric_of(row, one))) for one in METRICS)
        return [f"{getattr(row, one):.3f} | {mean or 'no result'}" for one, mean in ours]

    def difference(self, one: str, other: str) -> papers.Uncertain | None:
        """Of two metrics, each "system.metric", over the splits of both; None without any.

        Methods are compared on the same splits, on which they err together.
        """
        mine, theirs = (self.by_split(name, HIDDEN, metric) for name, metric in (o.split(".") for o in (one, other)))
        shared = [mine[split] - theirs[split] for split in mine if split in theirs]
        return papers.Uncertain.of(shared) if shared else None


def table_1(run: papers.Reproduction, found: Measurements, why: str = papers.NOT_RUN) -> None:
    """Every row's AUC and test accuracy, then every statement; of what was not trained, `why`."""
    for row in TABLE_1:
        for metric, name in (("attack_auc", "attack AUC"), ("accuracy", "test accuracy")):
            ours, error = found.mean(row.system, HIDDEN, metric_of(row, metric)), PAPER.printed["errors"][metric]
            values = {"row": row.name, "name": name, "printed": getattr(row, metric)}
            if ours is not None:
                # One training on one split is as uncertain as the printed one.
                near = 2 * math.hypot(error, ours.error if ours.error > 0 else error)
                values |= {"ours": ours, "near": near, "holds": abs(ours.value - getattr(row, metric)) <= near}
            run.hold("row", values, why if ours is None else "")
    compared = [(claim, printed, more, less, None) for claim, printed, less, more in PAPER.printed["orderings"]]
    for claim, printed, one, other, margin in (*compared, *PAPER.printed["unchanged"]):
        lead = found.difference(one, other)
        if lead is None:
            run.untried(f"Table 1: {claim}", why, printed)
        else:
            run.claim(f"Table 1: {claim}", printed, f"difference {lead}", *_decided(lead, margin))


def _decided(lead: papers.Uncertain, margin: float | None) -> tuple[papers.Yes, str]:
    """Whether a difference passes two standard errors; with a margin, whether it surely does not pass that."""
    if math.isnan(lead.error):
        return None, "one split has no standard error"
    if margin is None:
        holds, over = papers.above(lead, papers.Uncertain(0.0, 0.0)), "by more than two standard errors"
        return holds, {True: over, False: f"the other way round, {over}", None: papers.UNDECIDED}[holds]
    holds, within = papers.at_most(lead, margin), f"margin {margin:g}"
    return holds, {True: within, False: f"{within}: passed", None: f"{within}: {papers.UNDECIDED}"}[holds]


def _credit(run: papers.Reproduction, sizes: papers.Values, data: Path) -> None:
    trials: list[tuple[int, TrialRecord]] = []
    for split in range(sizes["splits"]):
        run.say(f"German Credit, split {split + 1} of {sizes['splits']}")
        trials += [(split, one) for one in run.trained(credit(sizes, data, split))[1]]
    found = Measurements(trials)
    run.result.cut += cut(sizes)
    table_1(run, found)
    run.result.tables += tables(found, sizes["widths"])
    run.draw("reproductions/wu2020", "table-1.png", [picture(found)], size=(8, 5.5))


def _images(run: papers.Reproduction, sizes: papers.Values, data: Path) -> None:
    part, few = images(sizes, data), sizes["images"]
    _, trials = run.trained(part)
    if few:
        run.result.cut.append(
            f"Table 2: {sizes['image_epochs']} epochs of SGD and SGLD on {few} images instead of 100 epochs of all "
            f"methods on {SCHEDULES['IDC']['records']} (--grid coarse)"
        )
    found = Measurements([(0, one) for one in trials])
    rows = [[row.name, *found.beside(row, HIDDEN)] for row in TABLE_2 if row.system in part["systems"]]
    steps = max((one.step for one in trials), default=0)
    title = f"ResNet-18: Table 2 (IDC, 100 epochs) | ours ({steps} steps)"
    run.result.tables.append(papers.ResultTable(title, ("method", *METRICS.values()), rows))
    sgld, sgd = (found.mean(system, HIDDEN, LAST + "attack_auc") for system in ("sgld", "sgd"))
    if sgld is None or sgd is None:
        return run.hold("table_2", {}, "a training did not finish")
    # One training each is shown; it is held against the table only if that was run.
    note = "a few steps: they show that the path runs, and nothing about the table" if few else "one training each"
    less = None if few else sgld.value < sgd.value
    return run.hold("table_2", {"shown": f"{sgld.value:.3f}, {sgd.value:.3f}", "less": less, "note": note})


# Tables and the picture


def tables(found: Measurements, widths: Sequence[int]) -> list[papers.ResultTable]:
    """Table 1 for every width, the bounds on leakage, and the protected relatives."""
    shown = [*(_beside(found, hidden) for hidden in widths), _bounds(found, widths), _protected(found, widths)]
    return [table for table in shown if table.rows]


def _beside(found: Measurements, hidden: int) -> papers.ResultTable:
    rows = [[row.name, len(found.of(row.system, hidden)), *found.beside(row, hidden)] for row in TABLE_1]
    extra = [f"- | {found.mean('sghmc', hidden, LAST + metric) or 'no result'}" for metric in METRICS]
    title = f"Table 1, German Credit, {hidden} hidden units: published | ours, mean +- standard error over splits"
    rows.append(["SGHMC", len(found.of("sghmc", hidden)), *extra])
    return papers.ResultTable(title, ("method", "trainings", *METRICS.values()), rows)


def _bounds(found: Measurements, widths: Sequence[int]) -> papers.ResultTable:
    rows = []
    for hidden, system in product(widths, ("sgld", "psgld", "sghmc")):
        largest = found.mean(system, hidden, LAST + "loss_bound")
        leaked = [found.mean(system, hidden, name) for name in ("mpl", "mpl_bound", "ensemble_mpl_bound")]
        if largest is None or None in leaked:
            continue
        proofs = (membership.published_bound, membership.repaired_bound, membership.trivial_bound)
        bounds = [bound(largest.value) for bound in proofs]
        verdict = "vacuous" if bounds[0] > 0.5 else "says something"
        rows.append((f"{system}, {hidden}", largest.value, *bounds, *map(str, leaked), verdict))
    title = (
        "Leakage Mpl of members at prior 1/2, membership-only: estimated from the last 20 iterates, which lie close "
        "together and understate it, and only if the sampler has converged. Theorem 1 is vacuous from B = "
        f"{membership.vacuity_thresholds()[1]:.4f}"
    )
    of_b = ("largest loss B", "Theorem 1", "repaired", "any algorithm")
    return papers.ResultTable(title, ("sampler, width", *of_b, "Mpl", "eq. 7", "eq. 9", "Theorem 1 is"), rows)


def _protected(found: Measurements, widths: Sequence[int]) -> papers.ResultTable:
    rows = []
    for hidden, system in product(widths, ("sgd", "sgld", *PROTECTED)):
        accuracy = found.mean(system, hidden, "accuracy" if system in PROTECTED else LAST + "accuracy")
        if accuracy is not None:
            leaked = found.mean(system, hidden, "membership_auc")
            claimed = epsilon_text(found.epsilon(system))
            rows.append((f"{system}, {hidden}", str(accuracy), str(leaked or "not measured"), claimed))
    title = "What differential privacy costs and buys: the claim at delta 0.001 (inf: nothing is claimed)"
    return papers.ResultTable(title, ("system, width", "test accuracy", "attack AUC, 300 + 300", "epsilon"), rows)


def picture(found: Measurements) -> papers.Panel:
    """Attack AUC against test accuracy: ours with their standard errors, the printed runs as crosses."""
    shown: dict[str, Mapping[Any, Any]] = {}
    styles: dict[str, Mapping[str, Any]] = {}
    for number, row in enumerate(TABLE_1):
        style = {"color": f"C{number}", "linestyle": "", "capsize": 2}
        across, up = (found.mean(row.system, HIDDEN, metric_of(row, metric)) for metric in ("attack_auc", "accuracy"))
        shown[f"{row.name}, published"] = {row.attack_auc: row.accuracy}
        styles |= {f"{row.name}, published": {**style, "marker": "x", "ms": 7}, row.name: style}
        shown |= {row.name: {across: up}} if across is not None and up is not None else {}
    title = f"German Credit, {HIDDEN} hidden units; crosses: published, one run each"
    x = "attack AUC (0.5: the attacker guesses)"
    return papers.Panel(title=title, x=x, y="test accuracy", curves=shown, styles=styles)
