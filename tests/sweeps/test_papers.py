"""Reproductions: statements decide, sweeps plan, what was left out is said; and Bu et al.'s accounting."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from dpcore.checks import InvalidValue
from sweeps import papers
from sweeps.cli.catalogue import reproduce as reproduce_command
from sweeps.papers import bu2020, lu2021, triastcyn2020
from sweeps.papers import vandermaaten2020 as vandermaaten
from sweeps.papers import wu2020 as wu
from sweeps.planning.plan import plan_proposal
from sweeps.search.space import Space
from sweeps.spec.parse import public_facts
from sweeps.store.records import Proposal, TrialRecord, TrialState
from sweeps.store.workspace import Workspace
from tests.sweeps import specs
from tests.test_golden import GOLDEN, differences
from tests.trainables.test_published_sources import DATA, needs_data
from trainables.system import PrivacyPlan

QUICK, COARSE, WHOLE = papers.Effort(quick=True), papers.Effort(), papers.Effort(grid="paper")


def claims_of(paper: papers.Paper, held: Callable[[papers.Reproduction], object]) -> list[papers.Claim]:
    """What `held` claims, without a run."""
    result = papers.Result(paper="paper", title=paper.title)
    held(papers.Reproduction(paper, None, Workspace.at("unused"), QUICK, lambda line: None, result))
    return result.rows


# Statements

VALUES = {"a": 1.04, "limit": 0.05, "open": None, "missing": None, "row": {"part": 2.0}}


def held(row: dict, why: str = "") -> papers.Claim:
    paper = papers.Paper(
        "title", {}, {}, {"group": [{"claim": "c", "published": 1.0, "ours": "{a}", "note": "n", **row}]}, {}
    )
    (claim,) = claims_of(paper, lambda run: run.hold("group", VALUES, why))
    return claim


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ({"holds": "a <= 1.05"}, "yes"),
        ({"holds": "a < 1.04"}, "NO"),
        ({"holds": "a <= row.part"}, "yes"),
        ({"holds": "open"}, "undecided"),
        ({"within": 0.05}, "yes"),
        ({"within": "limit"}, "yes"),
        ({"within": 0.03}, "NO"),
        ({"ours": "{missing}", "within": 0.1}, "not tried"),
    ],
    ids=str,
)
def test_statements_decide(row: dict, verdict: str) -> None:
    assert held(row).verdict == verdict


def test_errors_of_estimates_add_up() -> None:
    """Of 0.5 and 0.7, the mean 0.6 with standard error 0.1; of a difference, the root of the sum of squares."""
    one = papers.Uncertain.of([0.5, 0.7])
    assert (one.value, one.error) == (pytest.approx(0.6), pytest.approx(0.1))
    assert (one - one).error == pytest.approx(0.1 * 2**0.5)
    assert [str(one), str(papers.Uncertain.of([0.5]))] == ["0.600 +- 0.100", "0.500"]


# Sweeps


def sweeps_of(paper: str, effort: papers.Effort, folder: Path) -> Iterator[dict[str, Any]]:
    """Every sweep behind a paper, on files below `folder`."""
    match paper:
        case "bu2020":
            yield from (bu2020.sweep_of(row, folder) for row in bu2020.ROWS)
        case "lu2021":
            # The noise of the baselines is the accountants' affair.
            sizes = lu2021.PAPER.sized(effort) | {"private": {}}
            for one in (lu2021.sized(one, sizes) for one in lu2021.SETS):
                yield from (lu2021.algorithm_1(one, sizes, folder), lu2021.beside(one, sizes, folder, {}))
        case "triastcyn2020":
            parts = [one for one in triastcyn2020.PARTS if one.quick is not None or not effort.quick]
            yield from (triastcyn2020.sweep_of(part, folder, effort) for part in parts)
        case "vandermaaten2020":
            yield from vandermaaten.parts(vandermaaten.PAPER.sized(effort), folder)
        case "wu2020":
            sizes = wu.PAPER.sized(effort)
            yield wu.credit(sizes, folder, 0)
            if not effort.quick:
                yield wu.images(sizes, folder)


@pytest.mark.parametrize("effort", [QUICK, COARSE, WHOLE], ids=lambda one: one.name)
@pytest.mark.parametrize("paper", papers.PAPERS)
def test_every_sweep_is_valid_and_plans(paper: str, effort: papers.Effort, tmp_path: Path) -> None:
    for folder in ("mnist", "a9a", "imdb", "movielens_1m", "cifar10", "abalone"):
        (tmp_path / folder).mkdir()
    names = []
    for raw in sweeps_of(paper, effort, tmp_path):
        spec = papers.full_grid(raw)
        names.append(spec.name)
        space, facts = Space.of(spec), public_facts(spec)
        for branch in space.branches:
            first = {name: domain.values[0] for name, domain in branch.searched.items()}
            plan = plan_proposal(spec, space.config(branch, space.epsilons[0], first), facts, {})
            assert isinstance(plan, PrivacyPlan), plan
            assert paper != "bu2020" or plan.guarantee.epsilon < spec.privacy.epsilon[0]
    assert names
    assert len(names) == len(set(names))


def test_a_swept_grid_repeats_its_points_and_is_not_run_again(tmp_path: Path) -> None:
    raw = specs.mean(
        "grid-of-two",
        data={"source": "uniform", "n": 500},
        systems={"noisy-mean": {"clip": [0.5, 1.0]}},
        privacy={"epsilon": 1.0, "delta": 1e-4},
        search={"repeats": 2},
    )
    spec, workspace = papers.full_grid(raw), Workspace.at(tmp_path)
    with ExitStack() as running:
        first = papers.swept(spec, workspace, running)
        points = [(trial.config["target_epsilon"], trial.config["clip"]) for trial in first]
        assert len(first) == spec.search.trials == 4
        assert all(points.count(point) == 2 for point in points)
        assert len({trial.seed for trial in first}) == 4
        assert papers.swept(spec, workspace, running) == first
        with pytest.raises(InvalidValue, match="--root"):
            papers.swept(papers.full_grid(raw | {"search": {"repeats": 1}}), workspace, running)


@pytest.mark.parametrize("module", [vandermaaten, wu, lu2021, triastcyn2020])
def test_every_size_below_the_full_grid_is_said_with_both_numbers(module: Any) -> None:
    def cut(effort: papers.Effort) -> list[str]:
        if module is triastcyn2020:
            return [line for part in module.PARTS for line in module.cut(part, effort)]
        sizes = module.PAPER.sized(effort)
        return module.cut(sizes, []) if module is lu2021 else module.cut(sizes)

    full, quick = ([line for line in cut(effort) if " instead of " in line] for effort in (WHOLE, QUICK))
    assert quick
    assert not full


# Runs


@pytest.mark.parametrize("paper", papers.PAPERS)
def test_what_needs_no_data_is_decided_and_the_rest_is_said(
    paper: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reproduce_command(paper, quick=True, root=tmp_path / "without", as_json=True)
    without = json.loads(capsys.readouterr().out)
    assert without["heading"].startswith("DEMONSTRATION ON PUBLIC RECORDS")
    assert {"claim", "published", "ours", "holds", "note"} == set(without["rows"][0])
    assert any("no --data DIR" in line for line in without["cut"])
    assert all(Path(plot).stat().st_size > 10_000 for plot in without["plots"])
    assert all(len(row) == len(table["columns"]) for table in without["tables"] for row in table["rows"])
    assert "trials of" in without["cost"]
    # The folder is there, and no set in it: that is said once, and the same is decided.
    data, lines = tmp_path / "data", list[str]()
    data.mkdir()
    result = papers.reproduce(paper, data, Workspace.at(tmp_path), QUICK, lines.append)
    loud = [line for line in lines if line.endswith(f" in {data}: its rows are not trained")]
    assert loud
    assert [line for line in result.cut if line in loud] == loud
    decided = [row for row in without["rows"] if row["holds"] is not None]
    (golden,) = [one for one in GOLDEN if one["kind"] == "paper" and one["name"] == paper]
    now = {row["claim"]: [row["ours"], row["holds"]] for row in decided}
    assert list(differences("", golden["value"], now, golden["tolerance"])) == []
    assert [asdict(claim) for claim in result.rows if claim.holds is not None] == decided
    assert not (tmp_path / "sweeps.db").exists()


def test_a_set_that_its_source_refuses_leaves_out_its_part_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(papers, "start_cluster", lambda running, log_file: None)
    (tmp_path / "german_credit").mkdir()
    result = papers.reproduce("wu2020", tmp_path, Workspace.at(tmp_path / "root"), QUICK, lambda line: None)
    # The loader's own words.
    (refused,) = [line for line in result.cut if line.startswith("missing: ") and "is refused" in line]
    assert "german.data" in refused
    assert any(claim.holds is not None for claim in result.rows)


def test_what_is_invalid_beside_the_data_is_not_taken_for_a_missing_set(tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    made = papers.Reproduction(
        bu2020.PAPER, tmp_path, Workspace.at(tmp_path), QUICK, print, papers.Result(paper="p", title="t")
    )

    def other(data: Path) -> None:
        raise InvalidValue("sweep", "s", "the packaged spec", "Give another --root.")

    with pytest.raises(InvalidValue, match="another --root"):
        made.part({"source": "mnist"}, other)
    assert not made.result.cut


def test_adult_in_its_own_columns_serves_where_a9a_is_absent(tmp_path: Path) -> None:
    adult = {"source": "pooled", "of": "adult"}
    (tmp_path / "adult").mkdir()
    assert papers.section(adult, tmp_path)["form"] == "raw"
    (tmp_path / "a9a").mkdir()
    assert "form" not in papers.section(adult, tmp_path)


def test_a_part_whose_trials_failed_is_left_out_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Proposal(number=0, config={}, seed=0)
    failed = TrialRecord.of("lu", begun, TrialState.FAILED, reason="no memory")
    monkeypatch.setattr(papers, "swept", lambda spec, workspace, running: [failed])
    result, sizes = papers.Result(paper="lu2021", title=""), lu2021.PAPER.sized(QUICK)
    made = papers.Reproduction(lu2021.PAPER, tmp_path, Workspace.at(tmp_path / "root"), QUICK, print, result)
    with pytest.raises(papers.Missing, match=r"no trial of Alg\. 1 \(Gaus\) and Alg\. 1 \(Lap\) has a result"):
        lu2021.measured(lu2021.sized(lu2021.SETS[0], sizes), sizes, tmp_path, made)
    assert [line for line in result.cut if "1 of 1 trials failed; the first: no memory" in line]


TRIED = {"lu2021": 45, "triastcyn2020": 21, "vandermaaten2020": 14, "wu2020": 36}
"""Claims that its quick form decides at least, or finds undecided."""


@needs_data
@pytest.mark.chaos
@pytest.mark.outage
@pytest.mark.timeout(900)
@pytest.mark.parametrize("paper", ["lu2021", "triastcyn2020", "vandermaaten2020", "wu2020"])
def test_the_quick_form_runs_on_the_real_data_and_is_read_again(paper: str, tmp_path: Path) -> None:
    result = papers.reproduce(paper, DATA, Workspace.at(tmp_path), QUICK, print)
    tried = [claim for claim in result.rows if claim.verdict != "not tried"]
    assert len(tried) >= TRIED[paper]
    assert all(plot.stat().st_size > 10_000 for plot in result.plots)
    json.dumps(result.to_dict())
    assert papers.reproduce(paper, DATA, Workspace.at(tmp_path), QUICK, print).rows == result.rows
