"""What people fine-tune, each in two of the ways of training it, against one record at a time.

All cells: python -m tests.benchmarks.architectures
"""

import pytest

from tests.benchmarks.architectures import ARCHITECTURES, PADDED, WAYS, cell

pytest.importorskip("transformers")
pytest.importorskip("peft")
MODELS = ARCHITECTURES | PADDED


@pytest.mark.parametrize(
    ("name", "way"), [(name, [*WAYS][(at + step) % len(WAYS)]) for at, name in enumerate(MODELS) for step in (0, 3)]
)
def test_gradients_are_those_of_one_record_at_a_time(name, way):
    found = cell(MODELS[name], way)
    assert found.right, found
    assert not found.refused
