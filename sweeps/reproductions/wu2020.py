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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpcore import membership
from dpcore.accounting import headline
from dpcore.adjacency import Adjacency
from dpcore.events import Gaussian, PoissonSampled, Repeated
from dpcore.guarantee import Status
from dpcore.sgld import clipped_event, halving_schedule, noise_multiplier, published_noise_factor
from sweeps.records import TrialRecord
from sweeps.release.rounding import epsilon_text
from sweeps.reproductions.claims import Table
from sweeps.reproductions.files import Missing
from sweeps.reproductions.paper import Paper
from sweeps.reproductions.pictures import Line, Panel
from sweeps.reproductions.run import Run
from sweeps.reproductions.statements import Estimate
from trainables.data import idc

PAPER = Paper.load("wu2020")
HIDDEN = 64
UNPROTECTED = "The published comparison is between methods without protection."
LAST = "last_"
METRICS = {
    "attack_auc": "attack AUC",
    "attack_f1": "attack F1",
    "attack_accuracy": "attack accuracy",
    "train_accuracy": "train",
    "accuracy": "test",
}
PROTECTED = ("clipped-sgld", "dp-sgld")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a printed table, and how it is run here."""

    name: str
    system: str
    ensemble: bool
    attack_auc: float
    attack_f1: float
    attack_accuracy: float
    train_accuracy: float
    accuracy: float

    def metric(self, name: str) -> str:
        """A plain row is the last iterate alone; a `+` row the average of the last three."""
        return name if self.ensemble else LAST + name


TABLE_1, TABLE_2 = ([Row(*row) for row in PAPER.printed[name]] for name in ("table_1", "table_2"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How much is run; see the paper's file."""

    splits: int
    repeats: int
    widths: tuple[int, ...]
    images: int | None
    image_epochs: int

    def cut(self) -> list[str]:
        """What of Table 1 is left out, in sentences."""
        lines = [f"Table 1: {told}" for told in PAPER.cut(self)]
        alone = "Table 1: one split, so no standard errors and no orderings (--quick)"
        return [*lines, alone] if self.splits == 1 else lines


def reproduce(run: Run) -> None:
    """Table 1 in full, the theory, and a few steps of the ResNet-18 behind Table 2."""
    run.hold("theory", theory())
    run.result.tables.append(clipping())
    scope = PAPER.scope(Scope, run.effort)

    def left(why: str) -> None:
        run.result.cut.append(f"Table 1: not trained ({why})")
        table_1(run, Measurements(), f"not trained ({why})")

    run.part({"source": "german_credit"}, lambda data: _credit(run, scope, data), left)
    _images(run, scope)


# Theory


def theory() -> dict[str, Any]:
    """The paper's theorems in numbers: Theorem 1 at the loss of a coin flip, Property 1, the noise of DP-SGLD."""
    coin, counter, leave_one_out = (
        math.log(2),
        membership.property_1_counterexample(),
        membership.leave_one_out_constant,
    )
    records, batch, passes, _, _, delta, _ = PAPER.printed["schedules"]["German Credit"]
    noise = math.sqrt(published_noise_factor(records, passes, 1.0, batch, 1.0, delta)) * batch / records
    step = PoissonSampled(rate=batch / records, event=Gaussian(noise_multiplier=noise))
    exact = headline(Repeated(event=step, count=passes * math.ceil(records / batch)), delta, Adjacency.ADD_REMOVE)
    thresholds = zip(("above_trivial", "above_half", "above_one"), membership.vacuity_thresholds(), strict=True)
    return {
        **dict(thresholds),
        "coin": coin,
        "theorem_1": membership.published_bound(coin),
        "trivial": membership.trivial_bound(coin),
        "membership_only": Status.MEMBERSHIP_ONLY,
        "leave_one_out": leave_one_out(1.0),
        "lemma_2": math.expm1(2.0),
        "times": math.expm1(2.0) / leave_one_out(1.0),
        "repaired": membership.repaired_bound(1.0),
        "at_one": membership.published_bound(1.0),
        "delta": counter.delta,
        "exceeds": counter.leakage_exceeds,
        "with_delta": membership.property_1_status(counter.delta),
        "without_delta": membership.property_1_status(0.0),
        "pure_leakage": membership.dp_leakage_bound(1.0),
        "epsilon": exact.epsilon,
        "epsilon_text": epsilon_text(exact.epsilon),
        "less": 1 / exact.epsilon,
        "status": exact.status,
        "accountant": exact.accountant,
        "noise": noise,
    }


def clipping() -> Table:
    """The published schedules with every gradient clipped, counted exactly. Without a clip nothing can be counted."""
    rows: list[tuple[object, ...]] = []
    for name, (records, batch, epochs, rate, every, delta, clips) in PAPER.printed["schedules"].items():
        schedule = halving_schedule(rate, every, epochs, math.ceil(records / batch))
        rows.append((name, "none", "undefined", "inf", f"{delta:g}", "nothing is claimed"))
        for clip in clips:
            exact = headline(clipped_event(schedule, records, batch, clip), delta, Adjacency.ADD_REMOVE)
            counted = epsilon_text(exact.epsilon), f"{delta:g}", f"{exact.status}, {exact.accountant}"
            rows.append((name, clip, noise_multiplier(rate, records, batch, clip), *counted))
    return Table(
        "SGLD with the paper's schedules, clipped: one draw's epsilon, add-remove, per record",
        ("data", "clip norm", "first noise multiplier", "epsilon", "delta", "status"),
        rows,
    )


# Sweeps


def credit(scope: Scope, data: Path, split: int) -> dict[str, Any]:
    """All methods of Table 1, SGHMC and the two protected relatives on one split."""
    records, batch, epochs, rate, every, delta, _ = PAPER.printed["schedules"]["German Credit"]
    hidden = {"choice": list(scope.widths)} if len(scope.widths) > 1 else HIDDEN
    shared = {"model": "mlp3", "hidden": hidden, "batch_size": batch, "epochs": epochs, "halve_every": every}
    protected = {**shared, "hidden": HIDDEN, "step_size": rate}
    source = {"source": "german_credit", "path": str(data.absolute()), "form": "raw", "scale": "standard"}
    return {
        "name": f"wu2020-german-{split}",
        "data": {**source, "split": split},
        "systems": {
            **_methods(shared, rate=rate, drift=rate / 2 * records, draws=20),
            "clipped-sgld": protected,
            "dp-sgld": {**protected, "clip_norm": 1.0},
        },
        "privacy": {"epsilon": 1.0, "delta": delta, "allow_unprotected": UNPROTECTED},
        "objectives": [{"metric": "accuracy"}, {"metric": "membership_auc"}, {"metric": "epsilon"}],
        "search": {"sampler": "grid", "repeats": scope.repeats, "seed": split},
    }


def images(scope: Scope, data: Path | None) -> tuple[dict[str, Any] | None, list[str]]:
    """The ResNet-18 on IDC where its folder is there, else on CIFAR-10; and what has to be said about that."""
    records, batch, _, rate, every, delta, _ = PAPER.printed["schedules"]["IDC"]
    if scope.images == 0 or data is None:
        return None, ["--quick" if scope.images == 0 else "no --data DIR"]
    few = {} if scope.images is None else {"limit": scope.images}
    note = []
    if idc.present(data):
        source, held_out = "idc", {"validate": 512} if few else {}
    elif (data / "cifar10").is_dir():
        source, held_out, records = "cifar10", {}, 4000
        note = [f"Table 2: IDC's files are absent ({idc.FOLDER} in {data}); its path runs on CIFAR-10 instead"]
    else:
        return None, [f"missing: neither {idc.FOLDER}/ nor cifar10/ in {data}"]
    if few:
        note.append(
            f"Table 2: {scope.image_epochs} epochs of SGD and SGLD on {scope.images} images instead of 100 epochs of "
            f"all methods on {sum(idc.TRAIN)} (--grid coarse)"
        )
    shared = {"model": "resnet18", "batch_size": batch, "epochs": scope.image_epochs, "halve_every": every}
    methods = _methods(shared, rate=rate, drift=rate / 2 * (scope.images or records), draws=3)
    return {
        "name": f"wu2020-resnet18-{source}",
        "data": {"source": source, "path": str(data.absolute()), **few, **held_out},
        "systems": {name: one for name, one in methods.items() if not few or name in ("sgd", "sgld")},
        "privacy": {"epsilon": 1.0, "delta": delta, "allow_unprotected": UNPROTECTED},
        "objectives": [{"metric": "accuracy"}, {"metric": "attack_auc"}],
        "search": {"sampler": "grid", "repeats": 1},
    }, note


def _methods(shared: Mapping[str, Any], *, rate: float, drift: float, draws: int) -> dict[str, Any]:
    sampler = {**shared, "step_size": rate, "prior_variance": 1.0, "draws": draws}
    return {
        "sgd": {**shared, "learning_rate": drift},
        "dropout": {**shared, "learning_rate": drift, "dropout": 0.3},
        "rmsprop": {**shared, "learning_rate": rate},
        "sgld": sampler,
        "psgld": sampler,
        # Not in the tables. A tenth of the rate, since friction 0.1 lets a gradient act for ten steps.
        "sghmc": {**sampler, "step_size": rate / 10},
    }


# Results


@dataclass(slots=True)
class Measurements:
    """Finished trials by split. Repeats on one split share its members, so they are averaged before anything else.

    epsilons  largest claim of each system
    """

    _trials: dict[tuple[str, int], list[tuple[int, Mapping[str, float]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    epsilons: dict[str, float] = field(default_factory=dict)

    def add(self, split: int, trials: Iterable[TrialRecord]) -> None:
        """The trials of one split."""
        for trial in trials:
            if trial.guarantee is not None:
                system = trial.system
                self._trials[system, int(trial.config.get("hidden", 0))].append((split, trial.metrics))
                self.epsilons[system] = max(trial.guarantee.epsilon, self.epsilons.get(system, 0.0))

    def by_split(self, system: str, hidden: int, metric: str) -> dict[int, float]:
        """{split: mean over its trainings}; a split where none reported the metric is absent."""
        found: dict[int, list[float]] = defaultdict(list)
        for split, metrics in self._trials.get((system, hidden), []):
            if metric in metrics:
                found[split].append(metrics[metric])
        return {split: float(np.mean(values)) for split, values in found.items()}

    def mean(self, system: str, hidden: int, metric: str) -> Estimate | None:
        """Over splits; None when nothing was trained."""
        values = self.by_split(system, hidden, metric).values()
        return Estimate.of(values) if values else None

    def row(self, row: Row, hidden: int, metric: str) -> Estimate | None:
        """A metric of a published row."""
        return self.mean(row.system, hidden, row.metric(metric))

    def beside(self, row: Row, hidden: int) -> list[str]:
        """The cells of a published row: printed | ours."""
        return [f"{getattr(row, one):.3f} | {self.row(row, hidden, one) or 'no result'}" for one in METRICS]

    def trainings(self, system: str, hidden: int) -> int:
        """How many finished."""
        return len(self._trials.get((system, hidden), []))

    def values(self, hidden: int) -> dict[str, dict[int, float]]:
        """{"system.metric": by split}, empty where nothing was trained."""
        keys = {(name, metric) for (name, _), found in self._trials.items() for _, one in found for metric in one}
        return defaultdict(dict, {f"{name}.{metric}": self.by_split(name, hidden, metric) for name, metric in keys})


def table_1(run: Run, found: Measurements, why: str = "") -> None:
    """Every row's AUC and test accuracy, then every statement; with `why`, none of them tried."""
    for row in TABLE_1:
        for metric, label in (("attack_auc", "attack AUC"), ("accuracy", "test accuracy")):
            ours, error = found.row(row, HIDDEN, metric), PAPER.printed["errors"][metric]
            # One training on one split is as uncertain as the printed one.
            own = error if ours is None or not ours.error > 0 else ours.error
            values = {"name": row.name, "label": label, "printed": getattr(row, metric), "measured": ours}
            run.hold("row", {**values, "within": 2 * math.hypot(error, own)}, why)
    run.hold("table_1", found.values(HIDDEN), why)


def _credit(run: Run, scope: Scope, data: Path) -> None:
    found = Measurements()
    for split in range(scope.splits):
        run.say(f"German Credit, split {split + 1} of {scope.splits}")
        found.add(split, run.trained(credit(scope, data, split))[1])
    run.result.cut += scope.cut()
    table_1(run, found)
    run.result.tables += tables(found, scope.widths)
    run.draw("reproductions/wu2020", "table-1.png", [_panel(found)], size=(8, 5.5))


def _images(run: Run, scope: Scope) -> None:
    part, note = images(scope, run.data)
    values: dict[str, Any] = {"shown": None, "told": "a training did not finish", "less": None}
    try:
        if part is None:
            if scope.images != 0 and run.data is not None:
                run.say(f"{note[0]}: Table 2 is not trained")
            raise Missing(note[0])
        source = part["data"]["source"]
        run.say(f"ResNet-18 on {source}")
        with run.needing(part["data"]):
            _, trials = run.trained(part)
    except Missing as missing:
        told = f"Table 2: ResNet-18 not run ({missing})"
        run.result.cut.append(told)
        run.hold("table_2", values, told)
        return
    run.result.cut += note
    found = Measurements()
    found.add(0, trials)
    rows = [[row.name, *found.beside(row, HIDDEN)] for row in TABLE_2 if row.system in part["systems"]]
    title = (
        f"ResNet-18: Table 2 (IDC, 100 epochs) | ours ({source}, {max((one.step for one in trials), default=0)} steps)"
    )
    run.result.tables.append(Table(title, ("method", *METRICS.values()), rows))
    sgld, sgd = (found.mean(system, HIDDEN, LAST + "attack_auc") for system in ("sgld", "sgd"))
    if sgld is None or sgd is None:
        run.hold("table_2", values, values["told"])
        return
    # One training each is shown; it is held against the table only if that was run.
    whole = scope.images is None and source == "idc"
    few = "a few steps: they show that the path runs, and nothing about the table"
    shown = f"{sgld.value:.3f}, {sgd.value:.3f} ({source})"
    less = sgld.value < sgd.value if whole else None
    run.hold("table_2", {"shown": shown, "less": less, "told": "one training each" if whole else few})


# Tables and the picture


def tables(found: Measurements, widths: Sequence[int]) -> list[Table]:
    """Table 1 for every width, the bounds on leakage, and the protected relatives."""
    return [*(_beside(found, hidden) for hidden in widths), *_bounds(found, widths), *_protected(found, widths)]


def _beside(found: Measurements, hidden: int) -> Table:
    rows = [[row.name, found.trainings(row.system, hidden), *found.beside(row, hidden)] for row in TABLE_1]
    extra = [f"- | {found.mean('sghmc', hidden, LAST + metric) or 'no result'}" for metric in METRICS]
    title = f"Table 1, German Credit, {hidden} hidden units: published | ours, mean +- standard error over splits"
    rows.append(["SGHMC", found.trainings("sghmc", hidden), *extra])
    return Table(title, ("method", "trainings", *METRICS.values()), rows)


def _bounds(found: Measurements, widths: Sequence[int]) -> list[Table]:
    rows = []
    for hidden, system in ((hidden, system) for hidden in widths for system in ("sgld", "psgld", "sghmc")):
        largest = found.mean(system, hidden, LAST + "loss_bound")
        leaked = [found.mean(system, hidden, name) for name in ("mpl", "mpl_bound", "ensemble_mpl_bound")]
        if largest is None or None in leaked:
            continue
        bounds = [
            bound(largest.value)
            for bound in (membership.published_bound, membership.repaired_bound, membership.trivial_bound)
        ]
        verdict = "vacuous" if bounds[0] > 0.5 else "says something"
        rows.append((f"{system}, {hidden}", largest.value, *bounds, *map(str, leaked), verdict))
    title = (
        "Leakage Mpl of members at prior 1/2, membership-only: estimated from the last 20 iterates, which lie close "
        "together and understate it, and only if the sampler has converged. Theorem 1 is vacuous from B = "
        f"{membership.vacuity_thresholds()[1]:.4f}"
    )
    of_b = ("largest loss B", "Theorem 1", "repaired", "any algorithm")
    return [Table(title, ("sampler, width", *of_b, "Mpl", "eq. 7", "eq. 9", "Theorem 1 is"), rows)] if rows else []


def _protected(found: Measurements, widths: Sequence[int]) -> list[Table]:
    rows = []
    for hidden, system in ((hidden, system) for hidden in widths for system in ("sgd", "sgld", *PROTECTED)):
        accuracy = found.mean(system, hidden, "accuracy" if system in PROTECTED else LAST + "accuracy")
        if accuracy is not None:
            leaked = found.mean(system, hidden, "membership_auc")
            claimed = epsilon_text(found.epsilons[system])
            rows.append((f"{system}, {hidden}", str(accuracy), str(leaked or "not measured"), claimed))
    title = "What differential privacy costs and buys: the claim at delta 0.001 (inf: nothing is claimed)"
    return [Table(title, ("system, width", "test accuracy", "attack AUC, 300 + 300", "epsilon"), rows)] if rows else []


def _panel(found: Measurements) -> Panel:
    """Attack AUC against test accuracy: ours with two standard errors, the printed runs as crosses."""
    lines = []
    for number, row in enumerate(TABLE_1):
        colour = f"C{number // 2 if row.system != 'rmsprop' else 7}"
        lines.append(Line("", [row.attack_auc], [row.accuracy], {"marker": "x", "color": colour}, text=row.name))
        across, up = (found.row(row, HIDDEN, metric) for metric in ("attack_auc", "accuracy"))
        if across is not None and up is not None:
            style = {"color": colour, "capsize": 2, "marker": "o" if row.ensemble else "s", "ms": 5}
            errors = [2 * across.error], [2 * up.error]
            lines.append(Line(row.name, [across.value], [up.value], style, *errors))
    title = f"German Credit, {HIDDEN} hidden units; crosses: published, one run each"
    return Panel(title=title, x="attack AUC (0.5: the attacker guesses)", y="test accuracy", lines=lines)
