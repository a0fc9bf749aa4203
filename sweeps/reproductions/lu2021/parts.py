"""Data sets, their sizes under an effort, and the sweeps behind Table V and the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpcore.convexified.baselines import Counting, baseline_noise
from sweeps.reproductions.effort import FULL, reduced
from sweeps.reproductions.files import section
from sweeps.reproductions.lu2021.formulas import PAPER, REGULARISER
from trainables.planner import NOISE_MAX, NOISE_MIN

BATCH = 100
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
    at_hand: int | None = None

    def data(self, folder: Path) -> dict[str, Any]:
        """The `data` section of a spec."""
        made = section({**self.options, "train": self.records}, folder)
        # As many non-members as members, and twice as many for the attacker.
        return made | ({"validation": 3 * self.records} if "of" in self.options else {})

    @property
    def delta(self) -> float:
        """Table IV."""
        return 1 / (10 * self.records)


SETS = [Set(**one) for one in PAPER.printed["sets"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """How much is run; see the paper's file."""

    most: int
    records: int | None
    shadows: int | None
    epochs: Mapping[str, int]
    attack_epochs: int | None
    epsilons: tuple[float, ...]
    private: Mapping[str, Sequence[float]]
    repeats: int

    def sets(self) -> list[Set]:
        """The data sets of this effort, sized."""
        return [self.sized(one) for one in SETS[: self.most]]

    def sized(self, one: Set) -> Set:
        """The data set at this effort."""
        return replace(
            one,
            records=min(one.at_hand or one.records, self.records or one.records),
            shadows=self.shadows or one.shadows,
            epochs=self.epochs.get(one.name, one.epochs),
            attack_epochs=self.attack_epochs or one.attack_epochs,
        )

    def cut(self, sets: Sequence[Set]) -> list[str]:
        """What is left out, beside the paper's grid."""
        lines = ["Purchase-2, -10, -20, -50 and CIFAR-100: no source for their records; Table VI and OARO by formula"]
        names = ("records", "shadows", "epochs", "attack_epochs")
        for one in sets:
            full = next(other for other in SETS if other.name == one.name)
            told = reduced(*({name: getattr(size, name) for name in names} for size in (one, full)))
            lines += [f"{one.row}: {'; '.join(told)}"] if told else []
        lines += [f"Algorithm 1: {told}" for told in PAPER.cut(self)]
        if self.most < len(SETS):
            lines.append("MNIST, US Adult, CIFAR-10 and the rest: not run (--quick)")
        if self.repeats < 10:
            lines.append(f"{self.repeats} repeats instead of 10; every repeat has seeds of its own on one split")
        if not self.private:
            lines.append("DP-SGD (RDP, zCDP, AC, NC): not trained (--quick)")
        elif self.private != PAPER.scope(Scope, FULL).private:
            at = [f"{counting} {', '.join(f'{e:g}' for e in epsilons)}" for counting, epsilons in self.private.items()]
            lines.append(f"DP-SGD at epsilon {'; '.join(at)}; once each")
        return lines


Noises = Mapping[tuple[Counting, float], float]
"""{(accountant, epsilon): noise multiplier} of DP-SGD."""


def baseline_noises(one: Set, scope: Scope) -> Noises:
    """Of every epsilon of the scope; the least that is run where less would do."""
    steps, rate = one.epochs * one.records // BATCH, BATCH / one.records
    return {
        (Counting(counting), epsilon): max(
            NOISE_MIN, baseline_noise(Counting(counting), epsilon, one.delta, steps, rate)
        )
        for counting, epsilons in scope.private.items()
        for epsilon in epsilons
    }


def algorithm_1(one: Set, scope: Scope, data: Path) -> dict[str, Any]:
    """Both laws of noise at every epsilon, on one training and one set of shadows per draw."""
    knobs = {
        **_network(one),
        "alpha": one.alpha,
        "noise": {"choice": ["laplace", "gaussian"]},
        "noise_multiplier": {"choice": [1 / epsilon for epsilon in scope.epsilons]},
        "queries": 2 * min(one.asked, one.records),
        "draw": _choice(list(range(scope.repeats))),
        "reference": True,
        "shadows": one.shadows,
        "attack_epochs": one.attack_epochs,
    }
    return _spec(f"lu2021-{one.name}", one, data, {"convexified-loss": knobs})


def beside(one: Set, scope: Scope, data: Path, baselines: Noises) -> dict[str, Any]:
    """The original loss without noise, and DP-SGD with each of the `baseline_noises` that is worth a training."""
    queries = min(one.asked, one.records)
    original = {"alpha": ORIGINAL_ALPHA, "noise_multiplier": 1.0, "queries": queries, "reference": True}
    systems: dict[str, Any] = {"convexified-loss": {**_network(one), **original}}
    if noises := sorted({noise for noise in baselines.values() if noise <= NOISE_MAX}):
        systems["noisy-adam"] = {
            "model": "trainables.systems.convexified.model:tanh_128",
            "learning_rate": 0.001,
            "clip_norm": CLIP_NORM,
            "batch_size": BATCH,
            "epochs": float(one.epochs),
            "bias_correction": True,
            "noise_multiplier": _choice(noises),
        }
    # Once each where not every epsilon is trained.
    whole = scope.private == PAPER.scope(Scope, FULL).private
    search = {"search": {"repeats": scope.repeats}} if whole else {}
    return {**_spec(f"lu2021-{one.name}-beside", one, data, systems), **search}


def _network(one: Set) -> dict[str, Any]:
    return {"regularisation": REGULARISER, "batch_size": BATCH, "epochs": one.epochs}


def _choice(values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else {"choice": list(values)}


def _spec(name: str, one: Set, data: Path, systems: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "data": one.data(data),
        "systems": dict(systems),
        "privacy": {"epsilon": NO_LIMIT, "delta": one.delta, "solve": "none"},
        "objectives": [{"metric": "accuracy"}],
        "execution": {"threads": 1},
    }
