"""Feature maps: what they declare, that they keep records apart, what is kept of them, and what is refused."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

from dpcore.checks import InvalidValue
from tests.trainables import feature_maps
from trainables.data import SOURCES, records
from trainables.data.source import parted
from trainables.features.declared import FEATURES, Features
from trainables.features.scattering import Scattering
from trainables.kept import created, kept, mapped
from trainables.system import Dataset

DIGITS = SOURCES["pooled"]
FEW = {"of": "digits", "train": 25, "validation": 6}
SCATTERED = {**FEW, "features": "scattering", "features_groups": 27}
OWN = {"features_from": "made by a formula, for tests", "features_bounds": [-3, 3]}


def own(name: str, **others: object) -> dict[str, object]:
    return {**FEW, **OWN, "features": f"tests.trainables.feature_maps:{name}", **others}


def refused(options: dict[str, object], name: str, *words: str) -> None:
    for ask in (DIGITS.inspect, DIGITS.load):
        with pytest.raises(InvalidValue) as caught:
            ask(options)
        assert caught.value.name == name
        assert all(word in str(caught.value) for word in words), caught.value


def rows_of(data: Dataset) -> np.ndarray:
    return np.asarray(data.train.inputs[FEATURES])


# What is declared, and what comes


def test_facts_are_those_of_the_features_and_every_claim_says_whose_map_it_is() -> None:
    facts = DIGITS.facts(SCATTERED)
    (feature,) = facts.features.values()
    assert feature.shape == (81, 2, 2)
    # Of 12 numbers with mean 0 and variance 1 none exceeds the root of 11.
    assert (feature.low, feature.high) == pytest.approx((-(11**0.5), 11**0.5))
    [said] = facts.assumptions
    assert "scattering (Mallat 2012" in said
    assert "fitted to no records" in said
    data = DIGITS.load(SCATTERED)
    assert data.facts == facts
    assert rows_of(data).shape == (25, 81, 2, 2)
    assert np.abs(rows_of(data)).max() <= feature.high
    # The records are known as the ones that they are, whatever they are seen through.
    assert data.fingerprint == DIGITS.load(FEW).fingerprint
    assert data.train.targets.tolist() == DIGITS.load(FEW).train.targets.tolist()


def test_a_record_has_the_same_features_whoever_else_is_there() -> None:
    features, found = parted(SCATTERED)[1], DIGITS.load(FEW)
    assert features is not None
    few = records.taken(found.train, np.arange(7, 12))
    whole, part = (features.split(one, found.facts, None).inputs[FEATURES] for one in (found.train, few))
    assert np.array_equal(whole[7:12], part)


def test_one_of_the_users_own() -> None:
    facts = DIGITS.facts(own("Rows"))
    assert facts.features[FEATURES].shape == (3, 16)
    assert (facts.features[FEATURES].low, facts.features[FEATURES].high) == (-3, 3)
    assert facts.assumptions[-1].endswith("no private record had a part in: made by a formula, for tests")
    assert "cut to these" in facts.treatment[-1]
    assert rows_of(DIGITS.load(own("Rows"))).max() == 3
    normalised = {**own("Rows", features_groups=1), "features_bounds": None}
    assert rows_of(DIGITS.load(normalised)).mean() == pytest.approx(0, abs=1e-5)
    assert DIGITS.facts(own("public_statistics")).features[FEATURES].shape == (1, 8, 8)


# What is refused


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("over_the_batch", "do not depend on the records beside it"),
        ("Noisy", "the same features each time"),
        ("Widening", "it writes to largest"),
        ("Clamping", "it writes to "),
        ("Branching", "can leave with a model"),
        ("Logarithm", "finite features"),
        ("no_module", "torch.nn.Module"),
        ("nothing", "a function nothing"),
    ],
)
def test_what_is_no_function_of_one_record_is_refused(name: str, said: str) -> None:
    refused(own(name), "data.features", said)


# Files


def saved(file: Path, module: nn.Module, *, dynamic: bool = True) -> Path:
    shapes = ({0: Dim("records")},) if dynamic else None
    torch.export.save(torch.export.export(module.eval(), (torch.zeros(3, 8, 8),), dynamic_shapes=shapes), file)
    return file


def from_file(file: Path) -> dict[str, object]:
    return {**FEW, **OWN, "features": str(file)}


def test_a_file_of_torch_export_is_the_map_that_was_saved(tmp_path: Path) -> None:
    facts = DIGITS.facts(FEW)
    there = rows_of(DIGITS.load(from_file(saved(tmp_path / "rows.pt2", feature_maps.Rows(facts)))))
    assert np.allclose(there, rows_of(DIGITS.load(own("Rows"))), atol=1e-5)
    # Another file at the same place is another map.
    saved(tmp_path / "rows.pt2", nn.Flatten(0, 0))
    assert rows_of(DIGITS.load(from_file(tmp_path / "rows.pt2"))).shape == (25, 8, 8)


class Trap:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


def with_entry(file: Path, name: str, body: bytes) -> Path:
    """The archive with another body under `name`, which it has or not."""
    with zipfile.ZipFile(file) as found:
        entries = {one: found.read(one) for one in found.namelist()}
    root = next(iter(entries)).partition("/")[0]
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as written:
        for one, kept_ in {**entries, f"{root}/{name}": body}.items():
            written.writestr(one, kept_)
    return file


@pytest.mark.parametrize(
    ("entry", "read"),
    [
        ("data/sample_inputs/model.pt", True),
        ("data/weights/model.pt", False),
        ("data/constants/model.pt", False),
        ("data/constants/custom_obj_0", False),
        ("data/aotinductor/model/code.so", False),
    ],
)
def test_nothing_in_a_file_is_unpickled(tmp_path: Path, entry: str, read: bool) -> None:
    trap = io.BytesIO()
    torch.save(Trap(tmp_path / "mark"), trap)
    file = with_entry(saved(tmp_path / "map.pt2", nn.Linear(8, 2)), entry, trap.getvalue())
    if read:
        assert rows_of(DIGITS.load(from_file(file))).shape == (25, 8, 2)
    else:
        refused(from_file(file), "data.features", "read without pickle")
    assert not (tmp_path / "mark").exists()


# What is kept


def test_features_are_computed_once_and_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "features"
    computed = []
    mapped_by = Features._map
    monkeypatch.setattr(Features, "_map", lambda *given: computed.append(1) or mapped_by(*given))

    def loads(**changes: object) -> int:
        before = len(computed)
        found = DIGITS.load({**SCATTERED, **changes}, folder)
        assert np.array_equal(rows_of(found), rows_of(DIGITS.load({**SCATTERED, **changes})))
        return len(computed) - before - 2

    # Training and validation records; what was loaded beside it is kept nowhere.
    assert loads() == 2
    assert loads() == 0
    assert loads(train=24) == 2
    assert loads(features_groups=3) == 2
    assert (folder.stat().st_mode & 0o777, {one.stat().st_mode & 0o077 for one in folder.iterdir()}) == (0o700, {0})
    mapped = DIGITS.load(SCATTERED, folder).train.inputs[FEATURES]
    # Mapped from the disk, and handed to other processes without a copy.
    assert (type(mapped), type(mapped.base)) == (np.ndarray, np.memmap)
    buffers: list[pickle.PickleBuffer] = []
    assert len(pickle.dumps(mapped, protocol=5, buffer_callback=buffers.append)) < 1000


def _once(folder: str, counted: str) -> float:
    def write(at: Path) -> None:
        with Path(counted).open("a") as log:
            log.write("x")
        created(at / "fours.npy", (50, 50), np.float32)[:] = 4

    return float(kept(Path(folder), "shared", write, lambda at: mapped(at / "fours.npy")).sum())


def test_several_processes_compute_it_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    # Forked from a server without threads: a fork of this process would take over locks that its threads hold.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with context.Pool(4) as pool:
        sums = pool.starmap(_once, [(str(tmp_path / "features"), str(log))] * 12)
    assert sums == [10_000.0] * 12
    assert log.read_text() == "x"


# The scattering map against numbers that kymatio gave.


def picture(side: int) -> np.ndarray:
    """A picture by a formula, so that another program can be asked about it."""
    y, x = np.mgrid[:side, :side]
    return ((np.sin(0.7 * x + 0.3 * y) + np.cos(0.45 * y * x / side)) / 4 + 0.5).astype(np.float32)


KYMATIO = {
    (0, 0, 0): 0.9222289,
    (0, 3, 4): 0.3753201,
    (1, 2, 5): 0.04466228,
    (6, 0, 6): 0.01665622,
    (9, 1, 1): 0.07811563,
    (16, 6, 3): 0.03671938,
    (17, 3, 3): 0.004526218,
    (40, 5, 0): 0.001810931,
    (80, 6, 6): 0.003660459,
}


@pytest.mark.parametrize("place", KYMATIO)
def test_it_says_what_kymatio_says(place: tuple[int, int, int]) -> None:
    """kymatio 0.3.0, Scattering2D(J=2, shape=(28, 28)); it writes pi as 3.1415, and its filters are complex64."""
    said = Scattering(28, 28)(torch.from_numpy(picture(28))[None])[0]
    assert float(said[place]) == pytest.approx(KYMATIO[place], rel=2e-4)


def test_channels_of_a_picture_stand_one_after_the_other() -> None:
    pictures = torch.from_numpy(np.stack([picture(12), picture(12).T]))
    together = Scattering(12, 12)(pictures[None])
    assert torch.equal(together[0], Scattering(12, 12)(pictures).flatten(0, 1))


def test_no_number_exceeds_those_of_the_image() -> None:
    """Bounds of the features are public, not measured."""
    worst = torch.stack(
        [torch.ones(28, 28), (torch.arange(784).reshape(28, 28) % 2).float(), torch.rand(28, 28).round()]
    )
    assert float(Scattering(28, 28)(worst).max()) <= 1 + 1e-5
