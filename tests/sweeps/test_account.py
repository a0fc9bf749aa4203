"""`sweeps account` as a person types it: answers, solved values, and one clear line for bad input."""

import itertools
import json

import pytest
from typer.testing import CliRunner

from dpcore.accounting import ACCOUNTANTS
from dpcore.events import UnsupportedEvent
from dpcore.guarantee import FLOATING_POINT, delta_text
from sweeps.cli.account import RANGES, Question, account_app, answer

BASE = {"--noise-multiplier": "1.3", "--sample-rate": "0.0042666667", "--steps": "3516", "--delta": "1e-5"}
FIELDS = {
    *("epsilon", "delta", "noise_multiplier", "sample_rate", "steps", "accountant", "adjacency", "status"),
    *("epsilon_lower", "lower", "theorem", "assumptions", "notion", "unit"),
}


def run(unknown, options, *more):
    arguments = [unknown, *(word for pair in options.items() for word in pair), *more]
    return CliRunner().invoke(account_app, arguments)


def rows(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_epsilon_of_a_setting():
    row = rows(run("epsilon", BASE, "--json"))
    assert set(row) >= FIELDS
    assert row["lower"] == row["epsilon_lower"] <= row["epsilon"] < 0.866
    assert row["status"] == "proved"
    text = run("epsilon", BASE).stdout
    assert "epsilon 0.86" in text
    assert FLOATING_POINT in text
    asked = {name: BASE[name] for name in ("--noise-multiplier", "--sample-rate", "--steps")} | {"--epsilon": "1"}
    assert set(rows(run("delta", asked, "--json"))) >= FIELDS - {"epsilon_lower", "lower"}
    assert all("differential-privacy, add-remove, per record" in one for one in (text, run("delta", asked).stdout))


def test_what_was_given_comes_back_to_the_last_digit():
    """A published line must let anybody count again what was counted."""
    given = BASE | {"--noise-multiplier": "1.30000000000004", "--sample-rate": "0.004266666666666667"}
    given |= {"--delta": "1.0000000000001e-05"}
    row = rows(run("epsilon", given, "--json"))
    found = {"--" + name.replace("_", "-"): row[name] for name in ("noise_multiplier", "sample_rate", "steps", "delta")}
    assert found == {name: float(value) for name, value in given.items()}
    text = run("epsilon", given).stdout
    assert all(value in text for value in given.values())
    solved = {name: given[name] for name in ("--sample-rate", "--delta", "--steps")} | {"--epsilon": "1.0000000000002"}
    assert rows(run("noise", solved, "--json"))["target_epsilon"] == 1.0000000000002
    text = run("noise", solved).stdout
    assert all(value in text for value in solved.values())


def test_all_shows_every_notion():
    found = rows(run("epsilon", BASE, "--accountant", "all", "--json"))
    assert [row["accountant"] for row in found] == ["pld", "rdp", "gdp-clt", "zcdp", "advanced", "naive"]
    assert all(set(row) >= FIELDS for row in found)
    replace = rows(run("epsilon", BASE, "--accountant", "all", "--adjacency", "replace-one", "--json"))
    assert "gdp-clt" not in [row["accountant"] for row in replace]


@pytest.mark.parametrize(
    ("unknown", "change"),
    [
        ("epsilon", {"--delta": "1e-5"}),
        ("delta", {"--epsilon": "3000"}),
        ("steps", {"--epsilon": "4000", "--delta": "1e-5"}),
    ],
)
def test_all_shows_the_others_where_the_headline_cannot_count_so_little_noise(unknown, change):
    given = {"--noise-multiplier": "0.03", "--sample-rate": "0.01", **change}
    given |= {} if unknown == "steps" else {"--steps": "100"}
    pld, *others = rows(run(unknown, given, "--accountant", "all", "--json"))
    assert (pld["accountant"], "epsilon" in pld) == ("pld", False)
    assert "below a noise multiplier of 0.05" in pld["error"]
    assert [row["accountant"] for row in others] == ["rdp", "gdp-clt", "zcdp", "advanced", "naive"]
    assert others[0][unknown] > 0
    assert "pld       pld cannot count" in run(unknown, given, "--accountant", "all").stdout


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_every_accountant_answers_at_the_ends_of_the_ranges(accountant):
    """Or says why not; and nothing overflows on the way."""
    given = [name for name in RANGES if name != "epsilon"]
    ends = [(RANGES[name][0], 0.5 if name == "delta" else RANGES[name][1]) for name in given]
    found, refused = [], []
    for values in itertools.product(*ends):
        question = Question(unknown="epsilon", accountant=accountant, **dict(zip(given, values, strict=True)))
        try:
            found += answer(question)
        except UnsupportedEvent as error:
            refused.append(str(error))
    assert all(float(row["epsilon"]) >= 0 for row in found)
    assert len(found) >= 8
    why = {"gdp": "covers Gaussians without sampling", "pld": "below a noise multiplier of 0.05"}
    assert all(why[accountant] in reason for reason in refused)


def test_delta_at_an_epsilon():
    setting = {"--noise-multiplier": "1.0", "--sample-rate": "0.01", "--steps": "1000", "--epsilon": "2.0"}
    [row, *others] = rows(run("delta", setting, "--accountant", "all", "--json"))
    assert row["accountant"] == "pld"
    assert 0 < row["delta_lower"] <= row["delta"] <= 1.001 * row["delta_lower"]
    given = {name: value for name, value in setting.items() if name != "--epsilon"}
    back = rows(run("epsilon", given | {"--delta": repr(row["delta"])}, "--json"))
    assert back["epsilon"] == pytest.approx(2.0, rel=2e-3)
    assert {one["accountant"]: one["delta"] for one in others}["rdp"] > row["delta"]
    said = run("delta", setting)
    assert f"delta {delta_text(row['delta'])}" in said.stdout
    assert "at epsilon 2.0" in said.stdout
    assert "proved" in said.stdout
