"""Reproductions: published numbers against ours, and sweeps that are made from packaged rows."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dpcore.checks import InvalidValue
from sweeps.cli import main as cli
from sweeps.cli.reproduce import reproduce_command
from sweeps.papers import PAPERS, Claim, Effort, Result, bu2020, reproduce, run
from sweeps.papers.run import full_grid, swept
from sweeps.papers.statements import hold
from sweeps.store.workspace import Workspace
from trainables.data import SOURCES
from trainables.registry import SYSTEMS
from trainables.system import PrivacyPlan


@pytest.fixture(scope="module")
def claims() -> dict:
    return {claim.claim: claim for row in bu2020.ROWS for claim in told("accounting", bu2020.accounting(row))}


def told(group: str, values: dict, why: str = "") -> list[Claim]:
    return hold(bu2020.PAPER.statements[group], values, why)


def test_printed_mu_and_clt_epsilons_are_met(claims: dict) -> None:
    """Bu et al. 2020, Tables 1-4: every printed digit."""
    printed = [claim for name, claim in claims.items() if name.endswith((": mu", ": epsilon by the CLT"))]
    assert len(printed) == 18
    assert all(claim.holds for claim in printed)


def test_the_clt_is_a_bound_in_the_last_row_of_table_1_alone(claims: dict) -> None:
    """theory.md section 6(c): rows 1-5 lie below the certified lower bound, row 6 (31.12 against 28.05) above."""
    bounds = {name: claim.holds for name, claim in claims.items() if "upper bound" in name}
    assert [name for name, holds in bounds.items() if holds] == [
        "Table 1 (MNIST), mnist-6: the CLT's epsilon is an upper bound"
    ]


def test_a_wrong_rate_would_be_noticed() -> None:
    """Mutant: batch 250 instead of 256 moves mu out of its printed digits."""
    broken = bu2020.accounting(replace(bu2020.ROWS[2], rate=(250, 60000)))
    assert not told("accounting", broken)[0].holds


@pytest.mark.parametrize("row", bu2020.ROWS, ids=lambda row: row.id)
def test_every_row_is_a_valid_sweep_that_plans(row, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    for folder in ("mnist", "a9a", "imdb", "movielens_1m"):
        (tmp_path / folder).mkdir()
    spec = full_grid(bu2020.sweep_of(row, tmp_path))
    facts = SOURCES[spec.data.source].facts(spec.data.options())
    knobs = dict(spec.systems[row.system])
    plan = SYSTEMS[row.system].plan(knobs, facts, spec.privacy.target(spec.privacy.epsilon[0]), {})
    assert isinstance(plan, PrivacyPlan), plan
    assert plan.guarantee.epsilon < row.published["epsilon_ma"]


def test_training_claims_hold_within_the_agreement() -> None:
    (good,), (bad,) = (told("training", bu2020.training(bu2020.ROWS[0], trained)) for trained in (0.9565, 0.942))
    assert good.holds
    assert not bad.holds
    assert good.claim.endswith("accuracy within 0.007")
    (none,) = told("training", bu2020.training(bu2020.ROWS[0]), "no result")
    assert (none.holds, none.note) == (None, "no result")
    assert none.claim.endswith("accuracy")


def test_without_data_nothing_is_trained_and_the_cut_is_said(tmp_path: Path) -> None:
    result = reproduce("bu2020", None, Workspace.at(tmp_path), Effort(), print)
    assert len(result.cut) == len(bu2020.ROWS) == 9
    rows = json.loads(json.dumps(result.to_dict()))["rows"]
    assert {"claim", "published", "ours", "holds", "note"} == set(rows[0])
    assert sum(row["holds"] is None for row in rows) == 9
    assert not list(tmp_path.iterdir())


def test_unknown_papers_and_grids_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="bu2020"):
        reproduce("bu2021", None, Workspace.at(tmp_path), Effort(), print)
    with pytest.raises(InvalidValue, match="coarse or paper"):
        Effort(grid="fine")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="repeats"):
        Effort(repeats=0)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_paper_computes_what_needs_no_data(paper: str, tmp_path: Path) -> None:
    result = reproduce(paper, None, Workspace.at(tmp_path), Effort(quick=True), print)
    assert result.title
    assert result.claims
    assert result.cut


def test_a_swept_grid_repeats_its_points_and_is_not_run_again(tmp_path: Path) -> None:
    spec = full_grid(
        {
            "name": "grid-of-two",
            "data": {"source": "uniform", "n": 500},
            "systems": {"noisy-mean": {"clip": {"choice": [0.5, 1.0]}}},
            "privacy": {"epsilon": [1.0, 2.0], "delta": 1e-4},
            "objectives": [{"metric": "expected_error"}],
            "search": {"repeats": 3},
        }
    )
    workspace = Workspace.at(tmp_path)
    first = swept(spec, workspace)
    points = [(trial.config["target_epsilon"], trial.config["clip"]) for trial in first]
    assert len(first) == spec.search.trials == 12
    assert all(points.count(point) == 3 for point in points)
    assert len({trial.seed for trial in first}) == 12
    assert swept(spec, workspace) == first
    with pytest.raises(InvalidValue, match="--root"):
        swept(full_grid({**spec.canonical(), "search": {"repeats": 2}}), workspace)


def test_measured_and_undecided_is_not_called_untried() -> None:
    claims = [
        Claim(claim="c", published="holds", ours=ours, holds=holds, note="by what was run")
        for ours, holds in ((None, None), ("difference 0.018", None), (0.5, False), (0.5, True))
    ]
    assert [claim.verdict for claim in claims] == ["not tried", "undecided", "NO", "yes"]


def test_json_carries_what_was_cut_the_tables_and_the_plots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reproduce_command("triastcyn2020", None, Workspace.at(tmp_path), Effort(quick=True), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["heading"].startswith("DEMONSTRATION ON PUBLIC RECORDS")
    assert {"claim", "published", "ours", "holds", "note"} == set(told["rows"][0])
    assert any("no --data DIR" in line for line in told["cut"])
    assert all(Path(plot).is_file() for plot in told["plots"])
    assert len(told["plots"]) == 2
    (best,) = [table for table in told["tables"] if table["title"].startswith("Figure 5")]
    assert all(len(row) == len(best["columns"]) for row in best["rows"])
    # Orders come from NumPy: still numbers.
    assert all(isinstance(row[1], int) for row in best["rows"])
    assert "trials of" in told["cost"]


@pytest.mark.parametrize("paper", PAPERS)
def test_a_mistyped_folder_is_refused_before_anything_runs(
    paper: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["reproduce", paper, "--quick", "--data", f"{tmp_path}/nowhere", "--root", f"{tmp_path}/root"]
    monkeypatch.setattr(sys, "argv", ["sweeps", *command])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    told = capsys.readouterr()
    assert "nowhere" in told.err
    assert "a folder that exists" in told.err
    assert "--data DIR" in told.err
    assert not told.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("paper", "folder"),
    [
        ("bu2020", "a9a/ or adult/"),
        ("lu2021", "location/"),
        ("triastcyn2020", "abalone/"),
        ("vandermaaten2020", "mnist/"),
        ("wu2020", "german_credit/"),
    ],
)
def test_a_missing_set_is_said_and_what_needs_none_is_there(paper: str, folder: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    lines: list[str] = []
    result = reproduce(paper, data, Workspace.at(tmp_path), Effort(quick=True), lines.append)
    loud = f"missing: {folder} in {data}: its rows are not trained"
    assert lines.count(loud) == 1
    assert result.cut.count(loud) == 1
    without = reproduce(paper, None, Workspace.at(tmp_path / "other"), Effort(quick=True), lines.append)
    decided = [claim.to_dict() for claim in without.claims if claim.holds is not None]
    assert decided
    assert [claim.to_dict() for claim in result.claims if claim.holds is not None] == decided
    assert not (tmp_path / "sweeps.db").exists()


def test_a_set_that_its_source_refuses_leaves_out_its_part_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_start_shared_cluster", lambda log: None)
    for name in ("abalone", "mnist", "german_credit"):
        (tmp_path / name).mkdir()
    for paper, file in (
        ("triastcyn2020", "abalone.data"),
        ("vandermaaten2020", "train-images-idx3-ubyte"),
        ("wu2020", "german.data"),
    ):
        result = reproduce(paper, tmp_path, Workspace.at(tmp_path / "root"), Effort(quick=True), lambda line: None)
        (refused,) = [line for line in result.cut if line.startswith("missing: ") and "is refused" in line]
        assert file in refused
        assert any(claim.holds is not None for claim in result.claims)


def test_what_is_invalid_beside_the_data_is_not_taken_for_a_missing_set(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    result = Result(paper="p", title="t")
    with (
        pytest.raises(InvalidValue, match="another --root"),
        run.needing({"source": "mnist"}, tmp_path, result, print),
    ):
        raise InvalidValue("sweep", "s", "the packaged spec", "Give another --root.")
    assert not result.cut
