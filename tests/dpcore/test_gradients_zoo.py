"""The private engine over the zoo: right, or refused by name; and the zoo over engines with known mistakes."""

from functools import partial

import pytest
import torch

from tests.dpcore.zoo import layers
from tests.dpcore.zoo.case import Demand
from tests.dpcore.zoo.judging import judge, judge_answers
from tests.dpcore.zoo.mutants import EveryRecord, Hooked, Unguarded
from tests.dpcore.zoo.zoo import ZOO

torch.set_num_threads(1)
BY_NAME = {case.name: case for case in ZOO}


@pytest.mark.parametrize("case", ZOO, ids=lambda one: one.name)
def test_one_record_at_a_time_or_refused_by_name(case):
    verdict = judge(case)
    assert not verdict.fault, f"{verdict.route}: {verdict.fault}. {verdict.words}"


ANSWERING = [
    one for one in ZOO if one.demand is not Demand.REFUSED and one.name != "an operator whose own mapping mixes"
]
"""A foreign operator is trusted to map itself rightly in answers: the check before training has compared it."""


@pytest.mark.parametrize("case", ANSWERING, ids=lambda case: case.name)
def test_answers_are_each_record_s_own(case):
    assert not judge_answers(case)


@pytest.mark.parametrize("name", ["minus the batch mean", "mixup", "nn.LSTM, records taken for a sequence"])
def test_answers_of_a_whole_batch_are_told_apart(name):
    assert judge_answers(BY_NAME[name], lambda model: model)


def test_every_layer_of_torch_that_has_parameters_is_in_the_zoo():
    """Walks torch.nn, so that a layer of a new version is missed here and gets its row."""
    assert layers.walked() == layers.NAMED


def test_names_are_unique_and_the_zoo_is_large():
    assert len(BY_NAME) == len(ZOO) >= 60


MIXING = [
    "minus the batch mean",
    "a zero head over the batch mean",
    "records sorted inside",
    "divided by the largest entry of the batch",
    "mixup",
    "mixes where there are more than two",
    "functional batch_norm",
    "nn.Softmax(0)",
    "trimmed to the longest of the batch",
    "a loss against the others of the batch",
    "nn.LSTM, records taken for a sequence",
    "nn.MultiheadAttention, records taken for a sequence",
]
STATE = ["a mean that learns, in place", "a mean that learns and is not used", "a counter that counts"]
HIDDEN = ["a weight kept a second time, hidden", "a view of a weight, made once", "a loss that adds the weight's size"]
MUTANTS = {
    "one forward pass for all records": (partial(EveryRecord, together=True), MIXING),
    "one backward pass for all records": (Hooked, ["the gradient normalised over the batch", "mixup"]),
    "each tensor clipped by itself": (partial(EveryRecord, per_tensor=True), ["nn.Linear", "nn.LSTM"]),
    "state of one record seen by the next": (EveryRecord, STATE),
    "no guard over what is handed in": (Unguarded, HIDDEN),
    "mapped operations taken at their word": (Unguarded, ["an operation whose own mapping mixes"]),
    "uses of a layer squared apart": (partial(Hooked, uses_apart=True), ["a layer used twice"]),
    "a second use of a layer lost": (partial(Hooked, last_use=True), ["a layer used twice"]),
    "outputs overwritten in place": (partial(Hooked, tensors=True), ["activations in place, in a row of layers"]),
}


@pytest.mark.parametrize(("mutant", "name"), [(m, name) for m, (_, names) in MUTANTS.items() for name in names])
def test_engines_with_a_known_mistake_fail(mutant, name):
    verdict = judge(BY_NAME[name], MUTANTS[mutant][0])
    assert verdict.fault
    assert verdict.route != "refused", f"found for another reason: {verdict.words}"


@pytest.mark.parametrize("name", [*MIXING, "nn.Linear", "nn.LSTM"])
def test_one_record_after_the_other_passes(name):
    """What fails the engines above is their mistake, not the way in which they are asked."""
    assert not judge(BY_NAME[name], EveryRecord).fault


@pytest.mark.parametrize("name", ["a layer used twice", "activations in place, in a row of layers", "nn.Linear"])
def test_hooks_without_a_mistake_pass(name):
    assert not judge(BY_NAME[name], Hooked).fault


@pytest.mark.parametrize("name", ["nn.Linear", "nn.LSTM", "minus the batch mean", "mixup"])
def test_mapping_alone_passes_where_nothing_is_hidden(name):
    assert not judge(BY_NAME[name], Unguarded).fault
