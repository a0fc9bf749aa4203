"""Each question finds the source that it is there for; and a source of another package sits the exam."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcore.checks import InvalidValue
from tests.trainables.data_exam import QUESTIONS, Candidate, sit
from trainables.data.options import Option
from trainables.data.records import by_unit
from trainables.data.records import dataset as checked
from trainables.system import Dataset, Feature, PublicFacts, Split, Task
from trainables.units import Unit, Units

RECORDS, PEOPLE, JUDGED = 10, 5, "e"


class Outside:
    """A source of another package, built on nothing of ours: ten records of five people, a value and a label each."""

    name = "outside"
    doc = "ten values of five people; values.csv in option path"
    options: tuple[Option, ...] = (
        Option(name="path", doc="the folder with values.csv"),
        Option(name="most", doc="how many records of a person are used", default=2),
    )

    def facts(self, options):
        most = self.asked(options)
        return PublicFacts(
            dataset=self.name,
            task=Task.CLASSIFICATION,
            n=PEOPLE - 1,
            n_validation=1,
            features={"value": Feature(shape=())},
            classes=2,
            unit=Unit(column="person", max_records=most),
        )

    def inspect(self, options):
        self.facts(options)
        self.file(options)

    def load(self, options):
        facts, file = self.facts(options), self.file(options)
        rows = [line.split(",") for line in file.read_text().splitlines()]
        people = [row[0] for row in rows]
        if not all(people):
            raise InvalidValue("data.path", str(file), "a person in every record", "Correct the file.")
        judged = np.array([person == JUDGED for person in people])
        parts = [self.grouped(rows, np.flatnonzero(side), facts.unit) for side in (~judged, judged)]
        return self.made(facts, parts[0][0], parts[1][0], parts[0][1], file)

    def asked(self, options):
        for name in options:
            if name not in ("path", "most"):
                raise InvalidValue(f"data.{name}", options[name], "an option of outside", "Its options: path, most.")
        most = options.get("most", 2)
        if most not in (1, 2, 3):
            raise InvalidValue("data.most", most, "1, 2 or 3", "It says how many records of a person are used.")
        return most

    def file(self, options):
        folder = options.get("path")
        if not isinstance(folder, str) or not (Path(folder) / "values.csv").is_file():
            raise InvalidValue("data.path", folder, "a folder with values.csv", "Pass it with --data DIR.")
        return Path(folder) / "values.csv"

    def grouped(self, rows, places, unit):
        values = np.clip([float(rows[i][1]) for i in places], 0, 1).astype(np.float32)
        split = Split(inputs={"value": values}, targets=np.array([int(rows[i][2]) for i in places]))
        return by_unit(split, [rows[i][0] for i in places], unit)

    def made(self, facts, train, validation, units, file) -> Dataset:
        return checked(facts, train, validation, units=units)


def made(seed: int, scale: float = 0.01) -> list[tuple[str, float, int]]:
    """Person, value, label; a has four records, e one."""
    return [(person, scale * (2 * i + seed), (i + seed) % 2) for i, person in enumerate("aaaabbccde")]


def write(folder: Path, records: Sequence[tuple]) -> list[Path]:
    file = folder / "values.csv"
    file.write_text("".join(f"{person},{value},{label}\n" for person, value, label in records))
    return [file]


OUTSIDE = Candidate(
    source=Outside(),
    made=made,
    write=write,
    others={"most": 1},
    orderless=True,
    beyond=lambda seed: made(seed, 10.0),
    owner=lambda record: record[0],
    largest=2,
    nameless=lambda record: ("", *record[1:]),
)


def test_an_outside_source_sits_it_by_a_call(tmp_path):
    assert sit(OUTSIDE, tmp_path) == {}


def test_an_outside_source_sits_it_by_pytest():
    environment = {**os.environ, "SWEEPS_EXAM_SOURCE": f"{__name__}:OUTSIDE"}
    command = ["-m", "pytest", "-q", "-n", "0", "--pyargs", "tests.trainables.data_exam.test_exam", "-k", "outside"]
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, *command], env=environment, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert f"{len(QUESTIONS)} passed" in done.stdout


class Counting(Outside):
    """It counts its records to say how many there are."""

    def facts(self, options):
        people = {line.split(",")[0] for line in self.file(options).read_text().splitlines()}
        return replace(super().facts(options), n=max(1, len(people) - 1))


class Boundless(Outside):
    """It cuts nothing."""

    def grouped(self, rows, places, unit):
        split = Split(
            {"value": np.array([float(rows[i][1]) for i in places])}, np.array([int(rows[i][2]) for i in places])
        )
        return by_unit(split, [rows[i][0] for i in places], unit)


class Wide(Outside):
    """Its facts tell of another shape."""

    def load(self, options):
        return replace(
            super().load(options), facts=replace(self.facts(options), features={"value": Feature(shape=(2,))})
        )


class Shuffling(Outside):
    """Its validation record is drawn anew each time."""

    def made(self, facts, train, validation, units, file):
        label = np.random.randint(2, size=len(validation))  # noqa: NPY002
        return super().made(facts, train, Split(validation.inputs, label), units, file)


class Blind(Outside):
    """Its fingerprint looks at labels alone."""

    def made(self, *arguments):
        data = super().made(*arguments)
        return replace(data, fingerprint=str(data.train.targets))


class Restless(Outside):
    """Its fingerprint moves with the folder."""

    def made(self, *arguments):
        data = super().made(*arguments)
        return replace(data, fingerprint=data.fingerprint + str(arguments[-1]))


class FirstCome(Outside):
    """Of a person it keeps what comes first."""

    def grouped(self, rows, places, unit):
        seen: dict[str, int] = {}
        kept = []
        for i in places:
            seen[rows[i][0]] = seen.get(rows[i][0], 0) + 1
            if seen[rows[i][0]] <= unit.max_records:
                kept.append(i)
        return super().grouped(rows, kept, unit)


class Trusting(Outside):
    """It looks for its file when it needs it."""

    def inspect(self, options):
        self.facts(options)


class Obliging(Outside):
    """It takes any option."""

    def asked(self, options):
        return super().asked({name: value for name, value in options.items() if name in ("path", "most")})


class Curt(Outside):
    """It says no more than no."""

    def asked(self, options):
        try:
            return super().asked(options)
        except InvalidValue as error:
            raise InvalidValue(error.name, error.value, error.expected) from None


class Promising(Outside):
    """It lists an option that does nothing."""

    options = (*Outside.options, Option(name="idle", doc="nothing"))

    def asked(self, options):
        return super().asked({name: value for name, value in options.items() if name != "idle"})


class Secretive(Outside):
    """It has an option that it does not list."""

    def asked(self, options):
        return 1 if options.get("debug") else super().asked(options)


class Splitting(Outside):
    """Every record is a unit."""

    def grouped(self, rows, places, unit):
        split, _units = super().grouped(rows, places, unit)
        keys = np.arange(len(split), dtype=np.uint64)
        return split, Units(np.arange(len(split) + 1), keys)


class Nameless(Outside):
    """Records without a person are one person's."""

    def load(self, options):
        file = self.file(options)
        file.write_text("".join(f"x{line}" if line[0] == "," else line for line in file.read_text().splitlines(True)))
        return super().load(options)


@pytest.mark.parametrize(
    ("question", "mutant"),
    [
        ("facts_read_no_record", Counting),
        ("records_match_the_facts", Boundless),
        ("records_match_the_facts", Wide),
        ("the_same_files_give_the_same_records", Shuffling),
        ("the_fingerprint_follows_the_records", Blind),
        ("the_fingerprint_follows_the_records", Restless),
        ("order_means_nothing_where_it_is_declared_so", FirstCome),
        ("what_is_missing_or_senseless_is_refused", Trusting),
        ("what_is_missing_or_senseless_is_refused", Obliging),
        ("what_is_missing_or_senseless_is_refused", Curt),
        ("listed_options_are_read", Promising),
        ("listed_options_are_read", Secretive),
        ("units_hold_their_records_together", Splitting),
        ("units_hold_their_records_together", Nameless),
    ],
)
def test_a_mutant_fails_its_question(question, mutant, tmp_path):
    others = {**OUTSIDE.others, "idle": 3} if mutant is Promising else OUTSIDE.others
    assert QUESTIONS[question](OUTSIDE, tmp_path / "right") == []
    assert QUESTIONS[question](replace(OUTSIDE, source=mutant(), others=others), tmp_path / "wrong") != []


def test_every_question_has_a_mutant():
    [named] = [mark.args[1] for mark in test_a_mutant_fails_its_question.pytestmark if mark.name == "parametrize"]
    # Parts have theirs in test_part_mutants.
    assert {question for question, _ in named} | {"parts_hold_each_record_once"} == set(QUESTIONS)


def test_a_fingerprint_of_what_a_library_computed_is_found(tmp_path):
    """How projected data sets were known before: by floats, whose last digits follow the number of threads."""

    class ByThreads(Outside):
        def made(self, *arguments):
            from threadpoolctl import threadpool_info

            data = super().made(*arguments)
            threads = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
            return replace(data, fingerprint=f"{data.fingerprint} {threads}")

    asked = QUESTIONS["the_fingerprint_follows_the_records"]
    assert any("threads" in fault for fault in asked(replace(OUTSIDE, source=ByThreads()), tmp_path))
