"""Small files of every data source in the registry, in the format in which it was published: for exams over all."""

from __future__ import annotations

import csv
import gzip
import io
import lzma
import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import sklearn.datasets
from matplotlib.image import imsave

from tests.trainables.data_exam.candidate import Candidate
from trainables.data import SOURCES, images, packaged, texts, uci

Records = Sequence[tuple]


def numbered(count: int, classes: int, seed: int) -> list[tuple[int, int]]:
    """(a number that no other record of seeds 0 and 1 has, a label)."""
    return [(2 * i + seed, (i + i // classes) % classes) for i in range(count)]


def image(number: int, shape: tuple[int, ...]) -> np.ndarray:
    """Another picture for each number, bytes."""
    return np.random.default_rng(number).integers(0, 256, shape, dtype=np.uint8)


# Packaged ones


PACKAGED = SimpleNamespace(file=Path())
"""Where the records stand that scikit-learn is taken to hold."""


def shipped() -> SimpleNamespace:
    with np.load(PACKAGED.file) as held:
        return SimpleNamespace(**held)


def digits_write(folder: Path, records: Records) -> list[Path]:
    PACKAGED.file = folder / "digits.npz"
    images = np.stack([image(number, (8, 8)) % 17 for number, _ in records]).astype(np.float64)
    np.savez(PACKAGED.file, images=images, target=np.array([label for _, label in records]))
    return []


DIGITS = Candidate(
    source=SOURCES["digits"],
    made=partial(numbered, 20, 3),
    write=digits_write,
    small=[(packaged, {"RECORDS": 20, "VALIDATION": 4}), (sklearn.datasets, {"load_digits": shipped})],
    others={"limit": 7},
)
INNER = {"of": "another source would need other files", "limit": "an option of the other source, which is examined"}
DERIVED = {
    "pooled": replace(
        DIGITS,
        source=SOURCES["pooled"],
        options={"of": "digits", "train": 6, "validation": 12},
        others={"train": 5, "validation": 3, "seed": 1},
        silent=INNER,
    ),
    "frozen": replace(
        DIGITS,
        source=SOURCES["frozen"],
        options={"of": "digits", "filters": 2, "patch": 3},
        others={"filters": 3, "patch": 4, "seed": 1},
        silent=INNER,
    ),
    "projected": replace(
        DIGITS,
        source=SOURCES["projected"],
        options={"of": "digits", "dimension": 2},
        others={"dimension": 1},
        silent=INNER,
    ),
}


# Pictures


TRAINING = 6
"""Records of MNIST's small training file."""


MNIST_SMALL = {"MNIST_TRAIN": 6, "MNIST_TEST": 4, "MNIST_TRAIN_OF": (2, 2, 2), "MNIST_TEST_OF": (2, 1, 1)}
CIFAR_SMALL = {"FORMS": tuple(replace(one, train=4, test=2, files=one.files[-3:]) for one in images.FORMS)}


def mnist_write(folder: Path, records: Records) -> list[Path]:
    (folder / "mnist").mkdir()
    files = []
    for part, some in (("train", records[:TRAINING]), ("t10k", records[TRAINING:])):
        pictures, labels = np.stack([image(one, (28, 28)) for one, _ in some]), np.array([label for _, label in some])
        for what, array in (("images-idx3", pictures), ("labels-idx1", labels)):
            head = (0x800 + array.ndim).to_bytes(4, "big") + b"".join(size.to_bytes(4, "big") for size in array.shape)
            files.append(folder / "mnist" / f"{part}-{what}-ubyte.gz")
            files[-1].write_bytes(gzip.compress(head + array.astype(np.uint8).tobytes()))
    return files


def cifar_write(form: str, folder: Path, records: Records) -> list[Path]:
    pixels = np.stack([image(number, (3072,)) for number, _ in records])
    labels = np.array([label for _, label in records], dtype=np.uint8)
    if form == "npz":
        turned = pixels.reshape(6, 3, 32, 32).transpose(0, 2, 3, 1)
        named = {"x_train": turned[:4], "y_train": labels[:4], "x_test": turned[4:], "y_test": labels[4:]}
        np.savez(folder / images.SUBSET, **named)
        return [folder / images.SUBSET]
    below = folder / f"cifar-10-batches-{form}"
    below.mkdir()
    files = [
        below / f"{name}{'.bin' if form == 'bin' else ''}" for name in ("data_batch_4", "data_batch_5", "test_batch")
    ]
    for i, file in enumerate(files):
        rows = slice(2 * i, 2 * i + 2)
        if form == "bin":
            file.write_bytes(np.concatenate([labels[rows, None], pixels[rows]], axis=1).tobytes())
        else:
            file.write_bytes(pickle.dumps({b"data": pixels[rows], b"labels": labels[rows].tolist()}, protocol=2))
    return files


def idc_made(seed: int) -> list[tuple[int, int, int]]:
    """(place, brightness, class): six without cancer, four with."""
    return [(place, 2 * place + seed, int(place >= 6)) for place in range(10)]


def idc_write(folder: Path, records: Records) -> list[Path]:
    for place, brightness, label in records:
        patient = folder / images.FOLDER / str(9000 + place % 2) / str(label)
        patient.mkdir(parents=True, exist_ok=True)
        imsave(patient / f"p_idx5_x{place}_y1_class{label}.png", np.full((50, 50, 3), (brightness + 1) / 25))
    return [folder / images.FOLDER]


# Texts


def adult_write(folder: Path, records: Records) -> list[Path]:
    """Both forms; what the binary one needs."""
    (folder / "a9a").mkdir()
    (folder / "adult").mkdir()
    raw = "{}, State-gov, 77516, Masters, 13, Divorced, Sales, Wife, White, Male, 2174, 0, 40, Cuba, {}\n"
    for ending, name, some in (("", "data", records[:8]), (".t", "test", records[8:])):
        binary = [f"{'+1' if earns else '-1'} {1 + age % 123}:1 \n" for age, earns in some]
        (folder / "a9a" / f"a9a{ending}").write_text("".join(binary))
        rows = [raw.format(age, ">50K" if earns else "<=50K") for age, earns in some]
        (folder / "adult" / f"adult.{name}").write_text("|no record\n" + "".join(rows) + "\n")
    return [folder / "a9a" / "a9a", folder / "a9a" / "a9a.t"][: 1 + bool(len(records) > 8)]


def abalone_made(seed: int, length: float = 0.01) -> list[tuple[float, int]]:
    return [(length * number, 8 + number % 5) for number, _ in numbered(7, 2, seed)]


def abalone_write(folder: Path, records: Records) -> list[Path]:
    file = folder / "abalone.data"
    file.write_text("".join(f"F,{length},0.4,0.1,0.6,0.2,0.1,0.2,{rings}\n" for length, rings in records))
    return [file]


def german_write(folder: Path, records: Records) -> list[Path]:
    """Both forms; what the raw one needs."""
    raw = "A11 {} A34 A43 1169 A65 A75 4 A93 A101 4 A121 67 A143 A152 2 A173 1 A192 A201 {}\n"
    numeric = "1 {} 4 12 5 5 3 4 1 67 3 2 1 2 1 0 0 1 0 0 1 0 0 1 {}\n"
    for name, row in (("german.data", raw), ("german.data-numeric", numeric)):
        (folder / name).write_text("".join(row.format(10 + months, 1 + label) for months, label in records))
    return [folder / "german.data"]


def imdb_made(seed: int) -> list[tuple[str, int]]:
    return [(f"a {'very ' * number}good film", label) for number, label in numbered(8, 2, seed)]


def imdb_write(folder: Path, records: Records) -> list[Path]:
    files = [folder / f"imdb_{part}.csv.xz" for part in ("train", "test")]
    for file, some in zip(files, (records[:4], records[4:]), strict=True):
        rows = "".join(f'{i},8,{label},"{text}"\n' for i, (text, label) in enumerate(some))
        file.write_bytes(lzma.compress(f"id,rating,label,text\n{rows}".encode()))
    return files


# Ratings


def ratings_made(seed: int) -> list[tuple[object, int, int]]:
    """(user, movie, stars): user u has u % 4 + 1 or more ratings."""
    users = [user for user in range(1, 11) for _ in range(1 + user % 4)] + [1, 2, 3, 4, 5]
    return [(user, 1 + 2 * i + seed, 1 + (i + seed) % 5) for i, user in enumerate(users)]


def ratings_write(name: str, folder: Path, records: Records) -> list[Path]:
    first: texts.Ratings = SOURCES[name].asks.ratings[0]  # type: ignore[attr-defined]
    text = "".join(first.separator.join(map(str, (*record, 978300760))) + "\n" for record in records)
    (folder / first.file).write_text(text)
    return [folder / first.file]


assert len(ratings_made(0)) == 30
PER_USER = {"unit": {"column": "user", "max_records": 2}}


def ratings(name: str) -> Candidate:
    source = SOURCES[name]
    few = tuple(replace(one, records=30) for one in source.asks.ratings)  # type: ignore[attr-defined]
    return Candidate(
        source=source,
        made=ratings_made,
        write=partial(ratings_write, name),
        small=[(source.asks, {"users": 10, "movies": 60, "ratings": few})],
        others={"limit": 7, **PER_USER},
    )


# Binary tables


def membership_write(name: str, folder: Path, records: Records) -> list[Path]:
    members = [folder / Path(member).name for member in SOURCES[name].asks.members]  # type: ignore[attr-defined]
    features = [",".join(f"{number:06b}") for number, _ in records]
    classes = [f'"{1 + label}"' for _, label in records]
    columns = (
        [features, classes] if len(members) == 2 else [[f"{k},{x}" for k, x in zip(classes, features, strict=True)]]
    )
    for file, rows in zip(members, columns, strict=True):
        file.write_text("\n".join(rows) + "\n")
    return members


def membership(name: str) -> Candidate:
    return Candidate(
        source=SOURCES[name],
        made=partial(numbered, 8, 2),
        write=partial(membership_write, name),
        small=[(SOURCES[name].asks, {"count": 8, "width": 6, "classes": 2, "trained": 5})],
        others={"train": 4, "seed": 3},
    )


# A table of one's own, as CSV and as Parquet

TABLE: dict[str, object] = {
    "n": 12,
    "label": "rich",
    "classes": ["no", "yes"],
    "columns": {"age": {"low": 0, "high": 100}, "work": {"categories": ["public", "private"]}, "code": {"codes": 200}},
    "validation": {"records": "public", "share": 0.25, "id": "id"},
}
TABLE_OTHERS = {
    "n": 11,
    "label": "old",
    "classes": ["no", "yes", "maybe"],
    "task": "rating",
    "columns": {"age": {"low": 0, "high": 50}},
    "validation": {"records": "public", "share": 0.5, "id": "id"},
    "unit": {"column": "id", "max_records": 1},
    "test": {"records": "public", "share": 0.25, "id": "id"},
    "part": {"use": "tuning", "share": 0.74, "id": "id"},
    "class_weights": [1, 5],
    "loss": "tests.trainables.user_sources:absolute",
    "weight": {"column": "age", "high": 20},
    "groups": {"column": "work", "categories": ["public", "private"]},
}
TABLE_SILENT = {
    "format": "it says what the file is, and would be wrong of this one",
    "target": "it takes the place of classes, and is refused beside them",
    "prompt": "it is of a label of tokens, and is refused beside classes",
}
HEAD = ("id", "age", "work", "code", "rich", "old")


def people(seed: int, age: float = 1.0) -> list[tuple]:
    """Records of twelve people, four of whom have two more."""
    found = []
    for number, label in numbered(12, 2, seed):
        name, word = f"p{number // 2}", ("no", "yes")[label]
        for extra in range(3 if number // 2 < 4 else 1):
            found.append(
                (name, age * (number + 25 * extra), ("public", "private")[label], number, word, ("yes", "no")[label])
            )
    return found


def alone(seed: int, age: float = 1.0) -> list[tuple]:
    """Records of twelve people, one each."""
    return [one for one in people(seed, age) if one[1] < 25 * age]


def table_csv(folder: Path, records: Records) -> list[Path]:
    file = folder / "people.csv"
    text = io.StringIO()
    csv.writer(text).writerows([HEAD, *records])
    file.write_text(text.getvalue())
    return [file]


def table_parquet(folder: Path, records: Records) -> list[Path]:
    file = folder / "people.parquet"
    pd.DataFrame(records, columns=list(HEAD)).to_parquet(file)
    return [file]


ALONE = Candidate(
    source=SOURCES["table"],
    options={**TABLE, "format": "csv"},
    made=alone,
    write=table_csv,
    beyond=partial(alone, age=1000.0),
    exact=False,
    others=TABLE_OTHERS,
    silent=TABLE_SILENT,
    bad={"target": []},
)

MNIST_PARTS = {"validation": {"records": "private", "share": 0.4, "key": "2"}, "test": {"records": "public"}}

MNIST = Candidate(
    source=SOURCES["mnist"],
    made=lambda seed: [(2 * i + seed, i % 3) for i in range(10)],
    write=mnist_write,
    small=[(images, MNIST_SMALL)],
    others={"limit": 4, "classes": 2, **MNIST_PARTS},
)
ADULT = Candidate(
    source=SOURCES["adult"],
    made=partial(numbered, 8, 2),
    write=adult_write,
    small=[(uci, {"TRAIN_FILE": 8, "TEST_FILE": 3, "HELD_OUT": 2})],
    others={"limit": 4, "form": "raw"},
    silent={"split": "the test file is not there"},
)

CANDIDATES: dict[str, Candidate] = {
    "digits": DIGITS,
    **{
        name: Candidate(source=SOURCES[name], made=lambda seed: [], write=lambda *_: [], others={"n": 999})
        for name in ("uniform", "sentences")
    },
    "mnist": MNIST,
    "mnist, parted": replace(
        MNIST,
        options=MNIST_PARTS,
        # A hash gives each part about its share.
        exact=False,
        others={
            "limit": 5,
            "classes": 2,
            "validation": {"records": "private", "share": 0.5, "key": "6"},
            "test": None,
        },
        silent={"test": "the test records are in neither part; what is said of them stands beside the facts"},
    ),
    "adult": ADULT,
    "adult, test": replace(
        ADULT,
        options={"split": "test"},
        made=partial(numbered, 11, 2),
        others={"limit": 4, "form": "raw", "split": "holdout"},
        silent={},
    ),
    "abalone": Candidate(
        source=SOURCES["abalone"],
        made=abalone_made,
        write=abalone_write,
        small=[(uci, {"ABALONE_TRAIN": 5, "ABALONE_TEST": 2})],
        beyond=partial(abalone_made, length=10.0),
        others={"limit": 4, "target": "rings"},
    ),
    "german_credit": Candidate(
        source=SOURCES["german_credit"],
        made=partial(numbered, 10, 2),
        write=german_write,
        small=[(uci, {"GERMAN_RECORDS": 10, "GERMAN_TRAIN": 4, "GERMAN_HELD_OUT": 3})],
        beyond=lambda seed: [(1000 * months, label) for months, label in numbered(10, 2, seed)],
        others={"limit": 3, "form": "numeric", "scale": "standard", "split": 1, "judge": "holdout"},
    ),
    **{
        f"cifar10, {form}": Candidate(
            source=SOURCES["cifar10"],
            made=partial(numbered, 6, 2),
            write=partial(cifar_write, form),
            small=[(images, CIFAR_SMALL)],
            others={"limit": 3},
        )
        for form in ("bin", "py", "npz")
    },
    "idc": Candidate(
        source=SOURCES["idc"],
        made=idc_made,
        write=idc_write,
        small=[(images, {"PATCHES": (6, 4), "IDC_TRAIN": (3, 2), "IDC_TEST": (2, 1)})],
        orderless=True,
        others={"limit": 4, "validation": 2},
    ),
    "imdb": Candidate(
        source=SOURCES["imdb"],
        made=imdb_made,
        write=imdb_write,
        small=[(texts, {"REVIEWS": 4})],
        others={"limit": 3, "vocabulary": "hashed"},
    ),
    **{name: ratings(name) for name in ("movielens_1m", "movielens_100k")},
    "movielens_1m, per user": replace(
        ratings("movielens_1m"),
        options=PER_USER,
        orderless=True,
        others={"limit": 3, "unit": {"column": "user", "max_records": 1}},
        owner=lambda record: record[0],
        largest=2,
        nameless=lambda record: ("", *record[1:]),
    ),
    **{name: membership(name) for name in ("location", "purchase", "texas")},
    "table": ALONE,
    "table, per person": replace(
        ALONE,
        options={**TABLE, "unit": {"column": "id", "max_records": 2}},
        made=people,
        write=table_parquet,
        beyond=partial(people, age=1000.0),
        orderless=True,
        others={**TABLE_OTHERS, "validation": {"records": "public", "share": 0.5}},
        owner=lambda record: record[0],
        largest=2,
        nameless=lambda record: (None, *record[1:]),
    ),
    "table, weighted": replace(
        ALONE,
        options={**ALONE.options, **{name: TABLE_OTHERS[name] for name in ("class_weights", "weight", "groups")}},
        others={
            **TABLE_OTHERS,
            "classes": ["yes", "no"],
            "class_weights": [2, 1],
            "weight": {"column": "age", "high": 10},
            "groups": {"column": "old", "categories": ["no", "yes"]},
        },
    ),
    **DERIVED,
}
"""{name of the source, and of a form of it: the candidate}; a source without one fails every exam."""
