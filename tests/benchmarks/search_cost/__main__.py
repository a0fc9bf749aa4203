"""What honest search costs and gains: one epsilon for one untuned trial, for ten that all leave, for the best of many.

Run: python -m tests.benchmarks.search_cost FILE... [--searches 4000], files of `tests.benchmarks.search_cost.record`

Every search is drawn anew from the recorded trials of its way, none twice in one search; a search for more trials than
were recorded has all of them. What is shown is the accuracy on test records of the trial that would be published: the
mean over searches, and between which values nine of ten of them lie. On Adult validation records are public.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.search_cost.ways import EPSILONS, MEAN, MOST, SETS, SHARED, WAYS

NINE_OF_TEN = (0.05, 0.95)


def published(trials: Sequence[dict[str, Any]], way: str, searches: int, seed: int = 0) -> NDArray[np.float64]:
    """Test accuracy of what each of so many searches publishes."""
    rng = np.random.default_rng(seed)
    secret = rng.geometric(1 / MEAN, size=20 * searches)
    counts: dict[str, Sequence[int]] = {
        "untuned": [1] * searches,
        "all": [SHARED] * searches,
        "best": secret[secret <= MOST][:searches].tolist(),
    }
    validation = np.array([one["validation"] for one in trials])
    test = np.array([one["test"] for one in trials])
    found = np.empty(searches)
    for number, count in enumerate(counts[way]):
        tried = rng.permutation(len(trials))[:count]
        found[number] = test[tried[np.argmax(validation[tried])]]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--searches", type=int, default=4000)
    options = parser.parse_args()
    rows = [json.loads(line) for file in options.files for line in file.read_text().splitlines()]
    print(f"{'':8}{'epsilon':>8}  " + "".join(f"{way:^34}" for way in WAYS))
    for data in SETS:
        for epsilon in EPSILONS:
            cells = []
            for way in WAYS:
                trials = [one for one in rows if (one["data"], one["epsilon"], one["way"]) == (data, epsilon, way)]
                if not trials:
                    cells.append(f"{'not recorded':^34}")
                    continue
                found = published(trials, way, options.searches)
                low, high = np.quantile(found, NINE_OF_TEN)
                cells.append(f"{found.mean():.4f} ({low:.4f} .. {high:.4f}) of {len(trials):3}".center(34))
            print(f"{data:8}{epsilon:8g}  " + "".join(cells))


if __name__ == "__main__":
    main()
