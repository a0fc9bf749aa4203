"""Texts by a tokenizer's file, and encoded images: what models see of them, what is refused, and what leaves."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from sweeps.planning.plan import code_of
from sweeps.spec.parse import load_spec
from tests.sweeps import specs
from tests.trainables.test_published_sources import refused
from tests.trainables.test_table import told
from trainables.data import SOURCES
from trainables.export.preprocessing import Preprocessing

TABLE = SOURCES["table"]
WORDS = ["[PAD]", "[UNK]", "[MASK]", "good", "bad", "book"]


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Any]:
    """Options of forty reviews, and a tokenizer of whole words beside them."""
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({word: code for code, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    reviews = ["good book", "bad", "a bad book , good", ""] * 10
    pd.DataFrame({"text": reviews, "y": [0, 1] * 20}).to_parquet(tmp_path / "reviews.parquet")
    column = {"tokenizer": str(tmp_path / "tokenizer.json"), "shape": [4]}
    return {"path": str(tmp_path / "reviews.parquet"), "n": 40, "label": "y", "classes": 2, "columns": {"text": column}}


def with_column(options: dict[str, Any], name: str, **changes: Any) -> dict[str, Any]:
    return options | {"columns": {name: {**options["columns"][name], **changes}}}


def test_texts_become_codes_of_a_tokenizer_with_their_mask(texts: dict[str, Any], tmp_path: Path) -> None:
    data = TABLE.load(texts)
    assert {name: one.cardinality for name, one in data.facts.features.items()} == {"text": 6, "text_mask": 2}
    assert data.train.inputs["text"][:4].tolist() == [[3, 5, 0, 0], [4, 0, 0, 0], [1, 4, 5, 1], [0, 0, 0, 0]]
    assert data.train.inputs["text_mask"][0].tolist() == [1, 1, 0, 0]
    masked = TABLE.load({k: v for k, v in texts.items() if k != "classes"} | {"label": "text", "loss": "masked"})
    assert (masked.train.inputs["text"] == 2).any(1).sum() == 30
    # What leaves reads raw text, without the file.
    asked = Preprocessing.of(data.facts, TABLE.read(texts).columns, (0, 1))
    (tmp_path / "tokenizer.json").unlink()
    again = Preprocessing.from_dict(json.loads(json.dumps(asked.to_dict())))
    import pyarrow as pa

    assert again.inputs(pa.table({"text": ["bad book"]}))["text"].tolist() == [[4, 5, 0, 0]]


@pytest.mark.parametrize(
    ("changes", "option", "words"),
    [
        ({"codes": 5}, "codes", "at least 6"),
        ({"padding": 6}, "padding", "one of the codes"),
    ],
)
def test_a_tokenizer_that_does_not_fit(texts: dict[str, Any], changes: dict, option: str, words: str) -> None:
    refused(lambda: TABLE.facts(with_column(texts, "text", **changes)), option, words)


def test_padding_is_asked_for_and_the_library_too(texts: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(file.read_text().replace("[PAD]", "nothing"))
    refused(lambda: TABLE.facts(texts), "text.padding", "names none")
    assert TABLE.facts(with_column(texts, "text", padding=0)).features["text"].padding == 0
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    file.write_text(file.read_text() + " ")
    refused(lambda: TABLE.facts(texts), "text.tokenizer", "private-sweeps[models]")


def test_a_tokenizer_is_part_of_what_a_sweep_is(texts: dict[str, Any], tmp_path: Path) -> None:
    data = {"source": "table", **texts, "validation": {"records": "public", "share": 0.3, "id": "text"}}
    knobs = {"model": "math:floor", "learning_rate": 1.0, "clip_norm": 1.0, "batch_size": 4, "epochs": 1}
    spec = load_spec(specs.digits("texts", data=data, systems={"noisy-sgd": knobs}))
    before = code_of(spec)
    with (tmp_path / "tokenizer.json").open("a") as file:
        file.write(" ")
    assert code_of(spec) != before


# Images


def encoded(values: np.ndarray) -> bytes:
    content = io.BytesIO()
    Image.fromarray(values).save(content, "PNG")
    return content.getvalue()


def pictures(n: int, *shape: int) -> list[np.ndarray]:
    return list(np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8))


@pytest.mark.parametrize("struct", [False, True])
def test_images_are_scaled_pixels_channels_first(tmp_path: Path, struct: bool) -> None:
    made = pictures(20, 4, 6, 3)
    cells = [{"bytes": encoded(one), "path": f"{row}.png"} if struct else encoded(one) for row, one in enumerate(made)]
    pd.DataFrame({"photo": cells, "y": [0, 1] * 10}).to_parquet(tmp_path / "photos.parquet")
    options = {"path": str(tmp_path / "photos.parquet"), "n": 20, "label": "y", "classes": 2}
    column = {"image": [4, 6], "channels": 3}
    data = TABLE.load(options | {"columns": {"photo": column}})
    assert data.facts.features["photo"].shape == (3, 4, 6)
    np.testing.assert_allclose(data.train.inputs["photo"][7], made[7].transpose(2, 0, 1) / 255, atol=1e-6)
    grey = TABLE.load(options | {"columns": {"photo": {**column, "channels": 1}}})
    assert grey.train.inputs["photo"].shape == (20, 4, 6)
    name = "0.png" if struct else "row 0"
    refused(lambda: TABLE.load(options | {"columns": {"photo": {"image": [4, 5]}}}), "data.columns.photo", name)
    refused(lambda: TABLE.inspect(options | {"columns": {"photo": {"low": 0, "high": 1}}}), "data.columns.photo")


def test_a_folder_has_a_folder_for_each_class(tmp_path: Path) -> None:
    for row, one in enumerate(pictures(20, 4, 4)):
        place = tmp_path / "digits" / ("zero", "one")[row % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(one).save(place / f"{row}.png")
    options = {"path": str(tmp_path / "digits"), "format": "images", "n": 20, "label": "label"}
    options |= {"classes": ["zero", "one"], "columns": {"image": {"image": [4, 4], "channels": 1}}}
    validation = {"records": "public", "share": 0.3, "id": "file"}
    TABLE.inspect(options)
    data = TABLE.load(options | {"validation": validation})
    assert len(data.train) + len(data.validation) == 20
    assert data.train.inputs["image"].shape[1:] == (4, 4)
    assert set(data.train.targets) == {0, 1}
    (tmp_path / "digits" / "one" / "1.png").write_bytes(b"no image")
    refused(lambda: TABLE.load(options), "one/1.png", "Pillow can read")
    (tmp_path / "digits" / "loose.png").write_bytes(b"x")
    refused(lambda: TABLE.inspect(options), "data.path", "a folder of folders")


# What `check` passes, `run` takes or says in a sentence, whatever a column holds and whatever is declared of it.

HELD: dict[str, Any] = {
    "codes": [[1, 2], [3], [], [4, 5, 0]],
    "too long": [[1, 2, 3, 4]] * 4,
    "beyond": [[1, 2], [9], [], [0]],
    "gaps": [[1, None], [2], [], [0]],
    "fractions": [[0.5, 1.0, 2.0]] * 4,
    "words": [["a"], ["b"], [], ["c"]],
    "texts": ["good", "", "bad book", "é"],
    "missing": ["good", None, "bad", ""],
    "numbers": [1, 2, 3, 4],
    "bytes": [b"", b"x", b"no image", b"\x00"],
    "images": [encoded(one) for one in pictures(4, 2, 3, 3)],
    "structs": [{"bytes": encoded(one), "path": None} for one in pictures(4, 2, 3, 3)],
    "other structs": [{"size": 3}] * 4,
}
ASKED: dict[str, Any] = {
    "padded": {"codes": 6, "shape": [3], "padding": 0},
    "codes": {"codes": 6, "shape": [3]},
    "text": {"tokenizer": "tokenizer.json", "shape": [3]},
    "image": {"image": [2, 3]},
    "numbers": {"low": 0, "high": 1, "shape": [3]},
}
FITS = {
    ("codes", "padded"),
    ("texts", "text"),
    ("images", "image"),
    ("structs", "image"),
    ("fractions", "numbers"),
}


@pytest.mark.parametrize("held", HELD)
def test_check_and_run_agree_of_every_kind(texts: dict[str, Any], tmp_path: Path, held: str, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"column": HELD[held] * 10, "y": [0, 1] * 20}).to_parquet("kinds.parquet")
    for name, column in ASKED.items():
        options = {"path": "kinds.parquet", "n": 40, "label": "y", "classes": 2, "columns": {"column": column}}
        checked, ran = told(lambda options=options: TABLE.inspect(options)), told(lambda o=options: TABLE.load(o))
        assert not checked or ran, (held, name)
        assert (not ran) == ((held, name) in FITS), (held, name, ran)
