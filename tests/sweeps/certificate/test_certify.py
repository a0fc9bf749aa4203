"""From a real sweep to a certificate that a fresh process verifies, and what the command asks of people."""

import json
import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import sweeps
from dpcore.checks import InvalidValue
from sweeps.certificate.document import parsed
from sweeps.certificate.signing import new_key, private_key, public_key
from sweeps.cli.main import app
from tests.sweeps.final_runs import ran

ANSWERS = {
    "approved_by": "Ada Lovelace, data protection",
    "because": "no record of these is anybody's",
    "ranges": "by the closed form of the paper, on no data",
}
OPTIONS = [word for name, text in ANSWERS.items() for word in (f"--{name.replace('_', '-')}", text)]


EXAMPLE = Path(sweeps.__file__).parent / "examples" / "toy.yaml"


def command(*words, folder):
    line = [sys.executable, "-m", "sweeps.cli", *map(str, words)]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def certify(*words):
    return CliRunner().invoke(app, ["certify", *map(str, words)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A sweep of the toy example, and a key pair."""
    made = tmp_path_factory.mktemp("certified")
    toy = yaml.safe_load(EXAMPLE.read_text())
    ran({**toy, "search": {**toy["search"], "trials": 3}}, made / ".sweeps")
    new_key(made / "key.pem")
    return made


def test_a_real_sweep_is_certified_and_a_fresh_process_verifies_it(folder, tmp_path):
    said = certify("toy", "--root", folder / ".sweeps", "--key", folder / "key.pem", *OPTIONS).output
    endings = ("json", "json.sig", "html")
    document, signature, page = (folder / ".sweeps" / "toy" / f"certificate.{ending}" for ending in endings)
    assert [str(document), str(signature), str(page)] == said.splitlines()[1:]
    body = parsed(document.read_bytes())
    assert body.claim == sweeps.open("toy", root=folder / ".sweeps").claim.procedure.guarantee
    assert len(body.mode.trials) == len(body.ledger) == 3
    assert body.approval.by == ANSWERS["approved_by"]
    assert "Privacy certificate of all trials of toy together" in page.read_text()
    # Neither store nor data are where the certificate goes.
    for path in (document, signature, folder / "key.pem.pub"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = command("certify", "--verify", "certificate.json", "--signer", "key.pem.pub", "--json", folder=tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert json.loads(found)["stands"]
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 5


def test_a_changed_file_or_another_signer_ends_with_3(folder, tmp_path):
    made = sweeps.open("toy", root=folder / ".sweeps").certify(key=folder / "key.pem", **ANSWERS)
    target, _, page = made.save(tmp_path / "one.json")
    assert page.name == "one.html"
    assert certify("--verify", target, "--signer", folder / "key.pem.pub").exit_code == 0
    found = certify("--verify", target, "--signer", new_key(tmp_path / "other.pem"))
    assert (found.exit_code, "you expect" in found.output) == (3, True)
    target.write_bytes(target.read_bytes().replace(b'"delta": 1e-05', b'"delta": 1e-06', 1))
    assert "DOES NOT STAND" in str(sweeps.verify(target, signer=folder / "key.pem.pub"))


def test_one_trial_is_certified_with_the_search_left_out_in_the_title(folder):
    opened = sweeps.open("toy", root=folder / ".sweeps")
    made = opened.certify(key=folder / "key.pem", trial=1, **ANSWERS)
    assert made.body.title == "Privacy certificate of one trial of toy, the search for its hyperparameters not covered"
    assert made.body.claim == opened.trial(1).guarantee
    assert any(line.startswith("Selection") for line in made.body.not_covered)
    assert [row.trial for row in made.body.ledger] == ["toy-1"]


def test_what_only_people_know_is_asked_for(folder):
    with pytest.raises(InvalidValue) as error:
        sweeps.open("toy", root=folder / ".sweeps").certify(key=folder / "key.pem", approved_by="Ada", because="")
    assert error.value.name == "--because, --ranges"


@pytest.mark.parametrize(
    "words", [[], ["toy"], ["toy", "--verify", "x"], ["--verify", "x"], ["--verify", "x", "--signer", "y"]]
)
def test_a_command_without_what_it_needs_is_refused(words):
    assert isinstance(certify(*words).exception, InvalidValue)


def test_keys_are_the_owners_alone_and_never_written_over(tmp_path):
    public = new_key(tmp_path / "key.pem")
    assert stat.S_IMODE(os.stat(tmp_path / "key.pem").st_mode) == 0o600
    assert private_key(tmp_path / "key.pem").public_key() == public_key(public)
    with pytest.raises(InvalidValue, match="not there yet"):
        new_key(tmp_path / "key.pem")
    os.chmod(tmp_path / "key.pem", 0o644)
    with pytest.raises(InvalidValue, match="its owner alone"):
        private_key(tmp_path / "key.pem")
    for wrong, read in ((tmp_path / "key.pem", public_key), (public, private_key)):
        with pytest.raises(InvalidValue, match="key as PEM"):
            read(wrong)
