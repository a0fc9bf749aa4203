"""What leaves says of a record what it says of it alone: models that mix their batch are mapped, or do not leave."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.sweeps.test_export import NETWORK, spec, trained
from trainables.data import SOURCES
from trainables.export.apart import Mapped, apart
from trainables.export.model import ReleasedModel
from trainables.features.programs import NotExportable, program
from trainables.system import InputSpec

NUMBERS, WORDS = {"x": InputSpec(shape=(6,))}, {"x": InputSpec(shape=(12,), cardinality=50)}


class Centred(nn.Module):
    """It takes the mean of its batch away."""

    def __init__(self):
        super().__init__()
        self.first, self.scale, self.last = nn.Linear(6, 8), nn.Parameter(torch.ones(8)), nn.Linear(8, 2)

    def forward(self, x):
        hidden = self.first(x) * self.scale
        return self.last(hidden - hidden.mean(0) / 2)


class Recurrent(nn.Module):
    def __init__(self, mixing):
        super().__init__()
        self.words, self.over, self.last = nn.Embedding(50, 4), nn.LSTM(4, 4, batch_first=True), nn.Linear(4, 2)
        self.mixing = mixing

    def forward(self, x):
        found = self.last(self.over(self.words(x))[0][:, -1])
        return found - found.mean(0) if self.mixing else found


class Trimmed(nn.Module):
    """It reads as far as the longest text of its batch."""

    def __init__(self):
        super().__init__()
        self.words, self.last = nn.Embedding(50, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.words(x[:, : max(1, int((x != 0).sum(1).max()))]).mean(1))


@pytest.fixture(autouse=True)
def _seeded():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def alone(model, x):
    with torch.no_grad():
        return torch.cat([model(one[None]) for one in x])


def test_a_model_that_mixes_is_written_down_for_each_record_apart():
    model, x = Centred().eval(), torch.rand(9, 6)
    written = program(apart(model, NUMBERS), NUMBERS).module()
    assert torch.allclose(written(x), alone(model, x), atol=1e-6)
    assert torch.allclose(written(x[:1]), model(x[:1]), atol=1e-6)
    assert written.state_dict().keys() == model.state_dict().keys()
    # The mutant: as it is, it says other things of records that stand together.
    assert not torch.allclose(program(model, NUMBERS).module()(x), alone(model, x), atol=1e-3)


def test_what_cannot_be_mapped_leaves_where_it_keeps_records_apart_alone():
    honest = Recurrent(mixing=False).eval()
    assert apart(honest, WORDS) is honest
    for model in (Recurrent(mixing=True), Trimmed()):
        with pytest.raises(NotExportable, match="the records beside it"):
            apart(model.eval(), WORDS)


class Failing(nn.Module):
    """For some values it has no answer, and for others none that is finite."""

    def __init__(self, never=False):
        super().__init__()
        self.last, self.never = nn.Linear(6, 2), never

    def forward(self, x):
        if self.never:
            raise RuntimeError("never")
        torch.linalg.cholesky(torch.eye(2) - x[:, :1, None] * torch.ones(2, 2) / 1.9)
        return self.last(x.log())


def test_values_for_which_a_model_cannot_be_computed_decide_nothing():
    model, x = Failing().eval(), torch.rand(9, 6) / 4 + 0.1
    with pytest.raises(RuntimeError):
        model(torch.ones(1, 6))
    assert torch.allclose(apart(model, NUMBERS)(x), alone(model, x), atol=1e-6)
    with pytest.raises(NotExportable, match="each raises an error"):
        apart(Failing(never=True).eval(), NUMBERS)


def test_what_is_proved_apart_stays_as_it_is():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    assert apart(model, NUMBERS) is model
    assert isinstance(apart(Centred().eval(), NUMBERS), Mapped)


def test_what_is_exported_says_what_was_validated_to_the_last_record(tmp_path):
    """Of a source of one's own, whose numbers are cut to their bounds in training."""
    source, public = "tests.trainables.user_sources:Beyond", {"records": "public"}
    knobs = {**NETWORK, "epochs": 1}
    data = {"source": source, "validation": public}
    sweep = trained(tmp_path, spec(data=data, systems={"noisy-sgd": knobs}))
    made = sweep.model(0)
    model = ReleasedModel.load(made.save(tmp_path / "model"))
    raw = SOURCES[source]._source.load({}).validation
    assert (np.abs(raw.inputs["x"]) > 1).any()
    for asked in (made, model):
        said = asked.predict(dict(raw.inputs)).values
        assert (said == raw.targets).mean() == asked.card["validation"]["accuracy"]
        one = [asked.predict({"x": raw.inputs["x"][[row]]}).probabilities[0] for row in range(10)]
        assert np.allclose(asked.predict(dict(raw.inputs)).probabilities[:10], one, atol=1e-6)
