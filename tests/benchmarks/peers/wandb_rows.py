"""W&B sweeps: their controller is W&B's server, so that without an account no sweep could be made here.

What its own help says is told as that. `SWEEPS_WANDB` names a Python that has wandb.
"""

from __future__ import annotations

import os
import subprocess

from tests.benchmarks.peers.rows import NotThere, Row

TRIED = """
import os
os.environ["WANDB_MODE"] = "offline"
import wandb
wandb.sweep({"method": "random", "parameters": {"x": {"min": 0.0, "max": 1.0}}}, project="p")
"""
BY_ITS_HELP = {
    Row.KILLED: "`wandb sweep --resume` asks for new runs; a run goes on by its user's `wandb.init(resume=...)`",
    Row.EXTENDED: "`wandb sweep --update`, `-R RUN` for runs done before",
    Row.STOPPED: "`wandb sweep --stop | --pause | --resume`",
    Row.NOTED: "notes and tags of runs, on its page and by `wandb.init`",
}


def tried() -> str:
    """What making a sweep without its server ends with."""
    python = os.environ.get("SWEEPS_WANDB")
    if python is None:
        return "not tried: SWEEPS_WANDB names no Python that has wandb"
    made = subprocess.run([python, "-c", TRIED], capture_output=True, text=True, timeout=120)
    assert made.returncode, "a sweep was made without W&B's server: try the rows"
    return f"`wandb.sweep` offline ends with: {(made.stderr or made.stdout).strip().splitlines()[-1]}"


def said(row: Row) -> str:
    """What its help says of a row. Raises NotThere where it says nothing."""
    if row not in BY_ITS_HELP:
        raise NotThere("not tried")
    return f"by its help: {BY_ITS_HELP[row]}"
