"""A spec in YAML, TOML or JSON is one spec; keys that begin with `x-` say nothing; MLflow's own variable is heard."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest

import sweeps
from dpcore.checks import InvalidValue
from sweeps.api import places
from sweeps.cli import main as cli
from sweeps.examples import example_names
from sweeps.spec import SpecErrors, load_spec, spec_schema
from sweeps.spec.documents import read_document, read_file

EXAMPLES = Path(sweeps.__file__).parent / "examples"
TOML = """
name = "mine"
objectives = [{metric = "expected_error"}, {metric = "epsilon"}]
[data]
source = "uniform"
n = 1000
[systems.noisy-mean]
clip = {uniform = [0.2, 1.0]}
[privacy]
epsilon = [1, 2]
delta = 1e-5
[search]
sampler = "random"
trials = 3
[x-shared]
anything = 2026-01-01
"""


def toml_text(value: object) -> str:
    """Inline TOML, which no writer of the standard library makes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {toml_text(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_text, value)) + "]"
    return json.dumps(value)


@pytest.mark.parametrize("name", example_names())
def test_one_spec_in_three_forms_has_one_digest(name, tmp_path):
    document = read_document((EXAMPLES / f"{name}.yaml").read_text())
    (tmp_path / "spec.json").write_text(json.dumps(document))
    lines = [f"{json.dumps(key)} = {toml_text(value)}" for key, value in document.items()]
    (tmp_path / "spec.TOML").write_text("\n".join(lines), encoding="utf-8-sig")
    first = load_spec(document)
    for file in ("spec.json", "spec.TOML"):
        assert read_file(tmp_path / file) == document
        assert load_spec(tmp_path / file) == sweeps.load(tmp_path / file) == first
        assert load_spec(str(tmp_path / file)).digest == first.digest


def test_toml_as_a_person_writes_it_is_checked(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.toml").write_text(TOML)
    assert sweeps.load(tmp_path / "mine.toml").privacy.epsilon == (1, 2)
    assert read_file(tmp_path / "mine.toml")["x-shared"] == {"anything": "2026-01-01"}
    monkeypatch.setattr(sys, "argv", ["sweeps", "check", str(tmp_path / "mine.toml"), "--no-rehearsal"])
    cli.app(sys.argv[1:], standalone_mode=False)
    assert "mine" in capsys.readouterr().out


def test_the_errors_are_those_of_yaml(tmp_path):
    document = read_document((EXAMPLES / "toy.yaml").read_text()) | {"privacy": {"epsilon": 0, "delat": 1}}
    said = []
    for file in ("spec.json", "spec.yaml"):
        (tmp_path / file).write_text(json.dumps(document))
        with pytest.raises(SpecErrors) as refused:
            load_spec(tmp_path / file)
        said.append(refused.value.errors)
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("a.json", '{"name": "a",\n "systems": }', "line 2"),
        ("a.json", '{"name": "a", "name": "b"}', "each key once"),
        ("a.json", "[" * 100_000, "levels"),
        ("a.json", '{"systems": ' + "[" * 60 + "]" * 60 + "}", "levels"),
        ("a.json", '{"systems": ' + "9" * 5000 + "}", "digits"),
        ("a.json", "", "valid JSON"),
        ("a.toml", 'name = "a"\nsystems = \n', "line 2"),
        ("a.toml", 'name = "a"\nname = "b"', "Only the last of two"),
        ("a.toml", "systems = " + "9" * 5000, "digits"),
        ("a.toml", "systems = " + "[" * 60 + "]" * 60, "levels"),
        ("a.toml", "name: a", "valid TOML"),
        ("a.toml", "", "this section"),
    ],
)
def test_a_broken_file_is_refused_in_words(file, text, expected, tmp_path):
    (tmp_path / file).write_text(text)
    with pytest.raises(SpecErrors, match=expected) as refused:
        load_spec(tmp_path / file)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("file", ["a.json", "a.toml", "a.yaml"])
def test_bytes_that_are_no_text_are_refused(file, tmp_path):
    (tmp_path / file).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidValue, match="text in UTF-8"):
        load_spec(tmp_path / file)


ANCHORED = """
x-clip: &clip {uniform: [0.2, 1.0]}
name: mine
data: {source: uniform, n: 1000}
systems: {noisy-mean: {clip: *clip}}
privacy: {epsilon: 1, delta: 1.0e-5}
objectives: [{metric: expected_error}]
search: {sampler: random, trials: 3}
"""


def test_sections_for_anchors_say_nothing():
    spec = load_spec(ANCHORED)
    without = {key: value for key, value in read_document(ANCHORED).items() if key != "x-clip"}
    assert spec == load_spec(without)
    assert "x-" not in json.dumps(spec.canonical())
    jsonschema.validate(read_document(ANCHORED), spec_schema())
    with pytest.raises(SpecErrors, match="a section of a spec"):
        load_spec(ANCHORED.replace("x-clip:", "xclip:"))
    with pytest.raises(SpecErrors, match="a hyperparameter of noisy-mean"):
        load_spec(ANCHORED.replace("{clip: *clip}", "{x-clip: *clip}"))


def test_a_password_is_refused_there_too():
    with pytest.raises(SpecErrors, match="without a password") as refused:
        load_spec(ANCHORED + "x-store: postgresql://me:hunter22secret@host/db\n")
    assert "hunter22secret" not in str(refused.value)


URI = "http://me:hunter22secret@127.0.0.1:9"


def test_the_variable_of_mlflow_is_the_default_of_tracking(monkeypatch, tmp_path):
    monkeypatch.delenv("SWEEPS_TRACKING", raising=False)
    assert places(tmp_path).tracking is None
    monkeypatch.setenv("MLFLOW_TRACKING_URI", URI)
    assert places(tmp_path).tracking == URI
    assert places(tmp_path, tracking="http://other").tracking == "http://other"
    monkeypatch.setenv("SWEEPS_TRACKING", "http://ours")
    assert places(tmp_path).tracking == "http://ours"


def test_what_it_says_is_refused_as_the_option_is_and_without_its_password(monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("SWEEPS_TRACKING", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", URI.replace("http", "gopher"))
    monkeypatch.setattr(sys, "argv", ["sweeps", "track", "none", "--root", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = "".join(capsys.readouterr())
    assert ended.value.code == 2
    assert "MLFLOW_TRACKING_URI" in said
    assert "hunter22secret" not in said


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [1", "expected valid YAML"),
        ("nothing", "document='a text'"),
        ("systems: {}\nextra: 1", "a section of a spec"),
    ],
)
def test_a_refusal_names_the_file(text, told, tmp_path):
    """Text that cannot be read, a document that is no spec, and a spec with errors, whoever reads it."""
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    for load in (load_spec, sweeps.load):
        with pytest.raises(SpecErrors, match=r"^[0-9]+ errors? in ") as refused:
            load(str(path))
        assert str(refused.value).partition("\n")[0].endswith(f" in {path}:")
        assert told in str(refused.value)
