"""Data sets, their sizes under an effort, and the sweeps behind Table V and the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dpcore.convexified.baselines import Counting, baseline_noise
from sweeps.reproductions.data_sets import section
from sweeps.reproductions.effort import FULL, reduced
from sweeps.reproductions.lu2021.shape_formulas import PAPER
from sweeps.reproductions.paper import spec_of
from sweeps.reproductions.templates import Values
from trainables.planner import NOISE_MAX, NOISE_MIN

BATCH = 100


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

    def sized(self, sizes: Values) -> Set:
        """As an effort runs it."""
        return replace(
            self,
            records=min(self.at_hand or self.records, sizes["records"] or self.records),
            shadows=sizes["shadows"] or self.shadows,
            epochs=sizes["epochs"].get(self.name, self.epochs),
            attack_epochs=sizes["attack_epochs"] or self.attack_epochs,
        )


SETS = [Set(**one) for one in PAPER.printed["sets"]]


def cut(sizes: Values, sets: Sequence[Set]) -> list[str]:
    """What is left out, beside the paper's grid."""
    lines = ["Purchase-2, -10, -20, -50 and CIFAR-100: no source for their records; Table VI and OARO by formula"]
    for one in sets:
        full = next(other for other in SETS if other.name == one.name)
        names = ("records", "shadows", "epochs", "attack_epochs")
        told = reduced(*({name: getattr(size, name) for name in names} for size in (one, full)))
        lines += [f"{one.row}: {'; '.join(told)}"] if told else []
    lines += [f"Algorithm 1: {told}" for told in PAPER.cut(sizes)]
    if sizes["most"] < len(SETS):
        lines.append("MNIST, US Adult, CIFAR-10 and the rest: not run (--quick)")
    if sizes["repeats"] < 10:
        lines.append(f"{sizes['repeats']} repeats instead of 10; every repeat has seeds of its own on one split")
    if not sizes["private"]:
        lines.append("DP-SGD (RDP, zCDP, AC, NC): not trained (--quick)")
    elif not _whole(sizes):
        at = [f"{counting} {', '.join(f'{e:g}' for e in epsilons)}" for counting, epsilons in sizes["private"].items()]
        lines.append(f"DP-SGD at epsilon {'; '.join(at)}; once each")
    return lines


def _whole(sizes: Values) -> bool:
    """Whether DP-SGD is trained at every epsilon of the paper."""
    return bool(sizes["private"] == PAPER.sized(FULL)["private"])


Noises = Mapping[tuple[Counting, float], float]
"""{(accountant, epsilon): noise multiplier} of DP-SGD."""


def baseline_noises(one: Set, sizes: Values) -> Noises:
    """Of every epsilon of DP-SGD; the least that is run where less would do."""
    steps, rate = one.epochs * one.records // BATCH, BATCH / one.records
    return {
        (counting, epsilon): max(NOISE_MIN, baseline_noise(counting, epsilon, one.delta, steps, rate))
        for counting, epsilons in ((Counting(name), at) for name, at in sizes["private"].items())
        for epsilon in epsilons
    }


def algorithm_1(one: Set, sizes: Values, data: Path) -> dict[str, Any]:
    """Both laws of noise at every epsilon."""
    return _spec("algorithm_1", one, data, [1 / epsilon for epsilon in sizes["epsilons"]], sizes["repeats"])


def beside(one: Set, sizes: Values, data: Path, baselines: Noises) -> dict[str, Any]:
    """The original loss without noise, and DP-SGD with each of the `baseline_noises` that is worth a training."""
    noises = sorted({noise for noise in baselines.values() if noise <= NOISE_MAX})
    # Once each where not every epsilon is trained.
    spec = _spec("beside", one, data, noises, sizes["repeats"] if _whole(sizes) else None)
    if not noises:
        del spec["systems"]["noisy-adam"]
    return spec


def _spec(name: str, one: Set, data: Path, noises: Sequence[float], repeats: int | None) -> dict[str, Any]:
    asked = min(one.asked, one.records)
    values = {"data": one.data(data), "delta": one.delta, "noises": noises or None, "repeats": repeats}
    draws = list(range(repeats or 1))
    return spec_of(
        PAPER.sweeps[name], asdict(one) | values | {"one_side": asked, "both_sides": 2 * asked, "draws": draws}
    )
