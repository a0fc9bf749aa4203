"""Documents that no spec can be: refused at once, with their line, and never by what Python gives up on."""

from __future__ import annotations

import json
import sys
import time

import pytest

from sweeps.cli import main as cli
from sweeps.spec import SpecErrors, load_spec
from sweeps.spec.documents import DEEPEST, LONGEST_NUMBER, read_yaml
from sweeps.spec.problems import Problems

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
REFUSED = {
    "brackets": ("a: " + "[" * 5000 + "]" * 5000, "levels"),
    "indented": ("\n".join(" " * depth + "a:" for depth in range(3000)), "levels"),
    "json": (json.dumps({"a": 1}).replace("1", "[" * 3000 + "]" * 3000), "levels"),
    "bomb": (BOMB, "aliases written out"),
    "loop": ("a: &a [*a]", "values that end"),
    "digits": ("n: " + "9" * 5000, "digits"),
    "sixties": ("n: !!int '" + "1:" * 5000 + "1'", "digits"),
    "date": ("a: !!timestamp 2020-99-99", "fit their tags"),
    "object": ("!!python/object/apply:os.system ['true']", "valid YAML"),
    "sign": ("a: \0", "valid YAML"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_it_is_refused_at_once_and_in_words(kind):
    text, expected = REFUSED[kind]
    began = time.process_time()
    with pytest.raises(SpecErrors, match=expected) as caught:
        load_spec(text + "\n")
    assert time.process_time() - began < 5
    assert len(str(caught.value)) < 1000


def test_what_people_write_is_read():
    deep = "a: " + "[" * (DEEPEST - 2) + "]" * (DEEPEST - 2)
    shared = "a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]"
    for text in (deep, shared, "n: " + "9" * LONGEST_NUMBER):
        assert read_yaml(text, problems := Problems()) is not None
        assert problems.errors == []
    assert read_yaml(shared, Problems())["b"] == {"x": 1, "y": 2}


@pytest.mark.parametrize("kind", ["brackets", "bomb", "digits"])
@pytest.mark.parametrize("by", ["file", "--set"])
def test_the_command_ends_with_2(kind, by, tmp_path, monkeypatch, capsys):
    text, expected = REFUSED[kind]
    (tmp_path / "spec.yaml").write_text(text)
    words = ["spec.yaml"] if by == "file" else ["toy", "--set", f"name={text.partition(': ')[2]}"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["sweeps", "check", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert expected in capsys.readouterr().err or (kind, by) == ("bomb", "--set")
