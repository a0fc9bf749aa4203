"""Every answer on the page of sharp edges is the one that is given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from dpcore.accounting import headline
from dpcore.events import Adjacency, Unknown
from dpcore.gradients import ClippedSum, PrivateGradients, noisy_mean_gradient
from dpcore.noise import SecureNoise
from dpcore.randomness import Streams
from sweeps.examples import load
from sweeps.spec.problems import SpecErrors
from trainables.data import SOURCES

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "dpcore" / "SHARP_EDGES.md").read_text(encoding="utf-8")
ASKED = re.findall(r"```(sh|python)\n(.*?)\n```\n```text\n(.*?)\n```", PAGE, re.DOTALL)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The README's spec for data of one's own, with three rows beside it."""
    found = re.search(r"```yaml\n(name: mine\n.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    (tmp_path / "mine.yaml").write_text(found[1], encoding="utf-8")
    rows = {
        "age": [30, 40, 50],
        "hours": [1, 2, 3],
        "work": ["self"] * 3,
        "income": ["low"] * 3,
        "person_id": [1, 2, 3],
    }
    pd.DataFrame(rows).to_parquet(tmp_path / "people.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.yaml"


def clipped_sum(model: nn.Module, records: int = 4) -> ClippedSum:
    engine = PrivateGradients(model, lambda outputs, labels: cross_entropy(outputs, labels, reduction="none"))
    return engine.clipped_sum(torch.zeros(records, 3), torch.zeros(records, dtype=torch.long), clip_norm=1.0)


def names(mine: Path) -> Mapping[str, object]:
    """What the page's lines of code use."""
    options = load(str(mine)).data.options()
    return {
        "Adjacency": Adjacency,
        "SecureNoise": SecureNoise,
        "Streams": Streams,
        "Unknown": Unknown,
        "clipped": clipped_sum(nn.Linear(3, 2)),
        "clipped_sum": clipped_sum,
        "headline": headline,
        "load_table": lambda path: SOURCES["table"].load({**options, "path": path}),
        "nn": nn,
        "noisy_mean_gradient": noisy_mean_gradient,
    }


@pytest.mark.parametrize(("language", "asked", "answer"), ASKED, ids=[asked[:60] for _, asked, _ in ASKED])
def test_what_is_asked_gets_the_printed_answer(language: str, asked: str, answer: str, mine: Path) -> None:
    if language == "sh":
        words = shlex.split(asked)
        assert words[:4] == ["sweeps", "check", "mine.yaml", "--set"]
        with pytest.raises(SpecErrors) as refused:
            load("mine.yaml", changes=words[4:])
        lines = [line.strip() for line in str(refused.value).splitlines()]
        assert any(line.startswith(answer) for line in lines), refused.value
    else:
        with pytest.raises(Exception) as raised:  # noqa: PT011  the page says which
            eval(asked, dict(names(mine)))
        assert f"{type(raised.value).__name__}: {raised.value}" == answer


def test_every_refusal_on_the_page_is_asked() -> None:
    assert len(ASKED) == PAGE.count("```text") == 17


def test_an_empty_batch_is_noised_like_any_other() -> None:
    assert not hasattr(clipped_sum(nn.Linear(3, 2)), "batch_size")
    empty = clipped_sum(nn.Linear(3, 2), records=0)
    assert all(not one.any() for one in empty.tensors.values())
    noised = noisy_mean_gradient(empty, noise_multiplier=1.0, expected_batch_size=4.0, noise=SecureNoise())
    assert all(one.all() for one in noised.values())
