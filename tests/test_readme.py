"""What README.md shows of Python and of specs is run as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import sweeps

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def shown(language: str) -> list[str]:
    """Every fenced block of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def test_the_script_goes_from_a_file_to_a_model_and_what_it_says_of_new_rows(tmp_path):
    [script] = shown("python")
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "6 trials by random" in done.stdout
    said = done.stdout.splitlines()[-6:]
    assert said[0].split() == ["prediction", "probability.low", "probability.high"]
    assert {line.split()[1] for line in said[1:]} <= {"low", "high"}
    assert {one.name for one in (tmp_path / "incomes-model").iterdir()} >= {"weights.safetensors", "program.pt2"}
    # More than the larger class alone gives.
    assert sweeps.open("incomes", root=tmp_path / ".sweeps").best().metrics["accuracy"] > 0.8


def test_the_spec_of_a_table_is_one():
    whole, *_ = shown("yaml")
    assert sweeps.load(whole).name == "mine"
