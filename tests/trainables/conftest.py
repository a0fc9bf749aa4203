"""What many tests of systems train on."""

from __future__ import annotations

import pytest

from trainables.data import SOURCES
from trainables.system import Dataset


@pytest.fixture(scope="session")
def digits() -> Dataset:
    return SOURCES["digits"].load({})
