"""The exam that every calibration of a mechanism sits: whatever `dpcore.mechanisms` solves noise for is found.

A calibration is a public function that returns a value with a guarantee. A newcomer is found by its return annotation;
an argument that is not in `ARGUMENTS` is asked for by name.
"""

import importlib
import inspect
import math
import pkgutil
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from dpcore import mechanisms
from dpcore.accountants.pld import PLDAccountant
from dpcore.accounting import make
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency
from dpcore.guarantee import FLOATING_POINT, Status
from dpcore.mechanisms import noisy_vote, output_perturbation
from dpcore.mechanisms.output_perturbation import Calibrated, GaussianNoise, MinimiserSensitivity

RESULTS = ("Calibrated", "CalibratedVote", "PerturbedLoss")
ARGUMENTS = {"epsilon": 0.8, "delta": 1e-6, "queries": 7, "models": 5, "classes": 3, "n": 1000, "unit": "person"}


def calibrations():
    for module in pkgutil.iter_modules(mechanisms.__path__):
        loaded = importlib.import_module(f"{mechanisms.__name__}.{module.name}")
        for name, function in vars(loaded).items():
            if not inspect.isfunction(function) or function.__module__ != loaded.__name__ or name.startswith("_"):
                continue
            returned = str(inspect.signature(function).return_annotation).split("[")[0]
            if returned in RESULTS and "guarantee" in {one.name for one in fields(vars(loaded)[returned])}:
                yield pytest.param(function, id=f"{module.name}.{name}")


FOUND = list(calibrations())
EVERY = pytest.mark.parametrize("calibrate", FOUND)
BOTH = pytest.mark.parametrize("adjacency", list(Adjacency))


def calibrated(calibrate, adjacency=Adjacency.ADD_REMOVE, **changed):
    given = {
        **ARGUMENTS,
        "adjacency": adjacency,
        "sensitivity": MinimiserSensitivity(n=1000, modulus=0.01, adjacency=adjacency, tau=1e-6),
        **changed,
    }
    wanted = inspect.signature(calibrate).parameters
    missing = [name for name, one in wanted.items() if one.default is inspect.Parameter.empty and name not in given]
    assert not missing, f"{missing}: expected in ARGUMENTS, an ordinary value of each"
    return calibrate(**{name: value for name, value in given.items() if name in wanted})


def scale(found):
    """How much noise there is: standard deviation, mean radius over dimension, or temperature."""
    noise = getattr(found, "noise", None)
    if noise is None:
        return 1 / found.beta
    return noise.sigma if isinstance(noise, GaussianNoise) else 1 / noise.beta


def test_all_calibrations_are_found():
    assert len(FOUND) >= 13


@EVERY
@BOTH
def test_it_claims_what_was_asked_in_the_words_of_who_asked(calibrate, adjacency):
    claim, wanted = calibrated(calibrate, adjacency).guarantee, inspect.signature(calibrate).parameters
    assert claim.epsilon == ARGUMENTS["epsilon"]
    assert claim.delta == (ARGUMENTS["delta"] if "delta" in wanted else 0.0)
    assert claim.unit == "person"
    if "adjacency" in wanted or "sensitivity" in wanted:
        assert claim.adjacency is adjacency
    assert claim.theorem
    assert FLOATING_POINT in claim.assumptions


@EVERY
@BOTH
def test_what_it_releases_keeps_the_claim_by_another_count(calibrate, adjacency):
    found = calibrated(calibrate, adjacency)
    if not hasattr(found, "event"):
        return
    claim = found.guarantee
    if claim.delta:
        least = PLDAccountant(adjacency=claim.adjacency).compose(found.event).epsilon_lower(claim.delta)
    else:
        least = make("naive", claim.adjacency).compose(found.event).epsilon(1e-6) * (1 - 1e-12)
    assert (least <= claim.epsilon) == (claim.status is not Status.REFUTED)


@EVERY
def test_more_epsilon_asks_for_less_noise(calibrate):
    scales = [scale(calibrated(calibrate, epsilon=epsilon)) for epsilon in (0.05, 0.8, 5.0)]
    assert scales == sorted(scales, reverse=True)
    assert scales[0] > scales[-1]


@EVERY
def test_more_queries_ask_for_more_noise(calibrate):
    if "queries" in inspect.signature(calibrate).parameters:
        scales = [scale(calibrated(calibrate, queries=queries)) for queries in (1, 7, 100)]
        assert scales == sorted(scales)
        assert scales[0] < scales[-1]


@EVERY
@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *(("epsilon", bad) for bad in (-1.0, math.nan, math.inf)),
        *(("delta", bad) for bad in (0.0, 1.0, -0.1, math.nan)),
        *(("queries", bad) for bad in (0, -3, 2.5)),
        *(("models", bad) for bad in (0, 1.5)),
        *(("classes", bad) for bad in (1, 2.5)),
        ("n", 0),
    ],
)
def test_what_is_out_of_range_is_refused_by_name(calibrate, name, bad):
    if name in inspect.signature(calibrate).parameters:
        with pytest.raises(InvalidValue):
            calibrated(calibrate, **{name: bad})


@EVERY
def test_what_it_returns_is_a_value(calibrate):
    found = calibrated(calibrate)
    assert found == calibrated(calibrate)
    with pytest.raises(FrozenInstanceError):
        found.guarantee = None


# What the exam is for: each wrong calibration fails the row that looks at it.


def half_the_noise(epsilon, delta, sensitivity, unit="record"):
    right = output_perturbation.answers_standard(epsilon, delta, 1, sensitivity, unit)
    return replace(right, noise=GaussianNoise(right.noise.sigma / 2))


def one_query_for_all(epsilon, delta, queries, sensitivity, unit="record"):
    right = output_perturbation.answers_joint(epsilon, delta, 1, sensitivity, unit)
    return replace(right, releases=queries)


def refuted_sold_as_proved(epsilon, queries, models, classes, adjacency, unit="record"):
    found = noisy_vote.as_published(epsilon, queries, models, classes, adjacency, unit)
    return replace(found, guarantee=replace(found.guarantee, status=Status.PROVED))


def forgets_the_unit(epsilon, sensitivity, unit="record") -> Calibrated:
    return output_perturbation.answers_pure(epsilon, 1, sensitivity)


@pytest.mark.parametrize(
    ("wrong", "row"),
    [
        (half_the_noise, test_what_it_releases_keeps_the_claim_by_another_count),
        (one_query_for_all, test_what_it_releases_keeps_the_claim_by_another_count),
        (refuted_sold_as_proved, test_what_it_releases_keeps_the_claim_by_another_count),
        (forgets_the_unit, test_it_claims_what_was_asked_in_the_words_of_who_asked),
    ],
)
def test_a_wrong_calibration_fails_the_exam(wrong, row):
    with pytest.raises(AssertionError):
        row(wrong, Adjacency.REPLACE_ONE)
