"""What a machine shows, as values: figures, rows, the machine, and the table that is printed."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from typing import Any

import torch


class Lacking(Exception):
    """The machine lacks what a row needs; the text names it."""


class Result(StrEnum):
    """How a row ended."""

    SHOWN = "shown"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where rows are run.

    device   "cuda" or "cpu"
    devices  how many GPUs torch sees
    small    sizes of seconds, for a test of the paths; its figures mean nothing
    """

    device: str
    devices: int = 0
    small: bool = False

    @property
    def torch_device(self) -> torch.device:
        return torch.device(self.device)

    def needs_gpus(self, count: int, why: str) -> None:
        """Raises Lacking."""
        if self.device != "cuda" or self.devices < count:
            here = "device cpu" if self.device != "cuda" else f"{self.devices} here"
            raise Lacking(f"{count} GPU{'s' if count > 1 else ''} ({here}): {why}")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that was measured."""

    name: str
    value: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.value:.3g}{' ' + self.unit if self.unit else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One thing that a GPU can show. note: what the machine lacks, what failed, or what else is to be said."""

    name: str
    result: Result
    figures: tuple[Figure, ...] = ()
    note: str = ""
    seconds: float = 0.0


def machine(device: str) -> dict[str, Any]:
    """What the rows ran on. memory_gb: of the first GPU, or of the machine."""
    gpus = [torch.cuda.get_device_name(one) for one in range(torch.cuda.device_count())]
    versions = {name: version(name) for name in ("torch", "opacus", "ray")} | {"python": platform.python_version()}
    if torch.version.cuda is not None:
        versions["cuda"] = torch.version.cuda
    if gpus:
        memory = float(torch.cuda.get_device_properties(0).total_memory)
        versions["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
        versions["cudnn"] = str(torch.backends.cudnn.version())
    else:
        memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return {
        "device": device,
        "gpus": gpus,
        "memory_gb": memory / 2**30,
        "cores": os.cpu_count() or 0,
        "processor": platform.processor() or platform.machine(),
        "versions": versions,
    }


def table(here: dict[str, Any], rows: Sequence[Row], small: bool) -> str:
    """As it is printed.  here  the machine"""
    counted = {name: here["gpus"].count(name) for name in here["gpus"]}
    gpus = ", ".join(f"{count} x {name}" for name, count in counted.items()) or "no GPU"
    lines = [
        f"device {here['device']}: {gpus}, {here['memory_gb']:.0f} GB, {here['cores']} cores ({here['processor']})",
        ", ".join(f"{name} {what}" for name, what in here["versions"].items()),
        "Small sizes: the paths are shown, the figures mean nothing." if small else "",
    ]
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        said = "; ".join([*map(str, row.figures), *([row.note] if row.note else [])])
        lines.append(f"{row.name:{width}}  {row.result:7}  {row.seconds:6.1f} s  {said}")
    return "\n".join(lines)
