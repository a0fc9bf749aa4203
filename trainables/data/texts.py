"""Published text files: film reviews, film ratings, and the tables that membership attacks are compared on.

IMDb reviews as sequences of word codes:

Origin      Large Movie Review Dataset v1.0, Maas et al., ACL 2011; no open licence. The labelled half, as
            imdb_train.csv.xz and imdb_test.csv.xz with header id,rating,label,text.
Words       Lower case, [a-z0-9']+, markup dropped. The last 256 known words of a review are kept, shorter ones
            are filled with code 0 in front (as Bu et al.'s released code does); unknown words are dropped.
Vocabulary  Words counted in private reviews would be a release of their own. `vocabulary: validation` (default)
            takes the 9,999 most frequent words of the test half, whose records are treated as public anyway.
            `vocabulary: hashed` looks at no record: a word's code is its CRC-32 modulo 9,999.

MovieLens ratings as (user, movie) codes and 1-5 stars:

Origin  GroupLens, Harper & Konstan 2015. Terms: research use, no redistribution.
Files   movielens_1m: GroupLens's own ratings.dat (1,000,209 ratings) if the folder has it, else
        ratings_no_timestamp.csv.gz (999,755). movielens_100k: u.data.
Codes   The published id minus 1, so that no record decides which movies exist.
Split   20% of the positions, by a fixed public permutation, are validation.
Part    `part` takes whole users, by a hash of their ids, of a claim per rating too.
Units   `unit: {column: user, max_records: k}`: a fifth of the users, by a hash of their ids, are validation with all of
        their (at most k) ratings; n counts users, and so does `limit`. A user's code is then no input: nobody who is
        judged was trained on.

The binary tables of membership attacks, Location, Purchase and Texas:

Origin   Shokri, Stronati, Song & Shmatikov 2017, archives of their repository. No licence text: research use, cite
         the paper. Location (Foursquare check-ins, Yang et al. 2015), Purchase (the "acquire valued shoppers" contest,
         baskets clustered into 2 to 100 kinds), Texas (hospital stays, 100 procedures).
Format   CSV without a header: the class, an integer from 1, in quotes or not, then features 0 or 1. Texas keeps
         features and classes in two files. A .tgz, .tar.gz or a plain file.
Split    A public draw by option `seed` (0): the first `train` records are trained on, the others are validation.
"""

from __future__ import annotations

import io
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpcore.checks import InvalidValue, QuotesRecords
from trainables.data import records
from trainables.data.options import InFolder, Limit, Seed, Whole
from trainables.data.source import Published, existing, files_in, find_folder, unpacked, wrong_file
from trainables.system import Dataset, DatasetSpec, InputSpec, Split, Task
from trainables.units import Unit, share_of

REVIEWS, CODES, LENGTH = 25_000, 10_000, 256
ORDER_SEED = 2011
_WORD = re.compile(r"[a-z0-9']+")

VALIDATION_VOCABULARY = "The vocabulary was counted in the validation reviews: their words, too, are treated as public."


class Imdb(Published, Limit, InFolder):
    """`data: {source: imdb, path: DIR, vocabulary: validation}`."""

    name = "imdb"
    doc = "film reviews, 2 classes, 25,000 + 25,000 records of 256 words; csv.xz files in option path"

    vocabulary: Literal["validation", "hashed"] = Field(
        "validation", description="what gives words their codes", examples=["hashed"]
    )

    def declared(self) -> DatasetSpec:
        """The facts."""
        facts = self.classified(2, self.used(REVIEWS), REVIEWS, words=InputSpec(shape=(LENGTH,), cardinality=CODES))
        return replace(facts, assumptions=(VALIDATION_VOCABULARY,) if self.vocabulary == "validation" else ())

    def files(self) -> list[Path]:
        """Of training and test records. Raises InvalidValue."""
        return files_in(self.name, self.path, ["imdb"], ["imdb_train.csv.xz", "imdb_test.csv.xz"])

    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; class 1 is positive. Raises InvalidValue."""
        (train_texts, train_labels), (texts, labels) = (_reviews(facts, file) for file in files)
        # The files hold all negatives first. Which positions a limit keeps is public: an order that no record decides.
        chosen = np.random.default_rng(ORDER_SEED).permutation(REVIEWS)[: facts.n]
        train_texts, train_labels = [train_texts[i] for i in chosen], train_labels[chosen]
        hashed = self.vocabulary == "hashed"
        code = _hash if hashed else _most_frequent([_WORD.findall(text) for text in texts]).get
        parts = (_coded_reviews(*part, code) for part in ((train_texts, train_labels), (texts, labels)))
        return records.dataset(facts, *parts)


def _reviews(facts: DatasetSpec, file: Path) -> tuple[list[str], NDArray[np.int64]]:
    import pandas as pd

    try:
        frame = pd.read_csv(io.BytesIO(unpacked(file)), keep_default_na=False, usecols=["label", "text"])
    except ValueError as error:
        raise QuotesRecords("data.path", str(file), f"UTF-8 CSV with the columns label and text ({error})") from error
    records.check_count(facts, str(file), len(frame), REVIEWS)
    # Markup is cut here: its tag names would count as words.
    return [text.lower().replace("<br />", " ") for text in frame["text"]], frame["label"].to_numpy()


def _coded_reviews(texts: list[str], labels: NDArray[np.int64], code: Callable[[str], int | None]) -> Split:
    """A review and its label as one text decide its part, whatever its words are coded by."""
    ids = np.array([f"{label} {text}" for label, text in zip(labels, texts, strict=True)], dtype=object)
    words = np.zeros((len(texts), LENGTH), dtype=np.int64)
    for row, text in zip(words, texts, strict=True):
        known = [found for word in _WORD.findall(text) if (found := code(word)) is not None][-LENGTH:]
        if known:
            row[-len(known) :] = known
    return Split(inputs={"words": words}, targets=labels, ids=ids)


def _most_frequent(reviews: list[list[str]]) -> dict[str, int]:
    counts = Counter(word for review in reviews for word in review)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {word: code for code, (word, _) in enumerate(ranked[: CODES - 1], 1)}


def _hash(word: str) -> int:
    return zlib.crc32(word.encode()) % (CODES - 1) + 1


# MovieLens


SPLIT_SEED, VALIDATION_SHARE, STARS = 100, 0.2, 5
USER, SPLIT_KEY = "user", "movielens"


@dataclass(frozen=True, slots=True)
class Ratings:
    """One file of ratings: its name, how many, separator and number of header lines."""

    file: str
    records: int
    separator: str
    header: int = 0


class MovieLens(Published, Limit, InFolder):
    """`data: {source: movielens_1m, path: DIR}`. `ratings` are tried in order, the last is the default."""

    parted_by = USER
    users: ClassVar[int]
    movies: ClassVar[int]
    ratings: ClassVar[tuple[Ratings, ...]]

    unit: Unit | None = Field(
        None,
        description="{column: user, max_records: k}, what one neighbour of a claim differs in",
        examples=[{"column": USER, "max_records": 50}],
    )

    def declared(self) -> DatasetSpec:
        """The facts; looks which file is there, reads none. Raises InvalidValue."""
        if self.unit is not None and self.unit.column != USER:
            raise InvalidValue("data.unit.column", self.unit.column, f"{USER}, whose a rating is", f"Write `{USER}`.")
        movie = {"movie": InputSpec(shape=(), cardinality=self.movies)}
        if self.unit is None:
            records = self._ratings().records
            validation = round(records * VALIDATION_SHARE)
            n = records - validation
            features = {USER: InputSpec(shape=(), cardinality=self.users)} | movie
        else:
            trained, judged = self._users()
            n, validation, features = len(trained), len(judged), movie
        return replace(self.classified(STARS, self.used(n), validation, **features), task=Task.RATING, unit=self.unit)

    def files(self) -> list[Path]:
        """The one with ratings. Raises InvalidValue."""
        folder = find_folder(self.name, self.path, self.name)
        return [existing(self.name, folder / self._ratings().file)]

    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; class k is k + 1 stars. Raises InvalidValue."""
        ratings = self._ratings()
        table = _rating_rows(files[0], ratings)
        records.check_count(facts, str(files[0]), len(table), ratings.records)
        user, movie, stars = table[:, 0] - 1, table[:, 1] - 1, table[:, 2] - 1
        if facts.unit is not None:
            users_trained, users_judged = self._users()
            parts = []
            for users in (users_trained[: facts.n], users_judged):
                rows = np.flatnonzero(np.isin(user, users))
                own = Split(inputs={"movie": movie[rows]}, targets=stars[rows], ids=user[rows])
                parts.append(records.by_unit(own, user[rows].tolist(), facts.unit))
            (train, units), (validation, _) = parts
            return records.dataset(facts, train, validation, units=units)
        order = np.random.default_rng(SPLIT_SEED).permutation(ratings.records)
        judged, trained = order[: facts.n_validation], order[facts.n_validation :][: facts.n]
        return records.parted(facts, {USER: user, "movie": movie}, stars, trained, judged, user)

    def _users(self) -> tuple[list[int], list[int]]:
        """Codes of the users who are trained on and of those who are judged, each in the order of a hash: public."""
        shares = sorted((share_of(SPLIT_KEY, user), user) for user in range(self.users))
        judged = [user for share, user in shares if share < VALIDATION_SHARE]
        return [user for share, user in shares if share >= VALIDATION_SHARE], judged

    def _ratings(self) -> Ratings:
        if self.path is None or len(self.ratings) == 1:
            return self.ratings[-1]
        folder = find_folder(self.name, self.path, self.name)
        return next((one for one in self.ratings if (folder / one.file).is_file()), self.ratings[-1])


def _rating_rows(file: Path, ratings: Ratings) -> NDArray[np.int64]:
    """[records, 3]: user id, movie id, stars."""
    import pandas as pd

    text = unpacked(file).replace(ratings.separator.encode(), b",")
    try:
        frame = pd.read_csv(io.BytesIO(text), header=None, skiprows=ratings.header, usecols=[0, 1, 2], dtype=np.int64)
    except ValueError as error:
        expected = f"user, movie and stars as whole numbers separated by {ratings.separator!r} ({error})"
        raise wrong_file(file, expected, quotes=True) from error
    return frame.to_numpy()


class MovieLens1M(MovieLens):
    """A million ratings."""

    name = "movielens_1m"
    doc = "film ratings, 1-5 stars, 6,040 users, 999,755 or 1,000,209 records; GroupLens files; options path, unit"
    users = 6040
    movies = 3952
    ratings = (
        Ratings("ratings.dat", 1_000_209, "::"),
        Ratings("ratings_no_timestamp.csv.gz", 999_755, ",", header=1),
    )


class MovieLens100K(MovieLens):
    """A hundred thousand ratings."""

    name = "movielens_100k"
    doc = "film ratings, 1-5 stars, 943 users, 100,000 records; GroupLens's u.data; options path, unit"
    users = 943
    movies = 1682
    ratings = (Ratings("u.data", 100_000, "\t"),)


# Location, Purchase and Texas


class MembershipTable(Published, InFolder):
    """One published table as a data source: `data: {source: NAME, path: DIR, train: 1200, seed: 0}`.

    name      of its archive too, dataset_NAME.tgz, and of its folder below option path
    members   names inside the archive: one table with the class first, or features and then classes; a plain file
              named as the last part of one serves too
    trained   records that are trained on, unless option `train` says otherwise
    """

    members: ClassVar[tuple[str, ...]]
    count: ClassVar[int]
    width: ClassVar[int]
    classes: ClassVar[int]
    trained: ClassVar[int]

    train: Whole | None = Field(None, description="how many records are trained on", examples=[1200])
    seed: Seed = Field(0, description="the seed of the public draw that splits", examples=[1])

    @property
    def archive(self) -> str:
        """Name of the published file."""
        return f"dataset_{self.name}.tgz"

    def declared(self) -> DatasetSpec:
        """The facts. Raises InvalidValue (train)."""
        train = self.trained if self.train is None else self.train
        if train >= self.count:
            remedy = "The others are the validation."
            raise InvalidValue("data.train", train, f"fewer than the {self.count} records of {self.name}", remedy)
        return self.classified(self.classes, train, self.count - train, record=InputSpec(shape=(self.width,)))

    def files(self) -> list[Path]:
        """For each member itself, or the archive that holds it. Raises InvalidValue."""
        folder = find_folder(self.name, self.path, self.name)
        plain = [folder / Path(member).name for member in self.members]
        return [one if one.is_file() else existing(self.name, folder / self.archive) for one in plain]

    def records(self, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; class k of the file is k - 1. Raises InvalidValue (archive, shape, values, classes)."""
        tables = [_table(self, file, member) for file, member in zip(files, self.members, strict=True)]
        folder = files[0].parent
        for table in tables:
            records.check_count(facts, str(folder), len(table), self.count)
        features, labels = (tables[0], tables[1][:, 0]) if len(tables) == 2 else (tables[0][:, 1:], tables[0][:, 0])
        if not np.isin(features, (0.0, 1.0)).all():
            raise wrong_file(folder, "features that are 0 or 1")
        order = records.drawn(self.count, self.seed)
        return records.parted(facts, {"record": features}, labels - 1, order[: facts.n], order[facts.n :])


def _table(table: MembershipTable, file: Path, member: str) -> NDArray[np.float32]:
    try:
        # A line at a time: the text of Texas alone is 0.8 GB.
        with ExitStack() as opened:
            if file.name == table.archive:
                lines: IO[bytes] | None = opened.enter_context(tarfile.open(file)).extractfile(member)
            else:
                lines = opened.enter_context(file.open("rb"))
            if lines is None:
                raise KeyError(member)
            return np.loadtxt(lines, delimiter=",", dtype=np.float32, ndmin=2, quotechar='"', encoding="latin1")
    except (ValueError, tarfile.TarError, EOFError, zlib.error, KeyError) as error:
        expected = f"{table.archive} with a table {member} of numbers ({error})"
        raise wrong_file(file.parent, expected, quotes=True) from error


class Location(MembershipTable):
    """Places and kinds of places that people of Bangkok visited, by cluster.

    Lu et al. 2021 train on 1,200, Shokri et al. 2017 on 1,600.
    """

    name = "location"
    doc = "check-ins, 446 binary features, 30 classes, 5,010 records; dataset_location.tgz in option path"
    members = ("bangkok",)
    count = 5_010
    width = 446
    classes = 30
    trained = 1_200


class Purchase100(MembershipTable):
    """Shopping baskets."""

    name = "purchase"
    doc = "shopping baskets, 600 binary features, 100 classes, 197,324 records; dataset_purchase.tgz in option path"
    members = ("dataset_purchase",)
    count = 197_324
    width = 600
    classes = 100
    trained = 10_000


class Texas100(MembershipTable):
    """Hospital stays."""

    name = "texas"
    doc = "hospital stays, 6,169 binary features, 100 classes, 67,330 records; dataset_texas.tgz in option path"
    members = ("texas/100/feats", "texas/100/labels")
    count = 67_330
    width = 6_169
    classes = 100
    trained = 10_000
