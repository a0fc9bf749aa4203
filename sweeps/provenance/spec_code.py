"""The code that decides what a sweep trains and proposes, as one digest."""

from __future__ import annotations

from sweeps.provenance.fingerprint import code_digest
from sweeps.search import registry
from sweeps.spec.model import SweepSpec


def code_of(spec: SweepSpec) -> str:
    """`code_digest` of this project, the functions that the spec names, and a sampler of an installed package."""
    offered = registry.module_of(spec.search.sampler)
    return code_digest((*spec.user_modules(), *([] if offered is None else [offered])), spec.texts())
