"""Every printed number says whether it may be quoted; what an audit refuted is printed nowhere as a guarantee."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import sweeps
from dpcore.guarantee import Notion, Status
from sweeps.cli import run as running
from sweeps.cli.main import app
from sweeps.execution.session import SweepEnd
from sweeps.export import ModelCard
from sweeps.mlflow.read import read_front
from sweeps.mlflow.sync import rebuild
from sweeps.privacy import wording
from sweeps.privacy.ledger import ONE_TRIAL, Choice
from sweeps.privacy.release import PublishedStore, apply_refutations, was_published
from sweeps.privacy.totals import summary
from sweeps.privacy.wording import Verdict, quote_of_claim, quote_of_metric, quote_of_total
from sweeps.reporting.html import write_report
from sweeps.spec.parse import load_spec, public_facts
from sweeps.store.records import Refutation
from sweeps.store.workspace import Workspace
from tests.sweeps import view_sweeps
from tests.sweeps.test_ledger import entry, guarantee, plan, trial
from tests.sweeps.view_sweeps import claiming
from trainables.metrics import Dependence

EPSILON = 1.7531
"""That the refuted code claims: of no other trial."""
STANDS = "model-sensitivity"


# -- the walk ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A finished sweep of two systems: trials 0 and 2 run code that an audit of trial 2 refuted."""
    tmp_path = tmp_path_factory.mktemp("refuted")
    store = view_sweeps.new_sweep(tmp_path)
    lease = store.acquire("views")
    for number in range(3):
        changes = {"epsilon": EPSILON, "aimed_at": 2.0} if number % 2 == 0 else {"assumptions": (ONE_TRIAL,)}
        complete(store, lease, number, **changes)
    store.set_state(lease, "finished")
    lease.release()
    store.ask("views", Refutation(trial="views-2", system="noisy-sgd", audit=1), "me@here")
    store.close()
    return Workspace.at(tmp_path)


def complete(store, lease, number, epsilon=0.5, **changes):
    config = view_sweeps.config_of(number, "noisy-sgd" if number % 2 == 0 else STANDS)
    claim = view_sweeps.guarantee(epsilon, **changes)
    planned = replace(view_sweeps.plan(config, 9.0), guarantee=claim)
    store.launch(lease, view_sweeps.Proposal(number=number, config=config, seed=number), planned, 10)
    came = {"metrics": {"accuracy": 0.9 - number / 100, "epsilon": epsilon}, "guarantee": claim, "seconds": 0.5}
    store.settle(lease, f"views-{number}", 1, view_sweeps.Settlement(executed_to=10, step=10, **came))


def said(workspace, *words):
    found = CliRunner().invoke(app, [*words, "--root", workspace.root], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    return found.stdout


def card(workspace):
    spec = load_spec({**SPEC, "name": "views"})
    store = PublishedStore.open(workspace)
    [record] = store.trials_of("views", ["views-0"])
    return record, ModelCard(store, "views", record, public_facts(spec))


SPEC = {
    "data": {"source": "digits"},
    "systems": {
        "noisy-sgd": {"model": "linear", "learning_rate": 0.5, "clip_norm": 1.0, "batch_size": 200, "epochs": 1}
    },
    "privacy": {"epsilon": 2.0, "delta": 1e-5},
    "objectives": [{"metric": "accuracy"}],
    "search": {"sampler": "random", "trials": 1},
}


def ended(workspace):
    """What `run` prints at its end."""
    from rich.console import Console

    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    end = SweepEnd(sweep="views", state="finished", counts={"complete": 3}, seconds=1.0, ranked=3)
    running._summary("views", workspace, end, console)
    return console.export_text()


def tracked(workspace):
    """Tags, as MLflow's page shows them of each run, a run a line."""
    from mlflow import MlflowClient

    rebuild(PublishedStore.open(workspace), "views", workspace.tracking_uri, workspace.folder("views"))
    client = MlflowClient(workspace.tracking_uri)
    runs = client.search_runs([client.get_experiment_by_name("views").experiment_id])
    lines = [json.dumps({**run.data.metrics, **run.data.tags}, sort_keys=True) for run in runs]
    assert len(lines) == 4
    fallen = wording.is_refuted(PublishedStore.open(workspace).trials("views")[0])
    assert read_front(workspace.tracking_uri, "views").excluded.get("refuted", 0) == 2 * fallen
    [parent] = [run for run in runs if "sweeps.parent" in run.data.tags]
    assert parent.data.metrics["best accuracy"] == BEST[fallen]
    return "\n".join(lines)


BEST = {True: 0.89, False: 0.9}
"""Of the trials that stand; of all."""


def page(workspace):
    """The report, a row or a box a line; its charts' words too."""
    path = write_report(PublishedStore.open(workspace), "views", workspace.report("views"))
    text = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", path.read_text(), flags=re.DOTALL)
    charts = json.loads(re.search(r'id="figures">(.*?)</script>', text, re.DOTALL)[1])
    text = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    rows = re.sub(r"</tr><tr id=\"plan", '<tr id="plan', text)
    lines = [
        " ".join(re.sub(r"<[^>]+>", " ", one).split())
        for one in re.split(r"</tr>|</div></div>|<h2>|<div class=.card", rows)
    ]
    hovers = [h for one in charts.values() for trace in one["data"] for h in trace.get("hovertext") or [] if h]
    return "\n".join([*lines, *hovers])


def flat(value, found=()):
    """Each object of a document that has an epsilon of its own, a line each."""
    if isinstance(value, dict):
        own = {name: one for name, one in value.items() if not isinstance(one, dict | list)}
        inner = [line for one in value.values() for line in flat(one)]
        status = {"status": value.get("rests_on", value.get("status", "")), **own}
        return [*([json.dumps(status)] if "epsilon" in value else []), *inner]
    return [line for one in value for line in flat(one)] if isinstance(value, list) else []


def rows_of(table):
    return "\n".join(json.dumps(row, default=str) for row in table.to_dict("records"))


PRINTERS = {
    "run's end": ended,
    "show": lambda w: said(w, "show", "views"),
    "show --json": lambda w: "\n".join(flat(json.loads(said(w, "show", "views", "--json")))),
    "show --format csv": lambda w: said(w, "show", "views", "--format", "csv"),
    "show TRIAL": lambda w: said(w, "show", "views", "0"),
    "show TRIAL --json": lambda w: "\n".join(flat(json.loads(said(w, "show", "views", "0", "--json")))),
    "pareto": lambda w: said(w, "pareto", "views"),
    "pareto --json": lambda w: "\n".join(flat(json.loads(said(w, "pareto", "views", "--json")))),
    "pareto --format csv": lambda w: said(w, "pareto", "views", "--format", "csv"),
    "pareto, refuted ones too": lambda w: said(
        w, "pareto", "views", "--as-refuted", "--mix", "status", "--format", "csv"
    ),
    "report": page,
    "MLflow": tracked,
    "card": lambda w: card(w)[1].page(),
    "card.json": lambda w: "\n".join(flat(card(w)[1].to_dict())),
    "Sweep": lambda w: str(sweeps.open("views", root=w.root)),
    "Sweep in a notebook": lambda w: sweeps.open("views", root=w.root)._repr_html_().replace("<br>", "\n"),
    "Sweep.trials": lambda w: rows_of(sweeps.open("views", root=w.root).trials()),
    "Sweep.front": lambda w: rows_of(sweeps.open("views", root=w.root).front().table(everything=True)),
    "front in a notebook": lambda w: sweeps.open("views", root=w.root).front()._repr_html_().replace("</tr>", "\n"),
    "Sweep.describe": lambda w: str(sweeps.open("views", root=w.root).describe(0)),
}
ONLY_WHAT_STANDS = {"run's end", "pareto", "pareto --json", "pareto --format csv", "Sweep.front", "front in a notebook"}
NUMBER = re.compile(r"(?<![\d.])1\.7(53|54)\d*(?!\d)")


def offered(text):
    """Lines that have the refuted number and do not say so, or offer it."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    wanted = [line for line in lines if NUMBER.search(line)]
    return [
        line for line in wanted if "refuted" not in line.lower() or re.search(r"may be quoted|proved", line)
    ]  # fmt: skip


@pytest.mark.parametrize("name", PRINTERS)
def test_no_printer_offers_what_an_audit_refuted(name, workspace):
    text = PRINTERS[name](workspace)
    assert offered(text) == []
    assert (NUMBER.search(text) is None) == (name in ONLY_WHAT_STANDS), "it is looked for where it is printed"
    assert "It covers all results" not in text, "the total counts what is refuted"


def test_what_stands_beside_it_may_be_quoted_all_the_same(workspace):
    assert "may be quoted as one trial's" in said(workspace, "show", "views", "--why")
    front = json.loads(said(workspace, "pareto", "views", "--json"))
    assert front["excluded"] == {"refuted": 2}
    assert not front["procedure"]["is_claim"]
    assert sweeps.open("views", root=workspace.root).best().number == 1


# -- the judgement ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({}, Verdict.WITH, "as one trial's"),
        ({"status": Status.PROVED_UNDER_ASSUMPTIONS}, Verdict.WITH, "as one trial's"),
        ({"notion": Notion.EX_POST}, Verdict.WITH, "as one trial's ex-post-privacy"),
        ({"assumptions": ("The records are public (digits): a demonstration.",)}, Verdict.WITH, "as a demonstration"),
        ({"epsilon": math.inf}, Verdict.NO, "no guarantee"),
        ({"status": Status.ASSERTED, "asserted_by": "lab"}, Verdict.NO, "no guarantee: asserted by lab"),
        ({"status": Status.REFUTED, "epsilon": math.inf}, Verdict.REFUTED, "refuted"),
        *(
            ({"status": one}, Verdict.NO, f"no guarantee: {one}")
            for one in Status
            if one not in (Status.PROVED, Status.PROVED_UNDER_ASSUMPTIONS, Status.REFUTED, Status.ASSERTED)
        ),
    ],
)
def test_a_claim_is_quoted_by_its_status(changes, verdict, words):
    quote = quote_of_claim(replace(guarantee(), **changes))
    assert (quote.verdict, quote.words) == (verdict, words)
    assert quote.sentence


def test_a_total_is_quoted_by_what_let_results_choose():
    def of(*choices, rests_on=(), **changes):
        fallen = replace(plan(), guarantee=replace(guarantee(), **changes))
        total = summary([replace(trial(0), plan=fallen)], [entry()], choices, rests_on).procedure
        assert total.is_claim == (quote_of_total(total).verdict in (Verdict.YES, Verdict.WITH))
        return quote_of_total(total).verdict

    chosen = Choice(what="tpe chose", instead="")
    assert of() is Verdict.YES
    assert of(rests_on=("That only 1 of 2 ended was not decided by results.",)) is Verdict.WITH
    assert of(chosen) is Verdict.NO
    assert of(status=Status.ASYMPTOTIC) is Verdict.NO
    assert of(status=Status.REFUTED) is of(chosen, status=Status.REFUTED) is Verdict.REFUTED


@pytest.mark.parametrize(
    ("depends", "verdict", "under_refuted"),
    [
        (Dependence.PUBLIC, Verdict.YES, Verdict.YES),
        (Dependence.RELEASED, Verdict.WITH, Verdict.REFUTED),
        (Dependence.VALIDATION, Verdict.WITH, Verdict.REFUTED),
        (Dependence.SIDE_CHANNEL, Verdict.NO, Verdict.NO),
        (Dependence.RAW, Verdict.NO, Verdict.NO),
        (None, Verdict.NO, Verdict.NO),
    ],
)
def test_a_metric_is_quoted_by_what_it_depends_on(depends, verdict, under_refuted):
    one, fallen = claiming(0), claiming(0, status=Status.REFUTED)
    assert quote_of_metric(depends, one).verdict is verdict
    assert quote_of_metric(depends, fallen).verdict is under_refuted
    bounding_nothing = quote_of_metric(depends, claiming(0, status=Status.AVERAGE_CASE))
    assert bounding_nothing.verdict is (Verdict.YES if depends is Dependence.PUBLIC else Verdict.NO)


def test_a_view_judges_a_metric_as_each_of_its_trials_does():
    def made(number, system, **changes):
        base = claiming(number, epsilon=2.0 + number % 2)
        config = {**base.config, "system": system, **changes}
        metrics = {"accuracy": 0.9, "steps_taken": 3.0, "seconds": 1.0} if number % 3 else {"accuracy": 0.9}
        return replace(base, config=config, plan=replace(base.plan, config=config), metrics=metrics)

    stopped = "average-case-sgd"
    trials = [
        *(made(number, stopped, distances=["training", "held-out"][number // 3]) for number in range(6)),
        *(made(number, "noisy-sgd") for number in range(6)),
        made(1, "of-nobody"),
    ]
    names = ["accuracy", "steps_taken", "seconds", "epsilon", "unknown"]
    each = [
        (name, quote_of_metric(wording.dependence(one, name), one))
        for one in trials
        for name in names[:3]
        if name in one.metrics
    ]
    expected = {name: tuple(dict.fromkeys(quote for about, quote in each if about == name)) for name in names[:3]}
    assert wording.metric_quotes(trials, names) == expected
    assert {wording.dependence(one, "accuracy") for one in trials[:6]} == {Dependence.RAW, Dependence.VALIDATION}
    assert [len(found) for found in expected.values()] == [3, 3, 1]


def test_what_stands_beside_a_refuted_plan_falls_with_it():
    """The same code is claimed under other notions there."""
    claims = guarantee(1.0), guarantee(2.0)
    record = was_published(replace(trial(0), plan=replace(plan(), beside=claims)))
    by = Refutation(trial="a-0", system=record.system, audit=1)
    [found] = apply_refutations([record], {record.system: by})
    assert [one.status for one in (found.guarantee, found.plan.guarantee, *found.plan.beside)] == [Status.REFUTED] * 4
