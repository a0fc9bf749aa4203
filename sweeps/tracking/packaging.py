"""A model as MLflow keeps it: a folder without a pickle, made of declared facts, and what it says of itself as tags."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dpcore
import trainables
from sweeps.release.published import Published
from sweeps.tracking.mlflow_door import HEADING, NO_HEADING
from sweeps.tracking.run_content import trial_tags
from sweeps.tracking.signature import example, signature
from trainables.export import served

if TYPE_CHECKING:
    from trainables.export.model import ReleasedModel

_NEEDS = ("mlflow", "numpy", "pandas", "pyarrow", "safetensors", "scipy", "torch")
_LONGEST = 5000
SWEEP = "sweeps.sweep"
CARD = "sweeps.card"
"""The digest of the card among a model's files."""


def claim_tags(card: Mapping[str, Any], sweep: str, trial: Published) -> dict[str, str]:
    """What a model with this card says of itself: the tags of the trial's run, its epsilon, what stands above every
    claim, and which card it is."""
    assert trial.guarantee is not None
    return {
        **trial_tags(trial),
        SWEEP: sweep,
        "sweeps.epsilon": repr(trial.guarantee.epsilon),
        "sweeps.total": " ".join(card["total"])[:_LONGEST],
        HEADING: card["heading"] or NO_HEADING,
        CARD: hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest(),
    }


def write(model: ReleasedModel, place: Path, exported: Path) -> None:
    """MLflow's folder of the model."""
    import mlflow

    asked = model.preprocessing
    with _quietly():
        mlflow.pyfunc.save_model(
            str(place),
            # Code of ours that travels with it reads the folder: nothing is unpickled.
            loader_module=served.__name__,
            data_path=str(model.save(exported)),
            code_paths=[str(Path(one.__file__ or "").parent) for one in (dpcore, trainables)],
            signature=signature(asked),
            input_example=example(asked),
            # What follows a plus is a build of one index's own.
            pip_requirements=[f"{name}=={version(name).partition('+')[0]}" for name in _NEEDS],
        )


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what MLflow tells of its own steps."""
    logger = logging.getLogger("mlflow")
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
