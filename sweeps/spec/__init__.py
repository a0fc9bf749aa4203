"""What a person asks for: read whole, checked whole, frozen."""

from sweeps.spec.errors import SpecError, SpecErrors
from sweeps.spec.loading import load_spec, public_facts, sections_of
from sweeps.spec.model import EarlyStopping, Resources, SweepSpec, diff
from sweeps.spec.schema import spec_schema

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
