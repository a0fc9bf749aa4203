"""MNIST's parts: a validation share of the training records by a hash of content, and test records read at the end."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from tests.trainables import source_cases
from tests.trainables.source_cases import mnist_write
from trainables.data import SOURCES, mnist
from trainables.data.splits import CONTENT, HashSplit, contents
from trainables.system import PrivacyPlan, PrivacyTarget, Split
from trainables.systems.noisy_sgd import NOISY_SGD
from trainables.validation.planning import plan_with_reports

MNIST = SOURCES["mnist"]
N, TESTED = 200, 10
PARTS = {"validation": {"records": "private", "share": 0.3}, "test": {"records": "public"}}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"TRAIN": N, "TEST": TESTED, "TRAIN_OF": (67, 67, 66), "TEST_OF": (4, 3, 3)}
    for name, value in sizes.items():
        monkeypatch.setattr(mnist, name, value)
    monkeypatch.setattr(source_cases, "TRAINING", N)


def written(folder: Path, numbers: range | list[int]) -> dict[str, object]:
    folder.mkdir()
    mnist_write(folder, [(one, one % 3) for one in [*numbers, *range(1000, 1000 + TESTED)]])
    return {"path": str(folder), **PARTS}


def images(split: Split) -> set[bytes]:
    return {one.tobytes() for one in split.inputs["image"]}


@pytest.mark.usefixtures("small")
def test_each_record_finds_its_side_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = written(tmp_path / "all", range(N))
    found, facts = MNIST.load(asked), MNIST.facts(asked)
    train, validation, held = images(found.train), images(found.validation), images(MNIST.load_held_out(asked))
    assert (facts.n, facts.n_validation, MNIST.held_out(asked).n) == (140, 60, TESTED)
    assert len(train | validation | held) == N + TESTED
    # Within five standard deviations of a fair share.
    assert abs(len(validation) - 60) < 33
    # Whoever comes or goes, and in whatever order: nobody else moves.
    monkeypatch.setattr(source_cases, "TRAINING", N)
    turned = MNIST.load(written(tmp_path / "turned", [*range(N - 1, 99, -1), *range(300, 400)]))
    stay = train | validation
    assert images(turned.train) & stay <= train
    assert images(turned.validation) & stay <= validation
    other = MNIST.load({**asked, "validation": {**PARTS["validation"], "key": "another"}})
    assert images(other.validation) != validation


@pytest.mark.usefixtures("small")
def test_loading_reads_no_test_record(tmp_path: Path) -> None:
    asked = written(tmp_path / "all", range(N))
    for file in (tmp_path / "all" / "mnist").glob("t10k*"):
        file.write_bytes(b"no record")
    assert len(MNIST.load(asked).train) > 0
    with pytest.raises(InvalidValue):
        MNIST.load_held_out(asked)
    alone = MNIST.load({**asked, "validation": None})
    assert (len(alone.train), len(alone.validation)) == (N, 0)


def test_reports_on_the_share_compose_in_parallel_with_training() -> None:
    facts = MNIST.facts(PARTS)
    assert (facts.n, facts.n_validation) == (42_000, 18_000)
    config = {"model": "linear", "learning_rate": 1.0, "clip_norm": 1.0, "batch_size": 1000, "epochs": 2}
    target = PrivacyTarget(epsilon=2.0, delta=1e-5)
    alone = NOISY_SGD.plan(config, facts, target, {})
    both = plan_with_reports(NOISY_SGD, config, facts, target, {}, lambda steps: (steps,))
    assert isinstance(alone, PrivacyPlan)
    assert isinstance(both, PrivacyPlan)
    assert both.validation is not None
    assert both.validation.parallel
    assert both.mechanism == alone.mechanism
    assert both.guarantee.epsilon == pytest.approx(alone.guarantee.epsilon, rel=1e-3)
    assert any("hash of their pixels and labels" in line for line in both.guarantee.assumptions)
    replaced = PrivacyTarget(epsilon=2.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE)
    added = plan_with_reports(NOISY_SGD, config, facts, replaced, {}, lambda steps: (steps,))
    assert isinstance(added, PrivacyPlan)
    assert added.validation is not None
    assert not added.validation.parallel


def test_a_recorded_split_stays_as_it_is() -> None:
    """What is hashed: SHA-256 over float32 pixels and one byte of label, little-endian, in hex."""
    split = Split(
        inputs={"image": np.random.default_rng(1).random((3, 28, 28), dtype=np.float32)}, targets=np.uint8([7, 0, 9])
    )
    expected = [
        hashlib.sha256(image.astype("<f4").tobytes() + bytes([label])).hexdigest()
        for image, label in zip(split.inputs["image"], split.targets, strict=True)
    ]
    assert contents(split).tolist() == expected


def test_shares_are_fair() -> None:
    """Of a thousand made-up records: within five standard deviations."""
    rng = np.random.default_rng(0)
    split = Split(inputs={"image": rng.random((1000, 28, 28), dtype=np.float32)}, targets=np.arange(1000) % 10)
    taken = HashSplit(share=0.1, id=CONTENT, key="validation").taken(contents(split))
    assert abs(taken.mean() - 0.1) < 5 * 0.0095
