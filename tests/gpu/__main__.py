"""Everything that only a GPU can show, as one table and one JSON file.

    python -m tests.gpu [--device cuda|cpu] [--json FILE] [--small] [--only WORDS ...]

What the machine lacks is skipped by name. Exit code 1 where a row failed, and where none could be shown. On the CPU the
same rows show their paths; `--small` takes seconds, and its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from tests.gpu import exactness, steps, sweeping, teams
from tests.gpu.results import Figure, Lacking, Result, Row, Setting, machine, table


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
    Check("team of two over NCCL, a GPU each", partial(teams.team, "nccl")),
    *(Check(f"private step, {name}", partial(steps.steps, name)) for name in steps.MODELS),
    Check("packing: four trials on one GPU", sweeping.packing),
    Check("trial of two workers", sweeping.of_two_workers),
    Check("sweep of 64 trials", sweeping.many),
)


def report(setting: Setting, only: list[str] | None = None) -> list[Row]:
    """Run every row whose name holds one of the words `only`; all of them by default."""
    rows = []
    for check in CHECKS:
        if only and not any(word in check.name for word in only):
            continue
        try:
            if setting.device == "cuda":
                setting.needs_gpus(1, f"torch {torch.__version__} sees none")
            row = check.row(setting)
        except Lacking as lacking:
            row = Row(name=check.name, result=Result.SKIPPED, note=f"needs {lacking}")
        print(f"{row.name}: {row.result}", flush=True)
        rows.append(row)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="*", metavar="WORDS")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    setting = Setting(device=options.device, devices=torch.cuda.device_count(), small=options.small)
    rows, here = report(setting, options.only), machine(setting.device)
    print("\n" + table(here, rows, setting.small))
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        document = {"machine": here, "rows": list(map(asdict, rows)), "small": setting.small}
        options.json.write_text(json.dumps(document, indent=1) + "\n")
        print(f"\nwritten to {options.json}")
    came = [row.result for row in rows]
    print("\n" + ", ".join(f"{came.count(one)} {one}" for one in Result))
    return 0 if Result.SHOWN in came and Result.FAILED not in came else 1


if __name__ == "__main__":
    raise SystemExit(main())
