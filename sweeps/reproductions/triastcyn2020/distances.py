"""Figures 2-4: gradients of a trained model, over its training records and over records it never saw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sweeps.reproductions.claims import Claim, Table
from sweeps.reproductions.triastcyn2020.formulas import (
    DELTA,
    DELTA_MU,
    FAILURE,
    ORDERS,
    Curve,
    bayesian_epsilon,
    estimated_costs,
    moments_epsilon,
)
from trainables.data import SOURCES
from trainables.worker.attempt import Attempt

if TYPE_CHECKING:
    from sweeps.process.workspace import Workspace
    from sweeps.records import TrialRecord
    from trainables.system import Dataset, Split

SIGNIFICANT = 0.05
BLOCK = 50
STEPS, RATE = 1000, 1024 / 60_000
CLIP_QUANTILES = (0.05, 0.5, 0.75, 0.99)
"""Clips of Figures 3 and 4 as quantiles of the gradient norm; the steps and the quantiles are ours."""
NOISES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 8.0)
"""Noise over clip."""

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one trained model: distances of independent pairs [pairs] on both sides, norms of training gradients."""

    name: str
    training: Array
    held_out: Array
    norms: Array


def measured(name: str, record: TrialRecord, options: Mapping[str, Any], workspace: Workspace, pairs: int) -> Measured:
    """Gradients of 2 * pairs records from either side at the trial's last weights."""
    sweep = record.key.rsplit("-", 1)[0]
    state = Attempt.of(workspace.trials(sweep), record.key, record.attempts).load(record.step)
    data = SOURCES[str(options["source"])].load({key: one for key, one in options.items() if key != "source"})
    rng = np.random.default_rng(7)
    sides = [_gradients(record, state, data, split, 2 * pairs, rng) for split in (data.train, data.validation)]
    apart = [np.linalg.norm(one[0::2] - one[1::2], axis=1).astype(np.float64) for one in sides]
    return Measured(name, apart[0], apart[1], np.linalg.norm(sides[0], axis=1).astype(np.float64))


def _gradients(
    record: TrialRecord, state: Mapping[str, Any], data: Dataset, split: Split, count: int, rng: np.random.Generator
) -> NDArray[np.float32]:
    """[count, number of weights]"""
    import torch

    from dpcore.gradients import PrivateGradients
    from trainables.training.losses import loss_function, tensor
    from trainables.training.released import released_model

    assert record.plan is not None
    model = released_model(record.plan, data.facts, state)
    loss: Callable[[Any, Any], torch.Tensor] = loss_function(data.facts)
    gradients = PrivateGradients(model, loss)
    rows = rng.choice(len(split), size=count, replace=False)
    cpu = torch.device("cpu")
    parts = [
        gradients.record_gradients(
            tuple(tensor(np.asarray(one)[rows[i : i + BLOCK]], cpu) for one in split.inputs.values()),
            tensor(np.asarray(split.targets)[rows[i : i + BLOCK]], cpu),
        )
        for i in range(0, count, BLOCK)
    ]
    joined: NDArray[np.float32] = torch.cat(parts).numpy()
    return joined


def figure_2_claims(found: Measured) -> list[Claim]:
    """Whether distances tell training records from others."""
    means = stats.ttest_ind(found.training, found.held_out, equal_var=False).pvalue
    spreads = stats.levene(found.training, found.held_out).pvalue
    return [
        Claim(
            claim=f"Figure 2, {found.name}: {what} of train and test gradient distances do not differ significantly",
            published="p well over the threshold",
            ours=f"p = {pvalue:.2g}",
            holds=bool(pvalue > SIGNIFICANT),
            note=f"{len(found.training)} independent pairs a side, {test}. No proof of privacy: they see means "
            "and spreads, not what one record does to the figure.",
        )
        for what, test, pvalue in (("means", "Welch's t-test", means), ("variances", "Levene's test", spreads))
    ]


def figures_3_and_4(found: Measured) -> tuple[list[Curve], list[Curve], list[Claim], Table]:
    """Epsilon over the noise, with the clip at quantiles of the gradient norm, and without one for BDP."""
    failures = STEPS * len(ORDERS) * FAILURE
    clipped, free, rows = [], [], []
    below, gaps, unclipped = True, [], []
    for quantile in CLIP_QUANTILES:
        clip = float(np.quantile(found.norms, quantile))
        lines: dict[str, list[float]] = {"DP": [], "BDP": [], "free": [], "same": []}
        for noise in NOISES:
            sigma = noise * clip
            lines["DP"].append(moments_epsilon(1 / noise, RATE, STEPS, ORDERS, DELTA))
            lines["same"].append(moments_epsilon(1 / noise, RATE, STEPS, ORDERS, DELTA_MU - failures))
            for kind, distances, largest in (
                ("BDP", np.minimum(found.norms, clip), clip),
                ("free", found.norms, None),
            ):
                cost = estimated_costs(distances, RATE, sigma, STEPS, ORDERS, largest)
                lines[kind].append(bayesian_epsilon(STEPS * cost, ORDERS, DELTA_MU, failures))
        below = below and all(a <= b * (1 + 1e-9) for a, b in zip(lines["BDP"], lines["same"], strict=True))
        gaps.append(lines["same"][NOISES.index(1.0)] / lines["BDP"][NOISES.index(1.0)])
        unclipped += [a < b for a, b in zip(lines["free"], lines["same"], strict=True)]
        clipped += [Curve(f"BDP, clip at quantile {quantile:g}", NOISES, lines["BDP"])]
        free += [Curve(f"BDP, noise in units of quantile {quantile:g}", NOISES, lines["free"])]
        at = NOISES.index(1.0)
        rows.append((quantile, clip, *(lines[kind][at] for kind in ("DP", "same", "BDP", "free"))))
    ordinary = Curve("DP (delta 1e-5)", NOISES, [moments_epsilon(1 / z, RATE, STEPS, ORDERS, DELTA) for z in NOISES])
    published = sum(row[4] <= row[2] for row in rows)
    claims = [
        Claim(
            claim="Figure 3: with a clip, BDP never needs more noise than DP, at the same delta",
            published="always",
            ours=f"{len(CLIP_QUANTILES) * len(NOISES)} points",
            holds=below,
            note=f"{found.name}, {STEPS} steps, delta {DELTA_MU:g}. At the published deltas, 1e-10 and 1e-5, BDP is "
            f"below at noise 1 for {published} of {len(rows)} clips.",
        ),
        Claim(
            claim="Figure 3: BDP approaches DP as the clip shrinks",
            published="approaches",
            ours=", ".join(f"{q:g}: {gap:.3g}" for q, gap in zip(CLIP_QUANTILES, gaps, strict=True)),
            holds=all(a <= b * (1 + 1e-9) for a, b in pairwise(gaps)) and gaps[0] < 1.05,
            note="DP over BDP at noise 1 and one delta, by the quantile that the clip stands at.",
        ),
        Claim(
            claim="Figure 4: without a clip the order of BDP and DP is not guaranteed",
            published="less consistent",
            ours=f"BDP below DP at {sum(unclipped)} of {len(unclipped)} points",
            holds=0 < sum(unclipped) < len(unclipped),
            note="DP clipped at the quantile, BDP not at all; the same noise, one delta.",
        ),
    ]
    columns = ("quantile", "clip", "DP 1e-5", "DP at BDP's delta", "BDP, clipped", "BDP, no clip")
    return (
        [ordinary, *clipped],
        [ordinary, *free],
        claims,
        Table(f"Figures 3 and 4 ({found.name}): epsilon at noise 1", columns, rows),
    )
