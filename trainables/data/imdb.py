"""IMDb reviews as sequences of word codes.

Origin      Large Movie Review Dataset v1.0, Maas et al., ACL 2011; no open licence. The labelled half, as
            imdb_train.csv.xz and imdb_test.csv.xz with header id,rating,label,text.
Words       Lower case, [a-z0-9']+, markup dropped. The last 256 known words of a review are kept, shorter ones
            are filled with code 0 in front (as Bu et al.'s released code does); unknown words are dropped.
Vocabulary  Words counted in private reviews would be a release of their own. `vocabulary: validation` (default)
            takes the 9,999 most frequent words of the test half, whose records are treated as public anyway.
            `vocabulary: hashed` looks at no record: a word's code is its CRC-32 modulo 9,999.
"""

from __future__ import annotations

import io
import re
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpcore.checks import InvalidValue, QuotesRecords
from trainables.data import records
from trainables.data.files import files_in, unpacked
from trainables.data.options import InFolder, Limit
from trainables.data.source import PartOption, PublishedSource
from trainables.system import Dataset, DatasetSpec, InputSpec, Split

RECORDS, CODES, LENGTH = 25_000, 10_000, 256
ORDER_SEED = 2011
_WORD = re.compile(r"[a-z0-9']+")

VALIDATION_VOCABULARY = "The vocabulary was counted in the validation reviews: their words, too, are treated as public."


class ImdbOptions(PartOption, Limit, InFolder):
    """Options of IMDb."""

    vocabulary: Literal["validation", "hashed"] = Field(
        "validation", description="what gives words their codes", examples=["hashed"]
    )


class Imdb(PublishedSource[ImdbOptions]):
    """`data: {source: imdb, path: DIR, vocabulary: validation}`."""

    name = "imdb"
    doc = "film reviews, 2 classes, 25,000 + 25,000 records of 256 words; csv.xz files in option path"
    asks = ImdbOptions

    def declared(self, asked: ImdbOptions) -> DatasetSpec:
        """The facts."""
        facts = self.classified(2, asked.used(RECORDS), RECORDS, words=InputSpec(shape=(LENGTH,), cardinality=CODES))
        return replace(facts, assumptions=(VALIDATION_VOCABULARY,) if asked.vocabulary == "validation" else ())

    def files(self, asked: ImdbOptions) -> list[Path]:
        """Of training and test records. Raises InvalidValue."""
        return files_in(self.name, asked.path, ["imdb"], ["imdb_train.csv.xz", "imdb_test.csv.xz"])

    def records(self, asked: ImdbOptions, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; class 1 is positive. Raises InvalidValue."""
        (train_texts, train_labels), (texts, labels) = (_read(facts, file) for file in files)
        # The files hold all negatives first. Which positions a limit keeps is public: an order that no record decides.
        chosen = np.random.default_rng(ORDER_SEED).permutation(RECORDS)[: facts.n]
        train_texts, train_labels = [train_texts[i] for i in chosen], train_labels[chosen]
        hashed = asked.vocabulary == "hashed"
        code = _hash if hashed else _most_frequent([_WORD.findall(text) for text in texts]).get
        parts = (_split(*part, code) for part in ((train_texts, train_labels), (texts, labels)))
        return records.dataset(facts, *parts)


def _read(facts: DatasetSpec, file: Path) -> tuple[list[str], NDArray[np.int64]]:
    import pandas as pd

    try:
        frame = pd.read_csv(io.BytesIO(unpacked(file)), keep_default_na=False, usecols=["label", "text"])
    except ValueError as error:
        raise QuotesRecords("data.path", str(file), f"UTF-8 CSV with the columns label and text ({error})") from error
    records.check_count(facts, str(file), len(frame), RECORDS)
    if frame["label"].dtype.kind not in "iu":
        raise InvalidValue("data.path", str(file), "a label 0 or 1 in every record", "Fetch the file again.")
    # Markup is cut here: its tag names would count as words.
    return [text.lower().replace("<br />", " ") for text in frame["text"]], frame["label"].to_numpy(np.int64)


def _split(texts: list[str], labels: NDArray[np.int64], code: Callable[[str], int | None]) -> Split:
    """A review and its label as one text decide its part, whatever its words are coded by."""
    ids = np.array([f"{label} {text}" for label, text in zip(labels, texts, strict=True)], dtype=object)
    return Split(inputs={"words": _coded([_WORD.findall(text) for text in texts], code)}, targets=labels, ids=ids)


def _most_frequent(reviews: list[list[str]]) -> dict[str, int]:
    counts = Counter(word for review in reviews for word in review)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {word: code for code, (word, _) in enumerate(ranked[: CODES - 1], 1)}


def _hash(word: str) -> int:
    return zlib.crc32(word.encode()) % (CODES - 1) + 1


def _coded(reviews: list[list[str]], code: Callable[[str], int | None]) -> NDArray[np.int64]:
    out = np.zeros((len(reviews), LENGTH), dtype=np.int64)
    for row, review in zip(out, reviews, strict=True):
        known = [found for word in review if (found := code(word)) is not None][-LENGTH:]
        if known:
            row[-len(known) :] = known
    return out


IMDB = Imdb()
