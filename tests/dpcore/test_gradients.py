"""Private gradients over the zoo of models: right by rule and mapped over records, or refused by name."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from dpcore.checks import InvalidValue
from dpcore.gradients import MixesExamples, PrivateGradients, Refused, Route, isolation
from dpcore.gradients.chain import cross_entropy
from tests.dpcore import gradient_oracle as oracle
from tests.dpcore.zoo import layers, models
from tests.dpcore.zoo.case import Demand, Written, written
from tests.dpcore.zoo.judging import judge, judge_answers

torch.set_num_threads(1)
ZOO = [*layers.CASES, *models.CASES]
BY_RULE = [one for one in ZOO if one.by_rule]


@pytest.mark.parametrize("case", ZOO, ids=lambda one: one.name)
def test_one_record_at_a_time_or_refused_by_name(case):
    verdict = judge(case)
    assert not verdict.fault, f"{verdict.routes}: {verdict.fault}. {verdict.words}"
    assert not case.by_rule or verdict.routes == {Route.ONE_PASS}


@pytest.mark.parametrize("case", BY_RULE, ids=lambda one: one.name)
def test_mapped_over_records_it_is_the_same(case):
    verdict = judge(case, kinds={})
    assert not verdict.fault, f"{verdict.fault}. {verdict.words}"
    assert verdict.routes <= {Route.PER_RECORD, Route.LOOP}


ANSWERING = [one for one in ZOO if one.demand is not Demand.REFUSED and "whose own mapping mixes" not in one.name]
"""A foreign operator is trusted to map itself rightly in answers: the check before training has compared it."""


@pytest.mark.parametrize("case", ANSWERING, ids=lambda case: case.name)
def test_answers_are_each_record_s_own(case):
    assert not judge_answers(case)


def blocks(how):
    def called(m, x):
        for block in m.blocks:
            x = x + how(block, x)
        return m.head(x)

    torch.manual_seed(0)
    make = [nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.2), nn.Tanh(), nn.Linear(32, 8)) for _ in range(4)]
    return Written(called, blocks=nn.ModuleList(make), head=nn.Linear(8, 2))


checkpointed = partial(checkpoint, use_reentrant=False)
CHECKPOINTS = {
    "one": checkpointed,
    "in another": lambda block, x: checkpointed(lambda one: checkpointed(block[2:], block[:2](one)), x),
    "of a closure": lambda block, x: checkpointed(lambda: block(x)),
}


@pytest.mark.parametrize("how", CHECKPOINTS)
def test_a_checkpoint_keeps_less_and_changes_nothing(how, monkeypatch):
    monkeypatch.setattr(isolation.secrets, "token_bytes", bytes)
    draw, found, kept = torch.Generator().manual_seed(0), [], []
    x, y = torch.randn(6, 8, generator=draw), torch.tensor([0, 1, 0, 1, 0, 1])
    for one in (CHECKPOINTS[how], lambda block, x: block(x)):
        engine, sizes = PrivateGradients(blocks(one), cross_entropy), []
        with saved_tensors_hooks(lambda saved, sizes=sizes: sizes.append(saved.nbytes) or saved, lambda saved: saved):
            found.append(engine.clipped_sum(x, y, clip_norm=0.1).tensors)
        kept.append(sum(sizes))
    assert all(torch.equal(one, found[1][name]) for name, one in found[0].items())
    assert kept[0] < kept[1] / 2


def test_every_layer_of_torch_that_has_parameters_is_in_the_zoo():
    """Walks torch.nn, so that a layer of a new version is missed here and gets its row."""
    assert layers.walked() == layers.NAMED


@settings(max_examples=40)
@given(
    batch=st.integers(0, 5),
    channels=st.integers(1, 3),
    outputs=st.integers(1, 3),
    groups=st.integers(1, 2),
    size=st.tuples(st.integers(5, 9), st.integers(5, 9)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 3),
    padding=st.integers(0, 2),
    dilation=st.integers(1, 2),
)
def test_convolutions_of_any_shape(batch, channels, outputs, groups, size, kernel, stride, padding, dilation):
    torch.manual_seed(1)
    layer = nn.Conv2d(
        channels * groups, outputs * groups, kernel, stride, padding=padding, dilation=dilation, groups=groups
    )
    inputs, targets = torch.randn(batch, channels * groups, *size), torch.randn(batch)
    found = PrivateGradients(layer, oracle.squared_loss).clipped_sum(inputs, targets, clip_norm=0.7)
    if batch:
        oracle.assert_same(found.tensors, oracle.clipped_sum(layer, oracle.squared_loss, inputs, targets, 0.7))
    else:
        assert all(bool((one == 0).all()) for one in found.tensors.values())


def test_no_trace_is_left_on_the_model():
    model = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 4, (2, 3), stride=(2, 1)))
    inputs, targets = torch.randn(6, 3, 7, 6), torch.randn(6)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    images, generator = torch.randn(6, 4, 3, 4), torch.get_rng_state()
    PrivateGradients(model, oracle.squared_loss).clipped_sum(inputs, targets, clip_norm=1.0)
    with pytest.raises(InvalidValue, match="one loss per example"):
        PrivateGradients(model, nn.MSELoss()).clipped_sum(inputs, images, clip_norm=1.0)
    assert not any(module._forward_hooks or module._backward_hooks for module in model.modules())
    assert all(one.grad is None for one in model.parameters())
    assert all(torch.equal(before[name], one) for name, one in model.state_dict().items())
    assert torch.equal(generator, torch.get_rng_state())


def test_a_branch_on_values_is_refused_with_its_place():
    branching = written("", lambda m, x: m.layer(x) if float(x.detach().sum()) > 0 else -m.layer(x), layer=nn.Identity)
    model = branching.make()
    model.scale = nn.Parameter(torch.ones(6))
    engine = PrivateGradients(model, oracle.squared_loss)
    with pytest.raises(Refused, match=r"(?s)layer '\(model\)' \(Written\), line \d+ of .*reads a value out"):
        engine.clipped_sum(torch.randn(6, 6), torch.randn(6), clip_norm=1.0)


# Padding is decided where the table is looked up, not by the type of the layer that does.


class Scaled(nn.Embedding):
    """As Gemma and BART have it."""

    def forward(self, x):
        return 3 * super().forward(x)


def pooled(table, look_up=lambda m, x: m.table(x)) -> nn.Module:
    return Written(lambda m, x: m.head(look_up(m, x).mean(1)), table=table, head=nn.Linear(4, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: pooled(Scaled(7, 4, padding_idx=0)),
        # By the function, the padding counted from the end.
        lambda: pooled(nn.Parameter(torch.randn(7, 4)), lambda m, x: F.embedding(x, m.table, padding_idx=-7)),
    ],
    ids=["subclass", "function"],
)
def test_the_padding_row_is_not_trained_whoever_looks_it_up(make):
    model, codes, targets = make(), torch.randint(1, 7, (6, 5)), torch.randint(0, 3, (6,))
    codes[:, 3:] = 0
    engine = PrivateGradients(model, oracle.cross_entropy)
    engine.check(torch.randint(0, 7, (8, 5)), torch.randint(0, 3, (8,)))
    found = engine.clipped_sum(codes, targets, clip_norm=0.1).tensors
    oracle.assert_same(found, oracle.clipped_sum(model, oracle.cross_entropy, codes, targets, 0.1))
    [row] = [one[0] for name, one in found.items() if name.startswith("table")]
    assert not row.any()


def test_a_ragged_bag_is_refused():
    """As many bags as records, whatever they hold: one of them has all that the others lost."""
    ragged = Written(lambda m, x: m.bag(x.flatten(), torch.arange(len(x))), bag=nn.EmbeddingBag(7, 3, mode="sum"))
    with pytest.raises(MixesExamples):
        PrivateGradients(ragged, oracle.cross_entropy).check(torch.randint(0, 7, (8, 5)), torch.randint(0, 3, (8,)))
