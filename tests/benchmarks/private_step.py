"""One step of noisy-sgd (clipped sum, noise, update) against plain SGD and Opacus, interleaved, one thread.

    python -m tests.benchmarks.private_step [--rounds N] [--models CNN] [--fine-tuning]

What is missed, of a goal or against Opacus, is printed with its profile. Opacus's modes count where they are right:
where a step without noise is that of one record at a time, to 1e-3.

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
from dataclasses import dataclass
from importlib.metadata import version
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

import torch  # noqa: E402
import typer  # noqa: E402
from opacus.grad_sample import GradSampleModule  # noqa: E402
from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (  # noqa: E402
    GradSampleModuleFastGradientClipping,
)
from opacus.optimizers import DPOptimizer  # noqa: E402
from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping  # noqa: E402
from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from dpcore.gradients import PrivateGradients, noisy_mean_gradient  # noqa: E402
from dpcore.noise import NoiseSource, PseudorandomNoise, SecureNoise  # noqa: E402
from tests.benchmarks.step_models import FINE_TUNED, TIMED, Timed  # noqa: E402
from trainables.training.optimisers import Optimiser, steadily  # noqa: E402

CLIP, NOISE, RATE = 1.0, 1.1, 0.1
OPACUS = ("Opacus hooks", "Opacus ghost clipping")
Step = Callable[[], None]


@dataclass(frozen=True)
class Task:
    """A model, its records, its loss and what is added to a sum."""

    model: nn.Module
    x: Tensor
    y: Tensor
    loss: Callable[[Tensor, Tensor], Tensor]
    noise: float = NOISE

    @property
    def trained(self) -> list[nn.Parameter]:
        return [one for one in self.model.parameters() if one.requires_grad]


def plain(task: Task) -> Step:
    optimizer = torch.optim.SGD(task.trained, lr=RATE)

    def step() -> None:
        optimizer.zero_grad()
        task.loss(task.model(task.x), task.y).mean().backward()
        optimizer.step()

    return step


def plain_and_noise(task: Task, noise: NoiseSource) -> Step:
    """What no private step of this update can do without: all of plain SGD's, and the draws."""
    update, drawn = plain(task), torch.empty(sum(one.numel() for one in task.trained))

    def step() -> None:
        update()
        noise.fill_(drawn)

    return step


def ours(task: Task, noise: NoiseSource) -> Step:
    engine = PrivateGradients(task.model, task.loss)
    optimiser = Optimiser(task.model, steadily(RATE))

    def step() -> None:
        clipped = engine.clipped_sum(task.x, task.y, clip_norm=CLIP)
        mean = noisy_mean_gradient(clipped, noise_multiplier=task.noise, expected_batch_size=len(task.x), noise=noise)
        optimiser.update(mean, 0)

    return step


def opacus_hooks(task: Task) -> Step:
    wrapped = GradSampleModule(task.model)
    optimizer = DPOptimizer(torch.optim.SGD(task.trained, lr=RATE), **_noised(task))

    def step() -> None:
        optimizer.zero_grad()
        task.loss(wrapped(task.x), task.y).mean().backward()
        optimizer.step()

    return step


def opacus_ghost(task: Task) -> Step:
    wrapped = GradSampleModuleFastGradientClipping(task.model, max_grad_norm=CLIP, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(torch.optim.SGD(task.trained, lr=RATE), **_noised(task))

    def step() -> None:
        optimizer.zero_grad()
        DPTensorFastGradientClipping(wrapped, optimizer, task.loss(wrapped(task.x), task.y)).backward()
        optimizer.step()

    return step


def _noised(task: Task) -> dict[str, Any]:
    return {"noise_multiplier": task.noise, "max_grad_norm": CLIP, "expected_batch_size": len(task.x)}


ENGINES = ("plain SGD", "plain SGD, noise drawn", *OPACUS, "one pass", "one pass, secure noise")


def task_of(engine: str, timed: Timed, batch: int, device: str = "cpu", noise: float = NOISE) -> Task:
    """The same weights and records for every engine."""
    torch.manual_seed(0)
    x, y = timed.draw(batch).to(device), timed.targets(batch).to(device)
    torch.manual_seed(1)
    return Task(timed.make(engine.startswith("Opacus")).to(device), x, y, timed.loss, noise)


def step_of(engine: str, task: Task) -> Step | None:
    """A step of that engine, once run; None where it cannot serve the model."""
    device = task.x.device
    makers: dict[str, Callable[[Task], Step]] = {
        "plain SGD": plain,
        "plain SGD, noise drawn": lambda task: plain_and_noise(task, PseudorandomNoise(torch.Generator())),
        "Opacus hooks": opacus_hooks,
        "Opacus ghost clipping": opacus_ghost,
        "one pass": lambda task: ours(task, PseudorandomNoise(torch.Generator(device))),
        "one pass, secure noise": lambda task: ours(task, SecureNoise()),
    }
    try:
        step = makers[engine](task)
        step()
    except Exception as error:
        print(f"{engine}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        return None
    return step


def wrong(engine: str, timed: Timed) -> bool:
    """Whether the first step of that engine, without noise, is another than ours."""
    task, own = (task_of(one, timed, 4, noise=1e-12) for one in (engine, "one pass"))
    before = {name: one.clone() for name, one in own.model.state_dict().items()}
    for name, one in task.model.named_children():
        # Opacus's recurrent layers take the names of PyTorch's when they are asked themselves.
        one.load_state_dict(own.model.get_submodule(name).state_dict())
    if step_of(engine, task) is None or step_of("one pass", own) is None:
        return True
    after, expected = task.model.state_dict(), own.model.state_dict()
    off = torch.cat([(after[name] - one).flatten() for name, one in expected.items()])
    moved = torch.cat([(one - before[name]).flatten() for name, one in expected.items()])
    return not float(off.norm()) <= 1e-3 * float(moved.norm())


def measure(timed: Timed, batch: int, rounds: int) -> dict[str, float]:
    """Median processor seconds of a step, engines in turn: other work on the machine counts for little."""
    opacus = [one for one in OPACUS if timed.opacus and (timed in TIMED.values() or not wrong(one, timed))]
    right = [one for one in ENGINES if one not in OPACUS or one in opacus]
    steps = {one: step for one in right if (step := step_of(one, task_of(one, timed, batch))) is not None}
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
    timed = (TIMED | FINE_TUNED)[model]
    timed.make(engine.startswith("Opacus"))  # what is imported for it counts for nobody
    before = held("VmRSS")
    if (step := step_of(engine, task_of(engine, timed, batch))) is not None:
        for _ in range(5):
            step()
        print((held("VmHWM") - before) / 1024)


def held(what: str) -> int:
    """Kilobytes that this process holds (VmRSS) or held at most (VmHWM). `getrusage` would count its parent's."""
    return int(Path("/proc/self/status").read_text().split(f"{what}:")[1].split()[0])


def profile(engine: str, timed: Timed, batch: int) -> str:
    """Where the processor time of a step goes: the eight dearest operations."""
    step = step_of(engine, task_of(engine, timed, batch))
    assert step is not None
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        step()
    spent = sorted(seen.key_averages(), key=lambda one: -one.self_cpu_time_total)
    total = sum(one.self_cpu_time_total for one in spent)
    return ", ".join(f"{one.key} x{one.count} {one.self_cpu_time_total / total:.0%}" for one in spent[:8])


def main(
    rounds: int = 30,
    batch: Annotated[int, typer.Option(help="0: each model's own")] = 0,
    models: Annotated[list[str] | None, typer.Option(help="all unless given")] = None,
    fine_tuning: Annotated[bool, typer.Option(help="the models that people fine-tune")] = False,
    peak: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    if peak:
        assert models is not None
        return print_peak(models[0], peak, batch)
    versions = ", ".join(f"{name} {version(name)}" for name in ("torch", "opacus", "transformers", "peft"))
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{versions}, one thread, tuned allocator, {load}")
    for model in models or (FINE_TUNED if fine_tuning else TIMED):
        timed = (TIMED | FINE_TUNED)[model]
        size = batch or timed.batch
        medians = measure(timed, size, rounds)
        best, goal = min((medians[name] for name in OPACUS if name in medians), default=math.nan), timed.goal
        print(f"\n{model}, batch {size}" + ("" if goal is None else f", goal {goal:.2f} of plain SGD"))
        if not timed.opacus:
            print("Opacus is left out: its steps do not end in minutes here")
        print(f"{'':26s}{'CPU ms':>9s}{'of plain SGD':>14s}{'of best Opacus':>16s}{'peak MB':>10s}{'of plain':>10s}")
        peaks = {name: memory(model, name, size) for name in medians}
        for name, median in medians.items():
            speed, share = medians["plain SGD"] / median, peaks[name] / peaks["plain SGD"]
            print(f"{name:26s}{median * 1e3:9.2f}{speed:14.2f}{best / median:16.2f}{peaks[name]:10.0f}{share:10.2f}")
        own = medians["one pass"]
        if own > best or (goal is not None and medians["plain SGD"] / own < goal):
            print(f"missed: {profile('one pass', timed, size)}")


if __name__ == "__main__":
    typer.run(main)
