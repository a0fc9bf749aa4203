"""Every leaf of a certificate, changed: the signature catches it; and signed anew by the same key, the arithmetic does
wherever the document says that it is recomputed, and nowhere else.
"""

import copy
import json
import re

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sweeps.certificate.canonical import NotCanonical, canonical_bytes
from sweeps.certificate.document import NotACertificate, parsed
from sweeps.certificate.verifying import recomputed, verify
from tests.sweeps.certificate.documents import KEY, MADE, resigned, signed_bytes, steps

SIGNER = KEY.public_key()
ATTESTED = re.compile(
    r"""
    accesses\.(tuning|validation|tests.*|audits.*|population.*) | accuracy\..* | approval\.(by|because)
    | audits\.\d\.(trial|system|method|said) | provenance\..* | searched\.(trials|ranges.*|fixed_points|how_chosen)
    | software\..* | random\..* | released\.(artefact|intermediates|trust) | sweep\.began
    | claim\.(contributions|unit|version)
    # What else a claim rests on is worded by its system; what the arithmetic rests on is not.
    | claim\.assumptions\..*
    # Of plans, what is not counted.
    | mode\.(trials\.\d+|winners\.\d+|trial|winner)\.(system|publication|mechanism|hyperparameters.*|solved.*)
    """,
    re.VERBOSE,
)
"""Leaves that are the signer's word alone; those of a statement are more."""
STATED = re.compile(r"claim\.(epsilon|delta|notion|adjacency|accountant|theorem|epsilon_lower)|mode\.trial\.parts")
BOUNDED = {
    # Steps that were never run cost nothing. A plan without reports has nothing to part. A reading in
    # parallel that spends less than training adds nothing to the larger of both.
    # The sweep of one trial may have launched any number of others.
    "composition": re.compile(r"mode\.tests\..*"),
    "trial": re.compile(r"mode\.trial\.(parts|steps)|accesses\.(training|steps)|searched\.sampler"),
    "statement": re.compile(r"mode\.trial\.steps|accesses\.(training|steps)|searched\.sampler"),
    "filter": re.compile(r"mode\.trials\.\d\.(parts|steps)|searched\.sampler"),
    "renyi": re.compile(r"mode\.trials\.\d\.(parts|steps)|searched\.sampler"),
    # A winner that meets both points is as good as any other: see the test of one that does not.
    "best": re.compile(r"mode\.winner\.(trial|parts|steps|training\..*)|mode\.law\.cap"),
    # So is a larger shift, and budgets that the search did not end at are what the spec says.
    "first": re.compile(
        r"mode\.winner\.(trial|parts|steps|training\..*)|mode\.law\.cap|mode\.rungs\.[013]\.(epsilon|shift|deltas\..*)"
    ),
    # Another winner may be covered as well; a larger mu or tau than the budget pays for is not.
    "front": re.compile(r"mode\.winners\.\d\.(trial|parts|steps|training\..*)|mode\.law\.cap"),
    "none of best": re.compile(r"mode\.law\.cap"),
    "none of first": re.compile(r"mode\.law\.cap|mode\.rungs\.([012]\.epsilon|\d\.(shift|deltas\..*))"),
    "none of front": re.compile(r"mode\.law\.cap"),
}
"""Leaves that another value may take as well, within the bounds that are checked."""
WORDS = {
    "add-remove": "replace-one",
    "proved": "proved-under-assumptions",
    "average-case": "membership-only",
    "differential-privacy": "bayesian-dp",
    "bayesian-dp": "membership-privacy",
    "trial": "sweep",
    "truncated-negative-binomial": "poisson",
    "both": "training",
    "gdp": "renyi",
}


def leaves(value, path=()):
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for index, inner in enumerate(value) for leaf in leaves(inner, (*path, index))]
    return [(path, value)]


def changed(value):
    """Another value of the same type, of the same form where there is one."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 1.01
        case None:
            return 0.25
        case [] | {}:
            return None
        case str() if value in WORDS:
            return WORDS[value]
        case str() if re.fullmatch(r"[0-9a-f]{2,}", value):
            return ("0" if value[0] != "0" else "1") + value[1:]
        case str() if re.fullmatch(r"\d{4}-.*Z", value):
            return "2025" + value[4:]
    return f"{value} or not"


def with_leaf(document, path, value):
    found = copy.deepcopy(document)
    place = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return found


@pytest.mark.parametrize("mode", MADE)
def test_every_certificate_made_by_hand_stands(mode):
    found = verify(signed_bytes(MADE[mode]()), SIGNER)
    assert found.stands, str(found)


@pytest.mark.parametrize("mode", ["composition", "best"])
def test_any_leaf_that_is_changed_is_caught_by_the_signature(mode):
    document = json.loads(signed_bytes(MADE[mode]()))
    assert len(leaves(document)) > 60
    for path, value in leaves(document):
        data = canonical_bytes(with_leaf(document, path, changed(value)))
        assert not verify(data, SIGNER).stands, path


@pytest.mark.parametrize("mode", MADE)
def test_what_is_recomputed_is_caught_although_it_was_signed_anew_and_what_is_attested_is_not(mode):
    document = json.loads(signed_bytes(MADE[mode]()))
    free, caught = set(), set()
    for path, value in leaves(document["body"]):
        if value not in ([], {}):
            name = ".".join(map(str, path))
            (free if stands(resigned(with_leaf(document, ("body", *path), changed(value)))) else caught).add(name)
    of_statements = STATED if mode == "statement" else ATTESTED
    word_alone = {one for one in free | caught if ATTESTED.fullmatch(one) or of_statements.fullmatch(one)}
    within = {one for one in free if mode in BOUNDED and BOUNDED[mode].fullmatch(one)}
    assert free - within - word_alone == set(), "changed numbers that nothing caught"
    # What the arithmetic rests on is among the assumptions.
    assert {one for one in caught & word_alone if not one.startswith("claim.assumptions")} == set()


def stands(data):
    """Whether its arithmetic does, the signature left aside."""
    try:
        return all(check.held for check in recomputed(parsed(data).body))
    except (NotCanonical, NotACertificate):
        return False


def test_a_winner_that_misses_a_point_is_caught():
    made = MADE["best"]()
    worse = made.mode.winner.model_copy(update={"training": steps(1.05, 1000)})
    spoilt = made.model_copy(update={"mode": made.mode.model_copy(update={"winner": worse})})
    wrong = [one.what for one in recomputed(spoilt) if not one.held]
    assert wrong == ["the winner's delta at e1", "the winner's delta at e_hat"]


def test_an_assumption_of_the_arithmetic_that_is_left_out_is_caught():
    document = json.loads(signed_bytes(MADE["composition"]()))
    stated = document["body"]["claim"]["assumptions"]
    assert any(line.startswith("Every batch") for line in stated)
    document["body"]["claim"]["assumptions"] = [line for line in stated if not line.startswith("Every batch")]
    found = verify(resigned(document), SIGNER)
    assert [one.what for one in found.checks if not one.held] == ["what the arithmetic rests on"]


def test_a_ledger_row_that_is_left_out_is_caught_even_with_a_new_chain():
    """The total is that of all rows."""
    from sweeps.certificate.chain import Chain
    from sweeps.certificate.document import Body

    made = MADE["composition"]()
    shorter = Chain.of(made.ledger.sweep, made.ledger.rows[:-1])
    found = verify(signed_bytes(Body.model_construct(**{**dict(made), "ledger": shorter})), SIGNER)
    assert "epsilon of all trials together" in [one.what for one in found.checks if not one.held]


def test_another_signer_is_refused_before_anything_is_looked_at():
    data, other = signed_bytes(MADE["trial"]()), Ed25519PrivateKey.generate()
    assert verify(data, other.public_key()).body is None
    assert not verify(signed_bytes(MADE["trial"](), other), SIGNER).stands


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data + b"\n",
        lambda data: data + b"{}",
        lambda data: b" " + data,
        lambda data: data.replace(b'"body"', b'"body" ', 1),
        lambda data: data.replace(b'{"body":', b'{"body":{},"body":', 1),
        lambda data: data.replace(b'"groups":"r\xc3\xa9gion"', b'"groups":"re\xcc\x81gion"', 1),
        lambda data: data.replace(b'"groups":"r\xc3\xa9gion"', b'"groups":"r\\u00e9gion"', 1),
        lambda data: data.replace(b'"records":1000,', b'"records":1000.0,', 1),
        lambda data: data.replace(b'"records":1000,', b'"records":1e3,', 1),
        lambda data: data.replace(b'"value":0.93', b'"value":NaN', 1),
        lambda data: data.replace(b'"fixed_points":0', b'"fixed_points":-0', 1),
        lambda data: data.replace(b'"value":0.93', b'"value":"0.93"', 1),
        lambda data: data.replace(b'"value":0.93', b'"value":0.93,"weight":1', 1),
        lambda data: data[:-1],
        lambda data: b"",
    ],
)
def test_another_spelling_of_the_same_values_is_refused(change):
    data = signed_bytes(MADE["composition"]())
    spoilt = change(data)
    assert spoilt != data
    assert not verify(spoilt, SIGNER).stands


def test_any_bit_of_the_file_is_caught():
    """A sample of bytes over the whole file, one bit each."""
    data = signed_bytes(MADE["trial"]())
    for place in range(0, len(data), 97):
        spoilt = bytearray(data)
        spoilt[place] ^= 1 << (place % 7)
        assert not verify(bytes(spoilt), SIGNER).stands, place
