"""The floors: dpcore imports nothing of ours, trainables only dpcore, sweeps both; no circles; light quick commands."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAY_IMPORT = {
    "dpcore": {"dpcore"},
    "trainables": {"trainables", "dpcore"},
    "sweeps": {"sweeps", "trainables", "dpcore"},
}
OURS = {"dpcore", "trainables", "sweeps", "infra", "tests"}


@cache
def imports(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Every import of a file, in its functions too."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return tuple(one for one in nodes if isinstance(one, ast.Import | ast.ImportFrom))


def imported_packages(path: Path) -> set[str]:
    names: set[str] = set()
    for node in imports(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif node.level == 0 and node.module:
            names.add(node.module)
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_each_package_imports_only_what_lies_below(package):
    for path in sorted((ROOT / package).rglob("*.py")):
        above = (imported_packages(path) & OURS) - MAY_IMPORT[package]
        assert not above, f"{path.relative_to(ROOT)} imports {above}"


def modules() -> dict[str, Path]:
    """Every file of the three packages, by the name that imports it."""
    found = {}
    for package in MAY_IMPORT:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_modules(name: str, known: dict[str, Path]) -> set[str]:
    """What a file takes from which of our files."""
    found = set()
    for node in imports(known[name]):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return (found & known.keys()) - {name}


ORDER = {
    "dpcore": """
        noise checks events guarantee erm sampling randomness gdp audit accountants accounting gradients
        calibrate selection mechanisms papers""",
    "trainables": """
        plugins units reports memory kept metrics adaptation team system hyperparameters hooks models planning
        training.hyperparameters training.losses training.noise training.made_up features parallel.process data
        validation training export parallel measures publishing rehearsal systems registry worker
        sealed""",
    "sweeps": """
        util spec store privacy search spec.rules spec.parse spec.schema spec.template ray planning audit reporting
        mlflow selection export examples execution certificate papers planning.preview
        progress sweep api cli""",
}
"""The rooms of each floor, each of which imports those before it; files that stand elsewhere than their room."""


@pytest.mark.parametrize("floor", ORDER)
def test_rooms_import_in_one_order(floor: str) -> None:
    place = {f"{floor}.{room}": number for number, room in enumerate(ORDER[floor].split())}
    known = {name: path for name, path in modules().items() if name.startswith(f"{floor}.")}
    room = {name: max((one for one in place if f"{name}.".startswith(f"{one}.")), key=len) for name in known}
    for name in known:
        ups = {one for one in imported_modules(name, known) if place[room[one]] > place[room[name]]}
        assert not ups, f"{name} imports {ups}"


def test_no_files_import_each_other_in_a_circle():
    known = modules()
    TopologicalSorter({name: imported_modules(name, known) for name in known}).prepare()


@pytest.mark.parametrize(
    ("library", "door"),
    [
        ("mlflow", "sweeps/mlflow"),
        ("optuna", "sweeps/search"),
        ("ray", "sweeps/ray/ sweeps/execution/tuner trainables/worker/ray trainables/parallel/ray_"),
    ],
)
def test_each_engine_has_one_door(library, door):
    doors = door.split()
    for package in MAY_IMPORT:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if library in imported_packages(path):
                assert any(name.startswith(allowed) for allowed in doors), f"{name} imports {library}"


def test_dpcore_has_no_clock_no_network_and_no_files():
    forbidden = {"time", "datetime", "socket", "urllib", "requests", "pathlib", "tempfile", "shutil", "sqlite3"}
    for path in sorted((ROOT / "dpcore").rglob("*.py")):
        assert not imported_packages(path) & forbidden, path.relative_to(ROOT)


def test_quick_commands_do_not_import_the_engines():
    modules = "sweeps.cli.main, sweeps.reporting.front, sweeps.store, sweeps.planning.preview, sweeps.cli.account"
    script = (
        f"import sys, {modules}; "
        "print([m for m in ('ray', 'torch', 'mlflow', 'plotly', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_sweeps_holds_no_tensors():
    for path in sorted((ROOT / "sweeps").rglob("*.py")):
        assert "torch" not in imported_packages(path), path.relative_to(ROOT)
