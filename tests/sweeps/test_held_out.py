"""Test records: nobody trains on them, they are read once and on record, and private ones are noised and charged."""

from __future__ import annotations

import shutil
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

import sweeps
from dpcore.accounting import headline
from dpcore.checks import InvalidValue
from dpcore.events import Adjacency, Gaussian, Repeated
from dpcore.mechanisms.noisy_histogram import noise_for
from sweeps.execution import session
from sweeps.planning.preview import preview
from sweeps.privacy.heldout import declared_test, of_its_records, planned
from sweeps.privacy.release import PublishedStore
from sweeps.privacy.totals import joint_totals
from sweeps.spec.parse import load_spec
from sweeps.store.records import Accepted, HeldOutRead
from sweeps.util.fingerprint import Changed
from tests.sweeps.final_runs import spec, table
from tests.sweeps.published_sweeps import NAME, swept
from trainables.data import SOURCES
from trainables.metrics import with_error
from trainables.units import share_of

N, DELTA = 500, 1e-4
PARTS = {"validation": 0.3, "test": 0.2}


def raw(path, records="public", **sections):
    parts = {name: {"records": records, "share": share, "id": "id"} for name, share in PARTS.items()}
    linear = {"model": "linear", "learning_rate": 2.0, "clip_norm": 1.0, "batch_size": 50, "epochs": 2}
    own = {"systems": {"noisy-sgd": linear}, "privacy": {"epsilon": 4.0, "delta": DELTA}, "search": {"trials": 2}}
    return spec(NAME, str(path), data={"n": N, **parts}, **own, **sections)


def people(root):
    return pd.read_csv(table(root, "people", n=N))


def trained(root, records):
    swept(root, raw(table(root, "people", n=N), records), views=False)
    return sweeps.open(NAME, root=root)


def in_test(frame):
    return np.array([share_of("test", one) < 0.2 for one in frame["id"]])


def values(split):
    return set(split.inputs["x"][:, 0].tolist())


def test_no_test_record_is_among_those_that_train_or_validate_and_nobody_moves_another(tmp_path):
    frame = people(tmp_path)
    options = raw(tmp_path / "people.csv")["data"]
    del options["source"]
    table = SOURCES["table"]
    loaded, held = table.load(options), table.load_held_out(options)
    parts = [values(one) for one in (loaded.train, loaded.validation, held)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == N
    assert parts[2] == set(frame["x"][in_test(frame)].astype(np.float32).tolist())
    facts = table.facts(options)
    assert (facts.n, facts.n_validation, table.held_out(options).n) == (280, 120, 100)
    # A record less: the others stay where they are, the test records' words included.
    frame[1:].to_csv(tmp_path / "less.csv", index=False)
    fewer = {**options, "path": str(tmp_path / "less.csv")}
    less = [values(one) for one in (*_parts(table.load(fewer)), table.load_held_out(fewer))]
    assert all(small <= whole for small, whole in zip(less, parts, strict=True))
    assert sum(map(len, less)) == N - 1


def _parts(loaded):
    return loaded.train, loaded.validation


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("public"), "public")


def test_public_ones_are_read_once_on_record_and_every_card_says_so(public, command, tmp_path):
    frame = people(tmp_path)
    held = frame[in_test(frame)]
    assert "not read yet" in public.model(1).page
    reading = public.test(1)
    said = public.model(1).predict(held).values
    share = float((said == held["label"]).mean())
    assert reading.metrics["accuracy"] == pytest.approx(share, abs=1e-12)
    assert reading.metrics["accuracy_se"] == pytest.approx((share * (1 - share) / len(held)) ** 0.5, rel=0.05)
    # The same trial again is no other reading; another trial is.
    assert public.test(1) == reading
    assert (reading.number, reading.of) == (1, 1)
    with pytest.raises(InvalidValue, match=rf"{NAME}-1.*--again"):
        public.test(0)
    assert "read once, for this model alone" in public.model(1).page
    assert "read 1 times, for other models" in public.model(0).page
    again = command("test", NAME, "0", "--again", "--root", public.workspace.root)[1]
    assert "2nd of 2 readings: no longer untouched" in again
    assert public.model(0).card["test"]["score"]["reading"] == 2
    assert "the later ones are not" in public.model(1).card["test"]["score"]["standing"]
    # No claim covers public records, and none is changed by them.
    assert public.model(1).card["test"]["claim_with_score"]["epsilon"] == public.trial(1).guarantee.epsilon
    assert any("2 of 2" in line or "2nd of 2" in line for line in public.overview().lines())
    assert f"accuracy {with_error(reading.metrics, 'accuracy')}" in public.report().read_text()


def test_a_reading_that_was_cut_short_and_those_of_other_sweeps_count(tmp_path, monkeypatch):
    sweep = trained(tmp_path, "public")
    store = PublishedStore.open(sweep.workspace)

    def another(name, path="people.csv", word="another", **test):
        """A sweep of the store, with its reading."""
        spec = raw(tmp_path / path)
        spec["data"]["columns"]["x"]["high"] = 2
        spec["data"]["test"] |= test
        session.create(load_spec({**spec, "name": name}), sweep.workspace)
        with closing(sweep.workspace.open_store()) as opened:
            opened.ask(name, HeldOutRead(trial=f"{name}-0", records=word), "somebody")

    # Another hash parts off others. The same one is known by what both declare, though as columns they differ.
    another("apart", word="apart", key="other")
    assert "not read yet" in sweep.model(0).page
    another("earlier", share=0.1)
    assert "read 1 times, for other models" in sweep.model(0).page
    with pytest.raises(InvalidValue, match=r"earlier-0.*--again"):
        sweep.test(0)
    monkeypatch.setattr("trainables.validation.evaluate.judge", None)
    with pytest.raises(TypeError):
        sweep.test(0, again=True)
    monkeypatch.undo()
    reading = sweep.test(0, again=True)
    assert (reading.number, reading.of) == (3, 3)
    # The same records elsewhere are known by what was read.
    shutil.copy(tmp_path / "people.csv", tmp_path / "copy.csv")
    another("copy", "copy.csv", reading.request.wanted.records)
    assert sweep.test(0).of == 4
    # From there through those that were read in both places.
    assert len(of_its_records(store, "copy")) == 4
    assert len(of_its_records(store, "apart")) == 1


def test_nobody_who_trained_is_a_test_record_of_a_file_that_changed(tmp_path):
    """The same people under ids of today: most of those that the hash parts off now had trained."""
    sweep, name = trained(tmp_path, "public"), str(tmp_path / "people.csv")
    frame = pd.read_csv(name)
    frame.assign(id=frame["id"].iloc[::-1].to_list()).to_csv(name, index=False)
    with pytest.raises(Changed, match="records changed since it ran"):
        sweep.test(0)
    assert "not read yet" in sweep.model(0).page
    frame.to_csv(name, index=False)
    assert sweep.test(0).of == 1
    with closing(sweep.workspace.open_store()) as store:
        store.ask(NAME, Accepted(what="data", before="a", now="b"), "somebody")
    with pytest.raises(Changed, match="while it ran"):
        sweep.test(1, again=True)


@pytest.fixture(scope="module")
def private(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("private"), "private")


def total(sweep):
    return sweep.claim.procedure


def test_private_ones_leave_noised_and_are_charged_in_parallel(private):
    sigma = noise_for(4.0, DELTA, 1)
    planned = headline(Gaussian(noise_multiplier=sigma), DELTA, Adjacency.ADD_REMOVE).epsilon
    before = total(private)
    assert before.guarantee.epsilon >= planned
    reading = private.test(1)
    assert reading.metrics["accuracy_se"] > 0.001
    # Nothing of it is a share of whole records.
    assert abs(reading.metrics["accuracy"] * 100 - round(reading.metrics["accuracy"] * 100)) > 1e-9
    card, claim = private.model(1).card, private.trial(1).guarantee
    assert card["test"]["claim_with_score"]["epsilon"] == pytest.approx(max(claim.epsilon, planned), rel=1e-9)
    assert "The model and this score together" in private.model(1).page
    # One reading was planned, whether it is made or not.
    assert (total(private).guarantee.epsilon, total(private).is_claim) == (before.guarantee.epsilon, True)
    private.test(0, again=True)
    assert total(private).is_claim is False
    assert "read 2 times" in total(private).choices[0].what


def test_each_reading_more_costs_as_much_again(tmp_path):
    """Of a trial's claim with its score, and of the total."""
    asked = load_spec(raw(table(tmp_path, "people", n=N), "private"))
    once = Gaussian(noise_multiplier=noise_for(4.0, DELTA, 1))
    three = headline(Repeated(event=once, count=3), DELTA, Adjacency.ADD_REMOVE).epsilon
    training = headline(Gaussian(noise_multiplier=100.0), DELTA, Adjacency.ADD_REMOVE)
    assert declared_test(asked).claim(training, 3).epsilon == pytest.approx(three, rel=1e-9)
    [counted] = planned(asked, 3)
    assert headline(counted.event, DELTA, Adjacency.ADD_REMOVE).epsilon == pytest.approx(three, rel=1e-9)


def test_a_sweep_that_may_have_trained_on_them_adds(private):
    """On one front with a sweep without test records, whose training records they may be."""
    other = raw(private.workspace.root + "/people.csv", "private")
    del other["data"]["test"]
    session.create(load_spec({**other, "name": "other"}), private.workspace)
    store = PublishedStore.open(private.workspace)
    trials = store.trials(NAME)
    alone, both = (joint_totals(store, names)[0] for names in ({NAME: trials}, {NAME: trials, "other": []}))
    assert both.procedure.guarantee.epsilon > 1.05 * alone.procedure.guarantee.epsilon


def test_the_estimate_before_a_sweep_holds_the_reading_that_is_planned(tmp_path):
    spec = raw(table(tmp_path, "people", n=N), "private")
    spec["data"]["validation"]["records"] = "public"
    spec["privacy"] |= {"epsilon": 8.0, "solve": "none"}
    spec["systems"]["noisy-sgd"]["noise_multiplier"] = 20.0
    tested = noise_for(8.0, DELTA, 1)
    least = headline(Gaussian(noise_multiplier=tested), DELTA, Adjacency.ADD_REMOVE).epsilon
    assert preview(load_spec(spec)).total.epsilon == pytest.approx(least, rel=1e-9)


def by_unit(folder, validation, test):
    """Options of people in files: of training a and b, of validation and test as given."""
    for name, ids in {"train": "ab", "validation": validation, "test": test}.items():
        frame = pd.DataFrame({"id": list(ids), "x": 0.5, "label": [1] + [0] * (len(ids) - 1)})
        frame.to_csv(folder / f"{name}.csv", index=False)
    options = raw(folder / "train.csv")["data"]
    del options["source"]
    return options | {
        "n": 2,
        "unit": {"column": "id", "max_records": 2},
        "validation": {"records": "public", "path": str(folder / "validation.csv"), "n": len(validation)},
        "test": {"records": "public", "path": str(folder / "test.csv"), "n": len(test)},
    }


@pytest.mark.parametrize(("test", "said"), [("eb", r"data\.path"), ("ed", r"data\.validation\.path")])
def test_no_unit_of_a_test_file_trains_or_validates(tmp_path, test, said):
    options = by_unit(tmp_path, "cd", test)
    for read in (SOURCES["table"].load, SOURCES["table"].load_held_out):
        with pytest.raises(InvalidValue, match=rf"data\.test\.path.*file of {said} too, found 1"):
            read(options)
