"""The spec of a sweep: read whole, checked whole, frozen."""

from sweeps.spec.parse import load_spec, public_facts, sections_of
from sweeps.spec.problems import SpecError, SpecErrors
from sweeps.spec.schema import spec_schema
from sweeps.spec.sections import EarlyStopping, Resources, SweepSpec, diff

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
