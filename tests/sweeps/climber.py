"""A third party's sampler, offered by an installed package."""

from __future__ import annotations

from pathlib import Path

from optuna.samplers import TPESampler

from sweeps.search.samplers import ENTRY_POINTS, Learning

CLIMBER = Learning(
    name="climber",
    doc="each knob by itself, near those of the best trials",
    build=lambda seed, trials: TPESampler(seed=seed),
    reads_penalties=False,
)


def install(folder: Path, value: str = f"{__name__}:CLIMBER", name: str = CLIMBER.name) -> None:
    """Make `folder` hold a distribution that offers this sampler, or `value`; put it on the path."""
    distribution = folder / f"{name}-1.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (distribution / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{name} = {value}\n")
