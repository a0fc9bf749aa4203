"""One step of noisy-sgd (clipped sum, noise, update) against plain SGD and Opacus, interleaved, one thread.

    python -m tests.benchmarks.private_step [--rounds N] [--batch 256] [--models CNN]

The process starts itself again with a tuned allocator for every side: half of Opacus's time on the MLP is
page faults otherwise, and the tuned number is the one to quote. Peak memory is that of a process for each engine, with
the allocator as it comes.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "268435456",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
if (
    __name__ == "__main__"
    and "--peak" not in sys.argv
    and any(os.environ.get(name) != value for name, value in ALLOCATOR.items())
):
    os.execve(
        sys.executable,
        [sys.executable, "-m", "tests.benchmarks.private_step", *sys.argv[1:]],
        {**os.environ, **ALLOCATOR},
    )

import opacus  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
import typer  # noqa: E402
from opacus.grad_sample import GradSampleModule  # noqa: E402
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (  # noqa: E402
    GradSampleModuleFastGradientClipping,
)
from opacus.optimizers import DPOptimizer  # noqa: E402
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping  # noqa: E402
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from dpcore.gradients import PrivateGradients, noisy_mean_gradient  # noqa: E402
from dpcore.gradients.chain import cross_entropy  # noqa: E402
from dpcore.noise import NoiseSource, PseudorandomNoise, SecureNoise  # noqa: E402
from tests.benchmarks.step_models import CLASSES, TIMED, Timed  # noqa: E402
from trainables.training.optimisers import Descent, steadily  # noqa: E402

CLIP, NOISE, RATE = 1.0, 1.1, 0.1
OPACUS = ("Opacus hooks", "Opacus ghost clipping")
Step = Callable[[], None]


def plain(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def plain_and_noise(model: nn.Module, x: Tensor, y: Tensor, noise: NoiseSource) -> Step:
    """What no private step of this update can do without: all of plain SGD's, and the draws."""
    update, drawn = plain(model, x, y), torch.empty(sum(one.numel() for one in model.parameters()))

    def step() -> None:
        update()
        noise.fill_(drawn)

    return step


def ours(model: nn.Module, x: Tensor, y: Tensor, noise: NoiseSource) -> Step:
    engine = PrivateGradients(model, cross_entropy)
    optimiser = Descent(model, steadily(RATE))

    def step() -> None:
        clipped = engine.clipped_sum(x, y, clip_norm=CLIP)
        mean = noisy_mean_gradient(clipped, noise_multiplier=NOISE, expected_batch_size=len(x), noise=noise)
        optimiser.update(mean, 0)

    return step


def opacus_hooks(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    wrapped = GradSampleModule(model)
    optimizer = DPOptimizer(torch.optim.SGD(model.parameters(), lr=RATE), **_noised(x))

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(wrapped(x), y).backward()
        optimizer.step()

    return step


def opacus_ghost(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    wrapped = GradSampleModuleFastGradientClipping(model, max_grad_norm=CLIP, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(torch.optim.SGD(model.parameters(), lr=RATE), **_noised(x))
    criterion = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss())

    def step() -> None:
        optimizer.zero_grad()
        criterion(wrapped(x), y).backward()
        optimizer.step()

    return step


def _noised(x: Tensor) -> dict[str, Any]:
    return {"noise_multiplier": NOISE, "max_grad_norm": CLIP, "expected_batch_size": len(x)}


ENGINES = ("plain SGD", "plain SGD, noise drawn", *OPACUS, "one pass", "one pass, secure noise")


def step_of(engine: str, timed: Timed, batch: int, device: str = "cpu") -> Step | None:
    """A step of that engine on fresh data, once run; None where it cannot serve the model."""
    torch.manual_seed(0)
    x, y = timed.draw(batch).to(device), torch.randint(0, CLASSES, (batch,)).to(device)
    torch.manual_seed(1)
    model = timed.make(engine.startswith("Opacus")).to(device)
    makers: dict[str, Callable[[], Step]] = {
        "plain SGD": lambda: plain(model, x, y),
        "plain SGD, noise drawn": lambda: plain_and_noise(model, x, y, PseudorandomNoise(torch.Generator())),
        "Opacus hooks": lambda: opacus_hooks(model, x, y),
        "Opacus ghost clipping": lambda: opacus_ghost(model, x, y),
        "one pass": lambda: ours(model, x, y, PseudorandomNoise(torch.Generator(device))),
        "one pass, secure noise": lambda: ours(model, x, y, SecureNoise()),
    }
    try:
        step = makers[engine]()
        step()
    except Exception as error:
        print(f"{engine}: {type(error).__name__}: {error}", file=sys.stderr)
        return None
    return step


def measure(timed: Timed, batch: int, rounds: int) -> dict[str, float]:
    """Median processor seconds of a step, engines in turn: other work on the machine counts for little."""
    steps = {engine: step for engine in ENGINES if (step := step_of(engine, timed, batch)) is not None}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(rounds + 3):
        for name, step in steps.items():
            # Training repeats one engine: the first step of a turn only warms the caches that the last engine cooled.
            step()
            for _ in range(2):
                start = time.process_time()
                step()
                if turn >= 3:
                    seconds[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def memory(model: str, engine: str, batch: int) -> float:
    """Megabytes that model, data and five steps add at their peak, in a process of their own; NaN where it fails."""
    words = [sys.executable, "-m", "tests.benchmarks.private_step", "--peak", engine, "--models", model]
    # The allocator's own: the tuned one keeps what it was given.
    own = {name: value for name, value in os.environ.items() if name not in ALLOCATOR} | {"OMP_NUM_THREADS": "1"}
    found = subprocess.run([*words, "--batch", str(batch)], capture_output=True, text=True, env=own)
    return float(found.stdout) if found.returncode == 0 and found.stdout.strip() else math.nan


def print_peak(model: str, engine: str, batch: int) -> None:
    before = peak()
    if (step := step_of(engine, TIMED[model], batch)) is not None:
        for _ in range(5):
            step()
        print((peak() - before) / 1024)


def peak() -> int:
    """Kilobytes that this process held at most. `getrusage` would count what its parent held when it was started."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def main(
    rounds: int = 30,
    batch: int = 256,
    models: Annotated[list[str] | None, typer.Option(help="all unless given")] = None,
    peak: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    if peak:
        return print_peak((models or [*TIMED])[0], peak, batch)
    print(
        f"torch {torch.__version__}, opacus {opacus.__version__}, batch {batch}, one thread, tuned allocator, "
        f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    for model in models or TIMED:
        medians = measure(TIMED[model], batch, rounds)
        best, goal = min((medians[name] for name in OPACUS if name in medians), default=math.nan), TIMED[model].goal
        print(f"\n{model}" + ("" if goal is None else f", goal {goal} of plain SGD"))
        print(f"{'':26s}{'CPU ms':>9s}{'of plain SGD':>14s}{'of best Opacus':>16s}{'peak MB':>10s}{'of plain':>10s}")
        peaks = {name: memory(model, name, batch) for name in medians}
        for name, median in medians.items():
            speed, share = medians["plain SGD"] / median, peaks[name] / peaks["plain SGD"]
            print(f"{name:26s}{median * 1e3:9.2f}{speed:14.2f}{best / median:16.2f}{peaks[name]:10.0f}{share:10.2f}")


if __name__ == "__main__":
    typer.run(main)
