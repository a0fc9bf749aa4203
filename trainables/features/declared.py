"""What a spec says of features, beside the options of whichever data source:

data:
  source: mnist
  features: scattering                # a map by name; or module:function, a function facts -> torch.nn.Module
  features: encoder.pt2               # or a program that torch.export saved, which is read without pickle
  features_from: "trained on ... by ..., none of whose records are here"   # asked for with a map of one's own
  features_bounds: [-10, 10]          # likewise, unless features_groups is there: what comes out is cut to them
  features_groups: 27                 # channels are normalised in so many groups, each record by itself

A map is a fixed public function of one record: it takes the source's inputs in their order, and its one output takes
their place. Each record is mapped alone. What fitted a map is no part of any claim: it is said in the claim's
assumptions, in the operator's words where the map is not ours.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpcore.checks import InvalidValue
from trainables import plugins
from trainables.kept import created, kept, mapped
from trainables.system import Dataset, DatasetSpec, InputSpec, Split

if TYPE_CHECKING:
    from torch import nn
    from torch.export import ExportedProgram


Numbers = NDArray[np.float32]

FEATURES = "features"
"""The one input of a model where a map was put before it."""
MAP, FROM, BOUNDS, GROUPS = "features", "features_from", "features_bounds", "features_groups"
SCATTERING, SCATTERING_SOURCE = "scattering", "Mallat 2012; Oyallon & Mallat 2015; J=2, L=8, order 2"
_SHOWN = 16
"""Of a digest, in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """A map as it is declared.

    name    "scattering", module:function, or a file
    origin  where a map of one's own is from; "" of a named one
    groups  of channels that are normalised within each record; None: nothing is
    bounds  that what a map of one's own says is cut to; None of a named one, and of what is normalised
    """

    name: str
    origin: str = ""
    groups: int | None = None
    bounds: tuple[float, float] | None = None

    @classmethod
    def of(
        cls, name: str | None, origin: str | None, bounds: tuple[float, float] | None, groups: int | None
    ) -> Features | None:
        """What the options of features say; None where they say nothing. Raises InvalidValue."""
        given = {FROM: origin, BOUNDS: bounds, GROUPS: groups}
        given = {option: one for option, one in given.items() if one is not None}
        if name is None:
            for option, value in given.items():
                raise InvalidValue(f"data.{option}", value, f"data.{MAP} beside it", "Name a map, or drop it.")
            return None
        known = name == SCATTERING
        for option in (FROM, BOUNDS):
            if known and option in given:
                expected = f"nothing: where {name} is from, and its bounds, are known"
                raise InvalidValue(f"data.{option}", given[option], expected, "Drop it.")
        if groups is not None and bounds is not None:
            expected = f"nothing beside {GROUPS}: normalised numbers have bounds of their own"
            raise InvalidValue(f"data.{BOUNDS}", bounds, expected, "Drop one of the two.")
        if not known and not (origin or "").strip():
            expected = "a sentence that says on whose records the map was fitted, and why none of them is private here"
            raise InvalidValue(f"data.{FROM}", origin, expected, "Every claim says it.")
        if not known and groups is None and bounds is None:
            expected = "two finite numbers, low < high, chosen without looking at private records"
            raise InvalidValue(f"data.{BOUNDS}", bounds, expected, "What the map says is cut to them.")
        return cls(name=name, origin=(origin or "").strip(), groups=groups, bounds=bounds)

    def facts(self, facts: DatasetSpec) -> DatasetSpec:
        """Those of the features, from the records'. Reads no record; of a map of one's own, its code or file.

        Raises InvalidValue for inputs that the map does not take, and for groups that its channels do not fall into.
        """
        feature = self._feature(facts)
        if self.groups is not None:
            feature = self._normalised(feature)
        word, treatment = self.name if self.is_known else FEATURES, list(facts.treatment)
        if self.bounds is not None:
            low, high = self.bounds
            treatment.append(f"Features that {self.name} gives beyond {low:g} and {high:g} are cut to these.")
        return replace(
            facts,
            dataset=f"{facts.dataset}-{word}",
            features={FEATURES: feature},
            assumptions=(*facts.assumptions, self.provenance(facts)),
            treatment=tuple(treatment),
        )

    @property
    def is_known(self) -> bool:
        """Whether it is a map of this project's."""
        return self.name == SCATTERING

    def provenance(self, facts: DatasetSpec) -> str:
        """Where the map over the inputs of `facts` is from, as claims say it. Raises InvalidValue."""
        if self.is_known:
            known = f"{self.name} ({SCATTERING_SOURCE}; code {_scattering_code()[:_SHOWN]})"
            return f"Features are {known}, a public function of one record, which was fitted to no records."
        return (
            f"Features are {self.name} (SHA-256 {self.digest(facts)[:_SHOWN]}), declared a public function that no "
            f"private record had a part in: {self.origin}"
        )

    def digest(self, facts: DatasetSpec) -> str:
        """SHA-256, in hex, of all that decides what the map over the inputs of `facts` says. Raises InvalidValue."""
        from trainables.features.programs import digest

        return digest(self._program(facts))

    def pretrained_fingerprint(self, facts: DatasetSpec) -> str:
        """Digest of the map's tensors, over the inputs of `facts`: what its code loads. Raises InvalidValue."""
        from trainables.models.pretrained import digest

        map_ = self._program(facts)
        return digest({**map_.state_dict, **map_.constants})

    def map(self, facts: DatasetSpec) -> nn.Module:
        """The whole map over the inputs of `facts`, as it leaves with a model. Raises InvalidValue."""
        from trainables.features.programs import FeatureProgram

        mapped = self.facts(facts).features[FEATURES]
        return FeatureProgram(self._program(facts), self.groups, (mapped.low, mapped.high))

    def first(self, model: nn.Module, facts: DatasetSpec) -> nn.Module:
        """`model` behind the map: what takes records as `facts` declare them. Raises InvalidValue."""
        from trainables.features.programs import FeaturesFirst

        return FeaturesFirst(self.map(facts), model)

    def dataset(self, found: Dataset, kept_in: Path | None) -> Dataset:
        """The records with their features as the one input; their fingerprint stays. Raises InvalidValue, OSError.

        kept_in  folder of files, see `kept`; None: nothing is kept
        """
        facts = self.facts(found.facts)
        train, validation = (self.split(one, found.facts, kept_in) for one in (found.train, found.validation))
        return replace(found, facts=facts, train=train, validation=validation)

    def split(self, split: Split, facts: DatasetSpec, kept_in: Path | None) -> Split:
        """The same of records that are no data set. Raises InvalidValue, OSError."""
        decides = [self.digest(facts), self.groups, self.bounds, _content(split)]
        key = hashlib.sha256(json.dumps(decides).encode()).hexdigest()
        shape, name = (len(split), *self.facts(facts).features[FEATURES].shape), f"{FEATURES}.npy"
        if kept_in is None:
            numbers = np.empty(shape, dtype=np.float32)
            self._map(split, facts, numbers)
        else:

            def write(folder: Path) -> None:
                self._map(split, facts, created(folder / name, shape, np.float32))

            numbers = kept(kept_in, key, write, lambda folder: mapped(folder / name))
        return replace(split, inputs={FEATURES: numbers})

    def _map(self, split: Split, facts: DatasetSpec, numbers: Numbers) -> None:
        """Each record alone: its features are a function of it, to the last digit, whoever else is there."""
        import torch

        from trainables.team import limited_threads
        from trainables.training.losses import tensor

        map_, cpu = self.map(facts), torch.device("cpu")
        with limited_threads(1), torch.no_grad():
            for row in range(len(split)):
                one = map_(*(tensor(array[row : row + 1], cpu) for array in split.inputs.values()))
                if not one.isfinite().all():
                    raise InvalidValue(f"data.{MAP}", self.name, "finite features of every record", "Mend the map.")
                numbers[row] = one[0].numpy()

    def _feature(self, facts: DatasetSpec) -> InputSpec:
        if self.is_known:
            return _scattered(facts)
        low, high = self.bounds or (-math.inf, math.inf)
        return InputSpec(shape=_shape(self._program(facts), facts), low=low, high=high)

    def _normalised(self, feature: InputSpec) -> InputSpec:
        channels, numbers = feature.shape[0], math.prod(feature.shape)
        assert self.groups is not None
        if channels % self.groups or numbers <= self.groups:
            expected = f"a number that divides the {channels} channels of {self.name}, in groups of 2 numbers or more"
            raise InvalidValue(f"data.{GROUPS}", self.groups, expected, "Leave it out: nothing is normalised.")
        # A number of m with mean 0 and variance 1 is at most sqrt(m - 1).
        largest = math.sqrt(numbers // self.groups - 1)
        return replace(feature, low=-largest, high=largest)

    def _program(self, facts: DatasetSpec) -> ExportedProgram:
        stamp = None
        if not self.is_known and not plugins.OBJECT.fullmatch(self.name):
            place = Path(self.name).expanduser()
            stamp = (os.stat(place).st_mtime_ns, os.stat(place).st_size) if place.is_file() else None
        # Another version of a file is another map.
        key = self.name, repr(facts), stamp
        if key not in _MADE:
            _MADE[key] = _made(self.name, facts)
        return _MADE[key]


_MADE: dict[object, ExportedProgram] = {}
"""Maps are written down once in a process, for each kind of inputs: that takes seconds."""


def _made(name: str, facts: DatasetSpec) -> ExportedProgram:
    from trainables.features import programs

    if name == SCATTERING:
        from trainables.features.scattering import Scattering

        made = programs.written_down(name, Scattering(*_image(facts)[-2:]), facts)
    elif plugins.OBJECT.fullmatch(name):
        made = programs.written_down(name, programs.own_module(name, facts), facts)
    else:
        made = programs.from_file(name, f"{SCATTERING}, module:function")
    programs.check_apart(name, made, facts)
    return made


def _image(facts: DatasetSpec) -> tuple[int, ...]:
    """(channels, height, width) of the image that a record is, or (height, width). Raises InvalidValue."""
    features = list(facts.features.values())
    shape = features[0].shape if len(features) == 1 and features[0].cardinality is None else ()
    if len(shape) not in (2, 3) or any(side < 8 or side % 4 for side in shape[-2:]):
        found = ", ".join(f"{name} {one.shape}" for name, one in facts.features.items())
        expected = f"one image per record, with sides of 8, 12, 16, ... pixels; {facts.dataset} has {found}"
        raise InvalidValue(f"data.{MAP}", SCATTERING, expected, "Use another source, or another map.")
    return shape


def _scattered(facts: DatasetSpec) -> InputSpec:
    *channels, height, width = _image(facts)
    (image,) = facts.features.values()
    # A wavelet's values sum up to less than 1, signs left out: no modulus exceeds the image's largest number.
    high = max(abs(image.low), abs(image.high))
    low = min(0.0, image.low)
    return InputSpec(shape=(81 * (channels[0] if channels else 1), height // 4, width // 4), low=low, high=high)


def _shape(map_: ExportedProgram, facts: DatasetSpec) -> tuple[int, ...]:
    import torch

    from trainables.training.made_up import made_up_records

    with torch.no_grad():
        found: torch.Tensor = map_.module(check_guards=False)(*made_up_records(facts, 1, torch.device("cpu"))[0])
    return tuple(found.shape[1:])


def _content(split: Split) -> str:
    digest = hashlib.sha256()
    for name, array in split.inputs.items():
        digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


@lru_cache
def _scattering_code() -> str:
    """SHA-256 of the file that computes the scattering."""
    return hashlib.sha256((Path(__file__).parent / "scattering.py").read_bytes()).hexdigest()
