"""The certificate of a holdout: two sweeps in one document, and the larger of what they cost."""

import json
import re
import resource
from dataclasses import replace

import pytest

from dpcore.events import Adjacency
from sweeps.certificate.canonical import canonical_bytes
from sweeps.certificate.chain import Chain
from sweeps.certificate.document import Body, HoldoutBody, Signature, Signed
from sweeps.certificate.page import certificate_page
from sweeps.certificate.verifying import recomputed, verify
from sweeps.privacy import holdout_guarantee
from tests.sweeps.certificate.documents import KEY, MADE, planned, resigned, row, signed_bytes, steps
from tests.sweeps.certificate.holdout_documents import KINDS, SPLIT, final_run, holdout
from tests.sweeps.certificate.test_certify import command
from tests.sweeps.certificate.test_mutations import ATTESTED, BOUNDED, changed, leaves, stands, with_leaf

SIGNER = KEY.public_key()
BOTH = {
    # What every point was held to is the signer's word, as long as the one that ran keeps it; where tuning cost more,
    # it changes nothing.
    "best": re.compile(r"target\.epsilon"),
    "composition": re.compile(""),
}


def wrong(made):
    """What of its arithmetic fails, the signature left aside."""
    return [one.what for one in recomputed(made) if not one.held]


def within(made, where, **changes):
    """The document with other values in one of its parts."""
    return made.model_copy(update={where: getattr(made, where).model_copy(update=changes)})


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_tuning_stands_with_the_larger_of_both(kind):
    tuning = MADE[kind]()
    made = holdout(tuning)
    found = verify(signed_bytes(made), SIGNER)
    assert found.stands, str(found)
    assert made.claim.epsilon == max(tuning.mode.promised(tuning.claim).epsilon, made.target.epsilon)
    assert set(found.to_dict()["attested"]) >= {*made.attested, *made.tuning.attested, *made.final.attested}


def test_of_a_ladder_of_budgets_the_dearest_end_counts():
    """Where it ended was known afterwards: who is in the tuning part was promised no less than the dearest."""
    ladder = MADE["first"]()
    assert ladder.claim.epsilon < 5 < ladder.mode.ex_ante
    made = holdout(ladder)
    assert (made.claim.epsilon, made.claim.notion) == (ladder.mode.ex_ante, "differential-privacy")
    assert wrong(within(made, "claim", epsilon=ladder.claim.epsilon)) == ["both: epsilon of both together"]


def test_any_leaf_that_is_changed_is_caught_by_the_signature():
    document = json.loads(signed_bytes(holdout()))
    # A sample: that any is, is known of each sweep by itself.
    for path, value in leaves(document)[::4]:
        assert not verify(canonical_bytes(with_leaf(document, path, changed(value))), SIGNER).stands, path


@pytest.mark.parametrize("kind", BOTH)
def test_what_is_recomputed_is_caught_although_it_was_signed_anew_and_what_is_attested_is_not(kind):
    document = json.loads(signed_bytes(holdout(MADE[kind]())))
    free, caught = set(), set()
    for path, value in leaves(document["body"]):
        if value not in ([], {}):
            name = ".".join(map(str, path))
            (free if stands(resigned(with_leaf(document, ("body", *path), changed(value)))) else caught).add(name)
    sides = {"tuning": kind, "final": "composition"}
    for side, own in sides.items():
        for name in [one for one in free if one.startswith(f"{side}.")]:
            leaf = name.removeprefix(f"{side}.")
            # The final run has no reports to part, and no test records.
            none = side == "final" and leaf in ("mode.trials.0.parts", "mode.tests_apart")
            assert none or ATTESTED.fullmatch(leaf) or BOUNDED[own].fullmatch(leaf), name
    assert {one for one in free if one.split(".")[0] not in sides and not BOTH[kind].fullmatch(one)} == set()
    # Of one part both sweeps, and the document of both, say the same.
    told = r"final\.provenance\.(declared\.1|public_inputs\.1)|tuning\.provenance\.(declared\.1|fingerprint)"
    assert len([one for one in caught if re.fullmatch(told, one)]) == 4
    assert {"split.share", "split.id", "split.key", "point", "claim.unit", "claim.contributions"} <= caught


# -- documents that a lying operator writes whole --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["composition", "filter"])
def test_the_smaller_of_both_is_caught(kind):
    made = holdout(MADE[kind]())
    own = made.tuning.claim.epsilon, made.final.claim.epsilon, made.target.epsilon
    for less in {*own} - {made.claim.epsilon}:
        assert wrong(within(made, "claim", epsilon=less)) == ["both: epsilon of both together"]


def test_a_rule_that_counts_the_point_alone_is_found_out(monkeypatch):
    """The mutants: what any point could have cost is left out, and launches that were made again."""
    lost = row(planned(7, 1.0, 1000), charged_to=10, training=steps(1.0, 10))
    again = row(planned(7, 1.0, 1000), attempt=2)
    honest, twice = holdout(), holdout(None, lost, again)
    assert (honest.claim.epsilon, twice.claim.epsilon, twice.claim.delta) == (2.0, 4.0, 2e-5)
    assert wrong(honest) == wrong(twice) == []
    exact = holdout_guarantee.both
    for mutant in (
        lambda tuned, final, launches: exact(tuned, final),
        lambda tuned, final, launches: exact(replace(tuned, target=0.0, delta=0.0), final, launches),
    ):
        monkeypatch.setattr("sweeps.certificate.holdout.both", mutant)
        assert wrong(twice) != []


def test_rows_of_either_ledger_that_are_left_out_are_caught():
    made = holdout()
    shorter = Chain.of(made.tuning.ledger.sweep, made.tuning.ledger.rows[:-1])
    assert "tuning: epsilon of all trials together" in wrong(within(made, "tuning", ledger=shorter))
    other = Chain.of(made.final.ledger.sweep, made.final.ledger.rows).model_copy(
        update={"links": made.tuning.ledger.links[:2]}
    )
    assert wrong(within(made, "final", ledger=other)) == ["final run: hash chain of the ledger"]


def moved(side, **changes):
    """An honest document, one side of which says something else of its records or of its claim."""
    made = holdout()
    own = getattr(made, side)
    rows = {name: getattr(own, name).model_copy(update=change) for name, change in changes.items()}
    return made.model_copy(update={side: own.model_copy(update=rows)})


def test_parts_that_are_not_the_two_of_one_split_are_caught():
    made = holdout()
    assert "both: the parts are not the same records" in wrong(
        moved("final", provenance={"fingerprint": made.tuning.provenance.fingerprint})
    )
    assert wrong(moved("final", provenance={"declared": made.tuning.provenance.declared})) == ["both: the part of last"]
    for name, other in (("share", 0.3), ("id", "other_id"), ("key", "other")):
        failed = wrong(made.model_copy(update={"split": SPLIT.model_copy(update={name: other})}))
        assert {"both: the part of hand", "both: the part of last"} <= set(failed)
    swapped = made.model_copy(update={"tuning": made.final, "final": made.tuning})
    assert "both: a tuning, and its final run" in wrong(swapped)
    same = made.model_copy(update={"final": made.tuning})
    assert "both: two sweeps" in wrong(same)


def test_what_both_differ_in_is_caught():
    assert "both: neighbours differ in one part" in wrong(within(holdout(), "claim", adjacency=Adjacency.REPLACE_ONE))
    for name, other in (("unit", "person"), ("contributions", 3), ("version", "9")):
        assert f"both: {name}, tuning" in wrong(moved("tuning", claim={name: other}))
    assert wrong(moved("final", approval={"by": "Eve"})) == ["both: approval, final run"]


def test_a_final_run_beyond_its_target_is_caught():
    made = holdout()
    lower = made.model_copy(update={"target": made.target.model_copy(update={"epsilon": 1.5})})
    assert "both: the final run within its target" in wrong(lower)


def test_what_an_audit_refuted_of_either_does_not_stand():
    for side, name in (("tuning", "tuning"), ("final", "final run")):
        made = holdout()
        audits = tuple(one.model_copy(update={"outcome": "refuted"}) for one in getattr(made, side).audits)
        assert wrong(within(made, side, audits=audits)) == [f"{name}: verdicts of audits"]


def test_each_sweep_by_itself_is_no_document_of_this_kind_and_neither_is_the_other():
    made = holdout()
    document = json.loads(signed_bytes(made))
    document["body"]["format"] = "private-sweeps certificate 1"
    assert [one.what for one in verify(resigned(document), SIGNER).checks if not one.held] == ["form"]
    assert isinstance(made, HoldoutBody)
    assert isinstance(made.tuning, Body)


def test_the_final_run_by_itself_says_that_its_tuning_is_not_covered():
    made = final_run()
    assert made.title == "The final run last by itself, what tuned for it not covered"
    assert all(one.held for one in recomputed(made))


# -- for people, and for a machine that has nothing but the file -----------------------------------------------


def test_the_page_holds_both_ledgers_and_how_they_were_joined():
    made = holdout()
    page = certificate_page(Signed(body=made, signature=Signature(algorithm="Ed25519", key="0" * 64, value="0" * 128)))
    for link in (*made.tuning.ledger.links[1:], *made.final.ledger.links[1:]):
        assert link in page
    assert page.count("epsilon 2 at delta 1e-05, to which every point was held") == 1
    for line in (*made.claim.assumptions, *made.attested, *made.tuning.attested):
        assert line.split("'")[0] in page


def test_a_fresh_process_verifies_it_in_seconds(tmp_path):
    (tmp_path / "one.json").write_bytes(signed_bytes(holdout()))
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = SIGNER.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pub").write_bytes(public)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = command("certify", "--verify", "one.json", "--signer", "key.pub", "--json", folder=tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(said)["stands"]
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 5
