"""Passwords among the arguments of a command leave the list of processes, which everybody on the machine can read.

Ray reads that list too: it keeps the command line of each driver, and its dashboard shows it.
"""

from __future__ import annotations

import json
import os
import sys

from trainables.worker.redaction import HIDDEN, holds_secret

VARIABLE = "SWEEPS_ARGUMENTS"
"""Hands the arguments on from a process to itself; only its owner can read a process's environment."""


def hide_passwords() -> None:
    """Start this process's program anew, in this very process, where a URL with a password is an argument.

    The list of processes then shows *** in place of the argument, and `sys.argv` is what was given. Nothing happens
    where no argument holds a secret, or where this is not the command line of the process.
    """
    if (given := os.environ.pop(VARIABLE, None)) is not None:
        sys.argv[1:] = json.loads(given)
        return
    own = sys.argv[1:]
    if not any(map(holds_secret, own)) or sys.orig_argv[len(sys.orig_argv) - len(own) :] != own:
        return
    os.environ[VARIABLE] = json.dumps(own)
    before = sys.orig_argv[1 : len(sys.orig_argv) - len(own)]
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *before, *(HIDDEN if holds_secret(one) else one for one in own)])
