"""Certified minimisers: gradients, certificates, the bound on steps, and how far one record moves them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad
from sklearn.linear_model import LogisticRegression

from dpcore import erm
from dpcore.checks import InvalidValue
from dpcore.erm import LogisticRisk, minimise, steps_bound, unit_inputs
from dpcore.events import Adjacency
from dpcore.mechanisms.output_perturbation import MinimiserSensitivity


def problem(n=60, d=5, classes=3, modulus=1e-2, seed=0, linear=0.0, scale=3.0):
    rng = np.random.default_rng(seed)
    return LogisticRisk(
        inputs=unit_inputs(rng.standard_normal((n, d)) * scale),
        labels=rng.integers(classes, size=n),
        classes=classes,
        divisor=n,
        modulus=modulus,
        linear=linear * rng.standard_normal((d, classes)) if linear else None,
    )


@pytest.mark.parametrize("linear", [0.0, 2.0])
def test_gradient_is_the_derivative(linear):
    risk = problem(linear=linear)
    theta = np.random.default_rng(1).standard_normal(15)
    error = check_grad(
        lambda t: risk.value_and_gradient(t.reshape(5, 3))[0],
        lambda t: risk.value_and_gradient(t.reshape(5, 3))[1].ravel(),
        theta,
    )
    assert error < 1e-6


def test_the_minimiser_is_scikit_learns():
    """Their C is 1/(n modulus) for a sum of losses and 0.5 ||w||^2."""
    risk = problem(modulus=1e-2)
    theirs = LogisticRegression(C=1 / (60 * 1e-2), fit_intercept=False, tol=1e-12, max_iter=10_000)
    theirs.fit(risk.inputs, risk.labels)
    assert np.abs(minimise(risk, 1e-10) - theirs.coef_.T).max() < 1e-6


@pytest.mark.parametrize("modulus", [1.0, 1e-2, 1e-5])
@pytest.mark.parametrize("tau", [1e-5, 1e-11])
@pytest.mark.parametrize("linear", [0.0, 3.0])
def test_the_certificate_holds(modulus, tau, linear):
    risk = problem(modulus=modulus, linear=linear)
    found = minimise(risk, tau)
    assert np.linalg.norm(risk.value_and_gradient(found)[1]) <= tau
    closer = minimise(risk, 1e-12)
    assert np.linalg.norm(found - closer) <= (tau + 1e-12) / modulus


@pytest.mark.parametrize("case", ["one record", "one class", "all alike", "separable", "zeros", "perturbed"])
@pytest.mark.parametrize("modulus", [1e-1, 1e-4])
def test_accelerated_descent_alone_keeps_its_bound_on_awkward_data(case, modulus):
    rng = np.random.default_rng(2)
    inputs, labels = unit_inputs(rng.standard_normal((40, 4))), rng.integers(3, size=40)
    if case == "one record":
        inputs, labels = inputs[:1], labels[:1]
    elif case == "one class":
        labels[:] = 1
    elif case == "all alike":
        inputs[:] = inputs[0]
    elif case == "separable":
        labels = (inputs[:, 0] > 0).astype(np.int64)
    elif case == "zeros":
        inputs[:] = 0.0
    linear = 5 * rng.standard_normal((4, 3)) if case == "perturbed" else None
    risk = LogisticRisk(inputs, labels, 3, len(labels), modulus, linear)
    found = erm._accelerated(risk, np.zeros(risk.shape), 1e-9)
    assert np.linalg.norm(risk.value_and_gradient(found)[1]) <= 1e-9


def test_a_failing_quasi_newton_changes_nothing_in_the_certificate(monkeypatch):
    """Whatever L-BFGS returns, a far point or the start, the answer is certified and close to the same."""
    risk = problem()
    right = minimise(risk, 1e-10)
    for broken in (lambda risk, start, tau: start, lambda risk, start, tau: start + 1e3):
        monkeypatch.setattr(erm, "_quasi_newton", broken)
        found = minimise(risk, 1e-10)
        assert np.linalg.norm(risk.value_and_gradient(found)[1]) <= 1e-10
        assert np.linalg.norm(found - right) <= 2e-10 / risk.modulus


def test_the_bound_on_steps_is_public():
    """It depends on n, c, modulus, tau and the linear term, not on records or labels."""
    assert steps_bound(problem(seed=1), 1e-8) == steps_bound(problem(seed=2), 1e-8)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.sampled_from([1e-3, 1e-1, 1.0]), st.integers(2, 4))
def test_neighbours_minimisers_are_within_the_sensitivity(seed, n, modulus, classes):
    rng = np.random.default_rng(seed)
    inputs, labels = unit_inputs(rng.standard_normal((n, 3)) * 3), rng.integers(classes, size=n)
    if seed % 2:
        inputs[:] = inputs[0]
    risk = LogisticRisk(inputs, labels, classes, n, modulus)
    moved, other = inputs.copy(), labels.copy()
    moved[0], other[0] = -inputs[0], (labels[0] + 1) % classes
    tau = 1e-9
    here = minimise(risk, tau)
    replaced = minimise(LogisticRisk(moved, other, classes, n, modulus), tau)
    removed = minimise(LogisticRisk(inputs[1:], labels[1:], classes, n, modulus), tau)
    for neighbour, adjacency in ((replaced, Adjacency.REPLACE_ONE), (removed, Adjacency.ADD_REMOVE)):
        allowed = MinimiserSensitivity(n=n, modulus=modulus, adjacency=adjacency, tau=tau).value
        assert np.linalg.norm(here - neighbour) <= allowed


def test_the_sensitivity_is_not_loose_by_much():
    """One class, strong regularisation: a relabelled record moves the minimiser by most of K/n, half of 2K/n."""
    n, modulus = 200, 50.0
    inputs, labels = np.tile([1.0, 0.0], (n, 1)), np.zeros(n, dtype=np.int64)
    other = labels.copy()
    other[0] = 1
    here, there = (minimise(LogisticRisk(inputs, y, 2, n, modulus), 1e-11) for y in (labels, other))
    exact = MinimiserSensitivity(n=n, modulus=modulus, adjacency=Adjacency.REPLACE_ONE, tau=0.0).exact
    assert 0.45 * exact < np.linalg.norm(here - there) <= exact


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.floats(1e-160, 1e160), st.floats(1e-3, 1e3), st.booleans())
def test_inputs_have_norm_at_most_one_record_by_record(seed, scale, clip_norm, bias):
    rng = np.random.default_rng(seed)
    records = rng.standard_normal((6, 2, 2)) * scale * 10.0 ** rng.integers(-3, 4, size=(6, 1, 1))
    rows = unit_inputs(records, clip_norm, bias)
    assert rows.shape == (6, 4 + bias)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
    if bias:
        assert np.all(rows[:, -1] == 1 / math.sqrt(2))
    # One record alone gives the same row: nothing is shared between records.
    for i in range(6):
        assert np.array_equal(unit_inputs(records[i : i + 1], clip_norm, bias)[0], rows[i])


def test_blocks_of_rows_join_without_a_seam(monkeypatch):
    records = np.random.default_rng(3).standard_normal((11, 4)) * 3
    whole = unit_inputs(records)
    monkeypatch.setattr(erm, "_BLOCK", 4)
    assert np.array_equal(unit_inputs(records), whole)


def test_small_records_keep_their_direction_and_size():
    rows = unit_inputs(np.array([[0.3, 0.4], [3.0, 4.0], [0.0, 0.0]]), clip_norm=2.0)
    assert rows == pytest.approx(np.array([[0.15, 0.2], [0.6, 0.8], [0.0, 0.0]]))


def test_a_record_that_is_no_number_becomes_zero_and_spoils_no_other():
    records = np.array([[np.nan, 1.0], [0.3, 0.4], [np.inf, 0.0]])
    assert np.array_equal(unit_inputs(records), [[0.0, 0.0], [0.3, 0.4], [0.0, 0.0]])


def test_a_bias_column_without_scaling_is_refused():
    """(x, 1) has norm up to sqrt(2): the sensitivity would be wrong by that factor."""
    inputs = np.hstack([unit_inputs(np.ones((3, 2))), np.ones((3, 1))])
    with pytest.raises(InvalidValue, match="unit_inputs"):
        LogisticRisk(inputs, np.zeros(3, dtype=np.int64), 2, 3, 0.1)
