"""The same work by the code of two checkouts, in one interleaved run: what a rebuilt house costs.

    git worktree add ../before COMMIT
    python -m tests.benchmarks.before_after --before ../before [--rounds 5] [--only front ...] [--json FILE]

Each piece of work is a text that both checkouts understand, run in a process of its own with that checkout first on its
path; it prints its own seconds, imports left out: processor time, but wall time where Ray's processes do the work.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

_CLOCK = "import time\nclock = time.process_time\n"
_SETTINGS = """
import random
from dpcore.events import Adjacency
from dpcore import calibrate
from dpcore.accounting import headline
draw = random.Random(5)
settings = [(draw.uniform(.6, 4), 10 ** draw.uniform(-4, -1), int(10 ** draw.uniform(1, 4))) for _ in range(40)]
"""
WORK = {
    "epsilon, 40 settings": _SETTINGS
    + """
events = [calibrate.sampled_gaussian(*one) for one in settings]
started = clock()
for event in events:
    headline(event, 1e-6, Adjacency.ADD_REMOVE)
print(clock() - started)
""",
    "calibration, 12 settings": _SETTINGS
    + """
target = calibrate.Target(epsilon=2.0, delta=1e-6)
started = clock()
for _, rate, steps in settings[:12]:
    calibrate.noise_multiplier(target, rate=rate, steps=steps)
print(clock() - started)
""",
    **{
        f"private step, {model}, 200 times": f"""
import torch
torch.set_num_threads(1)
from tests.benchmarks.private_step import step_of
from tests.benchmarks.step_models import TIMED
step = step_of("one pass", TIMED[{model!r}], 256)
for _ in range(20):
    step()
started = clock()
for _ in range(200):
    step()
print(clock() - started)
"""
        for model in ("LR 784-10", "MLP 784-256-10")
    },
    "front of 30,000, three objectives, all on it": """
import tempfile
from pathlib import Path
from sweeps.reporting.front import sweep_front
from tests.benchmarks.front import fill, points
with tempfile.TemporaryDirectory() as folder:
    store = fill(Path(folder), points(30_000, True))
    sweep_front(store, "views")
    started = clock()
    sweep_front(store, "views")
    print(clock() - started)
""",
    "300 trials of the toy, in all (wall)": """
from tests.benchmarks.orchestration import ours
print(300 * ours(300, "random"))
""",
    "first launch behind 10,000 trials (wall)": """
from tests.benchmarks.orchestration import first_launch
print(first_launch(10_000))
""",
}


def seconds(checkout: Path, work: str) -> float:
    """What `work` says that it took by the code of `checkout`. Raises CalledProcessError."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", _CLOCK + work], cwd=checkout, env=environment, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def main() -> None:
    """Print the table; write it as JSON when asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the earlier commit")
    parser.add_argument("--after", type=Path, default=Path.cwd())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD", help="work whose name has one of these words")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    rows = []
    for name, work in WORK.items():
        if asked.only and not any(word in name for word in asked.only):
            continue
        before, after = [], []
        for _ in range(asked.rounds):
            before.append(seconds(asked.before.absolute(), work))
            after.append(seconds(asked.after.absolute(), work))
        ratio = statistics.median(after) / statistics.median(before)
        rows.append({"work": name, "before": before, "after": after, "ratio": ratio})
        print(
            f"{name:48} before {statistics.median(before):7.3f} s (least {min(before):.3f}), "
            f"after {statistics.median(after):7.3f} s (least {min(after):.3f}), ratio {ratio:.2f}",
            flush=True,
        )
    if asked.json is not None:
        asked.json.write_text(json.dumps({"load": os.getloadavg(), "rows": rows}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
