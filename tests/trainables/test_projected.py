"""Public projections, and digits of a few classes: no private record decides how records are seen."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from trainables.data import SOURCES, digits
from trainables.data.derived import PUBLIC_AXES, Projected
from trainables.system import Dataset, Split

DATA = Path(os.environ.get("SWEEPS_DATA", Path(__file__).parents[3] / "shared" / "data"))


class WithAnotherTrainingSet:
    """The digits, with training records that somebody else wrote."""

    name = "digits"
    doc = ""

    def facts(self, options):
        return digits.DIGITS.facts(options)

    def load_records(self, options):
        data = digits.DIGITS.load(options)
        train = Split(
            inputs={name: array[::-1] ** 2 for name, array in data.train.inputs.items()}, targets=data.train.targets
        )
        return Dataset(facts=data.facts, train=train, validation=data.validation, fingerprint="")


def test_axes_are_those_of_the_public_records():
    data = SOURCES["projected"].load({"of": "digits", "dimension": 7})
    assert data.train.inputs["axes"].shape == (len(data.train), 7)
    assert PUBLIC_AXES in data.facts.assumptions
    public = data.validation.inputs["axes"].astype(np.float64)
    assert np.linalg.norm(public, axis=1).max() == pytest.approx(1)
    covariance = np.cov(public.T)
    assert np.allclose(covariance, np.diag(np.diag(covariance)), atol=1e-7)
    assert (np.diff(np.diag(covariance)) < 0).all()


def test_training_records_do_not_move_the_axes():
    source = {"digits": WithAnotherTrainingSet()}
    options = {"of": "digits", "dimension": 7}
    other = Projected(source).load(options)  # type: ignore[arg-type]
    same = SOURCES["projected"].load(options)
    assert np.array_equal(other.validation.inputs["axes"], same.validation.inputs["axes"])
    assert not np.array_equal(other.train.inputs["axes"], same.train.inputs["axes"])


@pytest.mark.skipif(
    not (DATA / "mnist").is_dir(), reason=f"PUBLISHED DATA NOT CHECKED: no folder {DATA}/mnist. Set SWEEPS_DATA to it."
)
def test_the_first_digits_are_as_many_as_published():
    data = SOURCES["mnist"].load({"classes": 3, "path": str(DATA)})
    assert (len(data.train), len(data.validation)) == (data.facts.n, data.facts.n_validation) == (18623, 3147)
    assert set(data.train.targets.tolist()) == {0, 1, 2}
