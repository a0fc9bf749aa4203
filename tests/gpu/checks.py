"""Every row of `python -m tests.gpu`, in order: its name, and what shows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from tests.gpu import exactness, steps, sweeping, teams
from tests.gpu.results import Figure, Lacking, Result, Row, Setting


@dataclass(frozen=True, slots=True)
class Check:
    """One row. show: gives its figures; raises Lacking for what the machine lacks, anything else where it fails."""

    name: str
    show: Callable[[Setting], Iterable[Figure]]

    def row(self, setting: Setting) -> Row:
        """Run it. Never raises: one row's failure leaves the others to be shown."""
        began, figures = time.monotonic(), []
        result, note = Result.SHOWN, ""
        try:
            for one in self.show(setting):
                figures.append(one)
        except Lacking as lacking:
            result, note = Result.SKIPPED, f"needs {lacking}"
        except Exception as error:
            result, note = Result.FAILED, f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Row(name=self.name, result=result, figures=tuple(figures), note=note, seconds=time.monotonic() - began)


CHECKS = (
    Check("clipped sums, device and CPU", exactness.sums),
    Check("clip bound in half precision and reduced products", exactness.norms),
    Check("noise on the device", exactness.noise),
    Check("team of two over Gloo", partial(teams.team, "gloo")),
    Check("team of two over NCCL, a GPU each", partial(teams.team, "nccl-each")),
    Check("team of two over NCCL, one GPU", partial(teams.team, "nccl-shared")),
    *(Check(f"private step, {name}", partial(steps.steps, name)) for name in steps.MODELS),
    Check("packing: four trials on one GPU", sweeping.packing),
    Check("trial of two workers", sweeping.of_two_workers),
    Check("sweep of 64 trials", sweeping.many),
)
