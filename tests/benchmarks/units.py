"""What a claim per user costs on MovieLens-1M, beside what a claim per record is worth to a user.

python -m tests.benchmarks.units DIR [--epsilons 1 --epsilons 2] [--records 20] [--seed 0]

Each row is one training of the item table by noisy-adam on the users of the training share, judged on the ratings of
users whom it never met. `per user`: users are sampled, each user's summed gradient is clipped once, and the claim is
the budget. `per record`: the same ratings, sampled at the same rate and clipped one by one under the same budget per
rating; the last column is what no claim per user of that run can be below (dpcore.accounting).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

import torch
import typer

from dpcore.accounting import group_epsilon_lower
from tests.trainables.recording import memory_run
from trainables.data import SOURCES
from trainables.registry import SYSTEMS
from trainables.system import Dataset, PrivacyPlan, PrivacyTarget, RunSettings, Scalar

DELTA = 1e-5
BATCH_SHARE, EPOCHS, RATE, CLIP = 0.2, 20, 0.02, 1.0


def trained(data: Dataset, epsilon: float, seed: int) -> tuple[PrivacyPlan, dict[str, float], float]:
    """One training: its plan, its metrics, its seconds."""
    began = time.perf_counter()
    system = SYSTEMS["noisy-adam"]
    config: dict[str, Scalar] = {
        "model": "item-table",
        "learning_rate": RATE,
        "clip_norm": CLIP,
        "batch_size": round(BATCH_SHARE * data.facts.n),
        "epochs": float(EPOCHS),
    }
    word = "record" if data.facts.unit is None else "user"
    plan = system.plan(config, data.facts, PrivacyTarget(epsilon=epsilon, delta=DELTA, unit=word), {})
    assert isinstance(plan, PrivacyPlan), plan
    run = memory_run(plan, seed=seed)
    system.fit([run], data, RunSettings())
    return plan, dict(run.final[2]), time.perf_counter() - began


def main(
    data: str,
    epsilons: Annotated[list[float], typer.Option()] = [1.0, 2.0, 4.0, 8.0],  # noqa: B006
    records: Annotated[list[int], typer.Option()] = [20, 50],  # noqa: B006
    seed: int = 0,
) -> None:
    torch.set_num_threads(1)
    columns = ("claim", "k", "epsilon", "noise", "accuracy", "rmse", "per user at least", "seconds")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for k in records:
        users = SOURCES["movielens_1m"].load({"path": data, "unit": {"column": "user", "max_records": k}})
        ratings = replace(users, facts=replace(users.facts, unit=None, n=len(users.train)), units=None)
        for epsilon in epsilons:
            for word, chosen in (("user", users), ("record", ratings)):
                plan, found, seconds = trained(chosen, epsilon, seed)
                claim = f"{plan.guarantee.epsilon:.4g} (the claim)"
                least = claim if word == "user" else f"{group_epsilon_lower(plan.event(), DELTA, k):.4g}"
                noise = float(plan.config["noise_multiplier"])
                print(
                    f"| per {word} | {k} | {epsilon:g} | {noise:.3g} | {found['accuracy']:.4f} | {found['rmse']:.4f} | "
                    f"{least} | {seconds:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    typer.run(main)
