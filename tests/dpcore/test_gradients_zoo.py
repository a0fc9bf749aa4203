"""The private engine over the zoo: right, or refused by name."""

import pytest
import torch

from tests.dpcore.zoo import layers, models
from tests.dpcore.zoo.case import Demand
from tests.dpcore.zoo.judging import judge, judge_answers

torch.set_num_threads(1)
ZOO = [*layers.CASES, *models.CASES]


@pytest.mark.parametrize("case", ZOO, ids=lambda one: one.name)
def test_one_record_at_a_time_or_refused_by_name(case):
    verdict = judge(case)
    assert not verdict.fault, f"{verdict.route}: {verdict.fault}. {verdict.words}"


ANSWERING = [one for one in ZOO if one.demand is not Demand.REFUSED and "whose own mapping mixes" not in one.name]
"""A foreign operator is trusted to map itself rightly in answers: the check before training has compared it."""


@pytest.mark.parametrize("case", ANSWERING, ids=lambda case: case.name)
def test_answers_are_each_record_s_own(case):
    assert not judge_answers(case)


def test_every_layer_of_torch_that_has_parameters_is_in_the_zoo():
    """Walks torch.nn, so that a layer of a new version is missed here and gets its row."""
    assert layers.walked() == layers.NAMED
