"""Every leaf of a certificate, changed: the signature catches it; and signed anew by the same key, the arithmetic does
wherever the document says that it is recomputed, and nowhere else.
"""

import copy
import json
import re

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sweeps.certificate.document import NotACertificate, parsed, written
from sweeps.certificate.verify import recomputed, verify
from tests.sweeps.certificate.documents import KEY, MADE, holdout, signature_of, verified

SIGNER = KEY.public_key()
ATTESTED = re.compile(
    r"""
    title | covers | attested\..* | not_covered\..* | sweep\.(name|digest|began)
    | accesses\.(tuning|validation|tests.*|audits.*|population.*) | accuracy\..* | approval\..*
    | audits\.\d\.(trial|system|method|said) | provenance\..* | searched\.(trials|ranges.*|fixed_points)
    | software\..* | random\..* | released\..* | claim\.(unit|theorem|assumptions\..*|aimed_at|asserted_by)
    # The number of a launch is its name. Of plans, what is not counted; of a search, its law and its target in words.
    | mode\.trials\.\d+\.(system|publication|mechanism|hyperparameters.*|solved.*)
    | ledger\.\d\.attempt | mode\.(named|target|orders\..*)
    """,
    re.VERBOSE,
)
"""Leaves that are the signer's word alone; those of a statement are more."""
STATED = re.compile(r"claim\.(epsilon|delta|notion|adjacency|accountant|epsilon_lower)|mode\.trials\.0\.parts")
WINNER = r"mode\.cap|mode\.trials\.\d\.(trial|parts|steps|training\..*)"
FILTER = (
    r"claim\.(epsilon|delta)|mode\.trials\.\d\.(parts|steps|training\..*|reports\..*)|searched\.sampler"
    r"|mode\.charges\.\d\.(training|validation)\.(mu|tau|divergence)"
)
BOUNDED = {
    # A reading in parallel that spends less than training adds nothing to the larger of both.
    "composition": r"mode\.tests\..*",
    # Steps that were never run cost nothing. A plan without reports has nothing to part. The sweep of one trial may
    # have launched any number of others. Another accountant's epsilon is any that the headline's does not exceed.
    "trial": r"claim\.accountant|mode\.trials\.0\.(parts|steps)|accesses\.(training|steps)|searched\.sampler",
    "statement": r"mode\.trials\.0\.(steps|training\..*)|accesses\.(training|steps)|searched\.sampler",
    # A larger budget holds the same charges, and a larger charge covers the same launch, or less noise by a little.
    "filter": FILTER,
    "renyi": FILTER,
    # A winner that meets the points is as good as any other: see the test of those that do not.
    "best": WINNER,
    # So is a larger shift, and budgets that the search did not end at are what the spec says.
    "first": rf"{WINNER}|mode\.(epsilons\.[013]|shifts\.[013]|deltas\..*)",
    "front": WINNER,
    # Nothing is published that would show under which neighbours every configuration met the points.
    "none of best": r"mode\.cap|claim\.adjacency",
    "none of first": r"mode\.cap|claim\.adjacency|mode\.(epsilons\.[012]|shifts\..*|deltas\..*)",
    "none of front": r"mode\.cap|claim\.adjacency",
}
"""Leaves that another value may take as well, within the bounds that are checked."""
WORDS = {
    "add-remove": "replace-one",
    "proved": "proved-under-assumptions",
    "average-case": "membership-only",
    "differential-privacy": "bayesian-dp",
    "bayesian-dp": "membership-privacy",
    "trial": "sweep",
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
            return value * 1.01 if value else 1e-3
        case None:
            return 0.25
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


def stands(value):
    """Whether the arithmetic of these plain values does, the signature left aside."""
    try:
        return all(check.held for check in recomputed(parsed(json.dumps(value).encode())))
    except NotACertificate:
        return False


def free_and_caught(made):
    """Names of the leaves that another value may take, and of those that the arithmetic holds."""
    document = json.loads(written(made))
    free, caught = set(), set()
    for path, value in leaves(document):
        if value not in ([], {}):
            name = ".".join(map(str, path))
            (free if stands(with_leaf(document, path, changed(value))) else caught).add(name)
    return free, caught


@pytest.mark.parametrize("mode", MADE)
def test_what_is_recomputed_is_caught_although_it_was_signed_anew_and_what_is_attested_is_not(mode):
    made = MADE[mode]()
    assert verified(made).stands, str(verified(made))
    free, caught = free_and_caught(made)
    own = [ATTESTED, *([STATED] if mode == "statement" else [])]
    word_alone = {one for one in free | caught if any(words.fullmatch(one) for words in own)}
    within = {one for one in free if re.fullmatch(BOUNDED[mode], one)}
    assert free - within - word_alone == set(), "changed numbers that nothing caught"
    # Nothing is null that may be another value, a budget is one that epsilon keeps, and no name is another one's.
    nulls = {"accuracy.metrics.1.value", "provenance.part", "provenance.chosen", "claim.aimed_at"}
    assert caught & word_alone - nulls == set()


@pytest.mark.parametrize(
    ("kind", "target"), [("best", r"target\.epsilon"), ("composition", "")], ids=["best", "composition"]
)
def test_so_it_is_in_the_certificate_of_a_holdout(kind, target):
    """What every point was held to is the signer's word where tuning cost more."""
    free, caught = free_and_caught(holdout(MADE[kind]()))
    for side, own in {"tuning": kind, "final": "composition"}.items():
        for name in (one.removeprefix(f"{side}.") for one in free if one.startswith(f"{side}.")):
            # The final run has no reports to part, and no test records.
            none = side == "final" and name in ("mode.trials.0.parts", "mode.tests_apart")
            assert none or ATTESTED.fullmatch(name) or re.fullmatch(BOUNDED[own], name), name
    mine = {one for one in free if not one.startswith(("tuning.", "final."))}
    assert {one for one in mine if not ATTESTED.fullmatch(one) and not re.fullmatch(target, one)} == set()
    said = [f"{side}.provenance.part.{name}" for side in ("tuning", "final") for name in ("use", "share", "id", "key")]
    said += ["final.provenance.chosen.sweep", "final.provenance.chosen.records", "tuning.provenance.fingerprint"]
    assert {*said, "tuning.provenance.contributions", "claim.unit"} <= caught


def test_another_signer_is_refused_before_anything_is_looked_at():
    data, other = written(MADE["trial"]()), Ed25519PrivateKey.generate()
    assert verify(data, signature_of(data), other.public_key()).body is None
    assert not verified(MADE["trial"](), other).stands
    assert verify(data, b"{}", SIGNER).body is None


def test_the_signature_is_of_every_bit_of_the_file():
    data = written(MADE["composition"]())
    signature = signature_of(data)
    for other in (data + b"\n", data[:-1], b"", data.replace(b'"records": 1000,', b'"records": 1000.0,')):
        assert verify(other, signature, SIGNER).body is None
    for place in range(0, len(data), 97):
        spoilt = bytearray(data)
        spoilt[place] ^= 1 << (place % 7)
        assert verify(bytes(spoilt), signature, SIGNER).body is None, place


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"value": 0.93', b'"value": NaN'),
        (b'"value": 0.93', b'"value": "0.93"'),
        (b'"value": 0.93', b'"value": 0.93, "weight": 1'),
        (b'"steps": 450', b'"steps": 450.5'),
        (b'"delta": 1e-05', b'"delta": 1e-05, "alpha": 2'),
        (b'"claim"', b'"clam"'),
        (b"certificate 1", b"holdout certificate 1"),
    ],
)
def test_what_is_not_of_its_form_is_no_certificate_although_it_was_signed(old, new):
    data = written(MADE["composition"]())
    assert old in data
    data = data.replace(old, new, 1)
    assert [one.what for one in verify(data, signature_of(data), SIGNER).checks if not one.held] == ["form"]
