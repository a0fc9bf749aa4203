"""The table of the zoo: `python -m tests.dpcore.zoo [--json FILE]`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

import torch

from tests.dpcore.zoo.judging import Verdict, judge
from tests.dpcore.zoo.zoo import ZOO

WORDS = 110


def line(verdict: Verdict) -> str:
    said = verdict.fault or verdict.words
    said = said if len(said) <= WORDS else said[: WORDS - 3] + "..."
    error = "" if verdict.error is None else f"{verdict.error:.1e}"
    return f"{'FAIL' if verdict.fault else '':5s}{verdict.case.name:55s}{verdict.route:13s}{error:9s}{said}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a row for each model: how its gradients are computed, the largest error, or the refusal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    verdicts = []
    print(f"{'':5s}{'model':55s}{'route':13s}{'error':9s}refusal")
    for case in ZOO:
        verdicts.append(judge(case))
        print(line(verdicts[-1]), flush=True)
    failed = sum(bool(one.fault) for one in verdicts)
    refused = sum(one.route == "refused" for one in verdicts)
    print(f"{len(verdicts)} models: {len(verdicts) - refused} computed, {refused} refused, {failed} failed")
    if options.json:
        rows = [
            {"model": v.case.name, "route": v.route, "error": v.error, "refusal": v.words, "fault": v.fault}
            for v in verdicts
        ]
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    return failed


if __name__ == "__main__":
    raise SystemExit(bool(main()))
