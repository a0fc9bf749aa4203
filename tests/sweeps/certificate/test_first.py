"""The certificate of the first success: the price of where the search ended, from the ladder's points alone."""

from __future__ import annotations

import pytest

from dpcore.events import Gaussian
from dpcore.guarantee import Notion
from sweeps.certificate.building import Certificate
from sweeps.certificate.document import Signature, Signed
from sweeps.certificate.verifying import recomputed
from tests.sweeps.certificate.documents import first


def wrong(made):
    return [one.what for one in recomputed(made) if not one.held]


def changed(made, **changes):
    return made.model_copy(update={"mode": made.mode.model_copy(update=changes)})


def claiming(made, **changes):
    return made.model_copy(update={"claim": made.claim.model_copy(update=changes)})


@pytest.mark.parametrize("ended", [1, 2, 3, 4])
def test_every_end_has_its_own_price(ended):
    made = first(ended)
    assert wrong(made) == []
    assert (made.claim.epsilon, made.claim.notion) == (made.mode.rungs[ended - 1].epsilon, Notion.EX_POST)
    assert made.title.startswith("Ex-post privacy certificate")
    assert made.mode.failure <= made.mode.ex_ante == made.mode.rungs[-1].epsilon


def test_one_budget_is_promised_beforehand():
    made = first(1, (2.0,))
    assert wrong(made) == []
    assert made.claim.notion is Notion.DP
    assert made.title.startswith("Privacy certificate")
    assert wrong(made.model_copy(update={"claim": made.claim.model_copy(update={"notion": Notion.EX_POST})})) == [
        "notion"
    ]


def test_what_another_end_costs_is_not_the_winners():
    """The mutants: a cheaper end; a winner with less noise than its rung; no such end."""
    made = first(3)
    assert wrong(claiming(made, epsilon=made.mode.rungs[1].epsilon)) == ["epsilon of where it ended"]
    less = made.mode.winner.model_copy(update={"training": Gaussian(noise_multiplier=1.9)})
    assert set(wrong(changed(made, winner=less))) == {
        "the winner's delta at shift 3", "the winner's delta at shift 4", "the winner's delta at e_hat",
    }  # fmt: skip
    assert "where the search ended" in wrong(changed(made, ended=5))


def test_a_shift_that_its_deltas_exceed_is_no_ladder():
    """The mutant: a penalty that is too small for what trials of its rungs may have."""
    made = first(3)
    rungs = list(made.mode.rungs)
    rungs[2] = rungs[2].model_copy(update={"shift": rungs[2].shift * 0.999})
    assert "the ladder and its points" in wrong(changed(made, rungs=tuple(rungs)))


def test_words_about_a_certificate_round_no_epsilon_down():
    made = first()
    claim = made.claim.model_copy(update={"epsilon": 2.0000004})
    signature = Signature(algorithm="Ed25519", key="0" * 64, value="0" * 128)
    said = str(Certificate(Signed(body=made.model_copy(update={"claim": claim}), signature=signature)))
    assert "epsilon 2.00001 at" in said
    mode = made.mode.model_copy(update={"failure": 2.0000004, "ex_ante": 7.0000001})
    assert "of no success 2.00001; ex ante 7.00001" in dict(mode.lines())["prices"]
