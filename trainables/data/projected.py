"""Another source's records on their leading principal axes, which public records decide.

Axes fitted to private records would be a release of their own. Here they are fitted to the validation records, which
are taken as public (their metrics are released as they are); the claim says so. Rows are centred on the public mean,
turned, and divided by the largest norm of a public row.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables.data import content, options
from trainables.data.derived import Derived, Of
from trainables.system import Dataset, Feature, PublicFacts, Split
from trainables.validation import declaration

PUBLIC_AXES = "The projection was fitted to the validation records, which are taken as public."


@options.options
class ProjectionOptions(Of):
    """Options of a projection."""

    dimension: int = options.whole(doc="the number of principal axes", example=50)


class Projected(Derived[ProjectionOptions]):
    """`data: {source: projected, of: mnist, dimension: 50, path: DIR}`, of a source with real features only."""

    name = "projected"
    doc = "the records of another source (option of) on the leading principal axes of its validation records"
    asks = ProjectionOptions

    def declared(self, asked: ProjectionOptions, facts: PublicFacts) -> PublicFacts:
        """Facts of the projected records. Raises InvalidValue (private validation, categories, dimension)."""
        declaration.check_public(facts.private_validation, self.name, "its axes are fitted to the validation records")
        for name, feature in facts.features.items():
            if feature.cardinality is not None:
                remedy = "Project another source."
                raise InvalidValue("data.of", facts.dataset, f"real features only; {name} is a category", remedy)
        width = int(sum(np.prod(feature.shape) for feature in facts.features.values()))
        if asked.dimension > min(width, facts.n_validation):
            expected = f"at most {min(width, facts.n_validation)}: columns, or public records"
            raise InvalidValue("data.dimension", asked.dimension, expected, "Lower it.")
        return replace(
            facts,
            dataset=f"{facts.dataset}-{asked.dimension}d",
            # Private rows may lie further out than public ones: they are cut to the bound.
            features={"axes": Feature(shape=(asked.dimension,), low=-1.0, high=1.0)},
            assumptions=(*facts.assumptions, PUBLIC_AXES),
        )

    def records(self, asked: ProjectionOptions, facts: PublicFacts, found: Dataset) -> Dataset:
        """The records on their axes."""
        public = _rows(found.validation)
        mean = public.mean(axis=0)
        _, _, axes = np.linalg.svd(public - mean, full_matrices=False)
        turn = axes[: asked.dimension].T
        scale = float(np.linalg.norm((public - mean) @ turn, axis=1).max())

        def projected(split: Split) -> Split:
            turned = ((_rows(split) - mean) @ turn / scale).clip(-1, 1)
            return replace(split, inputs={"axes": turned.astype(np.float32)})

        parts = projected(found.train), projected(found.validation)
        return content.dataset(facts, *parts, units=found.units, digest=self.fingerprint(asked, found))


def _rows(split: Split) -> NDArray[np.float64]:
    parts = [np.asarray(array, dtype=np.float64).reshape(len(split), -1) for array in split.inputs.values()]
    return np.concatenate(parts, axis=1)
