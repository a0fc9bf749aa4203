"""`scope: holdout` over packaged sources, derived ones and a source of one's own: who may be in which part."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dpcore.checks import InvalidValue
from sweeps.execution.final_run import check_parts
from sweeps.spec.parse import load_spec
from tests.sweeps import specs
from tests.sweeps.final_runs import KNOBS
from tests.sweeps.test_own import lab
from trainables.data import SOURCES
from trainables.data.source import PublishedSource
from trainables.data.splits import CONTENT

SHARE = 0.4
__all__ = ["lab"]


def part(use, **changes):
    return {"use": use, "share": SHARE, **changes}


def spec(name, data, privacy=None, **search):
    return specs.digits(
        name,
        data={"source": "digits", **data},
        systems={"noisy-sgd": {**KNOBS, "batch_size": 50, "epochs": 1}},
        privacy={"epsilon": 2.0, "delta": 1e-5, **(privacy or {})},
        search={"sampler": "random", "trials": 2, "seed": 1, **search},
    )


def final(data=None, epsilon=2.5, **privacy):
    scope = {"epsilon": epsilon, "scope": "holdout", **privacy}
    return spec("final", {"part": part("final"), **(data or {})}, scope, trials=1, chosen_from="tuning")


# -- the claim -----------------------------------------------------------------------------------------------


# -- what decides who is in which part -----------------------------------------------------------------------

POOL = {"of": "digits", "train": 500, "validation": 400, "seed": 0}
MNIST = {"validation": {"records": "private", "share": 0.2}, "test": {"records": "public"}}
DIFFER = {
    "whose label it is": ("adult", {}, {"split": "test"}, "data.split"),
    "how it is read": ("adult", {}, {"form": "raw"}, "data.form"),
    "which permutation": ("german_credit", {}, {"split": 1}, "data.split"),
    "which draw": ("pooled", POOL, {"seed": 1}, "data.seed"),
    "how many train": ("pooled", POOL, {"train": 400}, "data.train"),
    "how many filters": ("frozen", {"of": "digits", "patch": 3}, {"filters": 4}, "data.filters"),
    "another folder": ("cifar10", {}, {"path": "."}, "data.path"),
    "another inner source": ("projected", {"of": "digits", "dimension": 3}, {"of": "mnist"}, "data.of"),
    "what validates of one's own part": ("mnist", MNIST, {"validation": {"records": "private", "share": 0.3}}, None),
    "how many are used": ("abalone", {}, {"limit": 1000}, None),
    "a feature map": ("mnist", {}, {"features": "scattering"}, None),
}


@pytest.mark.parametrize("name", DIFFER)
def test_two_sweeps_on_parts_say_alike_what_decides_them(name):
    source, options, changes, refused = DIFFER[name]
    tuned, run = (
        load_spec(spec("tuning", {"source": source, **options, "part": part("tuning")})),
        load_spec({**final({"source": source, **options, **changes})}),
    )
    record = SimpleNamespace(called="tuning", spec=tuned)
    if refused is None:
        check_parts(run, record)
        return
    with pytest.raises(InvalidValue) as caught:
        check_parts(run, record)
    assert caught.value.name == refused


def test_a_column_that_is_called_content_is_an_id():
    """The mutant: `content` is a text, and a table's claim says that a hash of all that a record holds parts it."""
    asked = {"n": 50, "label": "y", "classes": 2, "columns": {"x": {"low": 0, "high": 1}}}
    for unit in ({}, {"unit": {"column": "content", "max_records": 3}}):
        found = SOURCES["table"].part({**asked, **unit, "part": part("tuning", id="content")})
        assert found.id == "content" != CONTENT
        assert found.assumption.startswith("The value of content is a record's own and never changes")
    assert SOURCES["digits"].part({"part": part("tuning", id="content")}).id is CONTENT


# -- what is computed over records ---------------------------------------------------------------------------


def images(use, **options):
    return SOURCES["digits"].load({"part": part(use), **options})


@pytest.mark.parametrize(("name", "own"), [("frozen", {"filters": 2, "patch": 3}), ("projected", {"dimension": 3})])
def test_a_map_is_put_over_the_records_of_a_part_alone(name, own, monkeypatch):
    sizes = [len(images(use).train) for use in ("tuning", "final")]
    right, handed = PublishedSource.load_records, []

    def load(self, options, kept_in=None):
        handed.append(right(self, options))
        return handed[-1]

    monkeypatch.setattr(PublishedSource, "load_records", load)
    tunes, trains = (SOURCES[name].load({"of": "digits", **own, "part": part(use)}) for use in ("tuning", "final"))
    assert [len(one.train) for one in handed] == [len(tunes.train), len(trains.train)] == sizes
    assert tunes.fingerprint != trains.fingerprint
    # What is fitted is fitted to the validation records, which both parts have.
    (feature,) = tunes.validation.inputs
    assert np.array_equal(tunes.validation.inputs[feature], trains.validation.inputs[feature])


# -- a source of one's own -----------------------------------------------------------------------------------

PUBLIC = {"records": "public"}


@pytest.fixture
def named(lab, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(lab))
    return lambda name: SOURCES[f"own_lab:{name}"]


@pytest.mark.parametrize(("name", "size"), [("Known", 80), ("Grouped", 20)])
def test_one_of_ones_own_is_parted_by_its_ids_or_units(named, name, size):
    source, sides = named(name), []
    for use in ("tuning", "final"):
        found = source.load({"validation": PUBLIC, "part": part(use)})
        assert found.facts == source.facts({"validation": PUBLIC, "part": part(use)})
        assert any("is a record's own and never changes" in line for line in found.facts.assumptions)
        sides.append(found)
    assert [side.facts.n for side in sides] == [size * SHARE, size * (1 - SHARE)]
    assert sum(side.present for side in sides) == size
    rows = [{one.tobytes() for one in side.train.inputs["x"]} for side in sides]
    assert not rows[0] & rows[1]
    assert len(rows[0] | rows[1]) == 80
    if name == "Grouped":
        assert not set(sides[0].units.keys) & set(sides[1].units.keys)


@pytest.mark.parametrize(
    ("name", "validation", "said"),
    [
        ("People", PUBLIC, "declares no ids, and what it makes of a record need not be the same twice"),
        ("Known", {"records": "private"}, "both sweeps would read these records, which nothing parts"),
    ],
)
def test_one_that_cannot_be_parted_is_refused_before_it_is_read(named, name, validation, said, monkeypatch):
    source = named(name)
    monkeypatch.setattr(type(source._source), "load", lambda self, options: pytest.fail("it was read"))
    for ask in (source.facts, source.inspect, source.load):
        with pytest.raises(InvalidValue, match=said):
            ask({"validation": validation, "part": part("tuning")})
