"""What README.md shows of Python and of specs is run as it stands there; commands and links of all pages are there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import sweeps
from sweeps.cli.main import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = [*sorted((ROOT / "sweeps/guide").glob("*.md")), ROOT / "tests/benchmarks/README.md"]
ROOMS = ("dpcore", "trainables", "sweeps", "infra")
PAGES = [ROOT / "README.md", *GUIDE, *(ROOT / room / "README.md" for room in ROOMS)]


def shown(language: str) -> list[str]:
    """Every fenced block of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def test_the_script_goes_from_a_file_to_a_model_and_what_it_says_of_new_rows(tmp_path):
    [script] = shown("python")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "6 trials · random" in done.stdout
    said = done.stdout.splitlines()[-6:]
    assert said[0].split() == ["prediction", "probability.low", "probability.high"]
    assert {line.split()[1] for line in said[1:]} <= {"low", "high"}
    assert {one.name for one in (tmp_path / "incomes-model").iterdir()} >= {"weights.safetensors", "program.pt2"}
    # More than the larger class alone gives.
    assert sweeps.open("incomes", root=tmp_path / ".sweeps").best().metrics["accuracy"] > 0.8


def test_the_spec_of_a_table_is_one():
    whole, *_ = shown("yaml")
    assert sweeps.load(whole).name == "mine"


def _commands() -> list[tuple[str, list[str]]]:
    """(page, words) of every `sweeps` command line that stands in an indented block."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"^    \.venv/bin/sweeps .*$", text, flags=re.MULTILINE):
            for part in re.split(r"&&|(?<= )#|;|\s&\s", line):
                if ".venv/bin/sweeps " in part:
                    found.append((page.name, shlex.split(part.partition(".venv/bin/sweeps ")[2], comments=True)))
    return found


@pytest.mark.parametrize(("page", "words"), _commands(), ids=lambda one: one if isinstance(one, str) else " ".join(one))
def test_every_command_of_the_pages_and_its_options_are_there(page, words):
    command, rest = typer.main.get_command(app), list(words)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert [word for word in rest if re.match(r"-{1,2}[a-z]", word) and word not in known] == []


def test_every_link_of_the_pages_leads_somewhere_and_the_first_page_names_each_other_one():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page.name, target)
    assert all(f"({page.relative_to(ROOT)})" in README for page in GUIDE)


@pytest.mark.parametrize("floor", ROOMS[:3])
def test_every_file_that_a_floor_s_page_names_is_there(floor):
    named = re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", (ROOT / floor / "README.md").read_text(encoding="utf-8"))
    assert [one for one in named if not (ROOT / one).exists() and not any((ROOT / floor).rglob(one))] == []
