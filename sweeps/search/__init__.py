"""Which point comes next: the space, the samplers over it, and the rungs of early stopping."""

import sweeps.spec  # noqa: F401 (its rules look at spaces and samplers: they come second, whoever is imported first)
from sweeps.search.proposer import Proposer

__all__ = ["Proposer"]
