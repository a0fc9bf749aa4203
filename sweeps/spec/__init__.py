"""The spec of a sweep: read whole, checked whole, frozen."""

from sweeps.spec.json_schema import spec_schema
from sweeps.spec.loading import load_spec, public_facts, sections_of
from sweeps.spec.model import EarlyStopping, Resources, SweepSpec, diff
from sweeps.spec.problems import SpecError, SpecErrors

__all__ = [
    "EarlyStopping",
    "Resources",
    "SpecError",
    "SpecErrors",
    "SweepSpec",
    "diff",
    "load_spec",
    "public_facts",
    "sections_of",
    "spec_schema",
]
