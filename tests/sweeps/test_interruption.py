"""What is said at Ctrl-C is said as the command speaks."""

from __future__ import annotations

import json
import signal

import pytest

from sweeps.control.interruption import Interruption
from sweeps.process.words import Level, Voice, speaking

SAID = "Stopping; once more to end at once."


def interrupted(voice: Voice) -> None:
    with speaking(voice), pytest.raises(KeyboardInterrupt), Interruption():
        signal.raise_signal(signal.SIGINT)


def test_an_interruption_is_said_to_people_to_machines_and_not_by_a_quiet_command(capfd):
    interrupted(Voice())
    assert capfd.readouterr().err == f"\n{SAID}\n"
    interrupted(Voice(as_json=True))
    told = json.loads(capfd.readouterr().err)
    assert (told["event"], told["level"], told["text"].strip()) == ("notice", "info", SAID)
    interrupted(Voice(least=Level.WARNING))
    assert capfd.readouterr().err == ""
