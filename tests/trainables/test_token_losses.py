"""Losses of tokens and of one's own: of each record by itself, in training, in metrics and in what leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpcore.checks import InvalidValue
from dpcore.gradients import PrivateGradients
from dpcore.gradients.refusals import MixesExamples
from tests.trainables.recording import facts_of
from trainables.data import SOURCES
from trainables.data.table import masked_places
from trainables.system import IGNORED, DatasetSpec, InputSpec, Split, Task, Weights
from trainables.training.losses import loss_function, weighted
from trainables.training.made_up import made_up
from trainables.validation.evaluate import judge

CODES, LENGTH = 11, 6
TABLE = SOURCES["table"]
COLUMN = {"codes": CODES, "shape": [LENGTH], "padding": 0, "mask": 1}


@pytest.fixture
def documents(tmp_path: Path) -> dict[str, object]:
    """Options of a table of 60 documents of 0 to 6 tokens, the first of which are a prompt."""
    rng = np.random.default_rng(0)
    words = [rng.integers(2, CODES, rng.integers(0, LENGTH + 1)).tolist() for _ in range(60)]
    pd.DataFrame({"words": words, "asked": np.arange(60) % 3}).to_parquet(tmp_path / "documents.parquet")
    options = {"path": str(tmp_path / "documents.parquet"), "n": 60, "label": "words", "columns": {"words": COLUMN}}
    return {**options, "loss": "next-token"}


def facts(loss: str) -> DatasetSpec:
    features = {"words": InputSpec(shape=(LENGTH,), cardinality=CODES)}
    return facts_of(task=Task.TOKENS, features=features, classes=CODES, target_shape=(LENGTH,), loss=loss)


@pytest.mark.parametrize("loss", ["next-token", "masked"])
def test_a_loss_is_the_mean_over_a_record_s_own_tokens(loss: str) -> None:
    told, ahead = facts(loss), int(loss == "next-token")
    split = made_up(told, 9, 0).train
    targets = torch.tensor(np.array(split.targets))
    targets[3] = IGNORED
    outputs = torch.randn(9, LENGTH, CODES, generator=torch.Generator().manual_seed(0))
    found = loss_function(told)(outputs, targets)
    for row in range(9):
        places = [place for place in range(ahead, LENGTH) if targets[row, place] != IGNORED]
        each = [F.cross_entropy(outputs[row, place - ahead], targets[row, place]) for place in places]
        assert float(found[row]) == pytest.approx(float(sum(each)) / max(1, len(each)), rel=1e-5)
    assert float(found[3]) == 0


def test_targets_are_the_tokens_without_padding_and_prompt(documents: dict[str, object]) -> None:
    data = TABLE.load(documents | {"prompt": "asked"})
    words, mask = data.train.inputs["words"], data.train.inputs["words_mask"]
    counted = (mask == 1) & (np.arange(LENGTH) >= (np.arange(60) % 3)[:, None])
    assert np.array_equal(data.train.targets, np.where(counted, words, IGNORED))
    assert data.facts.task is Task.TOKENS
    assert (data.facts.classes, data.facts.target_shape) == (CODES, (LENGTH,))


def test_masked_places_follow_from_each_record_alone(documents: dict[str, object]) -> None:
    plain, data = TABLE.load(documents), TABLE.load(documents | {"loss": "masked"})
    words, hidden, targets = plain.train.inputs["words"], data.train.inputs["words"], data.train.targets
    assert np.array_equal(hidden == 1, targets != IGNORED)
    assert np.array_equal(np.where(targets == IGNORED, hidden, targets), words)
    # One at least of each that has a token.
    assert np.array_equal((targets != IGNORED).any(1), (words != 0).any(1))
    many = np.random.default_rng(1).integers(2, 50, (400, 100))
    places = masked_places(many, np.ones(many.shape, dtype=bool))
    # 40,000 coins of .15 have a standard deviation of 71.
    assert abs(places.sum() - 6000) < 400
    assert np.array_equal(masked_places(many[7:8], np.ones((1, 100), dtype=bool))[0], places[7])


class Bigrams(nn.Module):
    """One row of outputs for each code."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(CODES, CODES)

    def forward(self, words: Tensor, mask: Tensor | None = None) -> Tensor:
        rows: Tensor = self.rows(words)
        return rows


def test_metrics_are_of_records_with_errors(documents: dict[str, object]) -> None:
    data, model = TABLE.load(documents), Bigrams()
    found = judge(model, data.train, data.facts, torch.device("cpu"))
    words, targets = (torch.tensor(np.array(one)) for one in (data.train.inputs["words"], data.train.targets))
    losses = loss_function(data.facts)(model(words), targets).detach().double()
    assert found["perplexity"] == pytest.approx(float(losses.mean().exp()), rel=1e-6)
    assert found["perplexity_se"] == pytest.approx(float(losses.mean().exp() * losses.std() / 60**0.5), rel=1e-6)
    counted = targets[:, 1:] != IGNORED
    right = ((model(words)[:, :-1].argmax(2) == targets[:, 1:]) & counted).sum(1) / counted.sum(1).clamp(min=1)
    assert found["token_accuracy"] == pytest.approx(float(right.double().mean()), abs=1e-6)
    assert {"loss", "loss_se", "token_accuracy_se"} < set(found)


# A loss of one's own.

OWN = "tests.trainables.user_sources"


def classified(loss: str) -> DatasetSpec:
    return facts_of((3,), classes=3, weights=Weights(classes=(1.0, 2.0, 5.0)), loss=loss)


def gradients(loss: str) -> tuple[PrivateGradients, Split]:
    torch.manual_seed(0)
    return PrivateGradients(nn.Linear(3, 3), loss_function(classified(loss))), made_up(classified(loss), 8, 0).train


def test_it_is_trained_by_and_multiplied_by_weights() -> None:
    engine, split = gradients(f"{OWN}:absolute")
    x, y = torch.tensor(np.array(split.inputs["x"])), torch.tensor(np.array(split.targets))
    engine.check((x,), y)
    outputs, weights = torch.randn(8, 3), torch.tensor([1.0, 2.0, 5.0])[y]
    expected = weights * (1 - outputs.softmax(1)[torch.arange(8), y])
    torch.testing.assert_close(weighted(loss_function(classified(f"{OWN}:absolute")))(outputs, (y, weights)), expected)


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("whole", InvalidValue, "one number a record"),
        ("mixing", MixesExamples, "the model or the loss takes something of its batch"),
        ("broken", KeyError, "no such thing"),
    ],
)
def test_what_it_must_not_do_is_seen_on_made_up_records(name: str, error: type, words: str) -> None:
    engine, split = gradients(f"{OWN}:{name}")
    with pytest.raises(error, match=words):
        engine.check((torch.tensor(np.array(split.inputs["x"])),), torch.tensor(np.array(split.targets)))
