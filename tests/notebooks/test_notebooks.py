"""The notebook runs, cell by cell as a kernel runs it; what its cells end with has a picture of itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

NOTEBOOK = Path(__file__).parent / "first_sweep.py"
KERNEL = """
import ast, sys
from pathlib import Path

cells = [cell.partition("\\n") for cell in Path(sys.argv[1]).read_text().split("# %%")[1:]]
names = {"__name__": "__main__"}
for mark, _, code in cells:
    if "[markdown]" in mark:
        continue
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    if value is not None:
        picture = getattr(value, "_repr_html_", None)
        print("<section>" + (picture() if picture else repr(value)) + "</section>", file=sys.stderr)
"""


def test_the_notebook_runs_from_its_first_cell_to_its_last(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", KERNEL, str(NOTEBOOK)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "12 trials" in done.stdout
    shown = [one.partition("</section>")[0] for one in done.stderr.split("<section>")[1:]]
    sweep, front, trials, figure = shown
    assert "All trials together: epsilon" in sweep + front
    assert "proved" in front
    assert "<table" in front
    assert "<table" in trials
    assert "plotly" in figure.lower()
    (tmp_path / "page.html").write_text("<meta charset=utf-8>" + "<hr>".join(shown))
