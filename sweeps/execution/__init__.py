"""A sweep from its start to its end: what is launched next, what came of it, and what people ask meanwhile."""

import sweeps.ray  # noqa: F401  (sets what Ray reads from the environment before it is imported)
