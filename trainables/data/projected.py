"""Another source's records on their leading principal axes, which public records decide.

Axes fitted to private records would be a release of their own. Here they are fitted to the validation records, which
are taken as public (their metrics are released as they are); the claim says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import content, options
from trainables.system import Dataset, DataSource, Feature, PublicFacts, Split
from trainables.validation import declaration

PUBLIC_AXES = "The projection was fitted to the validation records, which are taken as public."
OWN = ("of", "dimension")


class Projected:
    """`data: {source: projected, of: mnist, dimension: 50, path: DIR}`.

    of         the source of the records, with real features only; every further option is its own
    dimension  number of principal axes; rows are centred on the public mean, turned, and divided by the largest norm
               of a public row
    """

    name = "projected"
    doc = "the records of another source (option of) on the leading principal axes of its validation records"

    def __init__(self, sources: Mapping[str, DataSource]) -> None:
        self.sources = sources

    def facts(self, options_: Mapping[str, object]) -> PublicFacts:
        """Facts of the projected records. Raises InvalidValue (source, dimension, categories, other options)."""
        _, facts = self._inner(options_)
        dimension = options.whole(options_, "dimension")
        width = _width(facts)
        if dimension > min(width, facts.n_validation):
            raise InvalidValue(
                "data.dimension", dimension, f"at most {min(width, facts.n_validation)}: columns, or public records"
            )
        return replace(
            facts,
            dataset=f"{facts.dataset}-{dimension}d",
            # Private rows may lie further out than public ones: they are cut to the bound.
            features={"axes": Feature(shape=(dimension,), low=-1.0, high=1.0)},
            assumptions=(*facts.assumptions, PUBLIC_AXES),
        )

    def inspect(self, options_: Mapping[str, object]) -> None:
        """Whether the other source's files are there; reads no record. Raises InvalidValue."""
        inner, _ = self._inner(options_)
        inner.inspect(_others(options_))

    def load(self, options_: Mapping[str, object]) -> Dataset:
        """The records. Raises InvalidValue."""
        facts = self.facts(options_)
        inner, _ = self._inner(options_)
        found = inner.load(_others(options_))
        public = _rows(found.validation)
        mean = public.mean(axis=0)
        _, _, axes = np.linalg.svd(public - mean, full_matrices=False)
        turn = axes[: facts.features["axes"].shape[0]].T
        scale = float(np.linalg.norm((public - mean) @ turn, axis=1).max())

        def projected(split: Split) -> Split:
            turned = ((_rows(split) - mean) @ turn / scale).clip(-1, 1)
            return Split(inputs={"axes": turned.astype(np.float32)}, targets=split.targets)

        return content.dataset(facts, projected(found.train), projected(found.validation), units=found.units)

    def _inner(self, options_: Mapping[str, object]) -> tuple[DataSource, PublicFacts]:
        name = options_.get("of")
        if not isinstance(name, str) or name not in self.sources:
            raise InvalidValue("data.of", name, "one of " + ", ".join(self.sources))
        inner = self.sources[name]
        facts = inner.facts(_others(options_))
        declaration.check_public(facts.private_validation, self.name, "its axes are fitted to the validation records")
        return inner, facts


def _width(facts: PublicFacts) -> int:
    for name, feature in facts.features.items():
        if feature.cardinality is not None:
            raise InvalidValue("data.of", facts.dataset, f"real features only; {name} is a category")
    return int(sum(np.prod(feature.shape) for feature in facts.features.values()))


def _rows(split: Split) -> NDArray[np.float64]:
    parts = [np.asarray(array, dtype=np.float64).reshape(len(split), -1) for array in split.inputs.values()]
    return np.concatenate(parts, axis=1)


def _others(options_: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in options_.items() if name not in OWN}
