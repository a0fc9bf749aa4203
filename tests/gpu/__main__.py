"""Everything that only a GPU can show, as one table and one JSON file.

    python -m tests.gpu [--device cuda|cpu] [--json FILE] [--small] [--only WORDS ...]

What the machine lacks is skipped by name. Exit code 1 where a row failed, and where none could be shown. On the CPU the
same rows show their paths; `--small` takes seconds, and its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import torch

from tests.gpu.checks import CHECKS
from tests.gpu.results import Lacking, Report, Result, Row, Setting, machine


def report(setting: Setting, only: list[str] | None = None) -> Report:
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
    return Report(machine=machine(setting.device), rows=tuple(rows), small=setting.small)


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
    found = report(Setting(device=options.device, devices=torch.cuda.device_count(), small=options.small), options.only)
    print("\n" + found.table())
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found.to_dict(), indent=1) + "\n")
        print(f"\nwritten to {options.json}")
    failed = sum(row.result is Result.FAILED for row in found.rows)
    shown = sum(row.result is Result.SHOWN for row in found.rows)
    print(f"\n{shown} shown, {failed} failed, {len(found.rows) - shown - failed} skipped")
    return 0 if shown and not failed else 1


if __name__ == "__main__":
    raise SystemExit(main())
