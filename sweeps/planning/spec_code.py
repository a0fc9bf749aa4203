"""The code that decides what a sweep trains and proposes, as one digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import partial

from sweeps.planning.plan import ends
from sweeps.search import samplers
from sweeps.spec.hyperparameters import spelled_out
from sweeps.spec.sections import FUNCTION, Domain, SweepSpec
from sweeps.util.fingerprint import code_digest
from trainables import plugins
from trainables.adaptation import content
from trainables.data import SOURCES
from trainables.data.source import parted
from trainables.features.declared import MAP
from trainables.metrics import WITH, Arguments
from trainables.models import build
from trainables.models.registry import builder_of
from trainables.planning import of_their_models, stranger
from trainables.registry import SYSTEMS
from trainables.system import DatasetSpec


def code_of(spec: SweepSpec) -> str:
    """`code_digest` of this project, of what the spec names of the user's own (the files of its feature map and its
    tokenizers, too), and of the installed packages that its sampler and its systems come from."""
    named = (*({*spec.texts()} - {*spec.weight_places}), *spec.data.files)
    return code_digest((*spec.user_modules(), *_installed(spec)), named)


def _installed(spec: SweepSpec) -> Iterator[str]:
    """Modules of installed packages that offer the sampler or a system, and of those that have the system's class."""
    sampler = samplers.module_of(spec.search.sampler)
    if sampler is not None:
        yield sampler
    for name in spec.systems:
        offering = plugins.module_of(name)
        if offering is not None:
            yield offering
            own = None if (system := SYSTEMS.known(name)) is None else stranger(system)
            yield from () if own is None else (own,)


# The weights that models and a feature map of the user's own load, as a fingerprint: what code says nothing of.

WEIGHTS = "weights"
"""Among a sweep's fingerprints, where it has a model or a feature map of the user's own, or weights to start from."""
ACCEPTED_AS = {WEIGHTS: "code"}
"""{fingerprint: the word by which a change of it is accepted}, where that is another."""
MODEL = "model"


def weights_of(spec: SweepSpec, facts: DatasetSpec) -> dict[str, str]:
    """{WEIGHTS: digest of the tensors that they load, and of the files that models start from}, or nothing.

    Builds each model and map of the user's own, as planning does, and reads no record.
    """
    found = {place: content(place) for place in spec.weight_places}
    own, features = parted(spec.data.options())
    if features is not None and FUNCTION.fullmatch(features.name):
        found[f"{MAP} {features.name}"] = features.pretrained_fingerprint(SOURCES[spec.data.source].facts(own))
    if models := _models(spec):
        from trainables.models.pretrained import pretrained_fingerprint

        found |= {
            built: pretrained_fingerprint(partial(build, model, facts, hidden=1, arguments=arguments))
            for built, (model, arguments) in models.items()
        }
    return {WEIGHTS: hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()} if found else {}


def accepting(changed: Iterable[str]) -> tuple[str, ...]:
    """The words by which changes of these fingerprints are accepted, each once."""
    return tuple(dict.fromkeys(ACCEPTED_AS.get(name, name) for name in changed))


def _models(spec: SweepSpec) -> dict[str, tuple[str, Arguments]]:
    """Models of the user's own by what they are built with: the first value of each argument, and one other at a time,
    every choice and both ends of a range, since what is loaded may depend on it."""
    found: dict[str, tuple[str, Arguments]] = {}
    for name, knobs in spec.systems.items():
        system, knob = SYSTEMS.known(name), knobs.get(MODEL)
        if knob is None or system is None or stranger(system) is not None:
            continue
        values = knob.values if isinstance(knob, Domain) else (knob,)
        given = {key: one for key, one in spelled_out(spec.systems, name).items() if key.startswith(WITH)}
        several = {key: ends(one) if isinstance(one, Domain) else (one,) for key, one in given.items()}
        first = {key: taken[0] for key, taken in several.items()}
        for one in values:
            if isinstance(one, str) and FUNCTION.fullmatch(one) and of_their_models([one]):
                builder = builder_of(one)
                for moved in (first, *({**first, key: value} for key, taken in several.items() for value in taken[1:])):
                    known = {key.removeprefix(WITH): value for key, value in moved.items() if builder.takes(key)}
                    arguments = tuple(sorted(known.items()))
                    found[" ".join([one, *(f"{key}={value!r}" for key, value in arguments)])] = one, arguments
    return found
