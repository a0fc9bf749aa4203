"""A sweep from its start to its end: what is launched next, what came of it, and what people ask meanwhile."""
