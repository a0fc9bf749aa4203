"""A plan is read where nobody has imported its system: every kind of mechanism is found by its word alone."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

from dpcore.mechanisms import protocol

ROOT = Path(__file__).parents[3]


def declared() -> dict[str, str]:
    """{kind: module} of every `@mechanism(kind)` in dpcore, read from the files."""
    found = {}
    for path in (ROOT / "dpcore").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for call in getattr(node, "decorator_list", []):
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "mechanism":
                    found[ast.literal_eval(call.args[0])] = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return found


def test_every_kind_of_ours_says_where_it_lives() -> None:
    assert declared() == protocol._HOMES


def test_a_process_that_imported_no_system_reads_what_was_written() -> None:
    noisy = {"kind": "soft-vote", "beta": 0.5, "models": 3, "classes": 2, "steps": 4}
    noisy["adjacency"] = {"kind": "adjacency", "value": "replace-one"}
    script = (
        "import json, sys; from dpcore.mechanisms import protocol; "
        "print(json.dumps(protocol.to_dict(protocol.from_dict(json.loads(sys.argv[1])))))"
    )
    command = [sys.executable, "-c", script, json.dumps(noisy)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    assert json.loads(done.stdout) == noisy
