"""MovieLens ratings as (user, movie) codes and 1-5 stars.

Origin  GroupLens, Harper & Konstan 2015. Terms: research use, no redistribution.
Files   movielens_1m: GroupLens's own ratings.dat (1,000,209 ratings) if the folder has it, else
        ratings_no_timestamp.csv.gz (999,755). movielens_100k: u.data.
Codes   The published id minus 1, so that no record decides which movies exist.
Split   20% of the positions, by a fixed public permutation, are validation.
Part    `part` takes whole users, by a hash of their ids, of a claim per rating too.
Units   `unit: {column: user, max_records: k}`: a fifth of the users, by a hash of their ids, are validation with all of
        their (at most k) ratings; n counts users, and so does `limit`. A user's code is then no input: nobody who is
        judged was trained on.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpcore.checks import InvalidValue
from trainables.data import records
from trainables.data.files import existing, find_folder, unpacked, wrong_file
from trainables.data.options import InFolder, Limit
from trainables.data.source import PartOption, PublishedSource
from trainables.system import Dataset, DatasetSpec, InputSpec, Split, Task
from trainables.units import Unit, share_of

SPLIT_SEED, VALIDATION_SHARE, STARS = 100, 0.2, 5
USER, SPLIT_KEY = "user", "movielens"


@dataclass(frozen=True, slots=True)
class Ratings:
    """One file of ratings: its name, how many, separator and number of header lines."""

    file: str
    records: int
    separator: str
    header: int = 0


class MovieLensOptions(PartOption, Limit, InFolder):
    """Options of MovieLens."""

    unit: Unit | None = Field(
        None,
        description="{column: user, max_records: k}, what one neighbour of a claim differs in",
        examples=[{"column": USER, "max_records": 50}],
    )


@dataclass
class MovieLens(PublishedSource[MovieLensOptions]):
    """`data: {source: movielens_1m, path: DIR}`. `ratings` are tried in order, the last is the default."""

    name: str
    doc: str
    users: int
    movies: int
    ratings: tuple[Ratings, ...]
    asks = MovieLensOptions
    parted_by = USER

    def declared(self, asked: MovieLensOptions) -> DatasetSpec:
        """The facts; looks which file is there, reads none. Raises InvalidValue."""
        if asked.unit is not None and asked.unit.column != USER:
            raise InvalidValue("data.unit.column", asked.unit.column, f"{USER}, whose a rating is", f"Write `{USER}`.")
        movie = {"movie": InputSpec(shape=(), cardinality=self.movies)}
        if asked.unit is None:
            records = self._ratings(asked).records
            validation = round(records * VALIDATION_SHARE)
            n = records - validation
            features = {USER: InputSpec(shape=(), cardinality=self.users)} | movie
        else:
            trained, judged = self._users()
            n, validation, features = len(trained), len(judged), movie
        return DatasetSpec(
            dataset=self.name,
            task=Task.RATING,
            n=asked.used(n),
            n_validation=validation,
            features=features,
            classes=STARS,
            unit=asked.unit,
        )

    def files(self, asked: MovieLensOptions) -> list[Path]:
        """The one with ratings. Raises InvalidValue."""
        folder = find_folder(self.name, asked.path, self.name)
        return [existing(self.name, folder / self._ratings(asked).file)]

    def records(self, asked: MovieLensOptions, facts: DatasetSpec, files: list[Path]) -> Dataset:
        """The records; class k is k + 1 stars. Raises InvalidValue."""
        ratings = self._ratings(asked)
        table = _read(files[0], ratings)
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

    def _ratings(self, asked: MovieLensOptions) -> Ratings:
        if asked.path is None or len(self.ratings) == 1:
            return self.ratings[-1]
        folder = find_folder(self.name, asked.path, self.name)
        return next((one for one in self.ratings if (folder / one.file).is_file()), self.ratings[-1])


def _read(file: Path, ratings: Ratings) -> NDArray[np.int64]:
    """[records, 3]: user id, movie id, stars."""
    import pandas as pd

    text = unpacked(file).replace(ratings.separator.encode(), b",")
    try:
        frame = pd.read_csv(io.BytesIO(text), header=None, skiprows=ratings.header, usecols=[0, 1, 2], dtype=np.int64)
    except ValueError as error:
        expected = f"user, movie and stars as whole numbers separated by {ratings.separator!r} ({error})"
        raise wrong_file(file, expected, quotes=True) from error
    return frame.to_numpy()


MOVIELENS_1M = MovieLens(
    name="movielens_1m",
    doc="film ratings, 1-5 stars, 6,040 users, 999,755 or 1,000,209 records; GroupLens files; options path, unit",
    users=6040,
    movies=3952,
    ratings=(
        Ratings("ratings.dat", 1_000_209, "::"),
        Ratings("ratings_no_timestamp.csv.gz", 999_755, ",", header=1),
    ),
)
MOVIELENS_100K = MovieLens(
    name="movielens_100k",
    doc="film ratings, 1-5 stars, 943 users, 100,000 records; GroupLens's u.data; options path, unit",
    users=943,
    movies=1682,
    ratings=(Ratings("u.data", 100_000, "\t"),),
)
