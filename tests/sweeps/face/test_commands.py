"""The command line as a whole, and that `import sweeps` can do the same: each command's options against its call's."""

from __future__ import annotations

import inspect
import json

import pytest
import typer

import sweeps
from dpcore.events import Adjacency
from dpcore.guarantee import Notion, Status
from sweeps.cli.main import app
from sweeps.privacy.ledger import CLAIM_KIND
from sweeps.reporting.terminal import GLOSSARY
from sweeps.store.records import TrialState
from sweeps.sweep import ParetoFront


def commands(group=None, before=""):
    """{words: command}, subcommands included."""
    found = {}
    for name, command in (group or typer.main.get_command(app)).commands.items():
        words = f"{before}{name}"
        found |= commands(command, f"{words} ") if hasattr(command, "commands") else {words: command}
    return found


def test_one_system_is_listed_alone(command):
    assert [one["name"] for one in json.loads(command("systems", "noisy-sgd", "--json")[1])] == ["noisy-sgd"]
    assert len(json.loads(command("systems", "--json")[1])) > 20
    shown = command("systems", "noisy-sgd")[1]
    assert ("clip_norm" in shown, "noisy-adam" in shown) == (True, False)
    assert "noisy-sgd" in command("systems", "noisy-sdg")[2]


# Both faces.

CALLS = {
    "init": [sweeps.init],
    "check": [sweeps.check],
    "run": [sweeps.run],
    "resume": [sweeps.resume],
    "show": [sweeps.open, sweeps.list_sweeps, sweeps.Sweep.trials, sweeps.Sweep.curves, sweeps.Sweep.describe],
    "pareto": [sweeps.pareto, ParetoFront.write],
    "report": [sweeps.open, sweeps.Sweep.report],
    "track": [sweeps.open, sweeps.Sweep.track],
    "audit": [sweeps.open, sweeps.Sweep.audit],
    "certify": [sweeps.open, sweeps.Sweep.certify, sweeps.verify, sweeps.new_key],
    "test": [sweeps.open, sweeps.Sweep.test],
    "budget": [sweeps.population_budget, sweeps.list_budgets],
    "stop": [sweeps.open, sweeps.Sweep.stop],
    "enqueue": [sweeps.open, sweeps.Sweep.enqueue],
    "rename": [sweeps.open, sweeps.Sweep.rename],
    "delete": [sweeps.open, sweeps.Sweep.delete],
    "note": [sweeps.open, sweeps.Sweep.note],
    "tag": [sweeps.open, sweeps.Sweep.tag],
    "gc": [sweeps.open, sweeps.Sweep.gc],
    "export": [sweeps.open, sweeps.Sweep.model, sweeps.Sweep.register],
    "predict": [sweeps.predict],
    "explain": [sweeps.explain],
}
"""{command: the calls that do the same}."""
COMMANDS_ALONE = {
    "reproduce", "submit", "systems", "datasets", "schema",
    "account epsilon", "account delta", "account noise", "account steps",
}  # fmt: skip
"""What Python has no call for yet. It only gets shorter."""
# How a command speaks, to whom, and where it writes: values are values, a call is quiet and raises, and what it returns
# is written by its own method.
PRESENTATION = {
    "as_json",
    "yes",
    "why",
    "quiet",
    "verbose",
    "log",
    "progress",
    "output",
    "path",
    "self",
    "say",
    "format",
}
# Objects in Python; a front that MLflow alone has; an attack without a verdict; and pages, curves and looks of `show`.
PRESENTATION |= {"systems", "sources", "mlflow", "shadows", "page", "curves", "watch", "every", "format"}


def arguments(calls):
    return {name for call in calls for name in inspect.signature(call).parameters} - PRESENTATION


@pytest.mark.parametrize("command", CALLS)
def test_no_option_is_of_one_face_alone(command):
    options = {one.name for one in commands()[command].params} - PRESENTATION
    calls = arguments(CALLS[command])
    # Opening takes a place that a command may have no use for.
    assert options - calls == set()
    assert calls - options - {"tracking"} == set()


def test_every_command_is_there_or_on_the_list():
    assert set(commands()) == CALLS.keys() | COMMANDS_ALONE


# `sweeps explain`: every word that stands beside a number is explained, shortly, by words that are explained too.


def test_every_word_beside_a_number_is_explained():
    wanted = {"epsilon", "claim", "total", "ledger", "front", "hypervolume", "budget", *CLAIM_KIND}
    wanted |= {str(word) for kind in (Status, Notion, Adjacency) for word in kind} | {str(TrialState.INFEASIBLE)}
    assert wanted - GLOSSARY.keys() == set()


def test_a_word_is_found_however_it_is_written_and_without_one_all_are_listed(command):
    assert command("explain", "Epsilon")[1] == f"{GLOSSARY['epsilon']}\n" == f"{sweeps.explain('epsilon')}\n"
    assert sweeps.explain("noise_multiplier") is sweeps.explain("Noise multiplier")
    assert json.loads(command("explain", "claim", "--json")[1])["see"] == ["total", "epsilon", "status", "assumption"]
    assert "Did you mean `adjacency`?" in command("explain", "adjacancy")[2]
    assert command("explain")[1].splitlines()[0].split(", ") == list(GLOSSARY)
