"""One private step (clipped sum, noise, update) against plain SGD and Opacus, interleaved, one thread.

    python -m tests.benchmarks.private_step [--json FILE] [--rounds N] [--batch 256]

The process starts itself again with a tuned allocator for every side: half of Opacus's time on the MLP is
page faults otherwise, and the tuned number is the one to quote.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable

ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TOP_PAD_": "268435456",
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
if __name__ == "__main__" and any(os.environ.get(name) != value for name, value in ALLOCATOR.items()):
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
from dpcore.gradients.layers import KINDS, Kinds  # noqa: E402
from dpcore.noise import NoiseSource, PseudorandomNoise, SecureNoise  # noqa: E402

CLIP, NOISE, RATE = 1.0, 1.1, 0.1
Step = Callable[[], None]


def logistic() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


def cnn() -> nn.Module:
    """The two-convolution MNIST model of Opacus's and TensorFlow Privacy's tutorials."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, padding=3),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.MaxPool2d(2, 1),
        nn.Flatten(),
        nn.Linear(512, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )


def plain(model: nn.Module, x: Tensor, y: Tensor) -> Step:
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def ours(model: nn.Module, x: Tensor, y: Tensor, noise: NoiseSource, kinds: Kinds = KINDS) -> Step:
    engine = PrivateGradients(model, losses, kinds=kinds)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    parameters = dict(model.named_parameters())

    def step() -> None:
        clipped = engine.clipped_sum(x, y, clip_norm=CLIP)
        mean = noisy_mean_gradient(clipped, noise_multiplier=NOISE, expected_batch_size=len(x), noise=noise)
        for name, gradient in mean.items():
            parameters[name].grad = gradient
        optimizer.step()

    return step


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, reduction="none")


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


def measure(make_model: Callable[[], nn.Module], batch: int, rounds: int) -> dict[str, float]:
    """Median seconds of a step by engine; every round runs each engine three times, two of them timed."""
    torch.manual_seed(0)
    x, y = torch.rand(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
    steps = {
        "plain SGD, no privacy": plain(make_model(), x, y),
        "Opacus hooks": opacus_hooks(make_model(), x, y),
        "Opacus ghost clipping": opacus_ghost(make_model(), x, y),
        "one pass": ours(make_model(), x, y, PseudorandomNoise(torch.Generator())),
        "one pass, secure noise": ours(make_model(), x, y, SecureNoise()),
        "every gradient formed": ours(make_model(), x, y, PseudorandomNoise(torch.Generator()), {}),
    }
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(rounds + 3):
        for name, step in steps.items():
            # Training repeats one engine: the first step of a turn only warms the caches that the last engine cooled.
            step()
            for _ in range(2):
                start = time.perf_counter()
                step()
                if turn >= 3:
                    seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    models = {"LR 784-10": logistic, "MLP 784-256-10": mlp, "CNN": cnn}
    results = {name: measure(make, options.batch, options.rounds) for name, make in models.items()}
    print(f"torch {torch.__version__}, opacus {opacus.__version__}, batch {options.batch}, one thread, tuned allocator")
    print("speed against Opacus hooks (median milliseconds of a step)")
    print(f"{'':24s}" + "".join(f"{name:>20s}" for name in results))
    rows = []
    for engine in next(iter(results.values())):
        line = f"{engine:24s}"
        for model, medians in results.items():
            ratio = medians["Opacus hooks"] / medians[engine]
            line += f"{ratio:10.2f} ({medians[engine] * 1e3:6.2f})"
            rows.append({"engine": engine, "model": model, "speed": ratio, "median_seconds": medians[engine]})
        print(line)
    if options.json:
        document = {
            "versions": {"torch": torch.__version__, "opacus": opacus.__version__},
            "batch": options.batch,
            "rounds": options.rounds,
            "rows": rows,
        }
        with open(options.json, "w") as file:
            json.dump(document, file, indent=1)


if __name__ == "__main__":
    main()
