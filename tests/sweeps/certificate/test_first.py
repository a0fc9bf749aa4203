"""The certificate of utility first: the ex-post price of where the search ended, from the ladder alone."""

import pytest

from dpcore.events import Gaussian
from sweeps.certificate.verifying import recomputed
from tests.sweeps.certificate.documents import first


def wrong(made):
    return [one.what for one in recomputed(made) if not one.held]


def changed(made, **changes):
    return made.model_copy(update={"mode": made.mode.model_copy(update=changes)})


def test_prices_are_the_published_goldens():
    """private_search.md, 1g: delta/5 each of 1e-5; failure by the curve, which is looked up on a grid, from above."""
    mode = first().mode
    assert [one.price for one in mode.rungs] == pytest.approx([0.733304, 1.676333, 3.474952, 7.276244], abs=1e-6)
    assert mode.failure == pytest.approx(3.185765, abs=1e-3)
    assert wrong(first()) == []


def test_that_none_reached_the_target_has_a_price_too():
    made = first(None)
    assert made.claim.epsilon == made.mode.failure
    assert made.title.endswith("in which no trial reached the target")
    assert wrong(made) == []


def test_the_price_of_a_cheaper_rung_is_not_the_winners():
    """The mutants: ended elsewhere; a winner with less noise than its rung; a winner where there was none."""
    made = first(3)
    cheaper = made.model_copy(update={"claim": made.claim.model_copy(update={"epsilon": made.mode.rungs[1].price})})
    assert wrong(cheaper) == ["epsilon of where it ended"]
    less = made.mode.winner.model_copy(update={"training": Gaussian(noise_multiplier=1.9)})
    assert set(wrong(changed(made, winner=less))) == {
        "the winner's delta at shift 3", "the winner's delta at shift 4", "the winner's own delta",
    }  # fmt: skip
    assert "where the search ended" in wrong(changed(made, winner=None))
    assert "where the search ended" in wrong(changed(made, ended=5))
