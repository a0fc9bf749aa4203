"""One step of noisy-sgd (clipped sum, noise, update) against plain SGD and Opacus, interleaved, one thread.

    python -m tests.benchmarks.private_step [--rounds N] [--batch 256] [--models ...] [--engines ...]

The process starts itself again with a tuned allocator for every side: half of Opacus's time on the MLP is
page faults otherwise, and the tuned number is the one to quote. Peak memory is that of a process for each engine, with
the allocator as it comes.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

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
from dpcore.gradients.layers import KINDS, Kinds  # noqa: E402
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


def ours(model: nn.Module, x: Tensor, y: Tensor, noise: NoiseSource, kinds: Kinds = KINDS) -> Step:
    engine = PrivateGradients(model, cross_entropy, kinds=kinds)
    optimiser = Descent(model, steadily(RATE))

    def step() -> None:
        clipped = engine.clipped_sum(x, y, clip_norm=CLIP)
        mean = noisy_mean_gradient(clipped, noise_multiplier=NOISE, expected_batch_size=len(x), noise=noise)
        optimiser.update(mean, 0)

    return step


def opacus_hooks(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    wrapped = GradSampleModule(model)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=RATE),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        expected_batch_size=len(x),
    )

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(wrapped(x), y).backward()
        optimizer.step()

    return step


def opacus_ghost(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    wrapped = GradSampleModuleFastGradientClipping(model, max_grad_norm=CLIP, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(model.parameters(), lr=RATE),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        expected_batch_size=len(x),
    )
    criterion = DPLossFastGradientClipping(wrapped, optimizer, nn.CrossEntropyLoss())

    def step() -> None:
        optimizer.zero_grad()
        criterion(wrapped(x), y).backward()
        optimizer.step()

    return step


FORMED = "every gradient formed"
"""Left out unless asked for: it needs the memory of the whole model for every record."""
ENGINES = ("plain SGD", "plain SGD, noise drawn", *OPACUS, "one pass", "one pass, secure noise", FORMED)


def step_of(engine: str, timed: Timed, batch: int, device: str = "cpu") -> Step | None:
    """A step of that engine on fresh data, once run; None where it cannot serve the model."""
    torch.manual_seed(0)
    x, y = timed.draw(batch).to(device), torch.randint(0, CLASSES, (batch,)).to(device)
    torch.manual_seed(1)
    model = timed.make(engine.startswith("Opacus")).to(device)
    try:
        match engine:
            case "plain SGD":
                step = plain(model, x, y)
            case "plain SGD, noise drawn":
                step = plain_and_noise(model, x, y, PseudorandomNoise(torch.Generator()))
            case "Opacus hooks":
                step = opacus_hooks(model, x, y)
            case "Opacus ghost clipping":
                step = opacus_ghost(model, x, y)
            case "one pass":
                step = ours(model, x, y, PseudorandomNoise(torch.Generator(device)))
            case "one pass, secure noise":
                step = ours(model, x, y, SecureNoise())
            case _:
                step = ours(model, x, y, PseudorandomNoise(torch.Generator(device)), {})
        step()
    except Exception as error:
        print(f"{engine}: {type(error).__name__}: {error}", file=sys.stderr)
        return None
    return step


def measure(timed: Timed, batch: int, rounds: int, engines: tuple[str, ...]) -> dict[str, float]:
    """Median processor seconds of a step, engines in turn: other work on the machine counts for little."""
    steps = {engine: step for engine in engines if (step := step_of(engine, timed, batch)) is not None}
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


def memory(model: str, engine: str, batch: int) -> float | None:
    """Megabytes that model, data and five steps add at their peak, in a process of their own; None where it fails."""
    found = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.private_step", "--peak", model, engine, "--batch", str(batch)],
        capture_output=True,
        text=True,
        # The allocator's own: the tuned one keeps what it was given.
        env={name: value for name, value in os.environ.items() if name not in ALLOCATOR} | {"OMP_NUM_THREADS": "1"},
    )
    return float(found.stdout) if found.returncode == 0 and found.stdout.strip() else None


def print_peak(model: str, engine: str, batch: int) -> int:
    before = peak()
    step = step_of(engine, TIMED[model], batch)
    if step is None:
        return 1
    for _ in range(5):
        step()
    print((peak() - before) / 1024)
    return 0


def peak() -> int:
    """Kilobytes that this process held at most. `getrusage` would count what its parent held when it was started."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--models", nargs="*", default=list(TIMED), choices=list(TIMED))
    parser.add_argument("--engines", nargs="*", default=[one for one in ENGINES if one != FORMED], choices=ENGINES)
    parser.add_argument("--no-memory", action="store_true")
    parser.add_argument("--peak", nargs=2, metavar=("MODEL", "ENGINE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    if options.peak:
        model, engine = options.peak
        return print_peak(model, engine, options.batch)
    load = os.getloadavg()[0]
    print(
        f"torch {torch.__version__}, opacus {opacus.__version__}, batch {options.batch}, one thread, tuned allocator, "
        f"load average {load:.1f} on {os.cpu_count()} cores"
    )
    for model in options.models:
        timed = TIMED[model]
        medians = measure(timed, options.batch, options.rounds, tuple(options.engines))
        best = min((medians[name] for name in OPACUS if name in medians), default=float("nan"))
        goal = "" if timed.goal is None else f", goal {timed.goal} of plain SGD"
        print(f"\n{model}{goal}")
        print(f"{'':26s}{'CPU ms':>9s}{'of plain SGD':>14s}{'of best Opacus':>16s}{'peak MB':>10s}{'of plain':>10s}")
        peaks = {name: None if options.no_memory else memory(model, name, options.batch) for name in medians}
        base = peaks.get("plain SGD")
        for name, median in medians.items():
            speed, against, peak = medians["plain SGD"] / median, best / median, peaks[name]
            share = None if peak is None or not base else peak / base
            print(
                f"{name:26s}{median * 1e3:9.2f}{speed:14.2f}{against:16.2f}"
                f"{'-' if peak is None else f'{peak:.0f}':>10s}{'-' if share is None else f'{share:.2f}':>10s}"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
