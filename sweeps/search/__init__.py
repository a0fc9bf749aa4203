"""Which point comes next: the space, the samplers over it, and the rungs of early stopping."""
