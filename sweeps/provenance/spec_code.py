"""The code that decides what a sweep trains and proposes, as one digest."""

from __future__ import annotations

from collections.abc import Iterator

from sweeps.provenance.fingerprint import code_digest
from sweeps.search import registry
from sweeps.spec.model import SweepSpec
from trainables import plugins
from trainables.attribution import stranger
from trainables.registry import SYSTEMS


def code_of(spec: SweepSpec) -> str:
    """`code_digest` of this project, of what the spec names of the user's own (its feature map's file, too), and of the
    installed packages that its sampler and its systems come from."""
    named = (*spec.texts(), *([spec.data.feature_map] if spec.data.feature_map else ()))
    return code_digest((*spec.user_modules(), *_installed(spec)), named)


def _installed(spec: SweepSpec) -> Iterator[str]:
    """Modules of installed packages that offer the sampler or a system, and of those that have the system's class."""
    sampler = registry.module_of(spec.search.sampler)
    if sampler is not None:
        yield sampler
    for name in spec.systems:
        offering = plugins.module_of(name)
        if offering is not None:
            yield offering
            own = None if (system := SYSTEMS.known(name)) is None else stranger(system)
            yield from () if own is None else (own,)
