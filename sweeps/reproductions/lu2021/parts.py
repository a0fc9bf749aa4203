"""Data sets, their sizes under an effort, and the sweeps behind Table V and the figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpcore.convexified.baselines import Counting, baseline_noise
from sweeps.reproductions.effort import Effort, reduced
from sweeps.reproductions.files import section
from trainables.planner import NOISE_MAX, NOISE_MIN

EPSILONS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1000.0)
"""Section 5.3."""
BATCH, REGULARISER = 100, 0.0005
ORIGINAL_ALPHA = 1e-6
"""Risk aversion at which the objective is the mean loss, up to its last digits."""
CLIP_NORM = 1.0
"""Of DP-SGD; the paper does not print it."""
NO_LIMIT = 1e12
"""Budget of sweeps whose noise is given: their claims are what they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """One data set as it is run.

    row      its name in Tables V and VI
    options  its `data` section, without the path
    records  of the target; as many are asked as non-members, the rest is the attacker's
    asked    members, and as many non-members, that are queried
    """

    name: str
    row: str
    options: Mapping[str, Any]
    records: int
    alpha: float
    shadows: int
    classes: int
    figure: int
    epochs: int = 100
    attack_epochs: int = 100
    asked: int = 10_000

    def data(self, folder: Path) -> dict[str, Any]:
        """The `data` section of a spec."""
        made = section({**self.options, "train": self.records}, folder)
        # As many non-members as members, and twice as many for the attacker.
        return made | ({"validation": 3 * self.records} if "of" in self.options else {})

    @property
    def delta(self) -> float:
        """Table IV."""
        return 1 / (10 * self.records)


SETS = (
    Set(
        name="location", row="Location", options={"source": "location"}, records=1_200, alpha=1.0, shadows=30,
        classes=30, figure=3,
    ),
    Set(
        name="mnist", row="MNIST", options={"source": "pooled", "of": "mnist"}, records=10_000, alpha=1.0, shadows=50,
        classes=10, figure=10,
    ),
    Set(
        name="adult", row="US Adult", options={"source": "pooled", "of": "adult", "split": "test"}, records=10_000,
        alpha=1.0, shadows=20, classes=2, figure=11,
    ),
    Set(
        name="cifar10", row="CIFAR-10", options={"source": "pooled", "of": "cifar10"}, records=10_000, alpha=2.0,
        shadows=100, classes=10, figure=12,
    ),
    Set(
        name="purchase", row="Purchase-100", options={"source": "purchase"}, records=10_000, alpha=5.0, shadows=20,
        classes=100, figure=5,
    ),
    Set(
        name="texas", row="Texas Hospital", options={"source": "texas"}, records=10_000, alpha=4.0, shadows=10,
        classes=100, figure=4,
    ),
)  # fmt: skip
CIFAR_SUBSET = 1_250
"""A quarter of the exact subset of 5,000: as many members, as many non-members, twice as many for the attacker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How much is run.

    draws     trainings with seeds of their own
    private   epsilons at which DP-SGD is trained, by accountant; empty: not trained
    """

    effort: Effort
    epsilons: tuple[float, ...]
    private: Mapping[Counting, tuple[float, ...]]
    draws: int

    @classmethod
    def of(cls, effort: Effort) -> Scope:
        """The scope of an effort."""
        if effort.quick:
            return cls(effort=effort, epsilons=(0.01, 1.0, 1000.0), private={}, draws=effort.repeats or 1)
        if effort.grid == "paper":
            private = dict.fromkeys(Counting, EPSILONS)
            return cls(effort=effort, epsilons=EPSILONS, private=private, draws=effort.repeats or 10)
        some = {
            Counting.RDP: (1.0, 10.0, 100.0),
            Counting.ZCDP: (10.0, 100.0),
            Counting.ADVANCED: (100.0,),
            Counting.NAIVE: (1000.0,),
        }
        return cls(effort=effort, epsilons=EPSILONS, private=some, draws=effort.repeats or 2)

    def sets(self) -> list[Set]:
        """The data sets of this effort, sized."""
        return [self.sized(one) for one in (SETS[:1] if self.effort.quick else SETS)]

    def sized(self, one: Set) -> Set:
        """The data set at this effort."""
        if one.name == "cifar10":
            one = replace(one, records=CIFAR_SUBSET)
        if self.effort.quick:
            return replace(one, records=min(one.records, 600), shadows=2, epochs=40, attack_epochs=10)
        if self.effort.grid == "coarse":
            records, epochs = min(one.records, 2_000), 100 if one.name == "location" else 50
            return replace(one, records=records, shadows=4, epochs=epochs, attack_epochs=20)
        return one

    def cut(self, sets: list[Set]) -> list[str]:
        """What is left out, beside the paper's grid."""
        lines = ["Purchase-2, -10, -20, -50 and CIFAR-100: no source for their records; Table VI and OARO by formula"]
        for one in sets:
            full = next(other for other in SETS if other.name == one.name)
            names = ("records", "shadows", "epochs", "attack_epochs")
            told = reduced(*({name: getattr(size, name) for name in names} for size in (one, full)))
            if told:
                lines.append(f"{one.row}: {'; '.join(told)}")
        lines += [f"Algorithm 1: {told}" for told in reduced({"epsilon": self.epsilons}, {"epsilon": EPSILONS})]
        if self.effort.quick:
            lines.append("MNIST, US Adult, CIFAR-10 and the rest: not run (--quick)")
        if self.draws < 10:
            lines.append(f"{self.draws} repeats instead of 10; every repeat has seeds of its own on one split")
        if not self.private:
            lines.append("DP-SGD (RDP, zCDP, AC, NC): not trained (--quick)")
        elif self.effort.grid == "coarse":
            told = [f"{counting} {', '.join(f'{e:g}' for e in at)}" for counting, at in self.private.items()]
            lines.append(f"DP-SGD at epsilon {'; '.join(told)}; once each")
        return lines


def algorithm_1(one: Set, scope: Scope, data: Path) -> dict[str, Any]:
    """Both laws of noise at every epsilon, on one training and one set of shadows per draw."""
    knobs = {
        **_network(one),
        "alpha": one.alpha,
        "noise": {"choice": ["laplace", "gaussian"]},
        "noise_multiplier": {"choice": [1 / epsilon for epsilon in scope.epsilons]},
        "queries": 2 * min(one.asked, one.records),
        "draw": _choice(list(range(scope.draws))),
        "reference": True,
        "shadows": one.shadows,
        "attack_epochs": one.attack_epochs,
    }
    return _spec(f"lu2021-{one.name}", one, data, {"convexified-loss": knobs})


def beside(one: Set, scope: Scope, data: Path, baselines: Mapping[tuple[Counting, float], float]) -> dict[str, Any]:
    """The original loss without noise, and DP-SGD with each of the `baseline_noises` that is worth a training."""
    systems: dict[str, Any] = {
        "convexified-loss": {
            **_network(one),
            "alpha": ORIGINAL_ALPHA,
            "noise_multiplier": 1.0,
            "queries": min(one.asked, one.records),
            "reference": True,
        }
    }
    noises = sorted({noise for noise in baselines.values() if noise <= NOISE_MAX})
    if noises:
        systems["noisy-adam"] = {
            "model": "trainables.systems.convexified.model:tanh_128",
            "learning_rate": 0.001,
            "clip_norm": CLIP_NORM,
            "batch_size": BATCH,
            "epochs": float(one.epochs),
            "bias_correction": True,
            "noise_multiplier": _choice(noises),
        }
    spec = _spec(f"lu2021-{one.name}-beside", one, data, systems)
    if scope.effort.grid == "paper":
        spec["search"] = {"repeats": scope.draws}
    return spec


def baseline_noises(one: Set, scope: Scope) -> dict[tuple[Counting, float], float]:
    """{(accountant, epsilon): noise multiplier}; the least that is run where less would do."""
    steps, rate = one.epochs * one.records // BATCH, BATCH / one.records
    return {
        (counting, epsilon): max(NOISE_MIN, baseline_noise(counting, epsilon, one.delta, steps, rate))
        for counting, epsilons in scope.private.items()
        for epsilon in epsilons
    }


def _network(one: Set) -> dict[str, Any]:
    return {"regularisation": REGULARISER, "batch_size": BATCH, "epochs": one.epochs}


def _choice(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else {"choice": values}


def _spec(name: str, one: Set, data: Path, systems: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "data": one.data(data),
        "systems": dict(systems),
        "privacy": {"epsilon": NO_LIMIT, "delta": one.delta, "solve": "none"},
        "objectives": [{"metric": "accuracy"}],
        "execution": {"threads": 1},
    }
