"""Another source's records in one pool, split anew by a public seed: the usual protocol of membership attacks.

Published splits give a target model most of the records and leave an attacker few. Here `train` records are drawn for
the target model; the others are validation records: queries, non-members, and the pool of shadow models.

The draw is a function of the seed and the number of records alone, so that n stays a public constant.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpcore.checks import InvalidValue, count
from trainables.data import content, options
from trainables.system import Dataset, DataSource, PublicFacts, Split

OWN = ("of", "train", "validation", "seed")


class Pooled:
    """`data: {source: pooled, of: mnist, train: 10000, validation: 20000, seed: 0, path: DIR}`.

    of          the source of the records; every further option is its own
    train       how many records are trained on
    validation  how many others are kept; all by default
    seed        of the public draw, 0 by default
    """

    name = "pooled"
    doc = "the records of another source (option of), split anew into train and validation by a public seed"

    def __init__(self, sources: Mapping[str, DataSource]) -> None:
        self.sources = sources

    def facts(self, options_: Mapping[str, object]) -> PublicFacts:
        """Facts of the new split. Raises InvalidValue (source, sizes, the source's own options)."""
        inner, facts = self._inner(options_)
        records = facts.n + facts.n_validation
        train = options.whole(options_, "train")
        kept = options.whole(options_, "validation", max(1, records - train))
        if train + kept > records:
            raise InvalidValue(
                "data.train", train, f"train + validation of at most {records}, the records of {inner.name}"
            )
        return PublicFacts(
            dataset=f"{facts.dataset}-pooled",
            task=facts.task,
            n=train,
            n_validation=kept,
            features=facts.features,
            classes=facts.classes,
            target_low=facts.target_low,
            target_high=facts.target_high,
            assumptions=facts.assumptions,
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
        order = drawn(len(found.train) + len(found.validation), _seed(options_))
        pool = Split(
            inputs={
                name: np.concatenate([array, found.validation.inputs[name]])
                for name, array in found.train.inputs.items()
            },
            targets=np.concatenate([found.train.targets, found.validation.targets]),
        )
        chosen = order[: facts.n], order[facts.n : facts.n + facts.n_validation]
        return content.dataset(facts, *(content.select(pool.inputs, pool.targets, rows) for rows in chosen))

    def _inner(self, options_: Mapping[str, object]) -> tuple[DataSource, PublicFacts]:
        name = options_.get("of")
        if not isinstance(name, str) or name not in self.sources:
            raise InvalidValue("data.of", name, "one of " + ", ".join(self.sources))
        if name == "table":
            raise InvalidValue(
                "data.of",
                name,
                "a published source: a split by position moves records of one's own across when one comes or goes",
                "Use the source table by itself, with data.validation.",
            )
        _seed(options_)
        options.no_unit(self.name, options_)
        inner = self.sources[name]
        return inner, inner.facts(_others(options_))


def drawn(records: int, seed: int) -> np.ndarray:
    """Positions 0..records-1 in the order of a public draw; shape (records,)."""
    order: np.ndarray = np.random.default_rng(seed).permutation(records)
    return order


def _others(options_: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in options_.items() if name not in OWN}


def _seed(options_: Mapping[str, object]) -> int:
    seed = options_.get("seed", 0)
    try:
        count(seed=seed)  # type: ignore[arg-type]
    except InvalidValue:
        raise InvalidValue("data.seed", seed, "an integer of at least 0") from None
    return int(seed)  # type: ignore[call-overload]
