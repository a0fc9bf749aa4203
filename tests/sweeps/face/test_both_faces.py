"""The command line and `import sweeps` can do the same: each command's options against its call's arguments."""

from __future__ import annotations

import inspect

import pytest

import sweeps
from sweeps.sweep import ParetoFront
from tests.sweeps.cli.test_command_line import commands

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
PRESENTATION = {
    "as_json",  # values are values
    "yes",  # a terminal is asked
    "why",  # `print` of a sweep says it
    "quiet",  # how a command speaks; a call is quiet, and raises
    "verbose",
    "log",
    "progress",  # a terminal is always shown it
    "output",  # of `export`, `certify` and `predict`: what a call returns is written by its own method
    "path",  # of `ParetoFront.write`: --output
    "self",
    "say",  # a command prints it
    "systems",  # objects; a spec says `module:object`
    "sources",  # likewise
    "mlflow",  # a front that MLflow alone has
    "shadows",  # an attack, without a verdict
    "page",  # of `show`: a table has all of them
    "curves",  # of `show`: a method
    "watch",  # a call says how it stands now
    "every",
    "format",  # a table of pandas and a front write themselves
}


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
