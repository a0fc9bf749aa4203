"""Cost of a standard normal by source, and of a private step that draws from it; interleaved, one thread.

    python -m tests.benchmarks.noise [--json FILE] [--rounds N] [--batch 256]

Processor time, which other work on the machine disturbs least. Of each source: the median of a fill against PyTorch's
normal_ in place. Of each model: the median of the ratios of a step with cryptographic noise to the pseudorandom step
beside it, and the ratio of the fastest steps.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time

import cryptography
import torch

from dpcore.noise import PseudorandomNoise, SecureNoise
from tests.benchmarks import private_step
from tests.benchmarks.step_models import cnn, logistic, mlp

SIZES = {"LR": 7_850, "CNN": 26_010, "MLP": 203_530}


def urandom_box_muller(tensor: torch.Tensor) -> torch.Tensor:
    """The naive cryptographic Gaussian: the operating system's bytes, no reuse of buffers."""
    pairs = (tensor.numel() + 1) // 2
    words = torch.frombuffer(bytearray(os.urandom(16 * pairs)), dtype=torch.int64)
    uniform = ((words >> 12).double() + (2.0**51 + 0.5)) * 2.0**-52
    radius, angle = (-2 * uniform[:pairs].log()).sqrt(), 2 * torch.pi * uniform[pairs:]
    both = torch.cat([radius * angle.cos(), radius * angle.sin()])
    return tensor.copy_(both[: tensor.numel()].view_as(tensor))


def steps(batch: int, rounds: int) -> list[dict[str, object]]:
    """A private step of each model with either source: milliseconds, and the cost of the cryptographic one."""
    rows: list[dict[str, object]] = []
    print(f"private step, batch {batch}: milliseconds (fastest), secure over pseudorandom (median pair, fastest)")
    for name, make in (("LR", logistic), ("CNN", cnn), ("MLP", mlp)):
        torch.manual_seed(0)
        x, y = torch.rand(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
        both = [
            private_step.ours(make(opacus=False), x, y, source)
            for source in (PseudorandomNoise(torch.Generator()), SecureNoise())
        ]
        seconds: list[list[float]] = [[], []]
        for turn in range(rounds + 3):
            for number in (0, 1) if turn % 2 else (1, 0):
                start = time.process_time()
                both[number]()
                if turn >= 3:
                    seconds[number].append(time.process_time() - start)
        pair = statistics.median(secure / usual for usual, secure in zip(*seconds, strict=True))
        usual, secure = (min(values) for values in seconds)
        print(f"{name:14s}{usual * 1e3:10.2f}{secure * 1e3:10.2f}{pair:10.3f} x{secure / usual:10.3f} x")
        rows.append({"model": name, "pseudorandom": usual, "secure": secure, "ratio": pair, "fastest": secure / usual})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in private_step.ALLOCATOR.items()):
        again = [sys.executable, "-m", "tests.benchmarks.noise", *sys.argv[1:]]
        os.execve(sys.executable, again, {**os.environ, **private_step.ALLOCATOR})
    torch.set_num_threads(1)
    sources = {
        "normal_": lambda one: one.normal_(),
        "pseudorandom": PseudorandomNoise(torch.Generator()).fill_,
        "secure": SecureNoise().fill_,
        "os.urandom": urandom_box_muller,
    }
    rows = []
    print(f"torch {torch.__version__}, cryptography {cryptography.__version__}, one thread, float32")
    print(f"{'source':14s}" + "".join(f"{f'{name} ({size})':>26s}" for name, size in SIZES.items()))
    medians: dict[tuple[str, str], float] = {}
    for name, size in SIZES.items():
        tensor = torch.empty(size)
        seconds: dict[str, list[float]] = {source: [] for source in sources}
        for turn in range(options.rounds + 3):
            for source, fill in sources.items():
                start = time.process_time()
                fill(tensor)
                if turn >= 3:
                    seconds[source].append(time.process_time() - start)
        medians |= {(source, name): statistics.median(values) for source, values in seconds.items()}
    for source in sources:
        line = f"{source:14s}"
        for name, size in SIZES.items():
            each = medians[source, name] / size * 1e9
            ratio = medians[source, name] / medians["normal_", name]
            line += f"{each:12.2f} ns {ratio:8.2f} x"
            rows.append({"source": source, "size": size, "nanoseconds_each": each, "ratio_to_normal_": ratio})
        print(line)
    measured = steps(options.batch, options.rounds)
    if options.json:
        versions = {"torch": torch.__version__, "cryptography": cryptography.__version__}
        with open(options.json, "w") as file:
            json.dump({"versions": versions, "rounds": options.rounds, "rows": rows, "steps": measured}, file, indent=1)


if __name__ == "__main__":
    main()
